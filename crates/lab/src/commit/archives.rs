//! Archives on a stretch of a disk, the oldest overwritten when it is full.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use cellar_io::{Device, DeviceExt, Durability, Io, IoError, IoErrorKind, IoFuture, Op};
use cellar_redo::{ArchiveFile, ArchiveStore};

/// One write of an archive, in bytes.
const WRITE: usize = 1 << 20;
/// Archives begin and end at a multiple of this many bytes.
const BLOCK: u64 = 4096;

/// The archive store. It needs only a device: the map of archives is in memory, so
/// archives live only as long as the store.
pub(crate) struct Archives {
    device: Arc<dyn Device>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Where the next archive begins.
    free: u64,
    published: BTreeMap<String, (u64, u64)>,
}

impl State {
    /// Takes a range of bytes: archives that overlap it are lost.
    fn take(&mut self, taken: &Range<u64>) {
        let hit = |start: u64, end: u64| start < taken.end && taken.start < end;
        self.published.retain(|_, (start, length)| !hit(*start, *start + *length));
    }
}

impl Archives {
    /// Archives on `device`, which has space for at least two of the largest.
    pub(crate) fn new(device: Arc<dyn Device>) -> Archives {
        Archives { device, state: Arc::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|e| e.into_inner())
}

impl ArchiveStore for Archives {
    fn create<'a>(&'a self, name: &'a str) -> IoFuture<'a, Box<dyn ArchiveFile>> {
        Box::pin(async move {
            let start = self.lock().free;
            let (device, state) = (Arc::clone(&self.device), Arc::clone(&self.state));
            let (name, buffer) = (name.to_owned(), BytesMut::with_capacity(WRITE));
            let archive = Archive { device, state, name, start, written: 0, length: 0, buffer };
            Ok(Box::new(archive) as Box<dyn ArchiveFile>)
        })
    }

    fn read<'a>(&'a self, name: &'a str, offset: u64, length: usize) -> IoFuture<'a, Bytes> {
        Box::pin(async move {
            let found = self.lock().published.get(name).copied();
            let none = || IoError::new(IoErrorKind::NotFound, &name.into(), Op::Open, 0, 0);
            let (start, bytes) = found.ok_or_else(none)?;
            let from = offset.min(bytes);
            let to = bytes.min(from.saturating_add(length as u64));
            if from == to {
                return Ok(Bytes::new());
            }
            let first = from - from % BLOCK;
            let whole = (to.next_multiple_of(BLOCK) - first) as usize;
            let read = self.device.read_at(Io::BACKGROUND, start + first, whole).await?.freeze();
            Ok(read.slice((from - first) as usize..(to - first) as usize))
        })
    }
}

/// An archive that is being written.
struct Archive {
    device: Arc<dyn Device>,
    state: Arc<Mutex<State>>,
    name: String,
    start: u64,
    /// Bytes on the device, whole blocks.
    written: u64,
    /// Bytes appended.
    length: u64,
    buffer: BytesMut,
}

impl Archive {
    /// Writes the complete blocks so far, and at the end the last one padded with zeros.
    async fn write(&mut self, at_end: bool) -> Result<(), IoError> {
        let whole = match at_end {
            true => {
                let length = self.buffer.len().next_multiple_of(BLOCK as usize);
                self.buffer.resize(length, 0);
                length
            }
            false => self.buffer.len() - self.buffer.len() % BLOCK as usize,
        };
        let room = self.device.geometry().size;
        while self.start + self.written + whole as u64 > room {
            if self.written + whole as u64 > room {
                let kind = IoErrorKind::OutOfRange { size: room };
                let at = self.start + self.written;
                return Err(IoError::new(kind, &self.name.as_str().into(), Op::Write, at, room));
            }
            self.restart().await?;
        }
        let data = self.buffer.split_to(whole).freeze();
        let at = self.start + self.written;
        lock(&self.state).take(&(at..at + whole as u64));
        self.written += whole as u64;
        self.device.write_at(Io::BACKGROUND, at, data, Durability::Cached).await
    }

    /// Moves an archive that does not fit after the previous one to the start of the device.
    async fn restart(&mut self) -> Result<(), IoError> {
        let from = std::mem::take(&mut self.start);
        lock(&self.state).take(&(0..self.written));
        let mut at = 0;
        while at < self.written {
            let length = (self.written - at).min(WRITE as u64);
            let read = self.device.read_at(Io::BACKGROUND, from + at, length as usize).await?;
            self.device.write_at(Io::BACKGROUND, at, read.freeze(), Durability::Cached).await?;
            at += length;
        }
        Ok(())
    }
}

impl ArchiveFile for Archive {
    fn append(&mut self, bytes: Bytes) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.length += bytes.len() as u64;
            self.buffer.extend_from_slice(&bytes);
            match self.buffer.len() >= WRITE {
                true => self.write(false).await,
                false => Ok(()),
            }
        })
    }

    fn sync(&mut self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.write(true).await?;
            self.device.flush(Io::BACKGROUND).await
        })
    }

    fn publish(self: Box<Self>) -> IoFuture<'static, ()> {
        Box::pin(async move {
            let mut state = lock(&self.state);
            state.free = self.start + self.written;
            state.published.insert(self.name.clone(), (self.start, self.length));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellar_io::sim::{Sim, SimDiskOptions};

    #[test]
    fn archives_come_back_until_they_are_written_over() {
        let sim = Sim::new(1);
        let disk = sim.disk("disk", SimDiskOptions { size: 8 << 20, ..SimDiskOptions::default() });
        let store = Archives::new(disk);
        let ran = sim.run(async {
            for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
                let mut file = store.create(name).await.unwrap();
                for _ in 0..3 {
                    file.append(Bytes::from(vec![number as u8 + 1; 1_000_003])).await.unwrap();
                }
                file.sync().await.unwrap();
                file.publish().await.unwrap();
            }
            // The third went to the start, over the first.
            assert!(store.read("a", 0, 10).await.is_err());
            for (name, byte) in [("b", 2), ("c", 3)] {
                for (offset, length) in [(0, 10), (999_999, 5000), (3_000_000, 100)] {
                    let read = store.read(name, offset, length).await.unwrap();
                    let wanted = length.min(3_000_009 - offset as usize);
                    assert!(read.len() == wanted && read.iter().all(|b| *b == byte), "{name}");
                }
                assert!(store.read(name, 3_000_009, 10).await.unwrap().is_empty());
            }
            let mut large = store.create("d").await.unwrap();
            let mut ended = Ok(());
            for _ in 0..12 {
                ended = ended.and(large.append(Bytes::from(vec![4; 1 << 20])).await);
            }
            assert!(ended.is_err(), "no room for it");
        });
        assert!(ran.is_some());
    }
}
