//! `cellar init`: a directory with a disk group in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_instance::database::{InitDisk, InitSpec, init};
use cellar_instance::directory::Directory;
use cellar_instance::diskgroup::Redundancy;
use cellar_instance::disks::RealDisks;

use super::database::{self, Held, Place};
use super::fault::Fault;
use super::output::{self, Format};
use super::progress::Progress;
use super::size::{parse_size, show_bytes};

/// Arguments of `init`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar init mydb                            four files of 2 GB, mirrored
  cellar init mydb --disks 6 --disk-size 10G
  cellar init mydb --disks /dev/disk/by-id/A,/dev/disk/by-id/B
  cellar init mydb --disks /dev/disk/by-id/A --redundancy external")]
pub struct Args {
    /// The directory to make.
    pub dir: PathBuf,
    /// How many file disks, or the paths of real ones.
    #[arg(long, value_name = "N | PATH,...", default_value = "4")]
    pub disks: String,
    /// Give up what is on these disks: their serial numbers.
    #[arg(long, value_name = "SERIAL,..", value_delimiter = ',')]
    pub erase: Vec<String>,
    /// The name of the disk group.
    #[arg(long, default_value = "DATA")]
    pub name: String,
    /// The size of each file disk.
    #[arg(long, default_value = "2G", value_parser = parse_size)]
    pub disk_size: u64,
    /// Copies: external (1), normal (2) or high (3).
    #[arg(long, value_parser = redundancy, default_value = "normal")]
    pub redundancy: Redundancy,
    /// The allocation unit: 1M to 64M.
    #[arg(long, default_value = "4M", value_parser = parse_size)]
    pub au_size: u64,
    /// The sector size of the group: 512 or 4096.
    #[arg(long)]
    pub sector_size: Option<u32>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
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
/// Wrong arguments before anything is touched; then a numbered error, and DIR is gone again.
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
    let info = mounted.group.info();
    let survives = mounted.survives();
    if args.format == Format::Json {
        return output::json(&Made {
            dir: &args.dir,
            group: info.name,
            disks: mounted.group.disks().len(),
            writable_mb: info.writable_mb,
            survives,
        });
    }
    let words = match survives {
        "device" => "any one disk may die",
        "file" => "any one file may be lost; they lie on one device",
        _ => "no disk may die",
    };
    output::text(&format!(
        "{}: {}, {} disks, AU {} MB. Room for {}; {words}\n",
        info.name,
        word(info.redundancy),
        mounted.group.disks().len(),
        info.au_size >> 20,
        show_bytes(info.writable_mb << 20),
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

/// Makes the directory and its group, and opens it. What was made goes again if a part fails.
///
/// # Errors
/// As [`run`].
pub async fn make(args: &Args, place: &Place) -> Result<Held, Fault> {
    let disks = disks(args)?;
    check_room(args, &disks)?;
    let directory = Directory::create(&args.dir)?;
    let result = make_in(args, disks, directory, place).await;
    if result.is_err() {
        // It was not there before this command; nobody else can have put anything in.
        let _ = std::fs::remove_dir_all(&args.dir);
    }
    result
}

async fn make_in(
    args: &Args,
    disks: Vec<InitDisk>,
    directory: Directory,
    place: &Place,
) -> Result<Held, Fault> {
    let lock = directory
        .try_lock()?
        .ok_or_else(|| Fault::failed("CELLAR-70101: the directory was taken by another process"))?;
    let instance = database::instance(&directory, &place.env)?;
    let opener = Arc::new(RealDisks::new(&place.real, instance.parameters()));
    let erase: BTreeMap<PathBuf, String> = disks
        .iter()
        .filter_map(|d| match d {
            InitDisk::Path(path) => Some(std::path::absolute(path).unwrap_or(path.clone())),
            InitDisk::File { .. } => None,
        })
        .zip(args.erase.iter().cloned())
        .collect();
    let spec = InitSpec {
        name: args.name.clone(),
        redundancy: args.redundancy,
        au_size: args.au_size,
        sector_size: args.sector_size,
        disks,
        erase,
    };
    let total =
        spec.disks.iter().map(|d| if let InitDisk::File { size } = d { *size } else { 0 }).sum();
    let bar = Progress::new("pre-written", total, args.format == Format::Json);
    let inner = init(instance, directory, opener, &spec, &|done, _total| bar.set(done)).await?;
    bar.finish();
    database::held(inner, lock, place)
}

fn disks(args: &Args) -> Result<Vec<InitDisk>, Fault> {
    if let Ok(count) = args.disks.parse::<usize>() {
        if !(1..=64).contains(&count) {
            return Err(Fault::usage(format!("--disks {count}: allowed are 1 to 64 file disks")));
        }
        if count == 1 && args.redundancy != Redundancy::External {
            return Err(one_disk());
        }
        return Ok(vec![InitDisk::File { size: args.disk_size }; count]);
    }
    let paths: Vec<InitDisk> = args
        .disks
        .split(',')
        .map(str::trim)
        .filter(|p| !p.is_empty())
        .map(|p| InitDisk::Path(PathBuf::from(p)))
        .collect();
    if paths.len() == 1 && args.redundancy != Redundancy::External {
        return Err(one_disk());
    }
    Ok(paths)
}

fn one_disk() -> Fault {
    Fault::usage("one disk cannot be mirrored: add --redundancy external, or name two disks")
}

/// The room that files need must be there before any of it is taken.
fn check_room(args: &Args, disks: &[InitDisk]) -> Result<(), Fault> {
    let wanted: u64 =
        disks.iter().map(|d| if let InitDisk::File { size } = d { *size } else { 0 }).sum();
    let parent = match args.dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let Some(free) = free_bytes(parent) else { return Ok(()) };
    // The file system keeps a little for itself.
    if wanted + (64 << 20) > free {
        return Err(Fault::failed(format!(
            "CELLAR-70111: {} needs {}, {} has {} free\nNext: give fewer or smaller disks: \
             --disks N --disk-size 1G",
            args.dir.display(),
            show_bytes(wanted),
            parent.display(),
            show_bytes(free)
        )));
    }
    Ok(())
}

/// Free bytes of the file system below `path`.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}
