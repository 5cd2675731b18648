//! Offsets of blocks in a file of a log group.

use crate::on_disk::HEADER_BYTES;

/// The place of the block that is the `index`-th of its group, in bytes.
pub(crate) fn offset_of(index: u64, block_size: u64) -> u64 {
    HEADER_BYTES as u64 + index * block_size
}
