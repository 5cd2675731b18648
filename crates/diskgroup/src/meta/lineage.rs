//! The lineage check of a disk that was away: it must be the disk that left, not an older image of it,
//! and must not have been used apart from the others meanwhile.
//!
//! When it left, the others noted the id of the last mount that it took part in, and the epoch with
//! which they went on ([`Offline`]). So
//! - its label has that mount id; otherwise it is older, or another mount has used it since
//!   ([`super::marks`]). If a mount has written its label since, it must be one that is known to have
//!   done nothing else;
//! - its newest record is of an earlier epoch than that: a later one was written apart from the others.
//!
//! An image made during the very mount in which the disk left, before it left, goes undetected.

use std::sync::Arc;

use cellar_io::Device;

use crate::base::request_timeout::RequestTimeout;
use crate::error::Error;
use crate::meta::chain::Chain;
use crate::meta::create::check_sector;
use crate::meta::labels::read_labels_within;
use crate::on_disk::Uuid;
use crate::on_disk::label::{Label, LabelStatus};
use crate::refused::Refused;
use crate::state::{DiskState, Offline, Stale};

/// What a disk that came back says of itself.
pub(crate) struct Lineage {
    /// Its newest superblock: generation, and the checkpoint area it names.
    pub superblock: Option<(u64, u8)>,
    /// The mount id of the mount that wrote its label last.
    pub mount_id: u64,
    /// Why it cannot go on from where it left, if so.
    pub diverged: Option<String>,
}

/// Looks at a device that is to be the disk `state` again.
///
/// # Errors
/// It is another disk, or too small, or cannot be read in time.
pub(crate) async fn look(
    device: &Arc<dyn Device>,
    path: &str,
    group: Uuid,
    sector_size: u32,
    state: &DiskState,
    request_timeout: RequestTimeout<'_>,
) -> Result<Lineage, Error> {
    let unusable = |why: String, number| Error::DiskUnusable { disk: path.to_owned(), why, number };
    let geometry = device.geometry();
    if geometry.size < state.bytes {
        let why = format!("it has {} bytes, and the group uses {}", geometry.size, state.bytes);
        return Err(unusable(why, 15057));
    }
    check_sector(device, path, sector_size)?;
    let labels = read_labels_within(device, request_timeout).await.map_err(Error::Io)?;
    let is_it = |label: &&Label| {
        label.group == group && label.disk == state.uuid && label.status == LabelStatus::Member
    };
    let Some(label) = labels.newest().filter(is_it) else {
        return Err(unusable(format!("it is not {}", state.name), 15075));
    };
    let read = Chain::read(device, group, state.uuid);
    let chain = request_timeout.wait(device, cellar_io::Op::Read, read).await.map_err(Error::Io)?;
    let newest = chain.histories(group).into_iter().next();
    let end = newest.as_ref().map(|h| h.end.epoch);
    let refused = newest.is_some_and(|h| h.refused.is_some());
    let diverged = match state.stale {
        Stale::Mapped if refused => Some("it has a log record of a later version".to_owned()),
        Stale::Mapped => diverged(&state.offline, label, end),
        _ => Some("what it missed is not known".to_owned()),
    };
    Ok(Lineage { superblock: chain.newest(), mount_id: label.mount_ids[0], diverged })
}

/// The evidence that a disk with that label, whose newest record has that epoch, has changed since it
/// left.
pub(crate) fn diverged(away: &Offline, label: &Label, newest: Option<u64>) -> Option<String> {
    if !label.mount_ids.contains(&away.mount_id) {
        return Some(Refused::OutOfDate.to_string());
    }
    let apart = "it was used apart from the others since it left".to_owned();
    let known = [away.mount_id, away.tried].contains(&label.mount_ids[0]);
    let ahead = newest.is_some_and(|epoch| epoch >= away.epoch);
    (ahead || !known).then_some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_disk::label::Redundancy;
    use crate::state::OfflineBy;

    fn label(mount_ids: [u64; 2]) -> Label {
        Label {
            features: 0,
            generation: 1,
            group: Uuid(1),
            disk: Uuid(2),
            disk_no: 0,
            status: LabelStatus::Member,
            redundancy: Redundancy::Normal,
            au_size: 1 << 20,
            sector_size: 512,
            disk_bytes: 1 << 30,
            created_ns: 0,
            group_name: "DATA".to_owned(),
            disk_name: "D".to_owned(),
            failgroup: "D".to_owned(),
            holds_catalog: false,
            mount_ids,
        }
    }

    #[test]
    fn only_what_left_comes_back() {
        let away =
            Offline { mount_id: 7, tried: 8, epoch: 9, by: OfflineBy::Itself, drop_after_s: 0 };
        let same = |mount_ids, newest| diverged(&away, &label(mount_ids), newest).is_none();
        assert!(same([7, 6], None), "a disk without metadata");
        assert!(same([7, 6], Some(8)), "a member");
        assert!(same([7, 6], Some(3)), "a member of long ago");
        assert!(same([8, 7], Some(8)), "a mount that was cut off before its first record");
        assert!(!same([6, 5], None), "an older image");
        assert!(!same([9, 8], None), "two mounts apart");
        assert!(!same([9, 7], None), "a mount apart, without metadata on it");
        assert!(!same([7, 6], Some(9)), "went on alone");
    }
}
