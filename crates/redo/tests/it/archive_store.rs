//! A simulated place for archives: what is published is there for good, what is not is gone with
//! the machine. Each step takes a write to a disk, so that a crash may come between any two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cellar_io::sim::SimDisk;
use cellar_io::{Device, DeviceExt, Durability, Io, IoError, IoErrorKind, IoFuture, Op};
use cellar_redo::{ArchiveFile, ArchiveStore};

type Published = Arc<Mutex<BTreeMap<String, Bytes>>>;

pub struct SimArchives {
    pub disk: Arc<SimDisk>,
    pub published: Published,
}

struct SimArchive {
    disk: Arc<SimDisk>,
    published: Published,
    name: String,
    bytes: Vec<u8>,
    synced: usize,
}

impl SimArchives {
    pub fn new(disk: Arc<SimDisk>) -> SimArchives {
        SimArchives { disk, published: Published::default() }
    }

    pub fn get(&self, name: &str) -> Option<Bytes> {
        self.published.lock().unwrap().get(name).cloned()
    }

    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        self.published.lock().unwrap().insert(name.to_owned(), bytes.into());
    }
}

async fn step(disk: &SimDisk) -> Result<(), IoError> {
    disk.write_at(Io::COMMIT, 0, Bytes::from(vec![1; 512]), Durability::Durable).await
}

impl ArchiveStore for SimArchives {
    fn create<'a>(&'a self, name: &'a str) -> IoFuture<'a, Box<dyn ArchiveFile>> {
        Box::pin(async move {
            step(&self.disk).await?;
            let (disk, published) = (Arc::clone(&self.disk), Arc::clone(&self.published));
            let (name, bytes) = (name.to_owned(), Vec::new());
            let file = SimArchive { disk, published, name, bytes, synced: 0 };
            Ok(Box::new(file) as Box<dyn ArchiveFile>)
        })
    }

    fn read<'a>(&'a self, name: &'a str, offset: u64, length: usize) -> IoFuture<'a, Bytes> {
        Box::pin(async move {
            let label = self.disk.geometry();
            let none = IoError::new(IoErrorKind::NotFound, &name.into(), Op::Open, 0, label.size);
            let bytes = self.get(name).ok_or(none)?;
            let from = bytes.len().min(offset as usize);
            Ok(bytes.slice(from..bytes.len().min(from + length)))
        })
    }
}

impl ArchiveFile for SimArchive {
    fn append(&mut self, bytes: Bytes) -> IoFuture<'_, ()> {
        Box::pin(async move {
            step(&self.disk).await?;
            self.bytes.extend_from_slice(&bytes);
            Ok(())
        })
    }

    fn sync(&mut self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            step(&self.disk).await?;
            self.synced = self.bytes.len();
            Ok(())
        })
    }

    fn publish(self: Box<Self>) -> IoFuture<'static, ()> {
        Box::pin(async move {
            assert_eq!(self.synced, self.bytes.len(), "published before it was durable");
            step(&self.disk).await?;
            self.published.lock().unwrap().insert(self.name, self.bytes.into());
            step(&self.disk).await
        })
    }
}
