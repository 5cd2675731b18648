//! RESIZE DISK: a group uses more of a disk than it did, or less.
//!
//! More: one record, and the disk has the AUs. Less: 1. the record that it is wanted, and nothing new
//! is put behind the new end from then on; 2. the rebalance moves what lies there; 3. a checkpoint
//! area that reaches behind the end is made anew before it; 4. the record that the disk ends there;
//! 5. its label says so, and what is behind is given back to the device. Stopped before 4: the next
//! mount goes on. Stopped after: the labels at the head of the disk are as good as those at its end.

use cellar_io::Io;

use crate::base::core::Core;
use crate::disk::lock;
use crate::error::{Error, no_such_disk};
use crate::group::inner::Inner;
use crate::meta::create::AUS_MIN;
use crate::moves::rebalance::Snapshot;
use crate::on_disk::layout::{BLOCK_U64, DISK_BYTES_MIN, au_count};
use crate::space::DiskNo;
use crate::state::{DiskStatus, GroupState, Op};

/// A disk that is to have another size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeDisk {
    /// Its name.
    pub name: String,
    /// Bytes that the group is to use of it; `None`: all that it has.
    pub bytes: Option<u64>,
}

/// A disk, and the bytes that it is to have.
pub(super) type Resized = (u16, u64);

/// Asks the devices again: one that grew may report that only when asked.
pub(super) async fn look_again(inner: &Inner, wanted: &[ResizeDisk]) -> Result<(), Error> {
    for resize in wanted {
        let no = lock(&inner.core).state.disk_named(&resize.name.to_uppercase()).map(|d| d.0);
        if let Some(disk) = no.and_then(|no| inner.disk(no)).filter(|d| d.is_in_sync())
            && let Err(error) = disk.flush(Io::FOREGROUND).await
        {
            inner.leg_failed(&disk, error).await?;
        }
    }
    Ok(())
}

/// The disks to be resized, and what each is to have; with `look`, checked against the devices.
pub(super) fn resized(
    inner: &Inner,
    state: &GroupState,
    wanted: &[ResizeDisk],
    look: bool,
) -> Result<Vec<Resized>, Error> {
    let mut out: Vec<Resized> = Vec::new();
    for resize in wanted {
        let name = resize.name.to_uppercase();
        let (no, disk) = state.disk_named(&name).ok_or_else(|| no_such_disk(&name))?;
        let unusable =
            |why: String, number| Err(Error::DiskUnusable { disk: name.clone(), why, number });
        match disk.status {
            DiskStatus::Online => {}
            DiskStatus::Offline | DiskStatus::Returning => {
                return unusable("it is offline: no size of it can be changed".into(), 15084);
            }
            DiskStatus::Dropping | DiskStatus::Forcing => {
                return unusable("it is being dropped".into(), 15071);
            }
        }
        if out.iter().any(|(other, _)| *other == no) {
            return unusable("it is named twice".into(), 15054);
        }
        let has = inner.disk(no).map_or(disk.bytes, |d| d.device().geometry().size);
        let bytes = resize.bytes.unwrap_or(has) / BLOCK_U64 * BLOCK_U64;
        if look && bytes > has {
            let (asked, has) = (bytes >> 20, has >> 20);
            let why = format!("SIZE asks for {asked} MB, the disk itself has {has}");
            return unusable(why, 15057);
        }
        if bytes < DISK_BYTES_MIN || au_count(bytes, inner.au_size) < AUS_MIN {
            let least = DISK_BYTES_MIN.max(u64::from(AUS_MIN) * inner.au_size + (9 << 20));
            let (mb, least) = (bytes >> 20, least.div_ceil(1 << 20));
            return unusable(format!("SIZE asks for {mb} MB, at least {least} are needed"), 15036);
        }
        out.push((no, bytes));
    }
    Ok(out)
}

/// The disks of a plan as they will be.
pub(super) fn preview(core: &Core, resized: &[Resized], snapshot: &mut Snapshot) {
    let au_size = u64::from(core.state.header.au_size);
    for (no, bytes) in resized {
        for disk in snapshot.disks.iter_mut().filter(|d| d.disk == DiskNo(*no)) {
            let now = core.state.disks.get(no).map_or(0, |d| d.bytes);
            disk.end = if *bytes < now { au_count(*bytes, au_size) } else { u32::MAX };
            disk.capacity = core.capacity_at(*no, *bytes);
        }
    }
}

/// The operations that begin it, with the core held.
pub(super) fn begin(core: &mut Core, resized: &[Resized]) -> Vec<Op> {
    let au_size = u64::from(core.state.header.au_size);
    let mut ops = Vec::new();
    for &(disk, bytes) in resized {
        let Some((now, shrink_to)) = core.state.disks.get(&disk).map(|d| (d.bytes, d.shrink_to))
        else {
            continue;
        };
        if bytes < now {
            core.space.limit_shrink(disk, au_count(bytes, au_size));
            ops.push(Op::DiskShrink { disk, bytes });
            continue;
        }
        // Cancels any earlier request: the disk keeps what it has.
        core.space.limit_shrink(disk, au_count(now, au_size));
        if bytes > now {
            core.space.resize(disk, au_count(bytes, au_size));
            ops.push(Op::DiskSize { disk, bytes });
        } else if shrink_to > 0 {
            ops.push(Op::DiskShrink { disk, bytes: 0 });
        }
    }
    ops
}
