//! RESIZE DISK: a file disk that is to be larger is made larger first; what the group uses of a disk
//! is for the library to change.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use cellar_diskgroup::{DiskInfo, ResizeDisk};
use cellar_io::{Device, Io};

use super::init::prewrite_all;
use super::{Database, Mounted};
use crate::error::{Error, Result};

/// A RESIZE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeRequest {
    /// Which disks.
    pub target: ResizeTarget,
    /// SIZE in bytes; `None` takes all that the disk has.
    pub size: Option<u64>,
}

/// What a RESIZE names, in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResizeTarget {
    /// ALL.
    All,
    /// DISK name.
    Disk(String),
    /// DISKS IN FAILGROUP name.
    FailGroup(String),
}

/// The disks that a change resizes, by name. One that is offline or leaving is passed over where
/// not it but all were named.
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
            ResizeTarget::All => all.extend(members.iter().filter(takes_part).map(of)),
            ResizeTarget::Disk(name) => {
                all.push(ResizeDisk { name: name.to_uppercase(), bytes: *size });
            }
            ResizeTarget::FailGroup(name) => {
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

impl Database {
    /// Makes the files larger of which a group is to use more than they have, written with zeros.
    /// A file that was made larger stays so: what is behind the group's part is used by nobody.
    pub(super) async fn make_larger(
        &self,
        mounted: &Mounted,
        resize: &[ResizeDisk],
        progress: &(dyn Fn(u64, u64) + Send + Sync),
    ) -> Result<()> {
        let members: BTreeMap<String, DiskInfo> =
            mounted.group.disks().into_iter().map(|d| (d.name.clone(), d)).collect();
        let mut ranges: Vec<(Arc<dyn Device>, Range<u64>)> = Vec::new();
        for ResizeDisk { name, bytes } in resize {
            let (Some(bytes), Some(disk)) = (*bytes, members.get(name)) else { continue };
            let open = disk.path.as_deref().and_then(|path| mounted.disks.find(path));
            let Some(open) = open.filter(|open| open.below.is_file && bytes > disk.bytes) else {
                continue;
            };
            let device = open.device();
            if bytes > device.geometry().size {
                lengthen(&open.path, bytes)?;
                // It looks at its path before a flush is done, and knows its size from then on.
                device.flush(Io::BACKGROUND).await?;
            }
            let step = u64::from(device.geometry().logical_sector.max(4096));
            ranges.push((device, disk.bytes / step * step..bytes / step * step));
        }
        let total = ranges.iter().map(|(_, range)| range.end - range.start).sum();
        prewrite_all(&ranges, total, progress).await
    }
}

/// Makes a file longer, with room taken: a full file system is found here and not under a write.
fn lengthen(path: &Path, bytes: u64) -> Result<()> {
    let failed = |what: &str, error: &std::io::Error| Error::system(what, path, error);
    let file = std::fs::OpenOptions::new().write(true).open(path);
    let file = file.map_err(|e| failed("open", &e))?;
    match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Ok(()) => {}
        Err(rustix::io::Errno::OPNOTSUPP) => {
            file.set_len(bytes).map_err(|e| failed("make larger", &e))?;
        }
        Err(error) => return Err(failed("make room for", &error.into())),
    }
    file.sync_all().map_err(|e| failed("sync", &e))
}
