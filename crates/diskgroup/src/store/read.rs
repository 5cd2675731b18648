//! Reading objects: whole blocks, large pieces, many at once; the caller gets slices of them.

use std::ops::Range;

use bytes::Bytes;
use cellar_io::{Buffer, EnvExt, Io};
use futures_util::future::try_join_all;
use futures_util::stream::{self, BoxStream, StreamExt};

use super::names::stopped;
use crate::error::Error;
use crate::group::{File, Group};
use crate::on_disk::layout::BLOCK_U64;

/// Bytes in one read of a stream, aligned in the file as allocation units are.
const PIECE: u64 = 1 << 20;
/// Reads of a stream in flight or waiting to be taken.
const AHEAD: usize = 16;
/// Up to here a range is one buffer, so that a caller who wants it whole copies nothing.
const WHOLE: u64 = 8 << 20;
/// Up to here somebody waits for a block; above, somebody scans.
const SMALL: u64 = 128 << 10;
/// Ranges closer than this are read as one: it costs less than another request.
const GAP: u64 = 64 << 10;

fn class_of(length: u64) -> Io {
    if length <= SMALL { Io::FOREGROUND } else { Io::SCAN }
}

/// Reads a range, in one buffer.
pub(super) async fn span(group: &Group, file: &File, range: Range<u64>) -> Result<Bytes, Error> {
    read_span(group, file, range, PIECE).await
}

/// As [`span`]; what is longer than `inline` is read by tasks of its own, a piece each, so that
/// checksums are computed on all processors.
async fn read_span(
    group: &Group,
    file: &File,
    range: Range<u64>,
    inline: u64,
) -> Result<Bytes, Error> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let start = range.start / BLOCK_U64 * BLOCK_U64;
    let end = range.end.next_multiple_of(BLOCK_U64);
    let io = class_of(end - start);
    let mut rest = Buffer::new(usize_of(end - start));
    let whole = if end - start <= inline {
        one(file.read_group(io, start, vec![rest]).await?)
    } else {
        let mut reads = Vec::new();
        for cut in cuts(start..end) {
            let buffer = rest.split_to(usize_of(cut.end - cut.start));
            reads.push(spawn_read(group, file, io, cut.start, buffer));
        }
        join(try_join_all(reads).await?, usize_of(end - start))
    };
    let head = usize_of(range.start - start);
    let length = usize_of(range.end - range.start);
    Ok(whole.freeze().slice(head..head + length))
}

/// Starts a read at once; the future only waits for it.
fn spawn_read(
    group: &Group,
    file: &File,
    io: Io,
    offset: u64,
    buffer: Buffer,
) -> impl Future<Output = Result<Buffer, Error>> + Send + use<> {
    let (group, file) = (group.clone(), file.clone());
    let read = group.env().run("object read", async move {
        Ok(one(file.read_group(io, offset, vec![buffer]).await?))
    });
    async move { read.await.unwrap_or_else(|| Err(stopped(&group))) }
}

/// The range piece by piece, in order, with reads ahead of the consumer.
pub(super) fn stream(
    group: Group,
    file: File,
    range: Range<u64>,
) -> BoxStream<'static, Result<Bytes, Error>> {
    let length = range.end.saturating_sub(range.start);
    if length == 0 {
        return stream::empty().boxed();
    }
    if length <= WHOLE {
        return stream::once(async move { span(&group, &file, range).await }).boxed();
    }
    stream::iter(cuts(range))
        .map(move |cut| {
            let start = cut.start / BLOCK_U64 * BLOCK_U64;
            let end = cut.end.next_multiple_of(BLOCK_U64);
            let buffer = Buffer::new(usize_of(end - start));
            let read = spawn_read(&group, &file, Io::SCAN, start, buffer);
            async move {
                let head = usize_of(cut.start - start);
                let length = usize_of(cut.end - cut.start);
                Ok(read.await?.freeze().slice(head..head + length))
            }
        })
        .buffered(AHEAD)
        .boxed()
}

/// Reads many ranges, all in flight at once; neighbours as one. Each lies in the file.
pub(super) async fn ranges(
    group: &Group,
    file: &File,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>, Error> {
    let spans = merge(ranges);
    let inline = if spans.len() == 1 { PIECE } else { SMALL };
    let reads = spans.iter().map(|s| read_span(group, file, s.clone(), inline));
    let read = try_join_all(reads).await?;
    let cut = |range: &Range<u64>| {
        let i = spans.partition_point(|s| s.start <= range.start) - 1;
        let start = usize_of(range.start - spans[i].start);
        read[i].slice(start..start + usize_of(range.end - range.start))
    };
    Ok(ranges.iter().map(cut).collect())
}

/// Spans that cover the ranges, in order, none so close to the next that two reads pay.
fn merge(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|r| (r.start, r.end));
    let mut spans: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match spans.last_mut() {
            // Overlapping ones always: each range must lie in one span.
            Some(last)
                if range.start < last.end
                    || (range.start - last.end <= GAP && range.end - last.start <= WHOLE) =>
            {
                last.end = last.end.max(range.end);
            }
            _ => spans.push(range),
        }
    }
    spans
}

/// Cuts a range at multiples of [`PIECE`].
fn cuts(range: Range<u64>) -> impl Iterator<Item = Range<u64>> + Send {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let end = ((at / PIECE + 1) * PIECE).min(range.end);
        let cut = at..end;
        at = end;
        Some(cut)
    })
}

/// Joins what was cut from one buffer; copies only if a piece was replaced on its way.
fn join(pieces: Vec<Buffer>, length: usize) -> Buffer {
    let mut pieces = pieces.into_iter();
    let mut whole = pieces.next().unwrap_or_else(|| Buffer::new(0));
    while let Some(piece) = pieces.next() {
        let Err(piece) = whole.unsplit(piece) else {
            continue;
        };
        let mut copy = Buffer::new(length);
        let mut at = 0;
        for part in [whole, piece].into_iter().chain(pieces) {
            copy[at..at + part.len()].copy_from_slice(&part);
            at += part.len();
        }
        return copy;
    }
    whole
}

fn one(mut buffers: Vec<Buffer>) -> Buffer {
    assert_eq!(buffers.len(), 1, "a read gives back the buffers it got");
    buffers.remove(0)
}

fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a length that was allocated or is about to be")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_together_and_strangers_apart() {
        let far = 10 << 20;
        let merged = merge(&[far..far + 10, 0..100, 200..300, 50..60]);
        assert_eq!(merged, [0..300, far..far + 10]);
        let touching = [0..WHOLE, WHOLE..WHOLE + 10];
        assert_eq!(merge(&touching), touching, "large ones stay apart");
        let overlapping = merge(&[0..WHOLE, WHOLE - 1..WHOLE + 10]);
        assert_eq!(overlapping.len(), 1);
    }

    #[test]
    fn pieces_join_without_a_copy_unless_one_was_replaced() {
        let mut rest = Buffer::zeroed(3 * 4096);
        let (a, b) = (rest.split_to(4096), rest.split_to(4096));
        let start = a.as_ptr();
        let whole = join(vec![a, b, rest], 3 * 4096);
        assert_eq!((whole.as_ptr(), whole.len()), (start, 3 * 4096));
        let mut rest = whole;
        let (a, _) = (rest.split_to(4096), rest.split_to(4096));
        let mut other = Buffer::new(4096);
        other.fill(9);
        let whole = join(vec![a, other, rest], 3 * 4096);
        assert_eq!((whole[0], whole[4096], whole[8192]), (0, 9, 0));
    }
}
