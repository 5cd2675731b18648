//! A disk in memory that keeps what the lab writes in little room: of a block of the lab's own
//! content only its stamp, of any other block all of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use cellar_io::{
    Buffer, Device, Discard, Durability, Geometry, Io, IoError, IoFuture, Op, check_request,
};

use crate::load::{STAMPED, STEP, noise};

/// A disk without latency. Nothing is ever lost, and nothing takes time: a model is put before it.
pub(super) struct Thin {
    geometry: Geometry,
    noise: Vec<u8>,
    blocks: Mutex<BTreeMap<u64, Kept>>,
}

/// A block that is not zeros.
enum Kept {
    /// The lab's content from this offset of its file on.
    Stamp(u64),
    Whole(Box<[u8]>),
}

const BLOCK: u64 = STAMPED as u64;

impl Thin {
    /// A disk of zeros. `size` in bytes, a multiple of 4096.
    pub(super) fn new(name: &str, size: u64) -> Thin {
        let geometry = Geometry {
            name: name.into(),
            size,
            logical_sector: STAMPED as u32,
            physical_sector: STAMPED as u32,
            transfer_max: 0,
            queue_depth: 0,
            volatile_cache: false,
            fast_zero: true,
        };
        Thin { geometry, noise: noise(STEP as usize), blocks: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Kept>> {
        self.blocks.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The content behind a stamp.
    fn behind(&self, stamp: u64) -> &[u8] {
        let at = (stamp % STEP) as usize;
        &self.noise[at + 8..at + STAMPED]
    }

    fn keep(&self, block: &[u8]) -> Kept {
        let stamp = block.first_chunk().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
        if stamp.is_multiple_of(BLOCK) && &block[8..] == self.behind(stamp) {
            Kept::Stamp(stamp)
        } else {
            Kept::Whole(block.into())
        }
    }

    fn fill(&self, kept: Option<&Kept>, block: &mut [u8]) {
        match kept {
            None => block.fill(0),
            Some(Kept::Whole(bytes)) => block.copy_from_slice(bytes),
            Some(Kept::Stamp(stamp)) => {
                block[..8].copy_from_slice(&stamp.to_le_bytes());
                block[8..].copy_from_slice(self.behind(*stamp));
            }
        }
    }

    fn read_now(&self, offset: u64, mut buffers: Vec<Buffer>) -> Result<Vec<Buffer>, IoError> {
        check_request(&self.geometry, Op::Read, offset, buffers.iter().map(|b| b.len()))?;
        let blocks = buffers.iter_mut().flat_map(|b| b.chunks_exact_mut(STAMPED));
        let disk = self.lock();
        let mut kept = disk.range(offset..).peekable();
        for (i, block) in blocks.enumerate() {
            let at = offset + i as u64 * BLOCK;
            self.fill(kept.next_if(|(own, _)| **own == at).map(|(_, kept)| kept), block);
        }
        drop(kept);
        Ok(buffers)
    }

    fn write_now(&self, offset: u64, data: &[Bytes]) -> Result<(), IoError> {
        check_request(&self.geometry, Op::Write, offset, data.iter().map(|d| d.len()))?;
        let mut disk = self.lock();
        for (i, block) in data.iter().flat_map(|d| d.chunks_exact(STAMPED)).enumerate() {
            disk.insert(offset + i as u64 * BLOCK, self.keep(block));
        }
        Ok(())
    }
}

impl Device for Thin {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, _io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move { self.read_now(offset, buffers) })
    }

    fn write(
        &self,
        _io: Io,
        offset: u64,
        data: Vec<Bytes>,
        _durability: Durability,
    ) -> IoFuture<'_, ()> {
        Box::pin(async move { self.write_now(offset, &data) })
    }

    fn flush(&self, _io: Io) -> IoFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn discard(&self, _io: Io, offset: u64, length: u64, _how: Discard) -> IoFuture<'_, ()> {
        Box::pin(async move {
            check_request(&self.geometry, Op::Discard, offset, [length as usize])?;
            let mut disk = self.lock();
            let mut tail = disk.split_off(&offset);
            disk.append(&mut tail.split_off(&(offset + length)));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::stamped;

    #[test]
    fn every_byte_comes_back() {
        let disk = Thin::new("thin", 8 << 20);
        let ours = stamped(&noise(1 << 20), 5 << 20);
        let mut foreign = ours.to_vec();
        foreign[4096 + 9] ^= 1;
        disk.write_now(0, std::slice::from_ref(&ours)).unwrap();
        disk.write_now(2 << 20, &[foreign.clone().into()]).unwrap();
        let whole = disk.lock().values().filter(|k| matches!(k, Kept::Whole(_))).count();
        assert_eq!(whole, 1, "one block is not the lab's");
        for (at, wanted) in [(0, &ours[..]), (1 << 20, &[0; 1 << 20][..]), (2 << 20, &foreign)] {
            let read = disk.read_now(at, vec![Buffer::new(4096), Buffer::new(1044480)]).unwrap();
            assert!(read[0][..] == wanted[..4096] && read[1][..] == wanted[4096..], "{at}");
        }
        assert!(disk.write_now(8 << 20, &[ours]).is_err(), "beyond the end");
    }
}
