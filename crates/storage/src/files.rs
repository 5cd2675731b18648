//! Files that become disks or media: made with their room taken, written with zeros.

use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_io::{Buffer, Device, Durability, Io};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::error::{Error, Result};

/// Called with the bytes pre-written so far, and the total.
pub type Progress<'a> = dyn Fn(u64, u64) + Send + Sync + 'a;

/// Pre-writes are this large, and so many are under way on each disk.
const STEP: u64 = 1 << 20;
const DEPTH: usize = 8;

/// An absolute form of a path, as labels and cellar.toml keep it.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Creates a file of that size; removes it again if that fails.
///
/// It is locked as a disk is, until the returned handle is dropped.
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
        // No other process takes it for a disk before it is one.
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(&file, lock).map_err(|e| failed("lock", &e.into()))?;
        file.set_len(size).map_err(|e| failed("size", &e))?;
        // Space is allocated now, so that a full file system shows here and not later under a write.
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

/// Writes new files, or new parts of files, with zeros: a file whose blocks are only reserved pays for
/// each first write with a metadata change in the file system.
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
