//! The layout of a disk: the place of every structure. Constants only; `docs/format/disk-group.md`
//! draws them.

/// All our structures are written in units of this many bytes, on every disk.
pub const BLOCK: usize = 4096;
/// The same, for arithmetic on offsets.
pub const BLOCK_U64: u64 = 4096;

/// The format that this program writes.
pub const FORMAT_VERSION: u16 = 1;
/// Features without which the group must not be mounted at all.
pub const FEATURES_KNOWN: u64 = 0;

/// Label slots at the head of the disk.
pub const LABEL_HEAD: [u64; 2] = [0, 64 << 10];
/// Label slots at the end of the disk, counted back from its size (rounded down to a block).
pub const LABEL_TAIL: [u64; 2] = [128 << 10, 64 << 10];
/// What is kept free at the end of a disk for labels.
pub const TAIL_BYTES: u64 = 1 << 20;

/// Superblock slots, written in turn: generation modulo their number.
pub const SUPERBLOCKS: [u64; 4] = [128 << 10, 192 << 10, 256 << 10, 320 << 10];

/// The dirty log: two copies of each of its blocks, written in turn.
pub const DIRTY_LOG: [u64; 2] = [1 << 20, 2 << 20];
/// Bytes of one copy of the dirty log.
pub const DIRTY_LOG_BYTES: u64 = 1 << 20;

/// The metadata log ring.
pub const LOG_START: u64 = 4 << 20;
/// Blocks in the ring: 4 MiB.
pub const LOG_BLOCKS: u64 = 1024;
/// The largest log record, in blocks. A record may need a filler of nearly its size before it. At
/// an eighth of the ring, both the record that finds the ring at [`LOG_CHECKPOINT_AT`] and the one
/// that the checkpoint itself needs fit.
pub const RECORD_BLOCKS_MAX: u64 = LOG_BLOCKS / 8;
/// Blocks in use at which a checkpoint is due.
pub const LOG_CHECKPOINT_AT: u64 = LOG_BLOCKS * 3 / 8;

/// Allocation unit 0 starts here on every disk, whatever the AU size: a multiple of a storage
/// region (1 MiB) and of every alignment that a device may ask for.
pub const AU_START: u64 = 8 << 20;

/// Allocation unit sizes in bytes.
pub const AU_SIZE_MIN: u64 = 1 << 20;
/// The largest allocation unit.
pub const AU_SIZE_MAX: u64 = 64 << 20;

/// The unit of mirror agreement: 4 MiB of a file's address space.
pub const REGION_BYTES: u64 = 4 << 20;
/// A piece of a region: the unit that is known written or not.
pub const PIECE_BYTES: u64 = 64 << 10;
/// Pieces in a region; a region's pieces fit one 64-bit map.
pub const PIECES_PER_REGION: u64 = REGION_BYTES / PIECE_BYTES;

/// CRC-32C values in a checksum block.
pub const CHECKSUMS_PER_BLOCK: u64 = 1016;
/// In each run of this many AUs the first holds the checksums of the others, whatever the AU size.
pub const CHECKSUM_RUN_AUS: u32 = 1017;

/// Bytes of a checkpoint chunk on disk.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Fine striping: chunk size and number of extents that chunks go round.
pub const FINE_CHUNK_BYTES: u64 = 128 << 10;
/// Extent sets in a fine stripe.
pub const FINE_WIDTH: u64 = 8;

/// The smallest disk: head, tail and 16 MiB of AUs.
pub const DISK_BYTES_MIN: u64 = AU_START + TAIL_BYTES + (16 << 20);

/// How many whole AUs fit a disk of `disk_bytes`.
pub fn au_count(disk_bytes: u64, au_size: u64) -> u32 {
    let room = disk_bytes.saturating_sub(AU_START + TAIL_BYTES);
    u32::try_from(room / au_size).unwrap_or(u32::MAX)
}

/// Where an AU starts, in bytes from the start of the disk.
pub fn au_offset(au: u32, au_size: u64) -> u64 {
    AU_START + u64::from(au) * au_size
}

/// Whether an AU holds checksums rather than data.
pub fn is_checksum_au(au: u32) -> bool {
    au.is_multiple_of(CHECKSUM_RUN_AUS)
}

/// Which checksum block covers the 4 KiB block at `block_in_au` of a data AU, where that checksum
/// block stands on the disk, and the index of the entry in it.
pub fn checksum_place(au: u32, block_in_au: u64, au_size: u64) -> ChecksumPlace {
    assert!(!is_checksum_au(au), "checksum AUs have no checksums of their own here");
    let run = au / CHECKSUM_RUN_AUS;
    let blocks_per_au = au_size / BLOCK_U64;
    let nth = u64::from(au - run * CHECKSUM_RUN_AUS - 1) * blocks_per_au + block_in_au;
    let in_run = nth / CHECKSUMS_PER_BLOCK;
    let head = au_offset(run * CHECKSUM_RUN_AUS, au_size);
    ChecksumPlace {
        number: u64::from(run) * blocks_per_au + in_run,
        offset: head + in_run * BLOCK_U64,
        entry: nth % CHECKSUMS_PER_BLOCK,
    }
}

/// The inverse of the number of a checksum block: where it stands on the disk.
pub fn checksum_block_offset(number: u64, au_size: u64) -> u64 {
    let blocks_per_au = au_size / BLOCK_U64;
    let run = number / blocks_per_au;
    AU_START + run * u64::from(CHECKSUM_RUN_AUS) * au_size + number % blocks_per_au * BLOCK_U64
}

/// What [`checksum_place`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumPlace {
    /// Number of the checksum block on its disk.
    pub number: u64,
    /// Where it stands, in bytes.
    pub offset: u64,
    /// The entry in it.
    pub entry: u64,
}

const _: () = {
    assert!(LOG_START + LOG_BLOCKS * BLOCK_U64 <= AU_START);
    assert!(DIRTY_LOG[1] + DIRTY_LOG_BYTES <= LOG_START);
    assert!(SUPERBLOCKS[3] + BLOCK_U64 <= DIRTY_LOG[0]);
    assert!(PIECES_PER_REGION == 64);
    assert!(LOG_CHECKPOINT_AT + 4 * RECORD_BLOCKS_MAX < LOG_BLOCKS);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_places_are_distinct_and_stay_in_their_au() {
        for au_size in [1u64 << 20, 4 << 20, 64 << 20] {
            let blocks = au_size / BLOCK_U64;
            let last = checksum_place(CHECKSUM_RUN_AUS - 1, blocks - 1, au_size);
            assert_eq!(last.number, blocks - 1, "the last block of the run ends its AU");
            assert_eq!(last.entry, CHECKSUMS_PER_BLOCK - 1);
            let next = checksum_place(CHECKSUM_RUN_AUS + 1, 0, au_size);
            assert_eq!(next.number, blocks);
            assert_eq!(next.offset, au_offset(CHECKSUM_RUN_AUS, au_size));
            assert_eq!(checksum_block_offset(next.number, au_size), next.offset);
            assert_eq!(checksum_block_offset(last.number, au_size), last.offset);
            let first = checksum_place(1, 0, au_size);
            assert_eq!((first.number, first.entry, first.offset), (0, 0, AU_START));
        }
    }
}
