//! Writing the ring of the metadata log.

use std::ops::Range;

use bytes::Bytes;
use cellar_io::{Durability, Io, IoError};

use crate::disk::Disk;
use crate::on_disk::layout::{BLOCK, BLOCK_U64, LOG_BLOCKS, LOG_START};

/// Writes records to their places in a disk's ring, one after the other.
pub(crate) async fn write_to_ring(disk: &Disk, records: &[(u64, Bytes)]) -> Result<(), IoError> {
    for (lsn, bytes) in records {
        let at = LOG_START + lsn % LOG_BLOCKS * BLOCK_U64;
        disk.write(Io::COMMIT, at, vec![bytes.clone()], Durability::Durable).await?;
    }
    Ok(())
}

/// Writes zeros to blocks of a disk's ring, but for those with records of `live`.
pub(crate) async fn clear_ring(
    disk: &Disk,
    blocks: &[u64],
    live: Range<u64>,
) -> Result<(), IoError> {
    let zeros = Bytes::from(vec![0; BLOCK]);
    for block in blocks.iter().filter(|block| !live.clone().any(|lsn| lsn % LOG_BLOCKS == **block))
    {
        let at = LOG_START + block * BLOCK_U64;
        disk.write(Io::COMMIT, at, vec![zeros.clone()], Durability::Durable).await?;
    }
    Ok(())
}
