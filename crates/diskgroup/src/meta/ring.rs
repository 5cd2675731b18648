//! Writing the ring of the metadata log.

use bytes::Bytes;
use cellar_io::{Durability, Io, IoError};

use crate::disk::Disk;
use crate::on_disk::layout::{BLOCK_U64, LOG_BLOCKS, LOG_START};

/// Writes records to their places in a disk's ring, one after the other.
pub(crate) async fn write_to_ring(disk: &Disk, records: &[(u64, Bytes)]) -> Result<(), IoError> {
    for (lsn, bytes) in records {
        let at = LOG_START + lsn % LOG_BLOCKS * BLOCK_U64;
        disk.write(Io::COMMIT, at, vec![bytes.clone()], Durability::Durable).await?;
    }
    Ok(())
}
