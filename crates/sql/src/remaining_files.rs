//! Notices about files that remain when an external table is dropped, and how to remove them.

use cellar_instance::commands;
use cellar_instance::tables::external::ExternalFiles;

use crate::host::TableDefinition;

/// The notices about the files of `dropped`, which the tables of `others` may read too.
pub fn files_that_stay(dropped: &[&TableDefinition], others: &[TableDefinition]) -> Vec<String> {
    let mut read = ExternalFiles::default();
    others.iter().for_each(|table| table.add_to(&mut read));
    let mut told = Vec::new();
    for table in dropped {
        let mut in_groups = ExternalFiles::default();
        table.add_to(&mut in_groups);
        if in_groups.all().is_empty() {
            told.push(on_the_host(&table.location));
            continue;
        }
        for file in in_groups.all() {
            let (group, path) = (&file.group, &file.path);
            let shown = format!("+{group}/{path}");
            told.push(match read.reader_of(group, path) {
                Some(other) => format!("{shown} stays: table {other} reads it"),
                None => {
                    let what = if table.location.ends_with('/') { "directory" } else { "file" };
                    let force = if what == "directory" { " force" } else { "" };
                    let path = path.replace('\'', "''");
                    format!(
                        "{shown} stays; to remove it: alter diskgroup {group} drop {what} \
                         '{path}'{force}"
                    )
                }
            });
        }
    }
    told
}

fn on_the_host(location: &str) -> String {
    let path = location.strip_prefix("file://").unwrap_or(location);
    let file = std::path::Path::new(path);
    match file.is_file() {
        true => format!("{path} stays; to remove it, in a shell: {}", commands::remove(file)),
        // Other files in a directory are not ours to mention.
        false => format!("{path} stays as it is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, location: &str) -> TableDefinition {
        let statement = format!(
            "create external table {name} stored as parquet location '{}'",
            location.replace('\'', "''")
        );
        TableDefinition {
            name: name.into(),
            location: location.into(),
            more_locations: Vec::new(),
            statement,
            columns: None,
            may_be_empty: false,
        }
    }

    #[test]
    fn each_place_has_its_own_way() {
        let told = |location: &str, others: &[TableDefinition]| {
            files_that_stay(&[&table("t", location)], others).join("")
        };
        assert_eq!(
            told("+DATA/it's.parquet", &[]),
            "+DATA/it's.parquet stays; to remove it: alter diskgroup DATA drop file 'it''s.parquet'"
        );
        assert!(told("+DATA/days/", &[]).ends_with("drop directory 'days' force"));
        let other = table("o", "+DATA/days/");
        assert!(told("+DATA/days/", &[other]).ends_with("table o reads it"));
        let file = std::env::temp_dir().join("a 'file' of a table");
        std::fs::write(&file, "").unwrap();
        let words = told(&file.to_string_lossy(), &[]);
        std::fs::remove_file(&file).unwrap();
        let (_, command) = words.split_once("in a shell: ").unwrap();
        assert!(command.starts_with("rm '") && command.contains("'\\''file"), "{words}");
        assert!(told("/nowhere/x.parquet", &[]).ends_with("stays as it is"));
    }
}
