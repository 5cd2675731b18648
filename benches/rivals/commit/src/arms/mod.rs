//! The stores. Each is set up for the cheapest commit that survives a power cut.

mod cellar;
mod fjall;
mod heap;
mod lmdb;
mod raw;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;

use crate::Error;
use crate::group::{Alone, Grouped, Together};
use crate::load::{Load, run as measure};
use crate::reads::{Reads, run as measure_reads};

/// The output of `list`.
pub const NAMES: &[&str] = &[
    "cellar",
    "heap",
    "heap-mirrored",
    "raw",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    #[cfg(feature = "rocksdb")]
    "rocksdb-pipelined",
    "sqlite",
    "sqlite-grouped",
    "redb",
    "redb-grouped",
    "fjall",
    "fjall-grouped",
    "lmdb",
    "lmdb-grouped",
];

/// The output of `list-reads`: stores that find rows by key.
pub const READS: &[&str] = &[
    "heap",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
    "sqlite",
    "redb",
    "fjall",
    "lmdb",
];

/// Runs one and returns the line to print.
pub fn run(arm: &str, load: &Load) -> Result<String, Error> {
    std::fs::create_dir_all(&load.dir)?;
    if load.readers > 0 {
        return read(arm, load);
    }
    match arm {
        "cellar" => cellar::run(load),
        "heap" => heap::run(load),
        "heap-mirrored" => heap::run_mirrored(load),
        "raw" => measure(arm, &raw::Raw::new(load)?, load),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => measure(arm, &rocksdb::RocksDb::new(load, false)?, load),
        #[cfg(feature = "rocksdb")]
        "rocksdb-pipelined" => measure(arm, &rocksdb::RocksDb::new(load, true)?, load),
        "sqlite" => measure(arm, &Alone(sqlite::Sqlite::new(load)?), load),
        "sqlite-grouped" => measure(arm, &Grouped::new(sqlite::Sqlite::new(load)?), load),
        "redb" => measure(arm, &Alone(redb::Redb::new(load)?), load),
        "redb-grouped" => measure(arm, &Grouped::new(redb::Redb::new(load)?), load),
        "fjall" => measure(arm, &Alone(fjall::Fjall::new(load)?), load),
        "fjall-grouped" => measure(arm, &Grouped::new(fjall::Fjall::new(load)?), load),
        "lmdb" => measure(arm, &Alone(lmdb::Lmdb::new(load)?), load),
        "lmdb-grouped" => measure(arm, &Grouped::new(lmdb::Lmdb::new(load)?), load),
        _ => Err(format!("there is no arm {arm}: {}", NAMES.join(" ")).into()),
    }
}

fn read(arm: &str, load: &Load) -> Result<String, Error> {
    match arm {
        "heap" => heap::read(load),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => {
            let store = rocksdb::RocksDb::new(load, false)?;
            measure_reads(arm, &store, load, crate::load::Store::about(&store))
        }
        "sqlite" => read_from(arm, &sqlite::Sqlite::new(load)?, load),
        "redb" => read_from(arm, &redb::Redb::new(load)?, load),
        "fjall" => read_from(arm, &fjall::Fjall::new(load)?, load),
        "lmdb" => read_from(arm, &lmdb::Lmdb::new(load)?, load),
        _ => Err(format!("{arm} has no reads: {}", READS.join(" ")).into()),
    }
}

fn read_from(arm: &str, store: &(impl Reads + Together), load: &Load) -> Result<String, Error> {
    measure_reads(arm, store, load, store.about())
}

/// A separate, empty directory.
fn fresh(load: &Load, name: &str) -> Result<std::path::PathBuf, Error> {
    let dir = load.dir.join(name);
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// A file of this size, written once: a write into a hole measures the file system.
fn written(path: &std::path::Path, size: u64) -> Result<(), Error> {
    if path.metadata().is_ok_and(|found| found.len() == size) {
        return Ok(());
    }
    let mut file = std::fs::File::create(path)?;
    let chunk = vec![0; 1 << 20];
    for _ in 0..size >> 20 {
        std::io::Write::write_all(&mut file, &chunk)?;
    }
    file.sync_all()?;
    Ok(())
}

/// The version of a library that this program was built with.
fn locked(name: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let package = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    package.and_then(|(_, behind)| behind.split('"').next()).unwrap_or("?")
}
