//! Salvage of a file: reading what is left of it.

use std::ops::Range;

use async_recursion::async_recursion as boxed;
use cellar_io::{Buffer, Io};

use crate::error::Error;
use crate::group::File;
use crate::on_disk::layout::{BLOCK_U64, PIECE_BYTES};

/// What is wrong with a file that was read, in ranges of whole blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsure {
    /// No copy can be read: zeros were returned.
    pub lost: Vec<Range<u64>>,
    /// Read from disks that are not shown to be current, or in spite of a checksum mismatch.
    pub doubtful: Vec<Range<u64>>,
    /// Read from disks that missed later writes.
    pub stale: Vec<Range<u64>>,
}

impl Unsure {
    fn add(list: &mut Vec<Range<u64>>, range: Range<u64>) {
        match list.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => list.push(range),
        }
    }

    /// Takes in what was found of the part that follows.
    pub fn append(&mut self, next: Unsure) {
        next.lost.into_iter().for_each(|range| Unsure::add(&mut self.lost, range));
        next.doubtful.into_iter().for_each(|range| Unsure::add(&mut self.doubtful, range));
        next.stale.into_iter().for_each(|range| Unsure::add(&mut self.stale, range));
    }

    /// Bytes that are lost, and that are doubtful.
    pub fn bytes(&self) -> (u64, u64) {
        let sum = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum();
        (sum(&self.lost), sum(&self.doubtful))
    }
}

/// Reads a stretch of a file, in whole blocks: from `file`, and what that cannot read from `doubtful`,
/// the same file of the second mount.
///
/// # Errors
/// The group has stopped.
#[boxed]
pub async fn read_what_is_there(
    file: &File,
    doubtful: &File,
    range: Range<u64>,
    unsure: &mut Unsure,
) -> Result<Vec<u8>, Error> {
    let base = range.start;
    let mut out = vec![0; (range.end - base) as usize];
    if read_into(file, range.clone(), base, &mut out).await? {
        return Ok(out);
    }
    // What is wrong is told by the block: pieces first, as whole AUs may be gone.
    for piece in range.clone().step_by(PIECE_BYTES as usize) {
        let piece = piece..(piece + PIECE_BYTES).min(range.end);
        if read_into(file, piece.clone(), base, &mut out).await? {
            continue;
        }
        for at in piece.clone().step_by(BLOCK_U64 as usize) {
            let block = at..(at + BLOCK_U64).min(piece.end);
            if read_into(file, block.clone(), base, &mut out).await? {
                continue;
            }
            match read_into(doubtful, block.clone(), base, &mut out).await? {
                true => Unsure::add(&mut unsure.doubtful, block),
                false => Unsure::add(&mut unsure.lost, block),
            }
        }
    }
    Ok(out)
}

/// Reads the `unsure.lost` parts of a stretch that begins at `base` from `stale`, the same file on
/// disks that missed later writes.
///
/// # Errors
/// The group has stopped.
#[boxed]
pub async fn read_what_is_older(
    stale: &File,
    base: u64,
    out: &mut [u8],
    unsure: &mut Unsure,
) -> Result<(), Error> {
    for range in std::mem::take(&mut unsure.lost) {
        for at in range.clone().step_by(BLOCK_U64 as usize) {
            let block = at..(at + BLOCK_U64).min(range.end);
            match read_into(stale, block.clone(), base, out).await? {
                true => Unsure::add(&mut unsure.stale, block),
                false => Unsure::add(&mut unsure.lost, block),
            }
        }
    }
    Ok(())
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
