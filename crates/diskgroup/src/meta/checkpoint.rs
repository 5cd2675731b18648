//! Writing a checkpoint to one disk.
//!
//! Order: chunks into the area that the current superblock does not name, flush, superblock into
//! the next slot, durable. Stopped before the superblock: the old one and its area and log are
//! whole. Stopped after: the new one is.

use bytes::Bytes;
use cellar_io::{Durability, Io, IoError};

use crate::disk::Disk;
use crate::on_disk::Uuid;
use crate::on_disk::checkpoint::EncodedCheckpoint;
use crate::on_disk::layout::{SUPERBLOCKS, au_offset};
use crate::on_disk::superblock::{AuRun, LogPosition, Superblock};

/// What a disk's next superblock needs to know.
pub(crate) struct Target<'a> {
    pub disk: &'a Disk,
    pub group: Uuid,
    pub au_size: u64,
    pub area: u8,
    pub runs: &'a [AuRun],
    pub generation: u64,
}

/// Writes a checkpoint and the superblock that names it.
///
/// # Errors
/// The disk failed; its old superblock is still whole.
pub(crate) async fn write(
    target: &Target<'_>,
    encoded: &EncodedCheckpoint,
    position: LogPosition,
) -> Result<(), IoError> {
    let content = Bytes::from(encoded.bytes.clone());
    let mut written = 0usize;
    for run in target.runs {
        let start = au_offset(run.start, target.au_size);
        let room = (u64::from(run.count) * target.au_size) as usize;
        let part = content.slice(written..(written + room).min(content.len()));
        for (i, piece) in (0..part.len()).step_by(1 << 20).enumerate() {
            let data = part.slice(piece..(piece + (1 << 20)).min(part.len()));
            let at = start + (i as u64) * (1 << 20);
            target.disk.write(Io::BACKGROUND, at, vec![data], Durability::Cached).await?;
        }
        written += part.len();
    }
    assert_eq!(written, content.len(), "the area was made large enough");
    target.disk.flush(Io::COMMIT).await?;
    let superblock = Superblock {
        features: 0,
        generation: target.generation,
        group: target.group,
        disk: target.disk.uuid,
        position,
        area: target.area,
        chunks: encoded.chunks(),
        chunks_crc: encoded.chunks_crc,
        content_bytes: encoded.content_bytes,
        runs: target.runs.to_vec(),
    };
    let slot = SUPERBLOCKS[(target.generation % SUPERBLOCKS.len() as u64) as usize];
    let block = Bytes::from(superblock.encode().0.to_vec());
    target.disk.write(Io::COMMIT, slot, vec![block], Durability::Durable).await?;
    target.disk.wrote_superblock(target.generation);
    Ok(())
}
