//! Reading and writing the labels of a disk.

use std::ops::Range;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{Device, DeviceExt, Durability, Io, IoError, IoErrorKind, Op};

use crate::base::request_timeout::RequestTimeout;
use crate::disk::Disk;
use crate::on_disk::Damage;
use crate::on_disk::label::{Label, LabelStatus};
use crate::on_disk::layout::{BLOCK, BLOCK_U64, DISK_BYTES_MIN, LABEL_HEAD, LABEL_TAIL};
use crate::state::DiskState;

/// What stands in the four label slots of a disk.
#[derive(Clone, Debug)]
pub struct LabelScan {
    /// Per slot: where it stands and what was found.
    pub slots: Vec<(u64, Result<Label, Damage>)>,
}

impl LabelScan {
    /// The newest label. The slots at the end move when the device grows, to where another disk may
    /// have left its own: what the head says of who this is counts.
    pub fn newest(&self) -> Option<&Label> {
        let whole = || self.slots.iter().filter_map(|(at, l)| Some((*at, l.as_ref().ok()?)));
        let by_age = |(_, label): &(u64, &Label)| label.generation;
        let head = whole().filter(|(at, _)| LABEL_HEAD.contains(at)).max_by_key(by_age);
        let of_head = |label: &Label| head.is_none_or(|(_, head)| head.disk == label.disk);
        whole().filter(|(_, label)| of_head(label)).max_by_key(by_age).map(|(_, label)| label)
    }

    /// Why the disk is not understood, if it has no label at all: the most informative damage (a later
    /// version before a bad checksum before nothing).
    pub fn damage(&self) -> Option<&Damage> {
        let rank = |d: &Damage| match d {
            Damage::Version { .. } | Damage::Features { .. } => 3,
            Damage::Checksum | Damage::Field { .. } => 2,
            Damage::Magic { .. } | Damage::Foreign { .. } | Damage::Truncated => 1,
            Damage::Blank => 0,
        };
        self.slots.iter().filter_map(|(_, l)| l.as_ref().err()).max_by_key(|d| rank(d))
    }
}

/// Where the label slots of a disk of `size` bytes stand.
pub fn label_offsets(size: u64) -> [u64; 4] {
    let end = size / BLOCK_U64 * BLOCK_U64;
    [LABEL_HEAD[0], LABEL_HEAD[1], end - LABEL_TAIL[0], end - LABEL_TAIL[1]]
}

/// Reads all label slots. A slot that cannot be read counts as damaged: the others may do.
///
/// # Errors
/// None of the slots can be read.
#[boxed]
pub async fn read_labels(device: &Arc<dyn Device>) -> Result<LabelScan, IoError> {
    scan(device, None).await
}

async fn scan(
    device: &Arc<dyn Device>,
    request_timeout: Option<RequestTimeout<'_>>,
) -> Result<LabelScan, IoError> {
    let size = device.geometry().size;
    if size < LABEL_HEAD[0] + BLOCK_U64 {
        return Ok(LabelScan { slots: vec![(0, Err(Damage::Blank))] });
    }
    let mut slots = Vec::new();
    let mut failure = None;
    // A disk that is too small may have been cut off, and its label tells which it was.
    let here = match size < DISK_BYTES_MIN {
        true => LABEL_HEAD.into_iter().filter(|at| at + BLOCK_U64 <= size).collect(),
        false => label_offsets(size).to_vec(),
    };
    for offset in here {
        let read = device.read_at(Io::FOREGROUND, offset, BLOCK);
        let read = match request_timeout {
            Some(request_timeout) => request_timeout.wait(device, Op::Read, read).await,
            None => read.await,
        };
        match read {
            Ok(block) => slots.push((offset, Label::decode(&block))),
            // A disk that does not answer is not asked four times.
            Err(error) if matches!(error.kind, IoErrorKind::Timeout { .. }) => return Err(error),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if slots.is_empty() => Err(error),
        _ => Ok(LabelScan { slots }),
    }
}

/// Reads all label slots, as [`read_labels`] does, of a disk that may never answer.
///
/// # Errors
/// None of the slots can be read in time.
pub(crate) async fn read_labels_within(
    device: &Arc<dyn Device>,
    request_timeout: RequestTimeout<'_>,
) -> Result<LabelScan, IoError> {
    scan(device, Some(request_timeout)).await
}

/// Writes `label` to all four slots, those that do not hold the newest copy first, with a flush
/// between: at every moment one slot holds a whole label.
///
/// # Errors
/// The first request that failed, or was not answered in time.
pub(crate) async fn write_labels(
    device: &Arc<dyn Device>,
    label: &Label,
    request_timeout: RequestTimeout<'_>,
) -> Result<(), IoError> {
    let old = read_labels_within(device, request_timeout).await?;
    let newest = old.newest().map(|l| l.generation);
    let holds_newest = |at: u64| {
        old.slots.iter().any(|(o, l)| *o == at && l.as_ref().ok().map(|l| l.generation) == newest)
    };
    let (later, first): (Vec<u64>, Vec<u64>) = label_offsets(device.geometry().size)
        .into_iter()
        .partition(|at| newest.is_some() && holds_newest(*at));
    // When every slot holds the newest copy, the first two are as good as any to begin with.
    let (first, later) =
        if first.is_empty() { (later[..2].to_vec(), later[2..].to_vec()) } else { (first, later) };
    let mut label = label.clone();
    label.generation = newest.unwrap_or(0) + 1;
    let block = Bytes::from(label.encode().0.to_vec());
    for half in [first, later] {
        for at in half {
            let write = device.write_at(Io::COMMIT, at, block.clone(), Durability::Cached);
            request_timeout.wait(device, Op::Write, write).await?;
        }
        request_timeout.wait(device, Op::Flush, device.flush(Io::COMMIT)).await?;
    }
    Ok(())
}

/// The bytes at each end of a disk that are overwritten when it joins a group: marks of arrays, file
/// systems and partition tables are there, and software that believes them would overwrite the group.
pub(crate) const MARKS_BYTES: u64 = 1 << 20;

/// Overwrites both ends of a disk with zeros, but for the labels. Not yet durable.
///
/// # Errors
/// The first request that failed, or was not answered in time.
pub(crate) async fn blank_marks(
    device: &Arc<dyn Device>,
    request_timeout: RequestTimeout<'_>,
) -> Result<(), IoError> {
    let end = device.geometry().size / BLOCK_U64 * BLOCK_U64;
    let mut labels = label_offsets(end);
    labels.sort_unstable();
    for range in [0..MARKS_BYTES, end - MARKS_BYTES..end] {
        let mut at = range.start;
        for label in labels.into_iter().filter(|label| range.contains(label)) {
            blank_range(device, at..label, request_timeout).await?;
            at = label + BLOCK_U64;
        }
        blank_range(device, at..range.end, request_timeout).await?;
    }
    Ok(())
}

/// Overwrites a range with zeros. Not yet durable.
///
/// # Errors
/// The first request that failed, or was not answered in time.
pub(crate) async fn blank_range(
    device: &Arc<dyn Device>,
    range: Range<u64>,
    request_timeout: RequestTimeout<'_>,
) -> Result<(), IoError> {
    const STEP: u64 = 1 << 20;
    let zeros = Bytes::from(vec![0; STEP as usize]);
    let mut at = range.start;
    while at < range.end {
        let length = (STEP - at % STEP).min(range.end - at);
        let data = zeros.slice(..length as usize);
        let write = device.write_at(Io::FOREGROUND, at, data, Durability::Cached);
        request_timeout.wait(device, Op::Write, write).await?;
        at += length;
    }
    Ok(())
}

/// Gives the label of a disk of a mounted group another status, durably.
///
/// # Errors
/// The disk has no label, or could not be written in time. It has failed.
pub(crate) async fn relabel(
    disk: &Disk,
    status: LabelStatus,
    request_timeout: RequestTimeout<'_>,
) -> Result<(), IoError> {
    change_label(disk, request_timeout, |label| Label { status, ..label.clone() }).await
}

/// Updates the label of a disk of a mounted group to its current name and size, and with `mount ids` also
/// to the mounts that use and used it, durably.
///
/// # Errors
/// As [`relabel`].
pub(crate) async fn rewrite_label(
    disk: &Disk,
    state: &DiskState,
    mount_ids: Option<[u64; 2]>,
    request_timeout: RequestTimeout<'_>,
) -> Result<(), IoError> {
    let (disk_bytes, disk_name) = (state.bytes, state.name.clone());
    let rewritten = |label: &Label| Label {
        disk_bytes,
        disk_name,
        mount_ids: mount_ids.unwrap_or(label.mount_ids),
        ..label.clone()
    };
    change_label(disk, request_timeout, rewritten).await
}

async fn change_label(
    disk: &Disk,
    request_timeout: RequestTimeout<'_>,
    change: impl FnOnce(&Label) -> Label,
) -> Result<(), IoError> {
    let device = disk.device();
    let written = async {
        let scan = read_labels_within(device, request_timeout).await?;
        let label = scan.newest().ok_or_else(|| {
            let kind = IoErrorKind::Gone { reason: "its label is gone" };
            IoError::new(kind, &device.geometry().name, Op::Read, 0, 0)
        })?;
        write_labels(device, &change(label), request_timeout).await
    };
    let written = written.await;
    if let Err(error) = &written {
        disk.fail(error.clone());
    }
    written
}
