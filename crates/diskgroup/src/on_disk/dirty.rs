//! The dirty log: which regions may differ between their copies after a crash. Blocks of entries;
//! each block has two places and is written to them in turn, so a torn write never costs the
//! older entries.

use super::layout::{BLOCK, DIRTY_LOG, DIRTY_LOG_BYTES};
use super::{Block, Damage, Fields, FieldsMut, Uuid, check_counter, check_head, magic, seal};

const MAGIC: u32 = magic(b"CLDR");
const ENTRIES_AT: usize = 64;
/// Regions in a block.
pub const ENTRIES_PER_BLOCK: usize = (BLOCK - ENTRIES_AT) / 16;
/// Blocks in the dirty log.
pub const DIRTY_BLOCKS: usize = DIRTY_LOG_BYTES as usize / BLOCK;
/// The most regions that can be dirty at once: 64,512, or 252 GiB of file address space.
pub const DIRTY_REGIONS_MAX: usize = DIRTY_BLOCKS * ENTRIES_PER_BLOCK;

/// 4 MiB of a file's own address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionKey {
    /// File number.
    pub file: u32,
    /// The file's incarnation: a later file with the same number is another.
    pub incarnation: u32,
    /// Which 4 MiB.
    pub index: u32,
}

/// One block of the dirty log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirtyBlock {
    /// Which block.
    pub number: u16,
    /// Counts the times that it was written; its place is this number modulo 2.
    pub generation: u64,
    /// The mount that wrote it.
    pub mount_id: u64,
    /// The regions.
    pub entries: Vec<RegionKey>,
}

impl DirtyBlock {
    /// Where this generation of this block belongs, in bytes.
    pub fn offset(&self) -> u64 {
        DIRTY_LOG[(self.generation % 2) as usize] + u64::from(self.number) * BLOCK as u64
    }

    /// The block that says so.
    pub fn encode(&self, group: Uuid) -> Block {
        assert!(self.entries.len() <= ENTRIES_PER_BLOCK, "an entry has its slot before it is set");
        let mut block = Block::default();
        let b = &mut block.0[..];
        b.put_u32(0, MAGIC);
        b.put_u16(8, self.number);
        b.put_u16(10, u16::try_from(self.entries.len()).expect("at most ENTRIES_PER_BLOCK"));
        b.put_u64(16, self.generation);
        b.put_u64(24, self.mount_id);
        b.put_uuid(32, group);
        for (i, key) in self.entries.iter().enumerate() {
            let at = ENTRIES_AT + i * 16;
            b.put_u32(at, key.file);
            b.put_u32(at + 4, key.incarnation);
            b.put_u32(at + 8, key.index);
        }
        seal(b, 4);
        block
    }

    /// Reads block `number` of the dirty log.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(b: &[u8], group: Uuid, number: u16) -> Result<DirtyBlock, Damage> {
        assert_eq!(b.len(), BLOCK, "one block");
        check_head(b, MAGIC)?;
        if b.uuid_at(32) != group {
            return Err(Damage::Foreign { what: "another group" });
        }
        if b.u16_at(8) != number {
            return Err(Damage::Foreign { what: "another place" });
        }
        check_counter("generation", b.u64_at(16))?;
        let count = usize::from(b.u16_at(10));
        if count > ENTRIES_PER_BLOCK {
            return Err(Damage::Field { field: "entries", value: count as u64 });
        }
        let entries = (0..count)
            .map(|i| {
                let at = ENTRIES_AT + i * 16;
                RegionKey {
                    file: b.u32_at(at),
                    incarnation: b.u32_at(at + 4),
                    index: b.u32_at(at + 8),
                }
            })
            .collect();
        Ok(DirtyBlock { number, generation: b.u64_at(16), mount_id: b.u64_at(24), entries })
    }
}
