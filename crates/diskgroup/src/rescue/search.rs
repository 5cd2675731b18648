//! Search of one disk for metadata when its labels or its superblocks are gone.
//!
//! Both stand in the first and the last MiB. Further in, a disk with metadata has the log ring and two
//! checkpoints, whose chunks name group, place and log position; and every disk has the checksum blocks
//! of its first area, which name the disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use cellar_io::{Device, DeviceExt, Io, IoError};

use crate::codec::Reader;
use crate::meta::chain::{Chain, History, Ring, follow};
use crate::meta::found::FoundDisk;
use crate::meta::labels::read_labels;
use crate::on_disk::checkpoint::{self, CHUNK_CONTENT, ChunkHead};
use crate::on_disk::checksum::ChecksumBlock;
use crate::on_disk::label::{Label, LabelStatus};
use crate::on_disk::layout::{
    AU_SIZE_MAX, AU_SIZE_MIN, AU_START, BLOCK, BLOCK_U64, CHUNK_BYTES, DISK_BYTES_MIN, LOG_BLOCKS,
    SUPERBLOCKS, au_count, au_offset,
};
use crate::on_disk::superblock::{AuRun, LogPosition, Superblock};
use crate::on_disk::{Uuid, record};
use crate::state::GroupState;

/// What is read at once.
const STEP: u64 = 1 << 20;

/// What a disk tells.
pub(super) struct Seen {
    pub found: FoundDisk,
    /// The newest label, if any can be read, and its disk is a member.
    pub label: Option<Label>,
    /// Its label says that it left its group.
    pub former: Option<Label>,
    /// Superblocks that are whole, of the group of the label.
    pub superblocks: Vec<Superblock>,
    /// The low 64 bits of all identities that checksum blocks name: also of groups that were here before.
    pub lows: BTreeSet<u64>,
    /// Checkpoints that can be put together without a superblock.
    pub loose: Vec<Loose>,
    pub ring: Vec<u8>,
    /// Groups whose disk it may be.
    pub groups: BTreeSet<Uuid>,
}

/// A checkpoint without a superblock.
#[derive(Clone)]
pub(super) struct Loose {
    pub state: GroupState,
    /// All but the identity of the disk and the generation.
    pub superblock: Superblock,
}

/// Looks at a disk.
///
/// # Errors
/// It is too small to be one, or cannot be read at all.
pub(super) async fn look(found: FoundDisk) -> Result<Seen, IoError> {
    let device = &found.device;
    let size = device.geometry().size;
    if size < DISK_BYTES_MIN {
        let kind = cellar_io::IoErrorKind::OutOfRange { size };
        let name = &device.geometry().name;
        return Err(IoError::new(kind, name, cellar_io::Op::Read, 0, DISK_BYTES_MIN));
    }
    // Labels that cannot be read are labels that are lost.
    let newest = read_labels(device).await.ok().and_then(|scan| scan.newest().cloned());
    let (label, former) = match newest {
        Some(label) if label.status == LabelStatus::Former => (None, Some(label)),
        label => (label, None),
    };
    let mut superblocks = superblocks(device).await;
    if let Some(label) = &label {
        superblocks.retain(|s| (s.group, s.disk) == (label.group, label.disk));
    }
    let Ring { bytes: ring, .. } =
        Chain::read_ring(|at, length| device.read_at(Io::FOREGROUND, at, length)).await?;
    let au_size = label.as_ref().map(|l| u64::from(l.au_size));
    let mut loose = loose(device, au_size, &ring).await;
    // A disk that says which group it belongs to has remains of no other.
    let named = superblocks.iter().max_by_key(|s| s.generation).map(|s| s.group);
    let own = label.as_ref().map(|l| l.group).or(named);
    let mut groups: BTreeSet<Uuid> = match own {
        Some(group) => BTreeSet::from([group]),
        None => loose.iter().map(|l| l.state.header.uuid).collect(),
    };
    loose.retain(|l| groups.contains(&l.state.header.uuid));
    superblocks.retain(|s| groups.contains(&s.group));
    let lows = match (own, &former) {
        (None, None) => identities(device).await,
        _ => BTreeSet::new(),
    };
    if former.is_some() {
        // Its metadata dates from before it left.
        groups.clear();
        superblocks.clear();
        loose.clear();
    }
    Ok(Seen { label, former, superblocks, lows, loose, ring, groups, found })
}

impl Seen {
    /// The histories of a group that this disk tells, and whether a superblock names them.
    pub fn histories(&self, group: Uuid) -> Vec<(bool, History)> {
        let named = self.superblocks.iter().filter(|s| s.group == group);
        let named = named.map(|s| (true, follow(&self.ring, group, s.clone())));
        let loose = self.loose.iter().filter(|l| l.state.header.uuid == group);
        let loose = loose.map(|l| (false, follow(&self.ring, group, l.superblock.clone())));
        named.chain(loose).collect()
    }

    /// Whether its own log has the last record of a history: then it was there to the end.
    pub fn has_end_of(&self, history: &History, group: Uuid) -> bool {
        let at = history.records.last().map(|r| r.at.lsn);
        let record = at.and_then(|lsn| record::whole_at(&self.ring, group, lsn).ok());
        record.is_some_and(|(header, _)| header.next() == history.end)
    }
}

/// The superblocks that are whole; one that cannot be read is one that is lost.
async fn superblocks(device: &Arc<dyn Device>) -> Vec<Superblock> {
    let mut out = Vec::new();
    for offset in SUPERBLOCKS {
        let Ok(block) = device.read_at(Io::FOREGROUND, offset, BLOCK).await else { continue };
        out.extend(Superblock::decode(&block));
    }
    out
}

/// The identities that the checksum blocks of the first AU name, however large it may be.
async fn identities(device: &Arc<dyn Device>) -> BTreeSet<u64> {
    let mut out = BTreeSet::new();
    let end = AU_SIZE_MAX.min(device.geometry().size - AU_START);
    for at in (0..end / STEP * STEP).step_by(STEP as usize) {
        let read = device.read_at(Io::SCAN, AU_START + at, STEP as usize).await;
        // What cannot be read names nobody.
        let Ok(blocks) = read else { continue };
        let of =
            |(i, block): (usize, &[u8])| ChecksumBlock::disk_of(block, at / BLOCK_U64 + i as u64);
        out.extend(blocks.chunks_exact(BLOCK).enumerate().filter_map(of));
    }
    out
}

/// Checkpoints that can be put together without a superblock: they begin where the two areas of
/// every disk begin.
async fn loose(device: &Arc<dyn Device>, au_size: Option<u64>, ring: &[u8]) -> Vec<Loose> {
    let sizes = std::iter::successors(Some(AU_SIZE_MIN), |s| (*s < AU_SIZE_MAX).then_some(s * 2));
    let mut out: Vec<Loose> = Vec::new();
    for size in sizes.filter(|size| au_size.is_none_or(|known| known == *size)) {
        for au in [1, 2] {
            out.extend(checkpoint_at(device, size, au, ring).await);
        }
    }
    out
}

/// The chunk at a place, if there is one and it is whole.
async fn chunk_at(device: &Arc<dyn Device>, at: u64) -> Option<(ChunkHead, Vec<u8>)> {
    if at + CHUNK_BYTES as u64 > device.geometry().size {
        return None;
    }
    let block = device.read_at(Io::SCAN, at, BLOCK).await.ok()?;
    if !checkpoint::may_be_chunk(&block) {
        return None;
    }
    let bytes = device.read_at(Io::SCAN, at, CHUNK_BYTES).await.ok()?;
    let (head, content) = checkpoint::chunk(&bytes).ok()?;
    Some((head, content.to_vec()))
}

/// The checkpoint that begins in an AU.
async fn checkpoint_at(
    device: &Arc<dyn Device>,
    au_size: u64,
    first: u32,
    ring: &[u8],
) -> Option<Loose> {
    let (head, content) = chunk_at(device, au_offset(first, au_size)).await?;
    let (_, header) = GroupState::header_of(&mut Reader::new(&content)).ok()?;
    if head.number != 0 || u64::from(header.au_size) != au_size || header.uuid != head.group {
        return None;
    }
    let mut parts = Parts { content: Vec::new(), crcs: 0, chunks: 0, runs: Vec::new(), head };
    let mut au = first;
    while !parts.take_au(device, au, au_size).await? {
        match next_au(device, au, au_size, &parts).await {
            Some(next) => au = next,
            // The last chunk may be full to its end: the content tells.
            None => break,
        }
    }
    let state = GroupState::decode(&parts.content).ok()?;
    let superblock = Superblock {
        features: 0,
        generation: 0,
        group: head.group,
        disk: Uuid(0),
        position: position(ring, head.group, head.lsn, state.epoch),
        area: 0,
        chunks: parts.chunks,
        chunks_crc: parts.crcs,
        content_bytes: parts.content.len() as u64,
        runs: parts.runs,
    };
    Some(Loose { state, superblock })
}

/// A checkpoint that is being put together.
struct Parts {
    head: ChunkHead,
    content: Vec<u8>,
    crcs: u32,
    chunks: u32,
    runs: Vec<AuRun>,
}

impl Parts {
    fn is_next(&self, head: &ChunkHead) -> bool {
        (head.group, head.lsn, head.number) == (self.head.group, self.head.lsn, self.chunks)
    }

    /// Takes the chunks of an AU; whether that was the end. `None`: it is not whole.
    async fn take_au(&mut self, device: &Arc<dyn Device>, au: u32, au_size: u64) -> Option<bool> {
        match self.runs.last_mut().filter(|run| run.start + run.count == au) {
            Some(run) => run.count += 1,
            None => self.runs.push(AuRun { start: au, count: 1 }),
        }
        if self.runs.len() > crate::on_disk::superblock::RUNS_MAX {
            return None;
        }
        let start = au_offset(au, au_size);
        for at in (start..start + au_size).step_by(CHUNK_BYTES) {
            let Some((head, content)) = chunk_at(device, at).await else {
                return (self.chunks > 0).then_some(true);
            };
            if !self.is_next(&head) {
                return (self.chunks > 0).then_some(true);
            }
            self.content.extend_from_slice(&content);
            self.crcs = crc32c::crc32c_append(self.crcs, &head.crc.to_le_bytes());
            self.chunks += 1;
            if content.len() < CHUNK_CONTENT {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// AUs that are searched for the next chunk: a bad chunk must not mean reading a whole disk.
const AUS_LOOKED_AT: usize = 4096;

/// The AU with the next chunk: areas grow by AUs that may lie anywhere, most likely near.
async fn next_au(device: &Arc<dyn Device>, au: u32, au_size: u64, parts: &Parts) -> Option<u32> {
    let end = au_count(device.geometry().size, au_size);
    for au in (au + 1..end).chain(1..au).take(AUS_LOOKED_AT) {
        let found = chunk_at(device, au_offset(au, au_size)).await;
        if found.is_some_and(|(head, _)| parts.is_next(&head)) {
            return Some(au);
        }
    }
    None
}

/// The place in the log behind a checkpoint, as the records around it tell.
fn position(ring: &[u8], group: Uuid, lsn: u64, epoch: u64) -> LogPosition {
    if let Ok((header, _)) = record::whole_at(ring, group, lsn) {
        let (previous_crc, previous_mount) = (header.previous_crc, header.previous_mount);
        return LogPosition { lsn, previous_crc, previous_mount, epoch };
    }
    let before = (1..=LOG_BLOCKS.min(lsn)).find_map(|back| {
        let (header, _) = record::whole_at(ring, group, lsn - back).ok()?;
        (header.next().lsn == lsn).then(|| header.next())
    });
    before.unwrap_or(LogPosition { lsn, previous_crc: 0, previous_mount: 0, epoch })
}
