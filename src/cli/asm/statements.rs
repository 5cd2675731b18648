//! mkdg, dropdg, mount, umount, setattr, lsct, lsof: ASMCMD commands for SQL statements.

use std::sync::Arc;

use cellar_diskgroup::Redundancy;
use cellar_instance::administration::{Administrator, Command};
use cellar_instance::{Error, NextStep};
use cellar_storage::request::{Contents, DiskRequest, GroupAction, GroupRequest, GroupSelection};

use super::super::database::Database;
use super::super::fault::Fault;
use super::super::output;
use super::super::size::parse_size;
use super::table::{Cell, Table};
use super::{Show, chosen};

/// Arguments of `mkdg`.
#[derive(Debug, clap::Args)]
pub struct Mkdg {
    /// The name of the group.
    name: String,
    /// Disks: paths or patterns; missing files are created with --size.
    #[arg(required = true, value_name = "DISK")]
    disks: Vec<String>,
    /// Copies: external (1), normal (2) or high (3).
    #[arg(long, value_enum, default_value = "normal")]
    redundancy: Copies,
    /// The allocation unit: 1M to 64M.
    #[arg(long, value_name = "SIZE")]
    au_size: Option<String>,
    /// The size of files that are made.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Copies {
    External,
    Normal,
    High,
}

/// Arguments of `dropdg`.
#[derive(Debug, clap::Args)]
pub struct Dropdg {
    /// With the files that are in it.
    #[arg(short = 'r')]
    contents: bool,
    /// The group.
    name: String,
}

/// Arguments of `mount` and `umount`.
#[derive(Debug, clap::Args)]
pub struct Mount {
    /// All groups that are found.
    #[arg(short = 'a', conflicts_with = "names")]
    all: bool,
    /// Even if changes known only to missing disks are lost.
    #[arg(short = 'f')]
    force: bool,
    /// Groups.
    #[arg(required_unless_present = "all", value_name = "GROUP")]
    names: Vec<String>,
}

/// Arguments of `setattr`.
#[derive(Debug, clap::Args)]
pub struct Setattr {
    /// Of this group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    /// The attribute.
    name: String,
    /// Its new value.
    value: String,
}

/// Arguments of `lsof`.
#[derive(Debug, clap::Args)]
pub struct Lsof {
    /// Of this group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
}

/// Arguments of `lsct`.
#[derive(Debug, clap::Args)]
pub struct Lsct {
    /// A group's name, or a pattern.
    pattern: Option<String>,
}

/// Carries out a command and shows its messages.
async fn run(database: &Database, command: Command) -> Result<(), Fault> {
    let administrator = Administrator::new(Arc::clone(&database.inner), database.session.clone());
    let reply = administrator.run(command).await?;
    output::notice(&reply.message);
    reply.notices.iter().for_each(|notice| output::notice(&format!("Notice: {notice}")));
    Ok(())
}

/// The name of a group, upper-case.
fn group(name: &str) -> Result<String, Fault> {
    let name = name.trim_start_matches('+').trim_end_matches('/');
    cellar_diskgroup::names::GroupName::new(name)
        .map_err(|error| Fault::usage(format!("\"{name}\": {error}")))?;
    Ok(name.to_uppercase())
}

/// Makes a group.
pub async fn mkdg(args: &Mkdg, database: &Database) -> Result<(), Fault> {
    let disk = |path: &String| {
        let path = match path.contains(['*', '?']) {
            // The pattern is matched by the instance; its base directory is the user's.
            true => output::path(std::path::Path::new(path)),
            false => std::path::absolute(output::path(std::path::Path::new(path)))?,
        };
        Ok(DiskRequest {
            path: path.to_string_lossy().into_owned(),
            name: None,
            failgroup: None,
            size: args.size,
            force: false,
            erase: None,
        })
    };
    let au_size = args.au_size.iter().map(|au| ("au_size".to_owned(), au.clone()));
    let request = GroupRequest {
        name: group(&args.name)?,
        redundancy: match args.redundancy {
            Copies::External => Redundancy::External,
            Copies::Normal => Redundancy::Normal,
            Copies::High => Redundancy::High,
        },
        attributes: au_size.collect(),
        disks: args.disks.iter().map(disk).collect::<Result<_, Fault>>()?,
    };
    run(database, Command::CreateDiskgroup(request)).await
}

/// Drops a group.
pub async fn dropdg(args: &Dropdg, database: &Database) -> Result<(), Fault> {
    let contents = match args.contents {
        true => Contents::Including { force: false },
        false => Contents::Excluding,
    };
    run(database, Command::DropDiskgroup { name: group(&args.name)?, contents }).await
}

/// Mounts groups.
pub async fn mount(args: &Mount, database: &Database) -> Result<(), Fault> {
    alter(args, GroupAction::Mount { force: args.force }, database).await
}

/// Dismounts groups.
pub async fn umount(args: &Mount, database: &Database) -> Result<(), Fault> {
    alter(args, GroupAction::Dismount { force: args.force }, database).await
}

async fn alter(args: &Mount, action: GroupAction, database: &Database) -> Result<(), Fault> {
    if args.all {
        let groups = GroupSelection::All;
        return run(database, Command::AlterDiskgroup { groups, action }).await;
    }
    for name in &args.names {
        let groups = GroupSelection::Named(vec![group(name)?]);
        run(database, Command::AlterDiskgroup { groups, action: action.clone() }).await?;
    }
    Ok(())
}

/// Sets an attribute of a group.
pub async fn setattr(args: &Setattr, database: &Database) -> Result<(), Fault> {
    let mounted = database.inner.group(&group(&args.group)?)?;
    let known = mounted.group.attributes();
    if !known.contains_key(&args.name.to_lowercase()) {
        let words = format!("there is no attribute \"{}\"", args.name);
        let hint = NextStep::from("see all: ").cellar("asm", "lsattr -l");
        return Err(Error::new(15238, words).hint(hint).into());
    }
    let (name, value) = (args.name.to_lowercase(), args.value.clone());
    let groups = GroupSelection::Named(vec![mounted.group.name().to_owned()]);
    let action = GroupAction::SetAttribute { name, value };
    run(database, Command::AlterDiskgroup { groups, action }).await
}

/// The current users of the groups: the sessions of this instance.
pub fn lsct(args: &Lsct, database: &Database, show: Show) -> Result<(), Fault> {
    let mut table = Table::new(&[
        "DB_Name",
        "Status",
        "Software_Version",
        "Compatible_version",
        "Instance_Name",
        "Disk_Group",
    ]);
    let name = name_of(database);
    for mounted in chosen(database, args.pattern.as_deref())? {
        let sessions = database.inner.instance().sessions().rows();
        for session in sessions.iter().filter(|session| session.user_name.is_some()) {
            table.push(vec![
                name.as_str().into(),
                "CONNECTED".into(),
                env!("CARGO_PKG_VERSION").into(),
                Cell::Unknown,
                session.program.as_str().into(),
                mounted.group.name().into(),
            ]);
        }
    }
    table.print(show.format, show.header)
}

/// The name of a database: its directory.
fn name_of(database: &Database) -> String {
    let dir = database.inner.directory().path();
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let name = dir.file_name().map_or_else(|| dir.to_string_lossy(), |name| name.to_string_lossy());
    name.into_owned()
}

/// Files that are open in this instance.
pub fn lsof(args: &Lsof, database: &Database, show: Show) -> Result<(), Fault> {
    let mut table = Table::new(&["DB_Name", "Instance_Name", "Path"]);
    let name = name_of(database);
    for mounted in chosen(database, args.group.as_deref())? {
        let group = mounted.group.name();
        for file in mounted.group.files().into_iter().filter(|file| file.in_use) {
            let path = match file.names.first() {
                Some(path) => format!("+{group}/{path}"),
                None => format!("+{group}.{}.{}", file.number, file.incarnation),
            };
            table.push(vec![name.as_str().into(), "cellar".into(), path.as_str().into()]);
        }
    }
    table.print(show.format, show.header)
}
