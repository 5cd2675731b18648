//! Disk group files that external tables read: they are neither removed nor overwritten.

use cellar_storage::split_group_path;

use super::Tables;
use crate::catalog::TableKind;
use crate::error::{Error, Result};

/// What a table reads in a group: a file, or a directory with all that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFile {
    /// The table.
    pub table: String,
    /// The group, upper-case.
    pub group: String,
    /// The path inside the group, without slashes at its ends.
    pub path: String,
}

/// Everything that some external tables read in disk groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalFiles(Vec<TableFile>);

impl Tables {
    /// Everything that the external tables of the catalog read in disk groups.
    pub fn external_files(&self) -> ExternalFiles {
        let catalog = self.catalog.current();
        let tables = catalog.tables.iter().filter(|table| table.kind == TableKind::External);
        let mut files = ExternalFiles::default();
        tables.for_each(|table| files.add(&table.name, &table.locations()));
        files
    }
}

/// The directory in which the files of a pattern are, with a slash at its end; of any other path all.
pub fn before_pattern(path: &str) -> &str {
    match path.find(['*', '?', '[']) {
        Some(at) => &path[..path[..at].rfind('/').map_or(0, |slash| slash + 1)],
        None => path,
    }
}

fn is_below(path: &str, directory: &str) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

impl ExternalFiles {
    /// Adds what `table` reads at `locations`: those that are not in a group count for nothing.
    pub fn add(&mut self, table: &str, locations: &[String]) {
        let file = |location: &String| {
            let (group, path) = split_group_path(location)?;
            let path = before_pattern(&path).trim_matches('/').to_owned();
            Some(TableFile { table: table.to_owned(), group, path })
        };
        self.0.extend(locations.iter().filter_map(file));
    }

    /// All of them.
    pub fn all(&self) -> &[TableFile] {
        &self.0
    }

    /// The table that reads the file `path` of `group`, or of which the directory `path` holds a file.
    pub fn reader_of(&self, group: &str, path: &str) -> Option<&str> {
        let path = path.trim_matches('/');
        let reads = |file: &&TableFile| {
            file.group.eq_ignore_ascii_case(group)
                && (file.path == path || is_below(path, &file.path) || is_below(&file.path, path))
        };
        self.0.iter().find(reads).map(|file| file.table.as_str())
    }

    /// The tables that read files of any of `groups`, each once.
    pub fn readers_in(&self, groups: &[String]) -> Vec<&str> {
        let of_these =
            |file: &&TableFile| groups.iter().any(|g| file.group.eq_ignore_ascii_case(g));
        let mut tables: Vec<&str> =
            self.0.iter().filter(of_these).map(|file| file.table.as_str()).collect();
        tables.dedup();
        tables
    }

    /// Refuses to take away a file, or a directory with what is in it, that a table reads.
    ///
    /// # Errors
    /// 15028 with the table and the next step.
    pub fn check_removable(&self, group: &str, path: &str) -> Result<()> {
        match self.reader_of(group, path) {
            Some(table) => Err(in_use(group, path, table).hint(format!(
                "drop the table first, if nobody needs its rows: drop table {table}"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses to write over a file that a table reads; whether `path` is there is the caller's to
    /// find out.
    ///
    /// # Errors
    /// 15028 with the table and the next step.
    pub fn check_replaceable(&self, group: &str, path: &str) -> Result<()> {
        match self.reader_of(group, path) {
            Some(table) => Err(in_use(group, path, table).hint(format!(
                "write to another name, or drop table first if nobody needs its rows: drop table \
                 {table}"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses to drop a group that tables read.
    ///
    /// # Errors
    /// 15039 over 15028 with the tables and the next step.
    pub fn check_group(&self, group: &str) -> Result<()> {
        let tables = self.readers_in(&[group.to_owned()]);
        if tables.is_empty() {
            return Ok(());
        }
        let list = tables.join(", ");
        let error = Error::new(15028, format!("tables read files of \"{group}\": {list}"));
        let error =
            error.hint(format!("drop them first, if nobody needs their rows: drop table {list}"));
        Err(error.under(15039, "diskgroup not dropped"))
    }
}

fn in_use(group: &str, path: &str, table: &str) -> Error {
    let path = path.trim_matches('/');
    Error::new(15028, format!("\"+{group}/{path}\" is what table \"{table}\" reads"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_a_directory_and_what_is_above_them_are_told() {
        let mut files = ExternalFiles::default();
        for (table, locations) in [
            ("t", &["+data/in/T 1.parquet"][..]),
            ("d", &["+DATA/days/", "+DATA/more/*.csv"]),
            ("l", &["/tmp/x.parquet"]),
        ] {
            files.add(table, &locations.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        assert_eq!(files.all().len(), 3, "{files:?}");
        for (path, reader) in [
            ("in/T 1.parquet", Some("t")),
            ("/in/T 1.parquet", Some("t")),
            ("in", Some("t")),
            ("days", Some("d")),
            ("days/monday.parquet", Some("d")),
            ("more/x.csv", Some("d")),
            ("in/T", None),
            ("day", None),
            ("tmp/x.parquet", None),
        ] {
            assert_eq!(files.reader_of("DATA", path), reader, "{path}");
        }
        assert_eq!(files.reader_of("OTHER", "days"), None);
        let error = files.check_replaceable("DATA", "in/T 1.parquet").unwrap_err();
        assert!(error.to_string().contains("\"+DATA/in/T 1.parquet\" is what table \"t\" reads"));
        assert!(files.check_group("DATA").unwrap_err().to_string().ends_with(": drop table t, d"));
    }
}
