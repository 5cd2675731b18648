//! A checksum block: the CRC-32C of 1,016 blocks of 4 KiB. It lies at the head of the run of AUs
//! that it covers and is found by arithmetic (`layout::checksum_place`).

use super::layout::{BLOCK, CHECKSUMS_PER_BLOCK};
use super::{Block, Damage, Fields, FieldsMut, Uuid, check_head, magic, seal};

const MAGIC: u32 = magic(b"CLCS");
const ENTRIES_AT: usize = 32;
/// The value of an entry that is not known; a computed CRC of 0 is stored as 1.
pub const UNKNOWN: u32 = 0;

const _: () = assert!(ENTRIES_AT + CHECKSUMS_PER_BLOCK as usize * 4 == BLOCK);

/// The checksum of 4 KiB as it is stored: never [`UNKNOWN`].
pub fn checksum_of(block: &[u8]) -> u32 {
    crc32c::crc32c(block).max(1)
}

/// The entries of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumBlock {
    /// Counts its writings.
    pub generation: u64,
    /// One CRC-32C per 4 KiB.
    pub entries: Box<[u32]>,
}

impl Default for ChecksumBlock {
    fn default() -> Self {
        let entries = vec![UNKNOWN; CHECKSUMS_PER_BLOCK as usize].into_boxed_slice();
        ChecksumBlock { generation: 0, entries }
    }
}

/// Header: magic 0, own crc 4, generation 8, disk 16 (low 64 bits of its uuid), number 24.
impl ChecksumBlock {
    /// The block that says so.
    pub fn encode(&self, disk: Uuid, number: u64) -> Block {
        let mut block = Block::default();
        let b = &mut block.0[..];
        b.put_u32(0, MAGIC);
        b.put_u64(8, self.generation);
        b.put_u64(16, disk.0 as u64);
        b.put_u64(24, number);
        for (i, crc) in self.entries.iter().enumerate() {
            b.put_u32(ENTRIES_AT + i * 4, *crc);
        }
        seal(b, 4);
        block
    }

    /// Of which disk a whole checksum block with that number is: the low 64 bits of its identity.
    pub fn disk_of(b: &[u8], number: u64) -> Option<u64> {
        check_head(b, MAGIC).ok()?;
        (b.u64_at(24) == number).then(|| b.u64_at(16))
    }

    /// Reads checksum block `number` of `disk`.
    ///
    /// # Errors
    /// What is wrong with it. [`Damage::Blank`], [`Damage::Magic`] and [`Damage::Foreign`] mean
    /// that it was never written here.
    pub fn decode(b: &[u8], disk: Uuid, number: u64) -> Result<ChecksumBlock, Damage> {
        assert_eq!(b.len(), BLOCK, "one block");
        check_head(b, MAGIC)?;
        if b.u64_at(16) != disk.0 as u64 || b.u64_at(24) != number {
            return Err(Damage::Foreign { what: "another disk or place" });
        }
        let entries = (0..CHECKSUMS_PER_BLOCK as usize)
            .map(|i| b.u32_at(ENTRIES_AT + i * 4))
            .collect::<Vec<_>>();
        Ok(ChecksumBlock { generation: b.u64_at(8), entries: entries.into_boxed_slice() })
    }
}
