//! A log block: a header of 40 bytes, then a piece of the stream of records.

use super::{Damage, DatabaseId, Fields, check_abn, put};
use crate::lsn::Abn;

/// Bytes of the header.
pub const BLOCK_HEADER: usize = 40;
/// Magic and version: "R1".
pub const BLOCK_MAGIC: u16 = u16::from_le_bytes(*b"R1");
/// No record begins in the block.
const NO_RECORD: u16 = 0xFFFF;

/// The first block of a unit.
pub const FIRST: u16 = 1;
/// The last block of a unit.
pub const LAST: u16 = 2;
/// The last block of its group: the log continues in the next one.
pub const SWITCH: u16 = 4;
/// Holds no record; written to make the watermark cover the blocks before it.
pub const HEARTBEAT: u16 = 8;
/// The first block of an incarnation.
pub const INCARNATION_START: u16 = 16;
const FLAGS_KNOWN: u16 = FIRST | LAST | SWITCH | HEARTBEAT | INCARNATION_START;

/// The seed of the checksums of one incarnation of one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    /// The seed of that incarnation.
    pub fn new(database: DatabaseId, incarnation: u32) -> Seed {
        let crc = crc32c::crc32c(&database.0.to_le_bytes());
        Seed(crc32c::crc32c_append(crc, &incarnation.to_le_bytes()))
    }
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// `FIRST`, `LAST`, `SWITCH`, `HEARTBEAT`, `INCARNATION_START`.
    pub flags: u16,
    /// Its number.
    pub abn: Abn,
    /// The opening of the log that wrote it.
    pub incarnation: u32,
    /// The CRC of the block before it.
    pub chain: u32,
    /// When the block was built, every block below this one was acknowledged as durable.
    pub durable: Abn,
    /// Blocks of the unit that it belongs to.
    pub unit_blocks: u16,
    /// Its place in the unit, from 0.
    pub unit_index: u16,
    /// Bytes of the block in use, header included.
    pub used: u16,
    /// Where the first record that begins in the block begins.
    pub first_record: Option<u16>,
}

impl BlockHeader {
    /// Whether all bits of `flag` are set.
    pub fn is(&self, flag: u16) -> bool {
        self.flags & flag == flag
    }

    /// Writes the header into `block`, whose payload and padding are in place, and seals it.
    /// Returns the block's CRC.
    pub fn seal(&self, block: &mut [u8], seed: Seed) -> u32 {
        put(block, 4, BLOCK_MAGIC.to_le_bytes());
        put(block, 6, self.flags.to_le_bytes());
        put(block, 8, self.abn.0.to_le_bytes());
        put(block, 16, self.incarnation.to_le_bytes());
        put(block, 20, self.chain.to_le_bytes());
        put(block, 24, self.durable.0.to_le_bytes());
        put(block, 32, self.unit_blocks.to_le_bytes());
        put(block, 34, self.unit_index.to_le_bytes());
        put(block, 36, self.used.to_le_bytes());
        put(block, 38, self.first_record.unwrap_or(NO_RECORD).to_le_bytes());
        let crc = crc32c::crc32c_append(seed.0, &block[4..]);
        put(block, 0, crc.to_le_bytes());
        crc
    }

    /// Reads a block of `database`; gives its header and its CRC.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(block: &[u8], database: DatabaseId) -> Result<(BlockHeader, u32), Damage> {
        if block.len() <= BLOCK_HEADER {
            return Err(Damage::Truncated);
        }
        let magic = block.u16_at(4);
        if magic != BLOCK_MAGIC {
            let blank = block[..BLOCK_HEADER].iter().all(|b| *b == 0);
            let found = u32::from(magic);
            return Err(if blank { Damage::Blank } else { Damage::Magic { found } });
        }
        let incarnation = block.u32_at(16);
        let crc = crc32c::crc32c_append(Seed::new(database, incarnation).0, &block[4..]);
        if crc != block.u32_at(0) {
            return Err(Damage::Checksum);
        }
        let field = |field, value: u16| Damage::Field { field, value: value.into() };
        let flags = block.u16_at(6);
        if flags & !FLAGS_KNOWN != 0 {
            return Err(field("flags", flags));
        }
        let (unit_blocks, unit_index) = (block.u16_at(32), block.u16_at(34));
        if unit_index >= unit_blocks {
            return Err(field("unit index", unit_index));
        }
        let used = block.u16_at(36);
        if !(BLOCK_HEADER..=block.len()).contains(&usize::from(used)) {
            return Err(field("bytes used", used));
        }
        let first = block.u16_at(38);
        let first_record = (first != NO_RECORD).then_some(first);
        if first_record.is_some_and(|first| usize::from(first) < BLOCK_HEADER || first >= used) {
            return Err(field("first record", first));
        }
        let header = BlockHeader {
            flags,
            abn: check_abn("abn", block.u64_at(8))?,
            incarnation,
            chain: block.u32_at(20),
            durable: check_abn("durable abn", block.u64_at(24))?,
            unit_blocks,
            unit_index,
            used,
            first_record,
        };
        Ok((header, crc))
    }
}
