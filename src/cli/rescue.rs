//! `cellar rescue`: files out of a group that cannot be mounted any more. Only reads the disks.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use cellar_instance::Error;
use cellar_instance::diskgroup::rescue::{
    Rescue, RescueDisk, RescuedGroup, ToldBy, read_what_is_there, rescue,
};
use cellar_instance::diskgroup::{File, FileInfo, FoundDisk, MountOptions};
use cellar_io::real::{OpenOptions, open_disk};
use cellar_wait::{Kind, Waits};
use serde::Serialize;

use super::database::Place;
use super::fault::Fault;
use super::output::{self, Format};
use super::path::look;
use super::progress::Progress;
use super::size::{show_bytes, show_count};

/// What is read at once.
const STEP: u64 = 1 << 20;
/// Blocks of zeros are left out of the files that are made.
const BLOCK: usize = 4096;

/// Arguments of `rescue`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar rescue --disks 'mydb/disks/*'                what can be had
  cellar rescue --disks /dev/sdb,/dev/sdc --extract /mnt/out
The disks are only read. It needs neither the directory of the database nor
the labels: any disks that hold a copy of everything are enough, and of what
is not there the rest is taken. Nobody may have the database open meanwhile.
A group that is whole is opened again with: cellar init DIR --import DISKS
Exit code 0: all of it can be had, or was. 1: something is lost.")]
pub struct Args {
    /// The disks, or patterns of them.
    #[arg(long, value_name = "PATH,..", value_delimiter = ',', required = true)]
    pub disks: Vec<String>,
    /// Tell which files there are; done if nothing else is said.
    #[arg(long, conflicts_with = "extract")]
    pub list: bool,
    /// Write all files into this directory, which is made.
    #[arg(long, value_name = "DIR")]
    pub extract: Option<PathBuf>,
    /// Only of this group.
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// A file, as it is told.
#[derive(Serialize)]
struct Told {
    path: String,
    bytes: u64,
    also: Vec<String>,
    /// Bytes of which no copy can be read, where that was tried.
    lost_bytes: u64,
    lost: Vec<(u64, u64)>,
    written_to: Option<PathBuf>,
}

#[derive(Serialize)]
struct ToldGroup {
    group: String,
    missing: Vec<String>,
    proven: bool,
    told_on: String,
    files: Vec<Told>,
}

#[derive(Serialize)]
struct ToldAll {
    groups: Vec<ToldGroup>,
    failed: Vec<(String, String)>,
    disks: Vec<(String, Option<String>, Option<String>)>,
}

/// Runs `rescue`.
///
/// # Errors
/// A disk cannot be opened, nothing of a group is on any, or the directory cannot be written. What
/// is lost is told, and then [`Fault::NotWell`].
pub async fn run(args: Args, place: &Place) -> Result<(), Fault> {
    if let Some(dir) = &args.extract
        && dir.symlink_metadata().is_ok()
    {
        let text = format!("{} exists already", dir.display());
        return Err(Error::new(70102, text).hint("name a directory that is to be made").into());
    }
    let found = open_all(&args, place)?;
    let session = Waits::new().session("rescue", Kind::Background);
    let rescue = rescue(&place.env, &session, found, &MountOptions::default()).await;
    let wanted = |name: &str| args.group.as_ref().is_none_or(|g| g.eq_ignore_ascii_case(name));
    let mut all = ToldAll {
        groups: Vec::new(),
        failed: Vec::new(),
        disks: rescue.disks.iter().map(told_disk).collect(),
    };
    for (name, error) in rescue.failed.iter().filter(|(name, _)| wanted(name)) {
        let error = Error::from(error.clone());
        all.failed.push((name.clone(), error.to_string()));
    }
    let quiet = args.format == Format::Json;
    for group in rescue.groups.iter().filter(|g| wanted(g.group.name())) {
        let files = match &args.extract {
            None => listed(group),
            Some(dir) => extract(group, dir, quiet).await?,
        };
        all.groups.push(ToldGroup {
            group: group.group.name().to_owned(),
            missing: group.missing.clone(),
            proven: group.proven,
            told_on: group.told_on.clone(),
            files,
        });
    }
    match quiet {
        true => output::json(&all)?,
        false => output::text(&in_words(&args, &rescue, &all))?,
    }
    if all.groups.is_empty() && all.failed.is_empty() {
        return Err(Error::new(15063, "nothing of a disk group is found on these disks")
            .hint("see what is on one: cellar inspect PATH")
            .into());
    }
    let lost = all.groups.iter().flat_map(|g| &g.files).any(|file| file.lost_bytes > 0);
    if lost || !all.failed.is_empty() { Err(Fault::NotWell) } else { Ok(()) }
}

/// Opens the disks, each once.
fn open_all(args: &Args, place: &Place) -> Result<Vec<FoundDisk>, Fault> {
    let mut paths: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for pattern in &args.disks {
        let matching = cellar_instance::disks::glob(pattern);
        if matching.is_empty() {
            look(Path::new(pattern), false)?;
        }
        for path in matching {
            paths.entry(fs::canonicalize(&path)?).or_insert(path);
        }
    }
    // Locked: what somebody writes to meanwhile would come out half old, half new.
    let options = OpenOptions { read_only: true, lock: true, ..OpenOptions::default() };
    let open = |path: PathBuf| -> Result<FoundDisk, Fault> {
        look(&path, false)?;
        let device = open_disk(&place.real, &path, &options).map_err(Error::from)?;
        Ok(FoundDisk { device, path: path.to_string_lossy().into_owned() })
    };
    paths.into_values().map(open).collect()
}

fn told_disk(disk: &RescueDisk) -> (String, Option<String>, Option<String>) {
    let of = disk.of.as_ref().map(|(_, name, _)| name.clone());
    (disk.path.clone(), of, disk.unused.clone())
}

/// The name under which a file comes out, and its other names. A name that somebody gave comes
/// before one that the system made.
fn names_of(group: &RescuedGroup, file: &FileInfo) -> Option<(String, Vec<String>)> {
    let listed = group.group.list("*", true);
    let of = |system: bool| {
        let own = listed.iter().filter(move |l| l.file == Some(file.number) && l.system == system);
        own.map(|l| l.path.clone())
    };
    let mut names: Vec<String> = of(false).chain(of(true)).collect();
    if names.is_empty() {
        names.clone_from(&file.names);
    }
    let mut names = names.into_iter();
    names.next().map(|first| (first, names.collect()))
}

fn listed(group: &RescuedGroup) -> Vec<Told> {
    let files = group.group.files();
    let mut out: Vec<Told> = files
        .iter()
        .filter(|file| !file.temporary)
        .filter_map(|file| {
            let (path, also) = names_of(group, file)?;
            let (lost, written_to) = (Vec::new(), None);
            Some(Told { path, bytes: file.size, also, lost_bytes: 0, lost, written_to })
        })
        .collect();
    out.sort_by(|a, b| a.path.cmp(&b.path));
    for told in &mut out {
        // Without reading it: extents of which no copy is here.
        told.lost_bytes = group.lost_of(&told.path);
    }
    out
}

/// Writes every file of a group below a directory.
async fn extract(group: &RescuedGroup, dir: &Path, quiet: bool) -> Result<Vec<Told>, Fault> {
    let mut files = listed(group);
    let total = files.iter().map(|file| file.bytes).sum();
    let bar = Progress::new("written", total, quiet);
    let mut before = 0;
    let below = dir.join(group.group.name());
    fs::create_dir_all(&below).map_err(|e| Error::system("create", &below, &e))?;
    for told in &mut files {
        let target = below.join(inside(&told.path)?);
        let file = group.group.open(&told.path)?;
        told.lost = write(&file, &target, &|done| bar.set(before + done)).await?;
        told.lost_bytes = told.lost.iter().map(|(from, to)| to - from).sum();
        told.written_to = Some(target.clone());
        let info = group.group.files().into_iter().find(|f| f.number == file.number());
        if let Some(info) = info {
            let at = UNIX_EPOCH + Duration::from_nanos(info.modified_ns);
            // When it was changed is a kindness, not what was asked for.
            let _ = fs::File::options().write(true).open(&target).and_then(|f| f.set_modified(at));
        }
        before += told.bytes;
    }
    bar.finish();
    Ok(files)
}

/// A path in a group as one below a directory: never out of it.
fn inside(path: &str) -> Result<PathBuf, Fault> {
    let path = PathBuf::from(path);
    match path.components().all(|part| matches!(part, Component::Normal(_))) {
        true => Ok(path),
        false => Err(Fault::failed(format!(
            "CELLAR-15173: the name {} cannot be a file here",
            path.display()
        ))),
    }
}

/// Writes a file; where no copy can be read it has zeros. Gives these ranges.
async fn write(
    file: &File,
    target: &Path,
    done: &(dyn Fn(u64) + Sync),
) -> Result<Vec<(u64, u64)>, Fault> {
    let failed = |what: &str, e: &std::io::Error| Error::system(what, target, e);
    if let Some(above) = target.parent() {
        fs::create_dir_all(above).map_err(|e| failed("make the directory of", &e))?;
    }
    let out = fs::File::create_new(target).map_err(|e| failed("create", &e))?;
    let size = file.size();
    out.set_len(size).map_err(|e| failed("size", &e))?;
    let mut lost: Vec<Range<u64>> = Vec::new();
    for at in (0..size).step_by(STEP as usize) {
        let end = (at + STEP).min(size.next_multiple_of(BLOCK as u64));
        let bytes = read_what_is_there(file, at..end, &mut lost).await?;
        for (i, block) in bytes.chunks(BLOCK).enumerate() {
            let from = at + (i * BLOCK) as u64;
            let length = (size - from.min(size)).min(block.len() as u64) as usize;
            if block[..length].iter().any(|byte| *byte != 0) {
                out.write_all_at(&block[..length], from).map_err(|e| failed("write", &e))?;
            }
        }
        done(end.min(size));
    }
    out.sync_all().map_err(|e| failed("sync", &e))?;
    Ok(lost.into_iter().map(|range| (range.start, range.end.min(size))).collect())
}

fn in_words(args: &Args, rescue: &Rescue, all: &ToldAll) -> String {
    let mut text = String::new();
    for disk in &rescue.disks {
        text.push_str(&output::broken("", "  ", &disk_words(disk)));
        text.push('\n');
    }
    for (name, error) in &all.failed {
        text.push_str(&output::broken("", "  ", &format!("{name}: {error}")));
        text.push('\n');
    }
    for group in &all.groups {
        text.push_str(&output::broken("", "  ", &group_words(group)));
        text.push('\n');
        for file in &group.files {
            text.push_str(&file_words(&group.group, file));
        }
    }
    if args.extract.is_none() && all.groups.iter().any(|g| !g.files.is_empty()) {
        let disks = args.disks.join(",");
        text.push_str(&output::labelled(
            "Next:",
            &format!("cellar rescue --disks '{disks}' --extract DIR"),
        ));
    }
    text
}

fn disk_words(disk: &RescueDisk) -> String {
    let is = match &disk.of {
        None => String::new(),
        Some((group, name, by)) => {
            let how = match by {
                ToldBy::Label => "",
                ToldBy::Superblock => ", told by a superblock: its labels are lost",
                ToldBy::Checksums => ", told by its checksum blocks: its labels are lost",
                ToldBy::Elimination => ", as no other place is left: its labels are lost",
            };
            format!(": {name} of {group}{how}")
        }
    };
    let unused = disk.unused.as_ref().map_or(String::new(), |why| format!("; not read: {why}"));
    format!("{}{is}{unused}", disk.path)
}

fn group_words(group: &ToldGroup) -> String {
    let bytes = group.files.iter().map(|file| file.bytes).sum();
    let files = show_count(group.files.len() as u64);
    let mut words = format!("{}: {files} files, {}", group.group, show_bytes(bytes));
    if !group.missing.is_empty() {
        words.push_str(&format!("; not here: {}", group.missing.join(", ")));
    }
    if !group.proven {
        words.push_str(&format!(
            "; as {} tells it, and it cannot be shown that nothing newer was written elsewhere",
            group.told_on
        ));
    }
    let lost: u64 = group.files.iter().map(|file| file.lost_bytes).sum();
    if lost > 0 {
        words.push_str(&format!("; {} of them lost", show_bytes(lost)));
    }
    words
}

fn file_words(group: &str, file: &Told) -> String {
    let mut words = format!("+{group}/{}  {}", file.path, show_bytes(file.bytes));
    if !file.also.is_empty() {
        let also: Vec<String> = file.also.iter().map(|name| format!("+{group}/{name}")).collect();
        words.push_str(&format!("  also {}", also.join(", ")));
    }
    if file.lost_bytes > 0 {
        let written = if file.written_to.is_some() { ", zeros in its place" } else { "" };
        words.push_str(&format!("  LOST {}{written}", show_bytes(file.lost_bytes)));
        let places = file.lost.iter().take(3);
        let places: Vec<String> = places.map(|(from, to)| format!("{from} to {to}")).collect();
        if !places.is_empty() {
            let more = if file.lost.len() > 3 { " .." } else { "" };
            words.push_str(&format!(" (bytes {}{more})", places.join(", ")));
        }
    }
    let mut text = output::broken("  ", "    ", &words);
    text.push('\n');
    text
}
