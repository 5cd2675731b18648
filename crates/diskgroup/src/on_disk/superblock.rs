//! The superblock: where this disk's newest checkpoint lies and where its log begins. Four slots,
//! written in turn, so that the newest one is never overwritten.

use super::layout::{BLOCK, FEATURES_KNOWN, FORMAT_VERSION};
use super::{Block, Damage, Fields, FieldsMut, Uuid, check_counter, check_head, magic, seal};

const MAGIC: u32 = magic(b"CLSB");
const RUNS_AT: usize = 144;
/// Runs of AUs that a superblock can name.
pub const RUNS_MAX: usize = (BLOCK - RUNS_AT) / 8;

/// Neighbouring AUs of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuRun {
    /// The first AU.
    pub start: u32,
    /// How many.
    pub count: u32,
}

/// AUs in all runs of an area.
pub fn aus_in(runs: &[AuRun]) -> u32 {
    runs.iter().fold(0, |aus, run| aus.saturating_add(run.count))
}

/// The AUs of an area, in order.
pub fn aus_of(runs: &[AuRun]) -> impl Iterator<Item = u32> {
    runs.iter().flat_map(|run| run.start..run.start.saturating_add(run.count))
}

/// What of an area lies before AU `end`.
pub fn runs_before(runs: &[AuRun], end: u32) -> Vec<AuRun> {
    let before = |run: &AuRun| {
        let count = run.count.min(end.saturating_sub(run.start));
        (count > 0).then_some(AuRun { start: run.start, count })
    };
    runs.iter().filter_map(before).collect()
}

/// A place in the endless metadata log: the number of its block, and what the record before it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LogPosition {
    /// Number of the next block to be written, counted from the creation of the group.
    pub lsn: u64,
    /// CRC-32C of the record that ends just before it.
    pub previous_crc: u32,
    /// The id of the mount in which that record was written.
    pub previous_mount: u64,
    /// The epoch in force after that record.
    pub epoch: u64,
}

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Features that must be known to read the checkpoint.
    pub features: u64,
    /// Counts the superblocks written on this disk; the slot is it modulo 4.
    pub generation: u64,
    /// The group.
    pub group: Uuid,
    /// This disk.
    pub disk: Uuid,
    /// State as of this position is in the checkpoint; the log goes on from here.
    pub position: LogPosition,
    /// Which of the two checkpoint areas (0 or 1) holds it.
    pub area: u8,
    /// Chunks of the checkpoint.
    pub chunks: u32,
    /// CRC-32C over the CRCs of all chunks, in order.
    pub chunks_crc: u32,
    /// Bytes of the checkpoint's content.
    pub content_bytes: u64,
    /// The AUs of this disk that hold it.
    pub runs: Vec<AuRun>,
}

impl Superblock {
    /// The block that says so.
    pub fn encode(&self) -> Block {
        assert!(self.runs.len() <= RUNS_MAX, "the allocator keeps checkpoint areas in few runs");
        let mut block = Block::default();
        let b = &mut block.0[..];
        b.put_u32(0, MAGIC);
        b.put_u16(8, FORMAT_VERSION);
        b[10] = self.area;
        b.put_u64(16, self.features);
        b.put_u64(24, self.generation);
        b.put_uuid(32, self.group);
        b.put_uuid(48, self.disk);
        b.put_u64(64, self.position.lsn);
        b.put_u64(72, self.position.epoch);
        b.put_u64(80, self.position.previous_mount);
        b.put_u32(88, self.position.previous_crc);
        b.put_u32(92, self.chunks);
        b.put_u32(96, self.chunks_crc);
        b.put_u64(104, self.content_bytes);
        b.put_u16(112, u16::try_from(self.runs.len()).expect("at most RUNS_MAX"));
        for (i, run) in self.runs.iter().enumerate() {
            b.put_u32(RUNS_AT + i * 8, run.start);
            b.put_u32(RUNS_AT + i * 8 + 4, run.count);
        }
        seal(b, 4);
        block
    }

    /// Reads a superblock.
    ///
    /// # Errors
    /// What is wrong with the block.
    pub fn decode(b: &[u8]) -> Result<Superblock, Damage> {
        assert_eq!(b.len(), BLOCK, "a superblock is one block");
        check_head(b, MAGIC)?;
        let version = b.u16_at(8);
        if version > FORMAT_VERSION {
            return Err(Damage::Version { found: version, supported: FORMAT_VERSION });
        }
        let features = b.u64_at(16);
        if features & !FEATURES_KNOWN != 0 {
            return Err(Damage::Features { bits: features & !FEATURES_KNOWN });
        }
        if b[10] > 1 {
            return Err(Damage::Field { field: "area", value: b[10].into() });
        }
        check_counter("generation", b.u64_at(24))?;
        check_counter("lsn", b.u64_at(64))?;
        check_counter("epoch", b.u64_at(72))?;
        let count = usize::from(b.u16_at(112));
        if count > RUNS_MAX {
            return Err(Damage::Field { field: "runs", value: count as u64 });
        }
        let runs = (0..count)
            .map(|i| AuRun {
                start: b.u32_at(RUNS_AT + i * 8),
                count: b.u32_at(RUNS_AT + i * 8 + 4),
            })
            .collect();
        Ok(Superblock {
            features,
            generation: b.u64_at(24),
            group: b.uuid_at(32),
            disk: b.uuid_at(48),
            position: LogPosition {
                lsn: b.u64_at(64),
                epoch: b.u64_at(72),
                previous_mount: b.u64_at(80),
                previous_crc: b.u32_at(88),
            },
            area: b[10],
            chunks: b.u32_at(92),
            chunks_crc: b.u32_at(96),
            content_bytes: b.u64_at(104),
            runs,
        })
    }
}
