//! `cellar rescue`: files recovered from an unmountable group. Only reads the disks.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use cellar_diskgroup::rescue::{
    RescueDisk, RescuedGroup, ToldBy, Unsure, read_what_is_older, read_what_is_there, rescue,
};
use cellar_diskgroup::{File, FoundDisk, Group};
use cellar_instance::Error;
use cellar_io::real::{OpenOptions, open_disk};
use cellar_io::shell;
use cellar_storage::size::{show_bytes, show_count};
use cellar_wait::{Kind, Waits};
use serde::Serialize;

use super::clock;
use super::database::Place;
use super::fault::Fault;
use super::output::{self, Format};
use super::path::look;
use super::progress::Progress;

/// Bytes per read.
const STEP: u64 = 1 << 20;
/// Blocks of zeros become holes in extracted files.
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
Exit code 0: all of it can be had, or was, as it was last. 1: something is
lost or may be old; what, is said. Where the superblocks of most disks are
gone it cannot be shown that nothing newer was written, and that is 1, too.")]
pub struct Args {
    /// The disks, or patterns of them.
    #[arg(long, value_name = "PATH,..", value_delimiter = ',', required = true)]
    pub disks: Vec<String>,
    /// List the files; this is the default.
    #[arg(long, conflicts_with = "extract")]
    pub list: bool,
    /// Write all files into this new directory.
    #[arg(long, value_name = "DIR")]
    pub extract: Option<PathBuf>,
    /// As a last resort, use copies that missed writes since their disk left.
    #[arg(long)]
    pub stale: bool,
    /// Only of this group.
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// A file in the report.
#[derive(Serialize)]
struct FileReport {
    path: String,
    bytes: u64,
    /// Its other names.
    also: Vec<String>,
    /// Bytes without a readable copy; before the file is read, according to its extent map.
    lost_bytes: u64,
    /// Bytes found only on disks that are not proven current, or that do not match a known
    /// checksum.
    doubtful_bytes: u64,
    /// Bytes found only on disks that missed later writes: part of the lost ones,
    /// unless --stale includes them.
    stale_bytes: u64,
    /// Ranges of these, once the file was read: first byte, and the one after the last.
    lost: Vec<(u64, u64)>,
    doubtful: Vec<(u64, u64)>,
    stale: Vec<(u64, u64)>,
    written_to: Option<PathBuf>,
    /// Why it could not be written.
    error: Option<String>,
}

#[derive(Serialize)]
struct GroupReport {
    group: String,
    uuid: String,
    missing: Vec<String>,
    proven: bool,
    told_on: String,
    /// Disks that missed writes since they left, and when they left, in seconds since 1970; 0:
    /// unknown.
    stale_disks: Vec<(String, u64)>,
    files: Vec<FileReport>,
}

#[derive(Serialize)]
struct DiskReport {
    path: String,
    group: Option<String>,
    disk: Option<String>,
    told_by: Option<&'static str>,
    sure: bool,
    unused: Option<String>,
}

#[derive(Serialize)]
struct Report {
    groups: Vec<GroupReport>,
    failed: Vec<(String, String)>,
    disks: Vec<DiskReport>,
}

impl Report {
    /// Whether all data is there and current.
    fn is_well(&self) -> bool {
        let well = |f: &FileReport| {
            f.lost_bytes + f.doubtful_bytes + f.stale_bytes == 0 && f.error.is_none()
        };
        self.failed.is_empty() && self.groups.iter().all(|g| g.proven && g.files.iter().all(well))
    }
}

/// Runs `rescue`.
///
/// # Errors
/// No disk can be opened, none has anything of a group, or the directory cannot be created. Losses are
/// reported, and then [`Fault::NotWell`].
pub async fn run(args: Args, place: &Place) -> Result<(), Fault> {
    if let Some(dir) = &args.extract
        && dir.symlink_metadata().is_ok()
    {
        let text = format!("{} exists already", dir.display());
        return Err(Error::new(70102, text).hint("name a directory that is to be made").into());
    }
    let (found, shut) = open_all(&args, place)?;
    let session = Waits::new().session("rescue", Kind::Background);
    let rescue = rescue(&place.env, &session, found).await;
    let wanted = |name: &str| args.group.as_ref().is_none_or(|g| g.eq_ignore_ascii_case(name));
    let mut all = Report { groups: Vec::new(), failed: Vec::new(), disks: Vec::new() };
    for (name, error) in rescue.failed.iter().filter(|(name, _)| wanted(name)) {
        // Advice about mounting is of no use here.
        let first = Error::from(error.clone()).stack()[0].to_string();
        all.failed.push((name.clone(), first));
    }
    let quiet = args.format == Format::Json;
    for group in rescue.groups.iter().filter(|g| wanted(g.group.name())) {
        let name = group.group.name();
        let twins = rescue.groups.iter().filter(|other| other.group.name() == name).count();
        let files = match &args.extract {
            None => listed(group, args.stale),
            Some(dir) if twins == 1 => extract(group, &dir.join(name), &args).await?,
            // Two groups of one name: each gets its own directory.
            Some(dir) => {
                let own = format!("{name}-{}", group.group.uuid());
                extract(group, &dir.join(own), &args).await?
            }
        };
        all.groups.push(GroupReport {
            group: name.to_owned(),
            uuid: group.group.uuid().to_string(),
            missing: group.missing.clone(),
            proven: group.proven,
            told_on: group.told_on.clone(),
            stale_disks: stale_disks(group),
            files,
        });
    }
    all.disks = rescue.disks.iter().map(|disk| disk_report(disk, &rescue.groups)).collect();
    all.disks.extend(shut);
    match quiet {
        true => output::json(&all)?,
        false => output::text(&in_words(&args, &all))?,
    }
    if all.groups.is_empty() && all.failed.is_empty() {
        let what = match (&args.group, rescue.groups.is_empty()) {
            (Some(name), false) => format!("no group {name} is found on these disks"),
            _ => "nothing of a disk group is found on these disks".to_owned(),
        };
        let next = "see what is on one: cellar inspect PATH";
        return Err(Error::new(15063, what).hint(next).into());
    }
    if all.is_well() { Ok(()) } else { Err(Fault::NotWell) }
}

/// Opens the disks, each once; reports those that cannot be opened.
fn open_all(args: &Args, place: &Place) -> Result<(Vec<FoundDisk>, Vec<DiskReport>), Fault> {
    let mut paths: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for pattern in &args.disks {
        let matching = cellar_storage::disks::glob(pattern)?;
        if matching.is_empty() {
            look(Path::new(pattern), false)?;
        }
        for path in matching {
            let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            paths.entry(real).or_insert(path);
        }
    }
    // Locked: files written meanwhile would come out half old, half new.
    let options = OpenOptions { read_only: true, lock: true, ..OpenOptions::default() };
    let (mut found, mut shut) = (Vec::new(), Vec::new());
    for path in paths.into_values() {
        let opened = match look(&path, false) {
            Ok(_) => match open_disk(&place.real, &path, &options).map_err(Error::from) {
                // Without a disk that is in use, its data would be reported as lost.
                Err(error) if error.is_busy() => return Err(error.into()),
                opened => opened.map_err(Fault::from),
            },
            Err(fault) => Err(fault),
        };
        let shown = path.to_string_lossy().into_owned();
        match opened {
            Ok(device) => found.push(FoundDisk { device, path: shown }),
            Err(fault) => shut.push(DiskReport {
                path: shown,
                group: None,
                disk: None,
                told_by: None,
                sure: false,
                unused: Some(fault.first_line()),
            }),
        }
    }
    if found.is_empty()
        && let Some(why) = shut.first().and_then(|disk| disk.unused.clone())
    {
        return Err(Fault::failed(why));
    }
    Ok((found, shut))
}

fn disk_report(disk: &RescueDisk, groups: &[RescuedGroup]) -> DiskReport {
    let of = disk.of.as_ref();
    // It may have failed while files were read.
    let failed = groups.iter().flat_map(|g| g.doubtful.disks()).find_map(|d| {
        let is_it = d.path.as_ref() == Some(&disk.path);
        d.failure.filter(|_| is_it && disk.unused.is_none())
    });
    DiskReport {
        path: disk.path.clone(),
        group: of.map(|(group, ..)| group.clone()),
        disk: of.map(|(_, name, _)| name.clone()),
        told_by: of.map(|(.., by)| match by {
            ToldBy::Label => "label",
            ToldBy::Superblock => "superblock",
            ToldBy::Checksums => "checksum blocks",
            ToldBy::Elimination => "elimination",
        }),
        sure: disk.sure,
        unused: disk.unused.clone().or(failed),
    }
}

fn stale_disks(group: &RescuedGroup) -> Vec<(String, u64)> {
    let disks = group.stale.iter().flat_map(|stale| &stale.disks);
    disks.map(|(name, ns)| (name.clone(), ns / 1_000_000_000)).collect()
}

/// The files of a group. User-given names take precedence over system names. With `stale`
/// older data counts as available.
fn listed(group: &RescuedGroup, stale: bool) -> Vec<FileReport> {
    let mut names: BTreeMap<u32, Vec<(bool, String)>> = BTreeMap::new();
    for listed in group.group.list("*", true) {
        if let Some(file) = listed.file {
            names.entry(file).or_default().push((listed.system, listed.path));
        }
    }
    let mut out: Vec<FileReport> = Vec::new();
    for file in group.group.files().iter().filter(|file| !file.temporary) {
        let mut own = names.remove(&file.number).unwrap_or_default();
        own.extend(file.names.iter().map(|name| (true, name.clone())));
        own.sort();
        own.dedup_by(|a, b| a.1 == b.1);
        let mut own = own.into_iter().map(|(_, name)| name);
        let Some(path) = own.next() else { continue };
        let (mut lost_bytes, doubtful_bytes) = group.lost_of(&path);
        let stale_bytes = group.stale_of(&path);
        if stale {
            lost_bytes = lost_bytes.saturating_sub(stale_bytes);
        }
        out.push(FileReport {
            stale_bytes,
            stale: Vec::new(),
            bytes: file.size,
            also: own.filter(|name| *name != path).collect(),
            path,
            lost_bytes,
            doubtful_bytes,
            lost: Vec::new(),
            doubtful: Vec::new(),
            written_to: None,
            error: None,
        });
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    out
}

/// Writes every file of a group below a directory; a failure with one does not stop the others.
async fn extract(
    group: &RescuedGroup,
    below: &Path,
    args: &Args,
) -> Result<Vec<FileReport>, Fault> {
    let quiet = args.format == Format::Json;
    let older = if args.stale { group.stale.as_ref().map(|stale| &stale.group) } else { None };
    let mut files = listed(group, args.stale);
    let changed: BTreeMap<u32, u64> =
        group.group.files().into_iter().map(|f| (f.number, f.modified_ns)).collect();
    let total = files.iter().map(|file| file.bytes).sum();
    let bar = Progress::new("written", total, quiet);
    let mut before = 0;
    fs::create_dir_all(below).map_err(|e| Error::system("create", below, &e))?;
    for told in &mut files {
        let from = Source { group, older };
        match extract_one(from, told, below, &changed, &|done| bar.set(before + done)).await {
            Ok(target) => told.written_to = Some(target),
            Err(fault) => told.error = Some(fault.first_line()),
        }
        before += told.bytes;
    }
    bar.finish();
    Ok(files)
}

/// Where files are read from.
#[derive(Clone, Copy)]
struct Source<'a> {
    group: &'a RescuedGroup,
    /// The last resort for reading.
    older: Option<&'a Group>,
}

async fn extract_one(
    Source { group, older }: Source<'_>,
    told: &mut FileReport,
    below: &Path,
    changed: &BTreeMap<u32, u64>,
    done: &(dyn Fn(u64) + Sync),
) -> Result<PathBuf, Fault> {
    let target = below.join(inside(&told.path)?);
    let file = group.group.open(&told.path)?;
    let doubtful = group.doubtful.open(&told.path)?;
    let older = older.map(|older| older.open(&told.path)).transpose()?;
    let unsure = write((&file, &doubtful, older.as_ref()), &target, done).await?;
    let pairs = |ranges: Vec<std::ops::Range<u64>>| -> Vec<(u64, u64)> {
        ranges.into_iter().map(|r| (r.start, r.end.min(told.bytes))).collect()
    };
    (told.lost, told.doubtful) = (pairs(unsure.lost), pairs(unsure.doubtful));
    told.stale = pairs(unsure.stale);
    let sum = |ranges: &[(u64, u64)]| ranges.iter().map(|(from, to)| to - from).sum();
    (told.lost_bytes, told.doubtful_bytes) = (sum(&told.lost), sum(&told.doubtful));
    if older.is_some() {
        told.stale_bytes = sum(&told.stale);
    }
    if let Some(ns) = changed.get(&file.number()) {
        let at = UNIX_EPOCH + Duration::from_nanos(*ns);
        // The modification time is a courtesy, not essential.
        let _ = fs::File::options().write(true).open(&target).and_then(|f| f.set_modified(at));
    }
    Ok(target)
}

/// A path in a group as one below a directory: never outside it.
fn inside(path: &str) -> Result<PathBuf, Fault> {
    let path = PathBuf::from(path);
    match path.components().all(|part| matches!(part, Component::Normal(_))) {
        true => Ok(path),
        false => {
            let text = format!("the name {} cannot be a file here", path.display());
            Err(Error::new(15173, text).into())
        }
    }
}

/// Writes a file, with zeros where no copy can be read.
async fn write(
    (file, doubtful, older): (&File, &File, Option<&File>),
    target: &Path,
    done: &(dyn Fn(u64) + Sync),
) -> Result<Unsure, Fault> {
    let failed = |what: &str, e: &std::io::Error| Error::system(what, target, e);
    if let Some(above) = target.parent() {
        fs::create_dir_all(above).map_err(|e| failed("make the directory of", &e))?;
    }
    let out = fs::File::create_new(target).map_err(|e| failed("create", &e))?;
    let size = file.size();
    out.set_len(size).map_err(|e| failed("size", &e))?;
    let mut unsure = Unsure::default();
    for at in (0..size).step_by(STEP as usize) {
        let end = (at + STEP).min(size.next_multiple_of(BLOCK as u64));
        let mut found = Unsure::default();
        let mut bytes = read_what_is_there(file, doubtful, at..end, &mut found).await?;
        if let Some(older) = older {
            read_what_is_older(older, at, &mut bytes, &mut found).await?;
        }
        unsure.append(found);
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
    Ok(unsure)
}

fn in_words(args: &Args, all: &Report) -> String {
    let mut text = String::new();
    let mut put = |words: &str| {
        text.push_str(&output::broken("", "  ", words));
        text.push('\n');
    };
    all.disks.iter().for_each(|disk| put(&disk_words(disk)));
    for (name, error) in &all.failed {
        put(&format!("{name}: cannot be read: {error}"));
    }
    for group in &all.groups {
        put(&group_words(group, args.stale));
        for file in &group.files {
            put(&file_words(&group.group, file, args.stale));
        }
    }
    if args.extract.is_none() && all.groups.iter().any(|g| !g.files.is_empty()) {
        let disks = args.disks.join(",");
        let stale = if args.stale { " --stale" } else { "" };
        let next = format!("cellar rescue --disks {}{stale} --extract DIR", shell::quoted(&disks));
        text.push_str(&output::labelled("Next:", &next));
    }
    text
}

fn disk_words(disk: &DiskReport) -> String {
    let is = match (&disk.disk, &disk.group) {
        (Some(name), Some(group)) => format!(": {name} of {group}"),
        _ => String::new(),
    };
    let how = match disk.told_by {
        None | Some("label") => String::new(),
        Some(by) => format!(", identified by its {by}, as its labels are lost"),
    };
    let sure = match disk.disk.is_some() && !disk.sure && disk.unused.is_none() {
        true => "; it cannot be shown to be as it was last",
        false => "",
    };
    let unused = disk.unused.as_ref().map_or(String::new(), |why| format!("; not read: {why}"));
    format!("{}{is}{how}{sure}{unused}", disk.path)
}

fn group_words(group: &GroupReport, stale: bool) -> String {
    let sum = |of: fn(&FileReport) -> u64| group.files.iter().map(of).sum::<u64>();
    let files = show_count(group.files.len() as u64);
    let mut words = format!("{}: {files} files, {}", group.group, show_bytes(sum(|f| f.bytes)));
    if !group.missing.is_empty() {
        words.push_str(&format!("; not here: {}", group.missing.join(", ")));
    }
    if !group.proven {
        words.push_str(&format!(
            "; according to {}, and it cannot be shown that nothing newer was written elsewhere",
            group.told_on
        ));
    }
    let (lost, doubtful) = (sum(|f| f.lost_bytes), sum(|f| f.doubtful_bytes));
    if lost > 0 {
        words.push_str(&format!("; {} LOST", show_bytes(lost)));
    }
    if doubtful > 0 {
        words.push_str(&format!("; {} DOUBTFUL", show_bytes(doubtful)));
    }
    let older = sum(|f| f.stale_bytes);
    if older > 0 {
        let left = group.stale_disks.iter().map(|(name, seconds)| match seconds {
            0 => format!("{name}, of an earlier time that is not known"),
            seconds => format!("{name}, as of {}", clock::date(seconds * 1_000_000_000)),
        });
        let left = left.collect::<Vec<_>>().join("; ");
        let bytes = show_bytes(older);
        words.push_str(&match stale {
            true => format!("; {bytes} STALE ({left})"),
            false => format!("; {bytes} of these can be had with --stale ({left})"),
        });
    }
    words
}

fn file_words(group: &str, file: &FileReport, stale: bool) -> String {
    let mut words = format!("  +{group}/{}  {}", file.path, show_bytes(file.bytes));
    if !file.also.is_empty() {
        let also: Vec<String> = file.also.iter().map(|name| format!("+{group}/{name}")).collect();
        words.push_str(&format!("  also {}", also.join(", ")));
    }
    let places = |ranges: &[(u64, u64)]| {
        let first = ranges.iter().take(3).map(|(from, to)| format!("{from} to {to}"));
        let first: Vec<String> = first.collect();
        match (first.is_empty(), ranges.len() > 3) {
            (true, _) => String::new(),
            (false, more) => {
                format!(" (bytes {}{})", first.join(", "), if more { " .." } else { "" })
            }
        }
    };
    if file.lost_bytes > 0 {
        let zeros = if file.written_to.is_some() { ", zeros in its place" } else { "" };
        let (bytes, at) = (show_bytes(file.lost_bytes), places(&file.lost));
        words.push_str(&format!("  LOST {bytes}{zeros}{at}"));
    }
    if file.doubtful_bytes > 0 {
        let (bytes, at) = (show_bytes(file.doubtful_bytes), places(&file.doubtful));
        words.push_str(&format!("  DOUBTFUL {bytes}: may be old{at}"));
    }
    if stale && file.stale_bytes > 0 {
        let (bytes, at) = (show_bytes(file.stale_bytes), places(&file.stale));
        words.push_str(&format!("  STALE {bytes}: of when its disk left{at}"));
    }
    if let Some(error) = &file.error {
        words.push_str(&format!("  NOT WRITTEN: {error}"));
    }
    words
}
