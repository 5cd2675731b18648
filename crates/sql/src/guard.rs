//! Protection of a disk group's files that tables read: they are neither removed nor overwritten.

use datafusion::sql::parser::Statement as DfStatement;

use crate::error::Error;
use crate::files::place::before_pattern;
use crate::host::TableDefinition;
use crate::parse::parse;
use crate::path::inside;
use crate::statement::Statement;

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

/// Everything that `tables` read in disk groups.
pub fn files_of(tables: &[TableDefinition]) -> Vec<TableFile> {
    tables.iter().flat_map(files_of_one).collect()
}

fn files_of_one(table: &TableDefinition) -> Vec<TableFile> {
    // A statement that cannot be read makes no table, so that nothing is read for it.
    let Ok(Statement::Query(statement)) = parse(&table.statement) else { return Vec::new() };
    let DfStatement::CreateExternalTable(create) = *statement else { return Vec::new() };
    let file = |location: &String| {
        let (group, path) = inside(location)?;
        // Of a pattern, the directory in which its files are.
        let path = before_pattern(&path).trim_end_matches('/').to_owned();
        Some(TableFile { table: table.name.clone(), group, path })
    };
    create.locations.iter().filter_map(file).collect()
}

fn is_below(path: &str, directory: &str) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// The table that reads the file `path` of `group`, or of which the directory `path` holds a file.
pub fn reader_of<'a>(files: &'a [TableFile], group: &str, path: &str) -> Option<&'a str> {
    let path = path.trim_matches('/');
    let reads = |file: &&TableFile| {
        file.group.eq_ignore_ascii_case(group)
            && (file.path == path || is_below(path, &file.path) || is_below(&file.path, path))
    };
    files.iter().find(reads).map(|file| file.table.as_str())
}

/// Refuses to take away a file, or a directory with what is in it, that a table reads.
///
/// # Errors
/// 15028 with the table and the next step.
pub fn check_removable(files: &[TableFile], group: &str, path: &str) -> Result<(), Error> {
    match reader_of(files, group, path) {
        Some(table) => Err(in_use(group, path, table)
            .next(format!("drop the table first, if nobody needs its rows: drop table {table}"))),
        None => Ok(()),
    }
}

/// Refuses to write over a file that a table reads; whether `path` is there is the caller's to
/// find out.
///
/// # Errors
/// 15028 with the table and the next step.
pub fn check_replaceable(files: &[TableFile], group: &str, path: &str) -> Result<(), Error> {
    match reader_of(files, group, path) {
        Some(table) => Err(in_use(group, path, table).next(format!(
            "write to another name, or drop table first if nobody needs its rows: drop table {table}"
        ))),
        None => Ok(()),
    }
}

fn in_use(group: &str, path: &str, table: &str) -> Error {
    let path = path.trim_matches('/');
    let text = format!("\"+{group}/{path}\" is what table \"{table}\" reads");
    Error::new(15028, "55006", text)
}

/// Refuses to drop a group that tables read.
///
/// # Errors
/// 15039 over 15028 with the tables and the next step.
pub fn check_group(files: &[TableFile], group: &str) -> Result<(), Error> {
    let mut tables: Vec<&str> =
        files.iter().filter(|f| f.group == group).map(|f| f.table.as_str()).collect();
    tables.dedup();
    if tables.is_empty() {
        return Ok(());
    }
    let list = tables.join(", ");
    let cause = Error::new(15028, "55006", format!("tables read files of \"{group}\": {list}"))
        .next(format!("drop them first, if nobody needs their rows: drop table {list}"));
    Err(Error::new(15039, "55000", "diskgroup not dropped").caused_by(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, location: &str) -> TableDefinition {
        TableDefinition {
            name: name.into(),
            location: location.into(),
            statement: format!(
                "create external table {name} stored as parquet location '{location}'"
            ),
            columns: None,
            may_be_empty: false,
        }
    }

    #[test]
    fn a_file_a_directory_and_what_is_above_them_are_told() {
        let files = files_of(&[
            table("t", "+data/in/T 1.parquet"),
            table("d", "+DATA/days/"),
            table("l", "/tmp/x.parquet"),
        ]);
        assert_eq!(files.len(), 2, "{files:?}");
        for (path, reader) in [
            ("in/T 1.parquet", Some("t")),
            ("/in/T 1.parquet", Some("t")),
            ("in", Some("t")),
            ("days", Some("d")),
            ("days/monday.parquet", Some("d")),
            ("in/T", None),
            ("day", None),
            ("tmp/x.parquet", None),
        ] {
            assert_eq!(reader_of(&files, "DATA", path), reader, "{path}");
        }
        assert_eq!(reader_of(&files, "OTHER", "days"), None);
        let error = check_replaceable(&files, "DATA", "in/T 1.parquet").unwrap_err();
        assert!(error.to_string().contains("\"+DATA/in/T 1.parquet\" is what table \"t\" reads"));
        assert!(
            check_group(&files, "DATA").unwrap_err().to_string().ends_with(": drop table t, d")
        );
    }
}
