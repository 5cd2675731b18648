//! Archives as files of a directory, and the task that writes them.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cellar_heap::Store;
use cellar_io::IoFuture;
use cellar_redo::{ArchiveFile, ArchiveStore};

/// A directory for archives.
pub struct Directory(PathBuf);

struct Archive {
    file: Arc<File>,
    name: PathBuf,
}

/// Runs blocking calls.
async fn block(work: impl FnOnce() -> std::io::Result<()> + Send + 'static) {
    tokio::task::spawn_blocking(work).await.unwrap().unwrap();
}

impl Directory {
    /// An empty one.
    pub fn new(path: &Path) -> Directory {
        let _ = std::fs::remove_dir_all(path);
        std::fs::create_dir_all(path).unwrap();
        Directory(path.to_owned())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl ArchiveStore for Directory {
    fn create<'a>(&'a self, name: &'a str) -> IoFuture<'a, Box<dyn ArchiveFile>> {
        Box::pin(async move {
            let name = self.0.join(name);
            let file = Arc::new(File::create(name.with_extension("part")).unwrap());
            Ok(Box::new(Archive { file, name }) as Box<dyn ArchiveFile>)
        })
    }

    fn read<'a>(&'a self, _: &'a str, _: u64, _: usize) -> IoFuture<'a, Bytes> {
        unreachable!("nobody reads them")
    }
}

impl ArchiveFile for Archive {
    fn append(&mut self, bytes: Bytes) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let file = Arc::clone(&self.file);
            block(move || (&*file).write_all(&bytes)).await;
            Ok(())
        })
    }

    fn sync(&mut self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let file = Arc::clone(&self.file);
            block(move || file.sync_all()).await;
            Ok(())
        })
    }

    fn publish(self: Box<Self>) -> IoFuture<'static, ()> {
        Box::pin(async move {
            block(move || {
                std::fs::rename(self.name.with_extension("part"), &self.name)?;
                // They would fill the disk.
                std::fs::remove_file(&self.name)
            })
            .await;
            Ok(())
        })
    }
}

/// Writes archives until the log is closed.
pub struct Archiver(Arc<AtomicU64>);

impl Archiver {
    /// Starts it.
    pub fn start(store: &Store, directory: Directory) -> Archiver {
        let (written, log) = (Arc::new(AtomicU64::new(0)), store.log().clone());
        let archiver = Archiver(Arc::clone(&written));
        tokio::spawn(async move {
            while log.archivable().await.is_ok() {
                if let Ok(Some(_)) = log.archive(&directory).await {
                    written.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        archiver
    }

    /// The number written so far.
    pub fn written(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
