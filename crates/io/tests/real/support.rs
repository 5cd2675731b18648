//! Files, devices and data for the tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::real::{
    Access, EngineChoice, OpenOptions, RealDisk, Runtime, RuntimeOptions, open_disk,
};
use cellar_io::{Buffer, IoError};

pub const ENGINES: [EngineChoice; 3] =
    [EngineChoice::IoUring, EngineChoice::LibAio, EngineChoice::Sync];
pub const ACCESSES: [Access; 2] = [Access::Direct, Access::Buffered];

pub fn runtime() -> Runtime {
    Runtime::new(&RuntimeOptions::default()).expect("threads and descriptors")
}

/// A directory on a real file system: `/tmp` may be in memory.
pub fn directory() -> tempfile::TempDir {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tempfile::tempdir_in(here).expect("room for tests")
}

/// A file of `size` bytes that are all written.
pub fn disk_file(directory: &tempfile::TempDir, name: &str, size: usize) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, vec![0xEE; size]).expect("room for tests");
    path
}

pub fn open(
    runtime: &Runtime,
    path: &Path,
    options: &OpenOptions,
) -> Result<Arc<RealDisk>, IoError> {
    open_disk(runtime.real_env(), path, options)
}

/// Bytes that differ from place to place and from `seed` to `seed`.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

pub fn bytes(seed: u64, length: usize) -> Bytes {
    Buffer::copy_of(&pattern(seed, length), length).freeze()
}
