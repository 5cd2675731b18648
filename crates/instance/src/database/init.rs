//! `cellar init`: a directory, its disks, one group with the catalog.

use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::Redundancy;
use cellar_io::{Buffer, Device, Durability, Io};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::groups::{DiskRequest, GroupRequest};
use super::{Database, FirstGroupCatalog, MountedGroups, OpenMode};
use crate::catalog::SharedCatalog;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::instance::Instance;
use cellar_storage::disks::Disks;

/// Told how many bytes of how many are pre-written.
pub type Progress<'a> = dyn Fn(u64, u64) + Send + Sync + 'a;

/// A disk for a new database.
#[derive(Clone, Debug)]
pub enum InitDisk {
    /// A file DIR/disks/diskN of that many bytes, written with zeros first.
    File {
        /// Bytes.
        size: u64,
    },
    /// A disk or file that is there already.
    Path(PathBuf),
}

/// What to make.
#[derive(Clone, Debug)]
pub struct InitSpec {
    /// The group's name.
    pub name: String,
    /// Copies by default.
    pub redundancy: Redundancy,
    /// Allocation unit in bytes.
    pub au_size: u64,
    /// 512 or 4096; `None` takes what the disks want.
    pub sector_size: Option<u32>,
    /// The disks.
    pub disks: Vec<InitDisk>,
    /// The failure group of each disk, where that is said; what it stands on decides for the others.
    pub failgroups: Vec<Option<String>>,
    /// Serial numbers that give up what is on a disk, by absolute path.
    pub erase: std::collections::BTreeMap<PathBuf, String>,
}

/// Pre-writes are this large, and so many are under way on each disk.
const STEP: u64 = 1 << 20;
const DEPTH: usize = 8;

/// Makes the disks and the group in a directory just [created](Directory::create) and locked, and
/// opens it. On failure the caller removes the directory; nothing outside it was touched but disks
/// that were named.
///
/// # Errors
/// No room, a disk that will not do, a value out of its range.
#[boxed]
pub async fn init(
    instance: Arc<Instance>,
    directory: Directory,
    disks: Arc<dyn Disks>,
    spec: &InitSpec,
    progress: &Progress<'_>,
) -> Result<Database> {
    let paths = make_files(&directory, spec)?;
    let total: u64 =
        spec.disks.iter().map(|d| if let InitDisk::File { size } = d { *size } else { 0 }).sum();
    prewrite(&*disks, spec, &paths, total, progress).await?;
    let request = GroupRequest {
        name: spec.name.clone(),
        redundancy: spec.redundancy,
        attributes: [
            Some(("au_size".to_owned(), spec.au_size.to_string())),
            spec.sector_size.map(|s| ("sector_size".to_owned(), s.to_string())),
        ]
        .into_iter()
        .flatten()
        .collect(),
        disks: paths
            .iter()
            .enumerate()
            .map(|(at, path)| DiskRequest {
                path: path.to_string_lossy().into_owned(),
                name: None,
                failgroup: spec.failgroups.get(at).cloned().flatten(),
                size: None,
                force: false,
                erase: spec.erase.get(path).cloned(),
            })
            .collect(),
    };
    let mounted = MountedGroups::default();
    let store = Arc::new(FirstGroupCatalog(mounted.clone()));
    let database = Database {
        instance,
        directory,
        disks,
        mode: OpenMode::default(),
        mounted,
        unmounted: Arc::default(),
        no_disks: Arc::default(),
        left: Arc::default(),
        forced: Arc::default(),
        catalog: Arc::new(SharedCatalog::empty(store)),
        under_way: Arc::default(),
    };
    database.create_group_inner(&request, true).await?;
    Ok(database)
}

/// The smallest AU count for a file disk is checked by the group; here only what a file needs.
fn make_files(directory: &Directory, spec: &InitSpec) -> Result<Vec<PathBuf>> {
    let folder = directory.path().join("disks");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .map_err(|error| Error::system("create", &folder, &error))?;
    let mut paths = Vec::new();
    let mut files = 0;
    for disk in &spec.disks {
        match disk {
            InitDisk::Path(path) => paths.push(super::absolute(path)),
            InitDisk::File { size } => {
                files += 1;
                let path = super::absolute(&folder.join(format!("disk{files}")));
                make_file(&path, *size)?;
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

/// Makes a file of that size; takes it away again if it does not come to be.
///
/// It is locked as a disk is, until what is given back is dropped.
pub(crate) fn make_file(path: &Path, size: u64) -> Result<std::fs::File> {
    let failed = |what: &str, error: &std::io::Error| Error::system(what, path, error);
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|e| failed("create", &e))?;
    let sized = || {
        // Nobody takes it for a disk before it is one.
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(&file, lock).map_err(|e| failed("lock", &e.into()))?;
        file.set_len(size).map_err(|e| failed("size", &e))?;
        // Room is taken now, so that a full file system is found here and not under a write later.
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(failed("make room for", &error.into())),
        }
        file.sync_all().map_err(|e| failed("sync", &e))
    };
    sized().inspect_err(|_| {
        // What is left of it is of no use to anybody.
        let _ = std::fs::remove_file(path);
    })?;
    Ok(file)
}

/// Writes the file disks of a new database with zeros.
async fn prewrite(
    disks: &dyn Disks,
    spec: &InitSpec,
    paths: &[PathBuf],
    total: u64,
    progress: &Progress<'_>,
) -> Result<()> {
    let mut devices: Vec<(Arc<dyn Device>, Range<u64>)> = Vec::new();
    for (disk, path) in spec.disks.iter().zip(paths) {
        if let InitDisk::File { size } = disk {
            devices.push((disks.open(path, true)?.device(), 0..*size));
        }
    }
    prewrite_all(&devices, total, progress).await
}

/// Writes new files, or new parts of files, with zeros: a file whose blocks are only promised pays
/// for each first write with a change of the file system below.
pub(crate) async fn prewrite_all(
    devices: &[(Arc<dyn Device>, Range<u64>)],
    total: u64,
    progress: &Progress<'_>,
) -> Result<()> {
    let zeros = Buffer::zeroed(STEP as usize).freeze();
    let length_of = |range: &Range<u64>| range.end.saturating_sub(range.start);
    let largest = devices.iter().map(|(_, range)| length_of(range)).max().unwrap_or(0);
    let (mut at, mut which) = (0, 0);
    let mut running = FuturesUnordered::new();
    let mut done = 0;
    loop {
        while running.len() < DEPTH * devices.len() && at < largest {
            let (device, range) = &devices[which];
            let (device, begin) = (Arc::clone(device), at);
            which = (which + 1) % devices.len();
            at += if which == 0 { STEP } else { 0 };
            if begin >= length_of(range) {
                continue;
            }
            let (length, begin) = (STEP.min(length_of(range) - begin), range.start + begin);
            let data = vec![zeros.slice(..length as usize)];
            running.push(async move {
                let written = device.write(Io::BACKGROUND, begin, data, Durability::Cached).await;
                written.map(|()| length)
            });
        }
        match running.next().await {
            Some(written) => {
                done += written?;
                progress(done, total);
            }
            None => break,
        }
    }
    for (device, _) in devices {
        device.flush(Io::BACKGROUND).await?;
    }
    Ok(())
}
