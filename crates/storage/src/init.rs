//! `cellar init`: a directory, its disks, one group with the catalog.

use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::Redundancy;
use cellar_io::Device;

use crate::disks::Disks;
use crate::error::{Error, Result};
use crate::files::{Progress, absolute, make_file, prewrite_all};
use crate::request::{DiskRequest, GroupRequest};
use crate::storage::{OpenStorage, Storage};

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
    /// The failure group of each disk, where one is given; for the others it follows from what they stand
    /// on.
    pub failgroups: Vec<Option<String>>,
    /// Serial numbers that give up what is on a disk, by absolute path.
    pub erase: std::collections::BTreeMap<PathBuf, String>,
}

/// Makes the disks and the group in a directory that was just made and is locked, and opens it. On failure
/// the caller removes the directory; nothing outside it was touched but disks that were named.
///
/// # Errors
/// No room, a disk that will not do, a value out of its range.
#[boxed]
pub async fn init(open: OpenStorage, spec: &InitSpec, progress: &Progress<'_>) -> Result<Storage> {
    let paths = make_files(&open.directory, spec)?;
    let total: u64 =
        spec.disks.iter().map(|d| if let InitDisk::File { size } = d { *size } else { 0 }).sum();
    prewrite(&*open.around.disks, spec, &paths, total, progress).await?;
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
    let storage = Storage::new(open);
    storage.groups().create_inner(&request, true).await?;
    Ok(storage)
}

/// The smallest AU count for a file disk is checked by the group; here only what a file needs.
fn make_files(directory: &Path, spec: &InitSpec) -> Result<Vec<PathBuf>> {
    let folder = directory.join("disks");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .map_err(|error| Error::system("create", &folder, &error))?;
    let mut paths = Vec::new();
    let mut files = 0;
    for disk in &spec.disks {
        match disk {
            InitDisk::Path(path) => paths.push(absolute(path)),
            InitDisk::File { size } => {
                files += 1;
                let path = absolute(&folder.join(format!("disk{files}")));
                make_file(&path, *size)?;
                paths.push(path);
            }
        }
    }
    Ok(paths)
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
