//! A disk of which some blocks are answered from RAM, and that nobody can write to.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::{
    Buffer, Device, Discard, Durability, Geometry, Io, IoError, IoErrorKind, IoFuture, Op,
};

use crate::on_disk::layout::{BLOCK, BLOCK_U64};

/// A disk as it would be if what was lost at its ends were still there.
pub(super) struct Patched {
    device: Arc<dyn Device>,
    /// Blocks by their place.
    blocks: BTreeMap<u64, Bytes>,
    /// Bytes that it had; what of that is cut off cannot be read.
    size: u64,
}

impl Patched {
    pub fn new(device: Arc<dyn Device>, blocks: BTreeMap<u64, Bytes>, size: u64) -> Patched {
        let whole =
            |(at, block): (&u64, &Bytes)| at.is_multiple_of(BLOCK_U64) && block.len() == BLOCK;
        assert!(blocks.iter().all(whole), "whole blocks in their places");
        let size = size.max(device.geometry().size);
        Patched { device, blocks, size }
    }

    fn refuse<T: Send + 'static>(&self, op: Op, offset: u64, length: u64) -> IoFuture<'_, T> {
        let kind = IoErrorKind::Unsupported { what: "a rescue only reads" };
        let error = IoError::new(kind, &self.device.geometry().name, op, offset, length);
        Box::pin(async move { Err(error) })
    }
}

/// Puts the part of `block`, which stands at `at`, that falls there into `buffer`, which was read
/// at `start`.
fn lay_over(buffer: &mut Buffer, start: u64, at: u64, block: &[u8]) {
    let end = start + buffer.len() as u64;
    let (from, to) = (at.max(start), (at + BLOCK_U64).min(end));
    if from < to {
        let part = &block[(from - at) as usize..(to - at) as usize];
        buffer[(from - start) as usize..(to - start) as usize].copy_from_slice(part);
    }
}

impl Device for Patched {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, ..self.device.geometry() }
    }

    fn read(&self, io: Io, offset: u64, mut buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        let length: u64 = buffers.iter().map(|b| b.len() as u64).sum();
        let end = offset.saturating_add(length);
        let near = offset.saturating_sub(BLOCK_U64 - 1)..end;
        let over: Vec<(u64, Bytes)> =
            self.blocks.range(near).map(|(at, block)| (*at, block.clone())).collect();
        // What stands in RAM is not asked of a disk that may not be able to read it.
        let known = over.iter().any(|(at, _)| *at <= offset && end <= at + BLOCK_U64);
        Box::pin(async move {
            let geometry = self.device.geometry();
            if !known && end > geometry.size && end <= self.size {
                let kind = IoErrorKind::Media;
                return Err(IoError::new(kind, &geometry.name, Op::Read, offset, length));
            }
            if !known {
                buffers = self.device.read(io, offset, buffers).await?;
            }
            let mut start = offset;
            for buffer in &mut buffers {
                over.iter().for_each(|(at, block)| lay_over(buffer, start, *at, block));
                start += buffer.len() as u64;
            }
            Ok(buffers)
        })
    }

    fn write(&self, _: Io, offset: u64, data: Vec<Bytes>, _: Durability) -> IoFuture<'_, ()> {
        self.refuse(Op::Write, offset, data.iter().map(|d| d.len() as u64).sum())
    }

    fn flush(&self, _: Io) -> IoFuture<'_, ()> {
        self.refuse(Op::Flush, 0, 0)
    }

    fn discard(&self, _: Io, offset: u64, length: u64, _: Discard) -> IoFuture<'_, ()> {
        self.refuse(Op::Discard, offset, length)
    }
}
