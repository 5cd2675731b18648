//! ls, du, find, mkdir, rm: files and directories of groups.

use std::collections::{BTreeMap, BTreeSet};

use cellar_diskgroup::state::Striping;
use cellar_diskgroup::{FileInfo, Group, Listed};
use cellar_instance::tables::external::ExternalFiles;
use cellar_instance::{Error, NextStep};
use cellar_io::shell;

use super::super::clock;
use super::super::database::Database;
use super::super::fault::Fault;
use super::super::output;
use super::table::{Cell, Table};
use super::{Show, Spot, is_pattern, matches, spot};

/// Arguments of `ls`.
#[derive(Debug, clap::Args)]
pub struct Ls {
    /// Type, redundancy, striping, time, and who made the name.
    #[arg(short = 'l')]
    long: bool,
    /// Block size, blocks, bytes, and the room of all copies.
    #[arg(short = 's')]
    space: bool,
    /// Whole paths.
    #[arg(short = 'a')]
    absolute: bool,
    /// A directory, file or pattern; the groups if it is left out.
    path: Option<String>,
}

/// Arguments of `du`.
#[derive(Debug, clap::Args)]
pub struct Du {
    /// A directory, file or pattern; all groups if it is left out.
    path: Option<String>,
}

/// The types supported by `find --type`.
const TYPES: [&str; 7] =
    ["datafile", "onlinelog", "archivelog", "tempfile", "controlfile", "parameterfile", "dumpset"];

/// Arguments of `find`.
#[derive(Debug, clap::Args)]
pub struct Find {
    /// Only files of this type.
    #[arg(long = "type", value_name = "TYPE", ignore_case = true,
          value_parser = clap::builder::PossibleValuesParser::new(TYPES))]
    kind: Option<String>,
    /// Where to look; + is everywhere.
    dir: String,
    /// The name, or a pattern of it.
    pattern: String,
}

/// Arguments of `mkdir`.
#[derive(Debug, clap::Args)]
pub struct Mkdir {
    /// Also its parents; no error if it exists.
    #[arg(short = 'p')]
    parents: bool,
    /// Directories.
    #[arg(required = true, value_name = "DIRECTORY")]
    paths: Vec<String>,
}

/// Arguments of `rm`.
#[derive(Debug, clap::Args)]
pub struct Rm {
    /// Also directories, with all that is in them.
    #[arg(short = 'r')]
    recursive: bool,
    /// Ignore missing paths.
    #[arg(short = 'f')]
    force: bool,
    /// Files, directories, patterns.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

/// The objects matched by a path or pattern; an error if there are none.
fn named(spot: &Spot) -> Result<Vec<Listed>, Fault> {
    let found = spot.mounted.group.list(&spot.path, false);
    if found.is_empty() {
        let text = format!("entry \"{}\" does not exist", spot.name_of(&spot.path));
        let list = format!("ls +{}", spot.mounted.group.name());
        let hint = NextStep::from("list what exists: ").cellar("asm", &list);
        return Err(Error::new(15173, text).hint(hint).into());
    }
    Ok(found)
}

fn infos(group: &Group) -> BTreeMap<u32, FileInfo> {
    group.files().into_iter().map(|f| (f.number, f)).collect()
}

/// Files and directories.
pub fn ls(args: &Ls, database: &Database, show: Show) -> Result<(), Fault> {
    let mut columns: Vec<&'static str> = Vec::new();
    if args.long {
        columns.extend(["Type", "Redund", "Striped", "Time", "Sys"]);
    }
    if args.space {
        columns.extend(["Block_Size", "Blocks", "Bytes", "Space"]);
    }
    columns.push("Name");
    let mut table = Table::new(&columns);
    let Some(text) = args.path.as_deref().filter(|p| *p != "+") else {
        for mounted in database.inner.groups() {
            let prefix = if args.absolute { "+" } else { "" };
            table.push(row(args, None, format!("{prefix}{}/", mounted.group.name())));
        }
        return table.print(show.format, show.header);
    };
    let spot = spot(database, text)?;
    let group = &spot.mounted.group;
    let list = if spot.path.is_empty() {
        group.list_dir("")?
    } else {
        let found = named(&spot)?;
        match found.as_slice() {
            [one] if one.file.is_none() && !is_pattern(&spot.path) => group.list_dir(&one.path)?,
            _ => found,
        }
    };
    let infos = infos(group);
    for entry in list {
        let slash = if entry.file.is_none() { "/" } else { "" };
        let name = match args.absolute {
            true => spot.name_of(&entry.path),
            // A pattern may match in several directories: then the paths distinguish the files.
            false if is_pattern(&spot.path) && spot.path.contains('/') => entry.path.clone(),
            false => last(&entry.path).to_owned(),
        };
        let info = entry.file.and_then(|number| infos.get(&number));
        let info = info.map(|info| (info, entry.system));
        table.push(row(args, info, format!("{name}{slash}")));
    }
    table.print(show.format, show.header)
}

/// The last part of a path.
fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn row(args: &Ls, info: Option<(&FileInfo, bool)>, name: String) -> Vec<Cell> {
    let mut row: Vec<Cell> = Vec::new();
    if args.long {
        match info {
            Some((info, system)) => row.extend([
                info.attributes.file_type.name().into(),
                match info.attributes.copies {
                    0 | 1 => "UNPROT",
                    2 => "MIRROR",
                    _ => "HIGH",
                }
                .into(),
                match info.attributes.striping {
                    Striping::Coarse => "COARSE",
                    Striping::Fine => "FINE",
                }
                .into(),
                clock::date(info.modified_ns).into(),
                if system { "Y" } else { "N" }.into(),
            ]),
            None => row.extend(["", "", "", "", "N"].map(Cell::from)),
        }
    }
    if args.space {
        match info {
            Some((info, _)) => row.extend([
                info.attributes.unit.into(),
                info.size.div_ceil(u64::from(info.attributes.unit.max(1))).into(),
                info.size.into(),
                info.space.into(),
            ]),
            None => row.extend([Cell::Unknown, Cell::Unknown, Cell::Unknown, Cell::Unknown]),
        }
    }
    row.push(name.into());
    row
}

/// Space usage.
pub fn du(args: &Du, database: &Database, show: Show) -> Result<(), Fault> {
    let (mut used, mut mirrored) = (0u64, 0u64);
    let mut add = |group: &Group, list: &[Listed]| {
        // The space of a file with two names is counted once.
        let numbers: BTreeSet<u32> = list.iter().filter_map(|l| l.file).collect();
        for info in group.files().iter().filter(|f| numbers.contains(&f.number)) {
            used += info.space / u64::from(info.attributes.copies.max(1));
            mirrored += info.space;
        }
    };
    match args.path.as_deref().filter(|p| *p != "+") {
        None => {
            for mounted in database.inner.groups() {
                add(&mounted.group, &mounted.group.list("", true));
            }
        }
        Some(text) => {
            let spot = spot(database, text)?;
            if !spot.path.is_empty() {
                named(&spot)?;
            }
            add(&spot.mounted.group, &spot.mounted.group.list(&spot.path, true));
        }
    }
    let mut table = Table::new(&["Used_MB", "Mirror_used_MB"]);
    table.push(vec![(used >> 20).into(), (mirrored >> 20).into()]);
    table.print(show.format, show.header)
}

/// Files by name.
pub fn find(args: &Find, database: &Database, show: Show) -> Result<(), Fault> {
    let spots = match args.dir.as_str() {
        "+" => {
            let all = database.inner.groups().into_iter();
            all.map(|mounted| Spot { mounted, path: String::new() }).collect()
        }
        text => {
            let one = spot(database, text)?;
            if !one.path.is_empty() {
                named(&one)?;
            }
            vec![one]
        }
    };
    let mut table = Table::new(&["Path"]);
    for spot in &spots {
        let infos = infos(&spot.mounted.group);
        for entry in spot.mounted.group.list(&spot.path, true) {
            if !matches(&args.pattern, last(&entry.path)) {
                continue;
            }
            let info = entry.file.and_then(|number| infos.get(&number));
            let right = args.kind.as_deref().is_none_or(|kind| {
                info.is_some_and(|i| i.attributes.file_type.name().eq_ignore_ascii_case(kind))
            });
            if right {
                let slash = if entry.file.is_none() { "/" } else { "" };
                table.push(vec![format!("{}{slash}", spot.name_of(&entry.path)).into()]);
            }
        }
    }
    table.print(show.format, show.header)
}

/// Makes directories.
pub async fn mkdir(args: &Mkdir, database: &Database) -> Result<(), Fault> {
    let spots: Vec<Spot> =
        args.paths.iter().map(|p| spot(database, p)).collect::<Result<_, _>>()?;
    if let Some(at) = spots.iter().position(|s| s.path.is_empty()) {
        return Err(Fault::usage(format!(
            "\"{}\" is a disk group; a directory is written as +{}/NAME",
            args.paths[at],
            spots[at].mounted.group.name()
        )));
    }
    for spot in &spots {
        let group = &spot.mounted.group;
        if args.parents && group.list_dir(&spot.path).is_ok() {
            continue;
        }
        group.mkdir(&spot.path, args.parents).await?;
    }
    Ok(())
}

/// Deletes files, and directories if requested. Everything is checked before anything is deleted.
pub async fn rm(args: &Rm, database: &Database) -> Result<(), Fault> {
    let mut doomed: Vec<(Spot, Vec<Listed>)> = Vec::new();
    let files = database.inner.tables().external_files();
    for text in &args.paths {
        let spot = spot(database, text)?;
        if spot.path.is_empty() {
            return Err(Fault::usage(format!(
                "\"{text}\" is the whole group; that is DROP DISKGROUP {} INCLUDING CONTENTS",
                spot.mounted.group.name()
            )));
        }
        let found = match named(&spot) {
            Err(_) if args.force => continue,
            found => found?,
        };
        for entry in &found {
            check_removable(&spot, entry, args.recursive, database)?;
            files
                .check_removable(spot.mounted.group.name(), &entry.path)
                .map_err(|error| without(error, &files, &spot, &entry.path))?;
        }
        doomed.push((spot, found));
    }
    for (spot, list) in &doomed {
        let group = &spot.mounted.group;
        for entry in list {
            match entry.file {
                Some(_) => group.remove(&entry.path).await?,
                None => group.rmdir(&entry.path, true).await?,
            }
            if is_pattern(&spot.path) {
                output::notice(&format!("removed {}", spot.name_of(&entry.path)));
            }
        }
    }
    Ok(())
}

/// Hints at DROP TABLE if the file belongs to a table.
fn without(error: Error, files: &ExternalFiles, spot: &Spot, path: &str) -> Error {
    let Some(table) = files.reader_of(spot.mounted.group.name(), path) else {
        return error;
    };
    let drop = format!("-c {}", shell::quoted(&format!("drop table {table}")));
    error.hint(NextStep::from("drop the table first, if nobody needs it: ").cellar("sql", &drop))
}

fn check_removable(
    spot: &Spot,
    entry: &Listed,
    recursive: bool,
    database: &Database,
) -> Result<(), Fault> {
    let group = spot.mounted.group.name();
    database.inner.tables().check_user_file(group, &entry.path)?;
    if entry.file.is_some() {
        return Ok(());
    }
    let name = spot.name_of(&entry.path);
    if !recursive {
        let error = Error::new(15177, format!("\"{name}\" is a directory"));
        let remove = format!("rm -r {}", shell::quoted(&name));
        let hint = NextStep::from("with all that is in it: ").cellar("asm", &remove);
        return Err(error.hint(hint).into());
    }
    for below in spot.mounted.group.list(&entry.path, true) {
        database.inner.tables().check_user_file(group, &below.path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_path_is_its_name() {
        assert_eq!(last("a/b/c"), "c");
        assert_eq!(last("c"), "c");
    }
}
