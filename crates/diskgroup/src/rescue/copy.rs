//! Reading what is there of a file.

use std::ops::Range;

use cellar_io::{Buffer, Io};

use crate::error::Error;
use crate::group::File;
use crate::on_disk::layout::{BLOCK_U64, PIECE_BYTES};

/// Reads a stretch of a file, whole blocks. What no copy has reads as zeros, and is added to `lost`.
///
/// # Errors
/// The group has stopped.
pub async fn read_what_is_there(
    file: &File,
    range: Range<u64>,
    lost: &mut Vec<Range<u64>>,
) -> Result<Vec<u8>, Error> {
    let mut out = vec![0; (range.end - range.start) as usize];
    if read_into(file, range.clone(), range.start, &mut out).await? {
        return Ok(out);
    }
    // What is lost is told by the block: pieces first, as whole AUs may be gone.
    for piece in range.clone().step_by(PIECE_BYTES as usize) {
        let piece = piece..(piece + PIECE_BYTES).min(range.end);
        if read_into(file, piece.clone(), range.start, &mut out).await? {
            continue;
        }
        for at in piece.clone().step_by(BLOCK_U64 as usize) {
            let block = at..(at + BLOCK_U64).min(piece.end);
            if !read_into(file, block.clone(), range.start, &mut out).await? {
                match lost.last_mut().filter(|last| last.end == block.start) {
                    Some(last) => last.end = block.end,
                    None => lost.push(block),
                }
            }
        }
    }
    Ok(out)
}

/// Reads a stretch to its place in `out`, which begins at `base`; false if some of it cannot be read.
async fn read_into(
    file: &File,
    range: Range<u64>,
    base: u64,
    out: &mut [u8],
) -> Result<bool, Error> {
    let length = (range.end - range.start) as usize;
    match file.read_group(Io::SCAN, range.start, vec![Buffer::new(length)]).await {
        Ok(buffers) => {
            let mut at = (range.start - base) as usize;
            for buffer in buffers {
                out[at..at + buffer.len()].copy_from_slice(&buffer);
                at += buffer.len();
            }
            Ok(true)
        }
        Err(error @ (Error::Stopped { .. } | Error::NotMounted { .. })) => Err(error),
        Err(_) => Ok(false),
    }
}
