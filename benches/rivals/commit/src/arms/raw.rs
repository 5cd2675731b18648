//! `pwrite` to a preallocated file, opened with `O_DIRECT` and `O_DSYNC`: one block for each
//! record, each committer in a separate part.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::written;
use crate::Error;
use crate::load::{Load, Store};

const FILE_BYTES: u64 = 256 << 20;

/// A block with the alignment for direct writes.
#[repr(align(4096))]
struct Aligned([u8; 65536]);

pub struct Raw {
    file: File,
    blocks: Vec<AtomicU64>,
    /// The size of one record.
    bytes: u64,
    block: u32,
}

impl Raw {
    pub fn new(load: &Load) -> Result<Raw, Error> {
        let path = load.dir.join("raw");
        written(&path, FILE_BYTES)?;
        let flags = libc::O_DIRECT | libc::O_DSYNC;
        let file = File::options().write(true).custom_flags(flags).open(path)?;
        let bytes = (load.bytes as u64).next_multiple_of(u64::from(load.block));
        if bytes > 65536 {
            return Err("records of the raw arm have at most 64 KiB".into());
        }
        let blocks = (0..load.committers).map(|_| AtomicU64::new(0)).collect();
        Ok(Raw { file, blocks, bytes, block: load.block })
    }
}

impl Store for Raw {
    fn commit(&self, committer: usize, _: u64, record: &[u8]) -> Result<(), Error> {
        // Only this thread uses the committer.
        let number = self.blocks[committer].fetch_add(1, Ordering::Relaxed);
        let part = FILE_BYTES / self.blocks.len() as u64 / self.bytes;
        let at = (committer as u64 * part + number % part) * self.bytes;
        let mut block = Aligned([0; 65536]);
        block.0[..record.len()].copy_from_slice(record);
        self.file.write_all_at(&block.0[..self.bytes as usize], at)?;
        Ok(())
    }

    fn about(&self) -> Value {
        json!({"version": "-", "how": "pwrite, O_DIRECT|O_DSYNC", "block": self.block})
    }
}
