//! The stores. Each is set up for the cheapest commit that survives a power cut.

mod cellar;
mod fjall;
mod heap;
mod raw;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;

use crate::Error;
use crate::group::{Alone, Grouped};
use crate::load::{Load, run as measure};

/// What `list` shows.
pub const NAMES: &[&str] = &[
    "cellar",
    "heap",
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
];

/// Runs one and gives the line to print.
pub fn run(arm: &str, load: &Load) -> Result<String, Error> {
    std::fs::create_dir_all(&load.dir)?;
    match arm {
        "cellar" => cellar::run(load),
        "heap" => heap::run(load),
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
        _ => Err(format!("there is no arm {arm}: {}", NAMES.join(" ")).into()),
    }
}

/// A directory of its own with nothing in it.
fn fresh(load: &Load, name: &str) -> Result<std::path::PathBuf, Error> {
    let dir = load.dir.join(name);
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// A file of that size that was written once: a write into a hole measures the file system.
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
