//! Reading the metadata of one disk: its superblocks, its log, its checkpoint.

use std::sync::Arc;

use cellar_io::{Device, DeviceExt, Io, IoError};
use futures_util::future::try_join_all;

use crate::on_disk::layout::{
    AU_START, BLOCK, BLOCK_U64, CHUNK_BYTES, LOG_BLOCKS, LOG_START, SUPERBLOCKS, au_offset,
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

/// A history that one disk can tell: a checkpoint and the records behind it.
pub(crate) struct History {
    pub superblock: Superblock,
    /// The position behind the last record.
    pub end: LogPosition,
    pub records: Vec<Vec<Op>>,
}

impl Chain {
    /// Reads the superblock slots and the ring of a disk.
    ///
    /// # Errors
    /// The disk cannot be read.
    pub async fn read(device: &Arc<dyn Device>, group: Uuid, disk: Uuid) -> Result<Chain, IoError> {
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
        let mut ring = Vec::with_capacity((LOG_BLOCKS * BLOCK_U64) as usize);
        let step = 1 << 20;
        let pieces = (0..LOG_BLOCKS * BLOCK_U64)
            .step_by(step)
            .map(|at| device.read_at(Io::FOREGROUND, LOG_START + at, step));
        for piece in try_join_all(pieces).await? {
            ring.extend_from_slice(&piece);
        }
        Ok(Chain { slots, ring })
    }

    /// The newest superblock: its generation, and the checkpoint area that it names.
    pub fn newest(&self) -> Option<(u64, u8)> {
        let slots = self.slots.iter().filter_map(|(_, s)| s.as_ref().ok());
        slots.map(|s| (s.generation, s.area)).max()
    }

    /// The newest superblock's generation, 0 if there is none.
    pub fn generation(&self) -> u64 {
        self.slots
            .iter()
            .filter_map(|(_, s)| s.as_ref().ok())
            .map(|s| s.generation)
            .max()
            .unwrap_or(0)
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

/// Follows the log from where a superblock says it begins.
fn follow(ring: &[u8], group: Uuid, superblock: Superblock) -> History {
    let mut end = superblock.position;
    let mut records = Vec::new();
    loop {
        if end.lsn - superblock.position.lsn >= LOG_BLOCKS {
            break;
        }
        match record::decode(ring, group, end) {
            Ok((header, payload)) => match Op::get_all(payload) {
                Ok(ops) => {
                    end = header.next();
                    records.push(ops);
                }
                Err(_) => break,
            },
            Err(_) => break,
        }
    }
    History { superblock, end, records }
}

impl History {
    /// Whether a disk that ends at `other` may be a part of this history: it ends where this one
    /// ends, or its end is one of the places this one passed.
    pub fn is_same_as(&self, other: &History) -> bool {
        self.end == other.end
    }

    /// Reads the checkpoint and applies the records. Also tells the metadata set before the last
    /// record, if that record changed it.
    ///
    /// # Errors
    /// The disk cannot be read, or what is on it is damaged.
    pub async fn state(
        &self,
        device: &Arc<dyn Device>,
        au_size: u64,
    ) -> Result<(GroupState, Option<Vec<u16>>), ReadError> {
        let s = &self.superblock;
        let wanted = u64::from(s.chunks) * CHUNK_BYTES as u64;
        let size = device.geometry().size;
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
                bytes.extend_from_slice(&device.read_at(Io::FOREGROUND, at, length).await?);
                at += length as u64;
            }
        }
        let content =
            checkpoint::decode(s.group, s.position.lsn, s.chunks_crc, s.content_bytes, &bytes)?;
        let mut state = GroupState::decode(&content)?;
        let mut before = state.members.clone();
        for record in &self.records {
            before.clone_from(&state.members);
            for op in record {
                state.apply(op)?;
            }
        }
        let changed = (before != state.members).then_some(before);
        Ok((state, changed))
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
