//! A record of the metadata log: a header and a payload of operations, padded to whole blocks.
//! Records are chained: each names the checksum and the mount id of the one before it.

use super::layout::{BLOCK, LOG_BLOCKS, RECORD_BLOCKS_MAX};
use super::superblock::LogPosition;
use super::{Damage, Fields, FieldsMut, Uuid, check_head, magic, seal};

const MAGIC: u32 = magic(b"CLLR");
/// Bytes of a record before its payload.
pub const RECORD_HEADER: usize = 80;
/// The largest payload.
pub const PAYLOAD_MAX: usize = RECORD_BLOCKS_MAX as usize * BLOCK - RECORD_HEADER;

/// The header of a record, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Number of the record's first block in the endless log.
    pub lsn: u64,
    /// The epoch in force after the record.
    pub epoch: u64,
    /// A random number for the mount that wrote it.
    pub mount_id: u64,
    /// The mount id of the record before it.
    pub previous_mount: u64,
    /// The checksum of the record before it.
    pub previous_crc: u32,
    /// Blocks up to the next record; a filler counts to the end of the ring.
    pub blocks: u32,
    /// Bytes of payload; 0 for a filler.
    pub payload_bytes: u32,
    /// This record's checksum.
    pub crc: u32,
}

/// Encodes a record at `position`; returns its bytes (whole blocks) and the position behind it.
pub fn encode(
    group: Uuid,
    position: LogPosition,
    epoch: u64,
    mount_id: u64,
    payload: &[u8],
) -> (Vec<u8>, LogPosition) {
    assert!(payload.len() <= PAYLOAD_MAX, "a batch is cut before it outgrows a record");
    let bytes = (RECORD_HEADER + payload.len()).next_multiple_of(BLOCK);
    let mut out = vec![0; bytes];
    out[RECORD_HEADER..RECORD_HEADER + payload.len()].copy_from_slice(payload);
    let blocks = (bytes / BLOCK) as u64;
    finish(&mut out, group, position, epoch, mount_id, blocks, payload.len());
    let next = behind(&out, position, epoch, mount_id, blocks);
    (out, next)
}

/// Encodes a filler of one block that stands for everything up to the end of the ring.
pub fn encode_filler(group: Uuid, position: LogPosition, mount_id: u64) -> (Vec<u8>, LogPosition) {
    let blocks = LOG_BLOCKS - position.lsn % LOG_BLOCKS;
    let mut out = vec![0; BLOCK];
    finish(&mut out, group, position, position.epoch, mount_id, blocks, 0);
    let next = behind(&out, position, position.epoch, mount_id, blocks);
    (out, next)
}

fn finish(
    out: &mut [u8],
    group: Uuid,
    position: LogPosition,
    epoch: u64,
    mount_id: u64,
    blocks: u64,
    payload: usize,
) {
    out.put_u32(0, MAGIC);
    out.put_u32(8, u32::try_from(blocks).expect("at most a ring"));
    out.put_u32(12, u32::try_from(payload).expect("at most a ring"));
    out.put_u64(16, position.lsn);
    out.put_u64(24, epoch);
    out.put_u64(32, mount_id);
    out.put_u64(40, position.previous_mount);
    out.put_u32(48, position.previous_crc);
    out.put_uuid(56, group);
    seal(out, 4);
}

fn behind(out: &[u8], at: LogPosition, epoch: u64, mount_id: u64, blocks: u64) -> LogPosition {
    LogPosition {
        lsn: at.lsn + blocks,
        previous_crc: out.u32_at(4),
        previous_mount: mount_id,
        epoch,
    }
}

/// Reads the record that should stand at `position`; `ring` is the whole ring as read from a disk.
/// Returns its header and payload.
///
/// # Errors
/// What is wrong; at the end of the log that is the normal case.
pub fn decode(
    ring: &[u8],
    group: Uuid,
    position: LogPosition,
) -> Result<(RecordHeader, &[u8]), Damage> {
    let (header, payload) = whole_at(ring, group, position.lsn)?;
    if header.previous_crc != position.previous_crc
        || header.previous_mount != position.previous_mount
        || header.epoch < position.epoch
    {
        return Err(Damage::Foreign { what: "another history" });
    }
    Ok((header, payload))
}

/// Reads the record that stands at `lsn`, whatever came before it.
///
/// # Errors
/// As [`decode`].
pub fn whole_at(ring: &[u8], group: Uuid, lsn: u64) -> Result<(RecordHeader, &[u8]), Damage> {
    assert_eq!(ring.len() as u64, LOG_BLOCKS * BLOCK as u64, "the whole ring");
    let at = (lsn % LOG_BLOCKS) as usize * BLOCK;
    let rest = &ring[at..];
    let head = &rest[..BLOCK];
    if head.u32_at(0) != MAGIC {
        return Err(Damage::Magic { found: head.u32_at(0), expected: MAGIC });
    }
    let (blocks, payload_bytes) = (head.u32_at(8), head.u32_at(12));
    let stored = match payload_bytes {
        0 => BLOCK,
        n => (RECORD_HEADER + n as usize).next_multiple_of(BLOCK),
    };
    let fits = blocks >= 1 && blocks as usize * BLOCK <= rest.len() && stored <= rest.len();
    if !fits || (payload_bytes > 0 && blocks as usize * BLOCK != stored) {
        return Err(Damage::Field { field: "blocks", value: blocks.into() });
    }
    check_head(&rest[..stored], MAGIC)?;
    let header = RecordHeader {
        lsn: head.u64_at(16),
        epoch: head.u64_at(24),
        mount_id: head.u64_at(32),
        previous_mount: head.u64_at(40),
        previous_crc: head.u32_at(48),
        blocks,
        payload_bytes,
        crc: head.u32_at(4),
    };
    let what = if head.uuid_at(56) != group {
        "another group"
    } else if header.lsn != lsn {
        "another lap of the ring"
    } else {
        return Ok((header, &rest[RECORD_HEADER..RECORD_HEADER + payload_bytes as usize]));
    };
    Err(Damage::Foreign { what })
}

impl RecordHeader {
    /// The position behind this record.
    pub fn next(&self) -> LogPosition {
        LogPosition {
            lsn: self.lsn + u64::from(self.blocks),
            previous_crc: self.crc,
            previous_mount: self.mount_id,
            epoch: self.epoch,
        }
    }
}
