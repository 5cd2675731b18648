//! mkdg, dropdg, mount, umount, setattr, lsct, lsof: ASMCMD's words for what statements do.

use cellar_instance::Error;
use cellar_sql::Outcome;

use super::super::database::Database;
use super::super::fault::Fault;
use super::super::output;
use super::table::{Cell, Table};
use super::{Show, chosen};

/// Arguments of `mkdg`.
#[derive(Debug, clap::Args)]
pub struct Mkdg {
    /// The name of the group.
    name: String,
    /// Disks: paths or patterns; a file that is not there yet is made with --size.
    #[arg(required = true, value_name = "DISK")]
    disks: Vec<String>,
    /// Copies: external (1), normal (2) or high (3).
    #[arg(long, default_value = "normal", value_parser = ["external", "normal", "high"])]
    redundancy: String,
    /// The allocation unit: 1M to 64M.
    #[arg(long, value_name = "SIZE")]
    au_size: Option<String>,
    /// The size of files that are made.
    #[arg(long, value_name = "SIZE", value_parser = checked_size)]
    size: Option<String>,
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
    /// Also where that may lose what only missing disks know.
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
    /// What it is to be.
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

fn checked_size(text: &str) -> Result<String, String> {
    super::super::size::parse_size(text).map(|_| text.to_owned())
}

/// Runs a statement and tells what it told.
async fn run(database: &Database, statement: &str) -> Result<(), Fault> {
    let engine = database.engine().await?;
    if let Outcome::Done { message, notices } = engine.execute(statement).await? {
        output::notice(&message);
        notices.iter().for_each(|notice| output::notice(&format!("Notice: {notice}")));
    }
    Ok(())
}

/// A name of a group, which goes into a statement as it is.
fn group(name: &str) -> Result<&str, Fault> {
    let name = name.trim_start_matches('+').trim_end_matches('/');
    cellar_diskgroup::names::GroupName::new(name)
        .map_err(|error| Fault::usage(format!("\"{name}\": {error}")))?;
    Ok(name)
}

/// Text as SQL quotes it.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Makes a group.
pub async fn mkdg(args: &Mkdg, database: &Database) -> Result<(), Fault> {
    let size = args.size.as_ref().map_or(String::new(), |size| format!(" size {size}"));
    let disk = |path: &String| {
        let path = match path.contains(['*', '?']) {
            // A pattern is matched there; where it begins is a matter of who typed it.
            true => output::path(std::path::Path::new(path)),
            false => std::path::absolute(output::path(std::path::Path::new(path)))?,
        };
        Ok(format!("{}{size}", text(&path.to_string_lossy())))
    };
    let disks = args.disks.iter().map(disk).collect::<Result<Vec<_>, Fault>>()?;
    let au = args
        .au_size
        .as_ref()
        .map_or(String::new(), |au| format!(" attribute 'au_size' = {}", text(au)));
    let statement = format!(
        "create diskgroup {} {} redundancy disk {}{au}",
        group(&args.name)?,
        args.redundancy,
        disks.join(", ")
    );
    run(database, &statement).await
}

/// Drops a group.
pub async fn dropdg(args: &Dropdg, database: &Database) -> Result<(), Fault> {
    let contents = if args.contents { " including contents" } else { "" };
    run(database, &format!("drop diskgroup {}{contents}", group(&args.name)?)).await
}

/// Mounts groups, or dismounts them.
pub async fn mount(args: &Mount, verb: &str, database: &Database) -> Result<(), Fault> {
    let force = if args.force { " force" } else { "" };
    if args.all {
        return run(database, &format!("alter diskgroup all {verb}{force}")).await;
    }
    for name in &args.names {
        run(database, &format!("alter diskgroup {} {verb}{force}", group(name)?)).await?;
    }
    Ok(())
}

/// Sets an attribute of a group.
pub async fn setattr(args: &Setattr, database: &Database) -> Result<(), Fault> {
    let mounted = database.inner.group(group(&args.group)?)?;
    let known = mounted.group.attributes();
    if !known.contains_key(&args.name.to_lowercase()) {
        let words = format!("there is no attribute \"{}\"", args.name);
        return Err(Error::new(15238, words).hint("see all: cellar asm lsattr -l").into());
    }
    let statement = format!(
        "alter diskgroup {} set attribute {} = {}",
        mounted.group.name(),
        text(&args.name.to_lowercase()),
        text(&args.value)
    );
    run(database, &statement).await
}

/// Who works with the groups now: the sessions of this instance.
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

/// What a database is called: its directory.
fn name_of(database: &Database) -> String {
    let dir = database.inner.directory().path();
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let name = dir.file_name().map_or_else(|| dir.to_string_lossy(), |name| name.to_string_lossy());
    name.into_owned()
}

/// Files that somebody has open in this instance.
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
