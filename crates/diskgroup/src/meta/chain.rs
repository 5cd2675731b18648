//! Reading the metadata of one disk: its superblocks, its log, its checkpoint.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::{Buffer, Device, DeviceExt, Io, IoError, IoErrorKind};
use futures_util::future::join_all;

use crate::on_disk::layout::{
    AU_START, BLOCK, BLOCK_U64, CHUNK_BYTES, LOG_BLOCKS, LOG_START, RECORD_BLOCKS_MAX, SUPERBLOCKS,
    au_offset,
};
use crate::on_disk::superblock::{AuRun, LogPosition, Superblock};
use crate::on_disk::{Damage, Uuid, checkpoint, record};
use crate::state::{GroupState, Op};

/// The metadata that one disk holds, as far as it can be read.
pub(crate) struct Chain {
    /// Every superblock slot: its offset and what was found.
    pub slots: Vec<(u64, Result<Superblock, Damage>)>,
    /// The ring.
    pub ring: Vec<u8>,
}

/// The ring of a disk, as it was read.
pub(crate) struct Ring {
    pub bytes: Vec<u8>,
    /// Blocks that could not be read, by their number in the ring.
    pub unreadable: BTreeMap<u64, IoError>,
}

/// Whether a record that begins at that place of the log may lie in blocks that cannot be read.
fn may_follow(lsn: u64, unreadable: &BTreeMap<u64, IoError>) -> bool {
    // It may be the longest there is, and have a filler before it.
    (lsn..lsn + 2 * RECORD_BLOCKS_MAX).any(|at| unreadable.contains_key(&(at % LOG_BLOCKS)))
}

/// A history that one disk can tell: a checkpoint and the records behind it.
#[derive(Clone)]
pub(crate) struct History {
    pub superblock: Superblock,
    /// The position behind the last record.
    pub end: LogPosition,
    pub records: Vec<Record>,
    /// The next record is whole and in its place, but not understood: a later version wrote it, and
    /// it must be neither ignored nor overwritten.
    pub refused: Option<Damage>,
}

/// A record of a history.
#[derive(Clone)]
pub(crate) struct Record {
    pub at: LogPosition,
    /// Its blocks in the ring; a filler has one.
    pub blocks: u64,
    pub ops: Vec<Op>,
}

impl Record {
    /// Whether the record says nothing, or only where a checkpoint may go. Nobody waits for such a
    /// record, so it does not prove that the records before it were committed.
    fn is_quiet(&self) -> bool {
        self.ops.iter().all(|op| matches!(op, Op::Area { .. }))
    }

    fn bytes(&self, ring: &[u8]) -> Bytes {
        let at = (self.at.lsn % LOG_BLOCKS) as usize * BLOCK;
        Bytes::copy_from_slice(&ring[at..at + self.blocks as usize * BLOCK])
    }
}

/// What a history comes to.
pub(crate) struct Replayed {
    pub state: GroupState,
    /// Earlier metadata sets that may each still be the committed one, as far as this history shows:
    /// no record proves that the later changes were committed.
    pub before: Vec<Vec<u16>>,
}

impl Chain {
    /// Reads the superblock slots and the ring of a disk.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub async fn read(device: &Arc<dyn Device>, group: Uuid, disk: Uuid) -> Result<Chain, IoError> {
        let slots = read_slots(device, group, disk).await?;
        let read = |at, length| device.read_at(Io::FOREGROUND, at, length);
        let Ring { bytes: ring, unreadable } = Chain::read_ring(read).await?;
        let chain = Chain { slots, ring };
        // An unreadable block may be the next record: such a disk does not know where its history
        // ends.
        if let Some((first, error)) = unreadable.first_key_value()
            && chain.histories(group).iter().any(|h| may_follow(h.end.lsn, &unreadable))
        {
            let (offset, length) = (LOG_START + first * BLOCK_U64, BLOCK_U64);
            return Err(IoError { offset, length, ..error.clone() });
        }
        Ok(chain)
    }

    /// Reads the ring of a disk by `read`. A block that cannot be read is zeros there, and told.
    ///
    /// # Errors
    /// The disk cannot be read at all.
    pub async fn read_ring<F>(read: impl Fn(u64, usize) -> F) -> Result<Ring, IoError>
    where
        F: Future<Output = Result<Buffer, IoError>>,
    {
        const STEP: u64 = 1 << 20;
        let bytes = Vec::with_capacity((LOG_BLOCKS * BLOCK_U64) as usize);
        let mut ring = Ring { bytes, unreadable: BTreeMap::new() };
        let pieces = (0..LOG_BLOCKS * BLOCK_U64)
            .step_by(STEP as usize)
            .map(|at| read(LOG_START + at, STEP as usize));
        for piece in join_all(pieces).await {
            let error = match piece {
                Ok(piece) => {
                    ring.bytes.extend_from_slice(&piece);
                    continue;
                }
                Err(error) if error.kind != IoErrorKind::Media => return Err(error),
                Err(error) => error,
            };
            let first = ring.bytes.len() as u64 / BLOCK_U64;
            for block in first..first + STEP / BLOCK_U64 {
                match read(LOG_START + block * BLOCK_U64, BLOCK).await {
                    Ok(bytes) => ring.bytes.extend_from_slice(&bytes),
                    Err(again) if again.kind != IoErrorKind::Media => return Err(again),
                    Err(_) => {
                        ring.bytes.extend_from_slice(&[0; BLOCK]);
                        ring.unreadable.insert(block, error.clone());
                    }
                }
            }
        }
        Ok(ring)
    }

    /// The newest superblock: its generation, and the checkpoint area that it names.
    pub fn newest(&self) -> Option<(u64, u8)> {
        let slots = self.slots.iter().filter_map(|(_, s)| s.as_ref().ok());
        slots.map(|s| (s.generation, s.area)).max()
    }

    /// A superblock that says it was written by a later version, if any.
    pub fn too_new(&self) -> Option<&Damage> {
        self.slots
            .iter()
            .filter_map(|(_, s)| s.as_ref().err())
            .find(|d| matches!(d, Damage::Version { .. } | Damage::Features { .. }))
    }

    /// The histories that the superblocks start, the furthest first.
    pub fn histories(&self, group: Uuid) -> Vec<History> {
        let mut all: Vec<History> = self
            .slots
            .iter()
            .filter_map(|(_, s)| s.as_ref().ok())
            .map(|s| follow(&self.ring, group, s.clone()))
            .collect();
        all.sort_by_key(|h| std::cmp::Reverse((h.end.epoch, h.end.lsn, h.superblock.generation)));
        all
    }
}

/// Reads the superblock slots of a disk.
async fn read_slots(
    device: &Arc<dyn Device>,
    group: Uuid,
    disk: Uuid,
) -> Result<Vec<(u64, Result<Superblock, Damage>)>, IoError> {
    let mut slots = Vec::new();
    for offset in SUPERBLOCKS {
        let block = device.read_at(Io::FOREGROUND, offset, BLOCK).await?;
        let found = Superblock::decode(&block).and_then(|s| {
            if s.group == group && s.disk == disk {
                Ok(s)
            } else {
                Err(Damage::Foreign { what: "another group or disk" })
            }
        });
        slots.push((offset, found));
    }
    Ok(slots)
}

/// Whether a disk has a checkpoint of that group: then the group may be whole.
///
/// # Errors
/// The disk cannot be read.
pub(crate) async fn has_metadata(
    device: &Arc<dyn Device>,
    group: Uuid,
    disk: Uuid,
) -> Result<bool, IoError> {
    Ok(read_slots(device, group, disk).await?.iter().any(|(_, slot)| slot.is_ok()))
}

/// Follows the log from where a superblock says it begins.
pub(crate) fn follow(ring: &[u8], group: Uuid, superblock: Superblock) -> History {
    let mut end = superblock.position;
    let mut records = Vec::new();
    let mut refused = None;
    while end.lsn - superblock.position.lsn < LOG_BLOCKS {
        let Ok((header, payload)) = record::decode(ring, group, end) else { break };
        match Op::get_all(payload) {
            Ok(ops) => {
                let blocks = if payload.is_empty() { 1 } else { header.blocks.into() };
                records.push(Record { at: end, blocks, ops });
                end = header.next();
            }
            Err(damage) => {
                refused = Some(damage);
                break;
            }
        }
    }
    History { superblock, end, records, refused }
}

impl History {
    /// Whether a disk that ends at `other` may be part of this history: it ends where this one ends,
    /// or at a place that this one passed.
    pub fn is_same_as(&self, other: &History) -> bool {
        self.end == other.end
    }

    /// Whether it passed through a place, where it can tell.
    pub fn passed(&self, at: &LogPosition) -> Option<bool> {
        if self.end == *at || self.records.iter().any(|r| r.at == *at) {
            return Some(true);
        }
        (self.superblock.position.lsn <= at.lsn).then_some(false)
    }

    /// The records that a disk lacks which ends at another place, if it can be brought to the end of
    /// this history; from `ring`, the ring of the disk that has this history. They replace records
    /// that only the other disk has.
    pub fn lacked_by(&self, own: &History, ring: &[u8]) -> Option<Vec<(u64, Bytes)>> {
        if self.end.lsn - own.superblock.position.lsn.min(self.end.lsn) > LOG_BLOCKS {
            return None;
        }
        let knows = |at: &LogPosition| own.end == *at || own.records.iter().any(|r| r.at == *at);
        let first = self.records.iter().rposition(|r| knows(&r.at))?;
        Some(self.records[first..].iter().map(|r| (r.at.lsn, r.bytes(ring))).collect())
    }

    /// Reads the checkpoint and applies the records.
    ///
    /// # Errors
    /// The disk cannot be read, or what is on it is damaged.
    pub async fn state(
        &self,
        device: &Arc<dyn Device>,
        au_size: u64,
    ) -> Result<Replayed, ReadError> {
        let read = |at, length| device.read_at(Io::FOREGROUND, at, length);
        let mut state = self.checkpoint(device.geometry().size, au_size, read).await?;
        let before = self.unconfirmed(&state.members);
        for op in self.records.iter().flat_map(|r| &r.ops) {
            state.apply(op)?;
        }
        Ok(Replayed { state, before })
    }

    /// The sets before the last one, back to the one that is known to have been committed;
    /// `members` is the set of the checkpoint.
    fn unconfirmed(&self, members: &[u16]) -> Vec<Vec<u16>> {
        let mut members = members.to_vec();
        let mut before = Vec::new();
        for record in &self.records {
            let old = members.clone();
            let mut names_set = false;
            for op in &record.ops {
                if let Op::Members { members: new } = op {
                    members.clone_from(new);
                    names_set = true;
                }
            }
            if old != members {
                before.push(old);
            } else if !record.is_quiet() && !names_set {
                // A record that names the set it finds may follow a change that did not complete:
                // the disk that failed then was leaving the set.
                before.clear();
            }
        }
        before
    }

    /// Reads the checkpoint that it begins with, by `read`, from a disk of `size` bytes.
    ///
    /// # Errors
    /// The disk cannot be read, or what is on it is damaged.
    pub async fn checkpoint<F>(
        &self,
        size: u64,
        au_size: u64,
        read: impl Fn(u64, usize) -> F,
    ) -> Result<GroupState, ReadError>
    where
        F: Future<Output = Result<Buffer, IoError>>,
    {
        let s = &self.superblock;
        let wanted = u64::from(s.chunks) * CHUNK_BYTES as u64;
        let lengths = s.runs.iter().map(|r| u64::from(r.count) * au_size);
        let room = lengths.fold(0, u64::saturating_add);
        let inside = |r: &AuRun| au_offset(r.start, au_size) + u64::from(r.count) * au_size <= size;
        if room < wanted || wanted > size || !s.runs.iter().all(inside) {
            return Err(Damage::Field { field: "runs", value: room }.into());
        }
        let mut bytes = Vec::with_capacity(wanted as usize);
        for run in &s.runs {
            let start = au_offset(run.start, au_size);
            assert!(start >= AU_START, "by construction");
            let end = start + (u64::from(run.count) * au_size).min(wanted - bytes.len() as u64);
            let mut at = start;
            while at < end {
                let length = (end - at).min(1 << 20) as usize;
                bytes.extend_from_slice(&read(at, length).await?);
                at += length as u64;
            }
        }
        let content =
            checkpoint::decode(s.group, s.position.lsn, s.chunks_crc, s.content_bytes, &bytes)?;
        Ok(GroupState::decode(&content)?)
    }
}

/// Reading failed, or what was read is damaged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] IoError),
    #[error(transparent)]
    Damage(#[from] Damage),
}
