//! `cellar init`: a directory with a disk group in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cellar_diskgroup::Redundancy;
use cellar_diskgroup::names::{FailGroupName, GroupName};
use cellar_diskgroup::on_disk::layout::{AU_SIZE_MAX, AU_SIZE_MIN, AU_START, DISK_BYTES_MIN};
use cellar_instance::Database;
use cellar_instance::database::{import, init};
use cellar_instance::directory::Directory;
use cellar_instance::health::outlook;
use cellar_instance::{Error, Remedy};
use cellar_io::real::probe;
use cellar_io::shell;
use cellar_storage::disks::RealDisks;
use cellar_storage::size;
use cellar_storage::size::{show_bytes, show_room};
use cellar_storage::{InitDisk, InitSpec};

use super::database::{self, Held, Place};
use super::fault::Fault;
use super::label;
use super::output::{self, Format};
use super::path::{self, free_bytes};
use super::progress::Progress;
use super::size::parse_size;

/// A group has at least this many AUs on each disk.
const AUS_MIN: u64 = 4;

/// The maximum number of file disks.
const FILES_MAX: usize = 64;

/// Arguments of `init`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar init mydb                            four files of 2 GB, mirrored
  cellar init mydb --disks 6 --disk-size 10G
  cellar init mydb --disks /dev/disk/by-id/A,/dev/disk/by-id/B
  cellar init mydb --disks /dev/disk/by-id/A --redundancy external
  cellar init mydb --redo-size 256M            three groups of the redo log, 256 MB each
  cellar init mydb --failgroup A=/dev/sdb,/dev/sdc --failgroup B=/dev/sdd
  cellar init mydb --import '/dev/disk/by-id/X*'      groups that are there")]
pub struct Args {
    /// The directory to make.
    pub dir: PathBuf,
    /// How many file disks, or the paths of real ones.
    #[arg(long, value_name = "N | PATH,...", default_value = "4")]
    pub disks: String,
    /// The disks of a failure group, of which one copy of everything is in another; once for each.
    #[arg(long, value_name = "NAME=N | NAME=PATH,..", conflicts_with = "disks")]
    pub failgroup: Vec<String>,
    /// Give up what is on these disks: their serial numbers.
    #[arg(long, value_name = "SERIAL,..", value_delimiter = ',')]
    pub erase: Vec<String>,
    /// The name of the disk group.
    #[arg(long, default_value = "DATA", value_parser = group_name)]
    pub name: String,
    /// The size of each file disk.
    #[arg(long, default_value = "2G", value_parser = parse_size)]
    pub disk_size: u64,
    /// Copies: external (1), normal (2) or high (3).
    #[arg(long, value_parser = redundancy, default_value = "normal")]
    pub redundancy: Redundancy,
    /// The allocation unit: 1M to 64M.
    #[arg(long, default_value = "4M", value_parser = au_size)]
    pub au_size: u64,
    /// The sector size of the group: 512 or 4096; as the disks want it if left out.
    #[arg(long, value_parser = sector_size)]
    pub sector_size: Option<u32>,
    /// Make the redo log too: the size of each of its three groups, or auto for one that suits the room;
    /// none: it is made with the first table whose rows change.
    #[arg(long, value_name = "SIZE | auto | none", value_parser = redo_size, default_value = "none")]
    pub redo_size: RedoSize,
    /// Take the groups that are on these disks already, as their directory is gone: paths, patterns.
    #[arg(long, value_name = "PATH,..", value_delimiter = ',',
        conflicts_with_all = ["disks", "failgroup", "erase", "name", "disk_size", "redundancy",
            "au_size", "sector_size", "redo_size"])]
    pub import: Vec<String>,
    /// With --import: mount this group without the disks that are missing, although they may know
    /// more.
    #[arg(long, value_name = "GROUP", requires = "import")]
    pub force: Option<String>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

fn group_name(text: &str) -> Result<String, String> {
    GroupName::new(text).map(|name| name.as_str().to_owned()).map_err(|error| error.to_string())
}

fn au_size(text: &str) -> Result<u64, String> {
    size::parse(text)
        .filter(|au| au.is_power_of_two() && (AU_SIZE_MIN..=AU_SIZE_MAX).contains(au))
        .ok_or_else(|| "allowed: 1M, 2M, 4M, 8M, 16M, 32M, 64M".to_owned())
}

/// The requested redo log.
#[derive(Clone, Copy, Debug)]
pub enum RedoSize {
    /// None yet.
    None,
    /// Groups sized to the available space.
    Auto,
    /// Groups of this many bytes each.
    Bytes(u64),
}

fn redo_size(text: &str) -> Result<RedoSize, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "auto" => Ok(RedoSize::Auto),
        "none" => Ok(RedoSize::None),
        _ => match parse_size(text) {
            Ok(size) => Ok(RedoSize::Bytes(size)),
            Err(why) => Err(format!("{why}; or auto, or none")),
        },
    }
}

fn sector_size(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4K" | "4k" => Ok(4096),
        _ => Err("allowed: 512, 4096".to_owned()),
    }
}

fn redundancy(text: &str) -> Result<Redundancy, String> {
    match text.to_ascii_lowercase().as_str() {
        "external" => Ok(Redundancy::External),
        "normal" => Ok(Redundancy::Normal),
        "high" => Ok(Redundancy::High),
        _ => Err("allowed: external, normal, high".to_owned()),
    }
}

/// Runs `init`.
///
/// # Errors
/// Wrong arguments before anything is touched; then a numbered error, and DIR is removed again.
pub async fn run(args: Args, place: &Place) -> Result<(), Fault> {
    let held = make(&args, place).await?;
    show(&args, &held)?;
    held.close().await
}

#[derive(serde::Serialize)]
struct Made<'a> {
    dir: &'a Path,
    group: String,
    disks: usize,
    writable_mb: u64,
    survives: &'static str,
}

fn show(args: &Args, held: &Held) -> Result<(), Fault> {
    let groups = held.database.inner.groups();
    let mounted = groups.first().ok_or_else(|| Fault::failed("CELLAR-00600: no group"))?;
    let redo = held.database.inner.instance().redo();
    let info = mounted.group.info();
    let survives = outlook::survives(mounted, redo);
    if args.format == Format::Json {
        return output::json(&Made {
            dir: &args.dir,
            group: info.name,
            disks: mounted.group.disks().len(),
            writable_mb: info.writable_mb,
            survives,
        });
    }
    let head = format!(
        "{}: {}, {} disks, AU {} MB. Room for {}",
        info.name,
        word(info.redundancy),
        mounted.group.disks().len(),
        info.au_size >> 20,
        show_room(info.writable_mb),
    );
    let dir = shell::path(&args.dir);
    let next = match (cfg!(feature = "sql"), args.import.is_empty()) {
        (true, true) => format!("cellar load {dir} FILE, then cellar sql {dir}"),
        (true, false) => format!("cellar status {dir}, then cellar sql {dir}"),
        (false, _) => format!("cellar status {dir}, then cellar asm {dir} lsdg"),
    };
    output::text(&format!(
        "{}\n{}\n{}",
        output::broken("", "  ", &head),
        output::broken("  ", "  ", &outlook::safe(mounted, redo)),
        output::labelled("Next:", &next),
    ))
}

/// external, normal or high.
pub fn word(redundancy: Redundancy) -> &'static str {
    match redundancy {
        Redundancy::External => "external",
        Redundancy::Normal => "normal",
        Redundancy::High => "high",
    }
}

/// Creates the directory and its group, and opens it. Everything is removed again if a part fails, or if
/// the user stops it.
///
/// # Errors
/// As [`run`].
pub async fn make(args: &Args, place: &Place) -> Result<Held, Fault> {
    let import = !args.import.is_empty();
    let (disks, failgroups) = if import { Default::default() } else { placed_disks(args)? };
    check_dir(&args.dir)?;
    let erase = check_paths(args, &disks)?;
    check_room(args, &disks)?;
    let result = match Directory::create(&args.dir) {
        // An interruption in the middle of a mount is like a crash there: the next mount continues.
        Ok(directory) if import => tokio::select! {
            made = import_in(args, directory, place) => made,
            _ = tokio::signal::ctrl_c() => Err(Fault::failed("CELLAR-01013: stopped by the user")),
        },
        Ok(directory) => tokio::select! {
            made = make_in(args, (disks, failgroups), erase, directory, place) => made,
            _ = tokio::signal::ctrl_c() => Err(Fault::failed("CELLAR-01013: stopped by the user")),
        },
        // Another process was first and owns it.
        Err(error) if error.has(70102) => return Err(error.into()),
        Err(error) => Err(error.into()),
    };
    let result = result.and_then(|held| {
        certificate(&args.dir)?;
        Ok(held)
    });
    if result.is_err() {
        // It did not exist before this command; nobody else can have put anything into it.
        let _ = std::fs::remove_dir_all(&args.dir);
    }
    result
}

/// Creates the certificate of the server.
#[cfg(feature = "sql")]
fn certificate(dir: &Path) -> Result<(), Fault> {
    let made = cellar_server::make_certificate(dir);
    made.map(drop).map_err(|error| Fault::failed(error.to_string()))
}

/// There is no server.
#[cfg(not(feature = "sql"))]
fn certificate(_: &Path) -> Result<(), Fault> {
    Ok(())
}

/// Whether DIR can be created.
fn check_dir(dir: &Path) -> Result<(), Fault> {
    let shown = dir.display();
    if dir.symlink_metadata().is_ok() {
        return Err(cellar_instance::directory::taken(dir).into());
    }
    let parent = parent(dir);
    let above = parent.display();
    if !parent.exists() {
        let text = format!("cannot create {shown}: there is no directory {above}");
        return Err(Error::new(70110, text)
            .hint(format!("make it first: mkdir -p {}", shell::path(parent)))
            .into());
    }
    if !parent.is_dir() {
        let text = format!("cannot create {shown}: {above} is no directory");
        return Err(Error::new(70110, text).hint("choose another directory").into());
    }
    path::may_make_in(parent)
}

fn parent(dir: &Path) -> &Path {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Checks the existing disks; returns the serial numbers that allow erasing them, by
/// absolute path.
fn check_paths(args: &Args, disks: &[InitDisk]) -> Result<BTreeMap<PathBuf, String>, Fault> {
    let mut seen: BTreeMap<PathBuf, &Path> = BTreeMap::new();
    let mut serials: BTreeMap<String, PathBuf> = BTreeMap::new();
    for disk in disks {
        let InitDisk::Path(path) = disk else { continue };
        let about = path::look(path, true)?;
        let real = std::fs::canonicalize(path)?;
        if let Some(other) = seen.insert(real, path) {
            let (other, path) = (other.display(), path.display());
            let what = "each disk is to be named once";
            return Err(Fault::usage(format!("--disks: {other} and {path} are one disk; {what}")));
        }
        let least = disk_size_min(args.au_size);
        if about.is_file() && about.len() < least {
            let text = format!(
                "disk {} has {}, at least {} are needed with --au-size {}",
                path.display(),
                show_bytes(about.len()),
                size::exact(least),
                size::exact(args.au_size)
            );
            let next = "name a larger one; a new file is made with: truncate -s 2G disk1";
            return Err(Error::new(15036, text).hint(next).into());
        }
        check_owner(args, path)?;
        if !about.is_file() && !args.erase.is_empty() {
            let absolute = std::path::absolute(path)?;
            serials.extend(probe(path, &[])?.serial.map(|serial| (serial, absolute)));
        }
    }
    args.erase
        .iter()
        .map(|serial| match serials.get(serial) {
            Some(path) => Ok((path.clone(), serial.clone())),
            None => Err(unknown_serial(serial, &serials)),
        })
        .collect()
}

/// Refuses a disk of another group, with both ways forward: its group is needed, or not. Disks named by
/// --erase are given up already.
fn check_owner(args: &Args, path: &Path) -> Result<(), Fault> {
    let facts = probe(path, &[])?;
    let owner = label::owner(path, facts.size).and_then(|owner| owner.content());
    let given_up = facts.serial.as_ref().is_some_and(|serial| args.erase.contains(serial));
    let Some(held) = owner.filter(|_| !given_up) else { return Ok(()) };
    let text = format!("disk {} cannot be used: {held}", path.display());
    let next = format!(
        "name another disk; if nobody needs that group, see what would be lost: cellar disks \
         --release {}",
        shell::path(path)
    );
    Err(Error::new(15033, text).hint(next).into())
}

fn unknown_serial(serial: &str, known: &BTreeMap<String, PathBuf>) -> Fault {
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    let known = match known.is_empty() {
        true => "none of them is a device with a serial number".to_owned(),
        false => format!("theirs are: {}", known.join(", ")),
    };
    Fault::usage(format!("--erase {serial}: no disk of --disks has this serial number; {known}"))
}

/// The smallest disk for an AU size.
fn disk_size_min(au_size: u64) -> u64 {
    // The last MiB lies after the AUs.
    DISK_BYTES_MIN.max(AU_START + (1 << 20) + AUS_MIN * au_size)
}

/// An error of `init` in terms of its options: there is no FORCE, and ERASE is an option.
fn in_options(error: Error) -> Fault {
    if !error.has(15033) {
        return error.into();
    }
    let text = error.stack().last().map(|e| e.message.clone()).unwrap_or_default();
    let next = match error.remedy() {
        Some(Remedy::Erase(serial)) => {
            format!("name another disk; --erase {serial} gives up what is on this one").into()
        }
        _ => error.next_step().cloned().unwrap_or_else(|| "name another disk".into()),
    };
    Error::new(15033, text).hint(next).into()
}

async fn make_in(
    args: &Args,
    (disks, failgroups): (Vec<InitDisk>, Vec<Option<String>>),
    erase: BTreeMap<PathBuf, String>,
    directory: Directory,
    place: &Place,
) -> Result<Held, Fault> {
    let lock = directory
        .try_lock()?
        .ok_or_else(|| Fault::failed("CELLAR-70101: the directory was taken by another process"))?;
    let instance = database::instance(&directory, &place.env)?;
    let opener = Arc::new(RealDisks::new(&place.real, instance.parameters()));
    let spec = InitSpec {
        name: args.name.clone(),
        redundancy: args.redundancy,
        au_size: args.au_size,
        sector_size: args.sector_size,
        disks,
        failgroups,
        erase,
    };
    let total =
        spec.disks.iter().map(|d| if let InitDisk::File { size } = d { *size } else { 0 }).sum();
    let bar = Progress::new("pre-written", total, args.format == Format::Json);
    let made = init(instance, directory, opener, &spec, &|done, _total| bar.set(done)).await;
    bar.finish();
    let inner = made.map_err(in_options)?;
    make_log(args, &inner).await?;
    database::held(inner, lock, place)
}

/// Creates the requested redo log.
async fn make_log(args: &Args, database: &Database) -> Result<(), Fault> {
    let size = match args.redo_size {
        RedoSize::None => return Ok(()),
        RedoSize::Auto => None,
        RedoSize::Bytes(size) => Some(size),
    };
    let bar = OnceLock::new();
    let is_json = args.format == Format::Json;
    let show = |done, total| {
        bar.get_or_init(|| Progress::new("redo log", total, is_json)).set(done);
    };
    let made = database.make_log(size, &show).await;
    if let Some(bar) = bar.into_inner() {
        bar.finish();
    }
    Ok(made?)
}

/// Opens the existing groups on disks.
async fn import_in(args: &Args, directory: Directory, place: &Place) -> Result<Held, Fault> {
    let lock = directory
        .try_lock()?
        .ok_or_else(|| Fault::failed("CELLAR-70101: the directory was taken by another process"))?;
    let instance = database::instance(&directory, &place.env)?;
    let opener = Arc::new(RealDisks::new(&place.real, instance.parameters()));
    let inner = import(instance, directory, opener, &args.import, args.force.as_deref()).await?;
    database::held(inner, lock, place)
}

/// The requested disks, each with its failure group if one is named.
fn placed_disks(args: &Args) -> Result<(Vec<InitDisk>, Vec<Option<String>>), Fault> {
    if args.failgroup.is_empty() {
        return Ok((disks(args)?, Vec::new()));
    }
    let (mut disks, mut failgroups, mut files) = (Vec::new(), Vec::new(), 0);
    for given in &args.failgroup {
        let wrong = || {
            let what = "write --failgroup NAME=PATH,PATH, or NAME=N for file disks";
            Fault::usage(format!("--failgroup {given}: {what}"))
        };
        let (name, of_it) = given.split_once('=').ok_or_else(wrong)?;
        FailGroupName::new(name).map_err(|e| Fault::usage(format!("--failgroup {given}: {e}")))?;
        let before = disks.len();
        match of_it.trim().parse::<usize>() {
            Ok(count) => {
                files += count.min(FILES_MAX + 1);
                let count = count.min(FILES_MAX);
                disks.extend((0..count).map(|_| InitDisk::File { size: args.disk_size }));
            }
            Err(_) => disks.extend(paths(of_it)),
        }
        if disks.len() == before {
            return Err(wrong());
        }
        failgroups.resize(disks.len(), Some(name.to_uppercase()));
    }
    if files > FILES_MAX {
        return Err(Fault::usage(format!("--failgroup: allowed are 1 to {FILES_MAX} file disks")));
    }
    if files > 0 {
        check_disk_size(args)?;
    }
    Ok((disks, failgroups))
}

/// Paths separated by commas.
fn paths(text: &str) -> impl Iterator<Item = InitDisk> {
    let paths = text.split(',').map(str::trim).filter(|path| !path.is_empty());
    paths.map(|path| InitDisk::Path(PathBuf::from(path)))
}

/// The disks of --disks, checked as far as possible without opening them.
fn disks(args: &Args) -> Result<Vec<InitDisk>, Fault> {
    if let Ok(count) = args.disks.trim().parse::<usize>() {
        if !(1..=FILES_MAX).contains(&count) {
            let what = format!("allowed are 1 to {FILES_MAX} file disks");
            return Err(Fault::usage(format!("--disks {count}: {what}")));
        }
        check_count(args, count)?;
        check_disk_size(args)?;
        if let Some(serial) = args.erase.first() {
            let what = "is for disks that already exist, and --disks names none";
            return Err(Fault::usage(format!("--erase {serial} {what}")));
        }
        return Ok(vec![InitDisk::File { size: args.disk_size }; count]);
    }
    let paths: Vec<InitDisk> = paths(&args.disks).collect();
    check_count(args, paths.len())?;
    Ok(paths)
}

/// Checks that there are enough disks for the copies.
fn check_count(args: &Args, count: usize) -> Result<(), Fault> {
    let needed = usize::from(args.redundancy.copies());
    if count >= needed {
        return Ok(());
    }
    let other = "--redundancy external keeps one copy";
    Err(Fault::usage(match count {
        0 => format!("--disks \"{}\" names no disk: give a number, or PATH,PATH", args.disks),
        1 => format!(
            "--disks {} is one disk, which cannot be mirrored: add --redundancy external, or give \
             {needed} or more",
            args.disks
        ),
        _ => format!(
            "--redundancy {} keeps {needed} copies and needs {needed} disks, --disks gives \
             {count}: give more; {other}",
            word(args.redundancy)
        ),
    }))
}

fn check_disk_size(args: &Args) -> Result<(), Fault> {
    let least = disk_size_min(args.au_size);
    let (wanted, au) = (size::exact(args.disk_size), size::exact(args.au_size));
    if args.disk_size < least {
        return Err(Fault::usage(format!(
            "--disk-size {wanted} is too small: with --au-size {au} at least {} are needed",
            size::exact(least)
        )));
    }
    if !args.disk_size.is_multiple_of(4096) {
        return Err(Fault::usage(format!(
            "--disk-size {wanted} is no multiple of 4096 bytes; the next one is {}",
            size::exact(args.disk_size.next_multiple_of(4096))
        )));
    }
    Ok(())
}

/// Checks for enough space for the files before any of it is used.
fn check_room(args: &Args, disks: &[InitDisk]) -> Result<(), Fault> {
    let of_file = |d: &InitDisk| if let InitDisk::File { size } = d { *size } else { 0 };
    // A sum beyond 64 bits is more than any file system has.
    let wanted = disks.iter().map(of_file).fold(0, u64::saturating_add);
    let parent = parent(&args.dir);
    let Some(free) = free_bytes(parent) else { return Ok(()) };
    // The file system keeps a little for itself.
    if wanted.saturating_add(64 << 20) > free {
        return Err(Fault::failed(format!(
            "CELLAR-70111: the disks of {} need {}, the file system of {} has {} free\nNext: {}",
            args.dir.display(),
            show_bytes(wanted),
            parent.display(),
            show_bytes(free),
            smaller(args, free.saturating_sub(64 << 20) / disks.len().max(1) as u64)
        )));
    }
    Ok(())
}

/// What to request if disks have only this much space each.
fn smaller(args: &Args, room: u64) -> String {
    let megabytes = room >> 20;
    match room >= disk_size_min(args.au_size) {
        true => format!("give smaller disks: --disk-size {megabytes}M; or fewer: --disks N"),
        false => "choose a directory of a larger file system".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use cellar_diskgroup::on_disk::layout::au_count;

    use super::*;

    #[test]
    fn the_smallest_disk_has_room_for_the_aus_of_a_group() {
        for au in [1, 2, 4, 8, 16, 32, 64].map(|mb| mb << 20) {
            assert!(u64::from(au_count(disk_size_min(au), au)) >= AUS_MIN, "{au}");
        }
    }

    #[test]
    fn an_error_offers_no_option_that_is_not_there() {
        let error = Error::new(15033, "disk /x is not empty").hint("ERASE 'S1' gives it up");
        let error = error.with_remedy(Remedy::Erase("S1".to_owned()));
        let text = in_options(error).to_string();
        assert!(text.contains("--erase S1"), "{text}");
    }
}
