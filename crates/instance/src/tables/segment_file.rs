//! A segment while it is written: an unnamed file that grows, with several writes on their way.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_diskgroup::File;
use cellar_io::{Device, DeviceExt, Durability, Io, IoError};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::error::{Error, NextStep, Result};

/// Writes on their way at once.
const WRITES: usize = 8;
/// Room that the file is given at once.
const ROOM: u64 = 64 << 20;
/// Writes are whole numbers of these.
const SECTOR: usize = 4096;

type Write = std::pin::Pin<Box<dyn Future<Output = std::result::Result<(), IoError>> + Send>>;

/// A segment that is being written.
pub struct SegmentFile {
    file: File,
    room: u64,
    writes: FuturesUnordered<Write>,
}

impl std::fmt::Debug for SegmentFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SegmentFile({:?}, {} bytes)", self.file, self.room)
    }
}

fn failed(error: &IoError) -> Error {
    Error::new(70123, format!("the segment cannot be written: {error}")).hint(
        NextStep::default()
            .cellar("status", "")
            .then(" tells which disks are missing, asm lsdg how much room is left"),
    )
}

impl SegmentFile {
    /// Writes into a file that [`new_segment`](super::Tables::new_segment) gave.
    pub fn new(file: File) -> SegmentFile {
        SegmentFile { file, room: 0, writes: FuturesUnordered::new() }
    }

    async fn make_room(&mut self, end: u64) -> Result<()> {
        if end <= self.room {
            return Ok(());
        }
        self.room = end.next_multiple_of(ROOM);
        // A group that has not so much room may have as much as is needed.
        if self.file.allocate(self.room).await.is_err() {
            self.room = end;
            self.file.allocate(end).await?;
        }
        Ok(())
    }

    /// Begins a write at a multiple of 4 KiB, padded with zeros to such a multiple. Its failure may be
    /// reported by a later call.
    ///
    /// # Errors
    /// No room, or a write failed.
    #[boxed]
    pub async fn write(&mut self, at: u64, mut bytes: Vec<u8>) -> Result<()> {
        bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
        self.make_room(at + bytes.len() as u64).await?;
        while self.writes.len() >= WRITES {
            self.one_done().await?;
        }
        let file = self.file.clone();
        self.writes.push(Box::pin(async move {
            file.write_at(Io::SCAN, at, Bytes::from(bytes), Durability::Cached).await
        }));
        Ok(())
    }

    async fn one_done(&mut self) -> Result<()> {
        self.writes.next().await.unwrap_or(Ok(())).map_err(|error| failed(&error))
    }

    /// Waits for all writes and makes them durable; the file.
    ///
    /// # Errors
    /// A write failed.
    #[boxed]
    pub async fn finish(mut self) -> Result<File> {
        while !self.writes.is_empty() {
            self.one_done().await?;
        }
        self.file.flush(Io::SCAN).await.map_err(|error| failed(&error))?;
        Ok(self.file)
    }
}
