//! An in-memory disk that stores writes compactly: only the stamp of a block with the lab's
//! own content, all of any other block.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use cellar_io::{
    Buffer, Device, Discard, Durability, Geometry, Io, IoError, IoFuture, Op, check_request,
};

use crate::content::{STAMPED, STEP, noise};

/// A disk without latency. Nothing is ever lost, and nothing takes time: a model is put in front of it.
pub(super) struct Thin {
    geometry: Geometry,
    noise: Vec<u8>,
    blocks: Mutex<BTreeMap<u64, Kept>>,
}

/// A block that is not all zeros.
enum Kept {
    /// The lab's content from this offset of its file on.
    Stamp(u64),
    Whole(Box<[u8]>),
}

const BLOCK: u64 = STAMPED as u64;

impl Thin {
    /// A disk of zeros. `size` in bytes, a multiple of 4096; `sector` in bytes, 512 or 4096.
    pub(super) fn new(name: &str, size: u64, sector: u32) -> Thin {
        let geometry = Geometry {
            name: name.into(),
            size,
            logical_sector: sector,
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

    /// The content for a stamp.
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
        let disk = self.lock();
        let (mut at, mut whole) = (offset, [0; STAMPED]);
        for buffer in &mut buffers {
            let mut rest = &mut buffer[..];
            while !rest.is_empty() {
                let (start, from) = (at - at % BLOCK, (at % BLOCK) as usize);
                let (piece, behind) = rest.split_at_mut(rest.len().min(STAMPED - from));
                match piece.len() {
                    STAMPED => self.fill(disk.get(&start), piece),
                    length => {
                        self.fill(disk.get(&start), &mut whole);
                        piece.copy_from_slice(&whole[from..from + length]);
                    }
                }
                at += piece.len() as u64;
                rest = behind;
            }
        }
        drop(disk);
        Ok(buffers)
    }

    fn write_now(&self, offset: u64, data: &[Bytes]) -> Result<(), IoError> {
        check_request(&self.geometry, Op::Write, offset, data.iter().map(|d| d.len()))?;
        let mut disk = self.lock();
        let (mut at, mut whole) = (offset, [0; STAMPED]);
        for mut rest in data.iter().map(|d| &d[..]) {
            while !rest.is_empty() {
                let (start, from) = (at - at % BLOCK, (at % BLOCK) as usize);
                let (piece, behind) = rest.split_at(rest.len().min(STAMPED - from));
                match piece.len() {
                    STAMPED => disk.insert(start, self.keep(piece)),
                    length => {
                        self.fill(disk.get(&start), &mut whole);
                        whole[from..from + length].copy_from_slice(piece);
                        disk.insert(start, self.keep(&whole))
                    }
                };
                at += piece.len() as u64;
                rest = behind;
            }
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
            let end = offset + length;
            let (first, behind) = (offset.next_multiple_of(BLOCK), end - end % BLOCK);
            if first < behind {
                let mut disk = self.lock();
                let mut tail = disk.split_off(&first);
                disk.append(&mut tail.split_off(&behind));
            }
            // The rest are sectors of blocks that stay.
            for (at, end) in [(offset, first.min(end)), (behind.max(first), end)] {
                if at < end {
                    let zeros = Bytes::from(vec![0; (end - at) as usize]);
                    self.write_now(at, std::slice::from_ref(&zeros))?;
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::stamped;

    #[test]
    fn every_byte_comes_back() {
        let disk = Thin::new("thin", 8 << 20, 4096);
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

    #[test]
    fn sectors_of_a_block_are_apart() {
        let disk = Thin::new("thin", 1 << 20, 512);
        let ours = stamped(&noise(1 << 20), 0);
        disk.write_now(0, &[ours.slice(..16_384)]).unwrap();
        // From the middle of one block into the next, in slices that do not end at block boundaries.
        let foreign = Bytes::from(vec![9; 1536]);
        disk.write_now(3584, &[foreign.slice(..1024), foreign.slice(1024..)]).unwrap();
        let read = disk.read_now(3072, vec![Buffer::new(1024), Buffer::new(1536)]).unwrap();
        let read = [&read[0][..], &read[1][..]].concat();
        assert!(read[..512] == ours[3072..3584] && read[512..2048] == foreign);
        assert!(read[2048..] == ours[5120..5632]);
        futures_util::FutureExt::now_or_never(disk.discard(Io::SCAN, 512, 8192, Discard::Zero))
            .unwrap()
            .unwrap();
        let read = disk.read_now(0, vec![Buffer::new(16_384)]).unwrap();
        assert!(read[0][..512] == ours[..512] && read[0][8704..] == ours[8704..16_384]);
        assert!(read[0][512..8704].iter().all(|byte| *byte == 0));
        let error = disk.write_now(256, &[foreign.slice(..512)]).unwrap_err();
        assert!(error.to_string().contains("512"), "{error}");
    }
}
