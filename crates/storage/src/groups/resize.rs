//! RESIZE DISK: a file disk that is to grow is extended first; the library changes how much of a disk the
//! group uses.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_diskgroup::{DiskInfo, ResizeDisk};
use cellar_io::{Device, Io};

use super::Groups;
use crate::error::{Error, Result};
use crate::files::prewrite_all;
use crate::mounted::Mounted;
use crate::request::{DiskTarget, ResizeRequest};

/// The disks that a change resizes, by name. If all disks were meant, one that is offline or leaving is
/// skipped.
pub(super) fn resized(
    group: &str,
    members: &[DiskInfo],
    requests: &[ResizeRequest],
) -> Result<Vec<ResizeDisk>> {
    let mut all = Vec::new();
    for ResizeRequest { target, size } in requests {
        let takes_part = |d: &&DiskInfo| d.status == cellar_diskgroup::DiskStatus::Online;
        let of = |d: &DiskInfo| ResizeDisk { name: d.name.clone(), bytes: *size };
        match target {
            None => all.extend(members.iter().filter(takes_part).map(of)),
            Some(DiskTarget::Disk(name)) => {
                all.push(ResizeDisk { name: name.to_uppercase(), bytes: *size });
            }
            Some(DiskTarget::FailGroup(name)) => {
                let wanted = name.to_uppercase();
                let of_it = members.iter().filter(|d| d.failgroup == wanted);
                if of_it.clone().next().is_none() {
                    return Err(super::alter::no_failgroup(group, members, &wanted));
                }
                all.extend(of_it.filter(takes_part).map(of));
            }
        }
    }
    Ok(all)
}

impl Groups {
    /// Extends the files of which a group is to use more than they have; the new part is written with
    /// zeros. An extended file stays so: nobody uses what lies beyond the group's part.
    ///
    /// Without SIZE a file is taken as long as it is. Its holes are written too if the file system
    /// has room for those of all; a file that somebody made larger than that on purpose stays
    /// sparse, and is given back by name.
    pub(super) async fn make_larger(
        &self,
        mounted: &Mounted,
        resize: &[ResizeDisk],
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<Vec<String>> {
        let members: BTreeMap<String, DiskInfo> =
            mounted.group.disks().into_iter().map(|d| (d.name.clone(), d)).collect();
        let mut growing: Vec<Growing> = Vec::new();
        for ResizeDisk { name, bytes } in resize {
            let Some(disk) = members.get(name) else { continue };
            let open = disk.path.as_deref().and_then(|path| mounted.disks.find(path));
            let Some(open) = open.filter(|open| open.below.is_file) else { continue };
            let length = || std::fs::metadata(&open.path).map_or(0, |metadata| metadata.len());
            let to = bytes.unwrap_or_else(length);
            if to > disk.bytes {
                let (path, device) = (open.path.clone(), open.device());
                let sized = bytes.is_some();
                growing.push(Growing {
                    name: name.clone(),
                    path,
                    device,
                    had: disk.bytes,
                    to,
                    sized,
                });
            }
        }
        let sparse = check_room(&mut growing)?;
        let mut ranges: Vec<(Arc<dyn Device>, Range<u64>)> = Vec::new();
        for Growing { path, device, had, to, .. } in growing {
            if to > device.geometry().size {
                lengthen(&path, to)?;
                // It looks at its path before a flush is done, and knows its size from then on.
                device.flush(Io::BACKGROUND).await?;
            }
            let step = u64::from(device.geometry().logical_sector.max(4096));
            ranges.push((device, had / step * step..to / step * step));
        }
        let total = ranges.iter().map(|(_, range)| range.end - range.start).sum();
        prewrite_all(&ranges, total, progress).await?;
        Ok(sparse)
    }
}

/// A file of which more is to be used.
struct Growing {
    name: String,
    path: PathBuf,
    device: Arc<dyn Device>,
    /// Bytes that the group uses of it now.
    had: u64,
    to: u64,
    /// Whether SIZE was given.
    sized: bool,
}

/// Checks the space for all of them before any is extended. Without SIZE, those for which there is none
/// are taken out and returned by name: they stay as sparse as they are.
fn check_room(growing: &mut Vec<Growing>) -> Result<Vec<String>> {
    let mut sparse = Vec::new();
    let mut needed: BTreeMap<u64, u64> = BTreeMap::new();
    // Files with a SIZE come first.
    growing.sort_by_key(|g| !g.sized);
    let mut refused = None;
    growing.retain(|g| {
        let Some((device, holes)) = holes(&g.path, g.to) else { return true };
        let Some(free) = free_bytes(&g.path) else { return true };
        let all = needed.entry(device).or_default();
        if *all + holes <= free {
            *all += holes;
            return true;
        }
        if g.sized {
            let lacks = (*all + holes).div_ceil(1 << 20);
            let text = format!(
                "the file system of {} has {} MB free, the disks need {lacks} MB more",
                g.path.display(),
                free >> 20
            );
            refused = Some(Error::new(70111, text).hint("give a smaller SIZE, or make room there"));
        } else {
            sparse.push(g.name.clone());
        }
        false
    });
    refused.map_or(Ok(sparse), Err)
}

/// Extends a file with its space allocated: a full file system shows here and not under a write. If that
/// fails the file is as it was, and space taken meanwhile is free again.
fn lengthen(path: &Path, bytes: u64) -> Result<()> {
    let failed = |what: &str, error: &std::io::Error| Error::system(what, path, error);
    let file = std::fs::OpenOptions::new().write(true).open(path);
    let file = file.map_err(|e| failed("open", &e))?;
    let had = file.metadata().map_err(|e| failed("look at", &e))?.len();
    if had >= bytes {
        // Somebody made it longer before.
        return Ok(());
    }
    // Space beyond the end of the file, which stays where it is: users of the file must not see it come
    // and go.
    let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(&file, keep, had, bytes.saturating_sub(had)) {
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(error) => {
            // Nothing is cut off by this but that room.
            file.set_len(had).map_err(|e| failed("give back room of", &e))?;
            return Err(failed("make room for", &error.into())
                .hint("give a smaller SIZE, or make room on that file system"));
        }
    }
    file.set_len(bytes).map_err(|e| failed("make larger", &e))?;
    file.sync_all().map_err(|e| failed("sync", &e))
}

/// The bytes of a file that lack room of their own.
fn holes(path: &Path, bytes: u64) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), bytes.saturating_sub(metadata.blocks() * 512)))
}

/// What the file system below a file has free.
fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize).saturating_sub(64 << 20))
}
