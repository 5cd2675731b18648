//! RocksDB, through its C interface. Writers are grouped by RocksDB itself. Log files are recycled,
//! so that a sync finds their size unchanged. Each committer has a key, so that flushes have little
//! to write.

use std::ffi::{CStr, CString, c_char};
use std::ptr::null_mut;

use serde_json::{Value, json};

use super::fresh;
use crate::Error;
use crate::load::{Load, Store};

/// Declares types that only RocksDB looks into.
macro_rules! opaque {
    ($($name:ident)*) => { $(#[repr(C)] struct $name { _inside: [u8; 0] })* };
}

opaque! { Db Options WriteOptions }

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut Options;
    fn rocksdb_options_set_create_if_missing(options: *mut Options, yes: u8);
    fn rocksdb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    fn rocksdb_options_set_recycle_log_file_num(options: *mut Options, files: usize);
    fn rocksdb_options_set_enable_pipelined_write(options: *mut Options, yes: u8);
    fn rocksdb_options_set_stats_dump_period_sec(options: *mut Options, seconds: u32);
    fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, yes: u8);
    fn rocksdb_open(
        options: *const Options,
        path: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Db;
    fn rocksdb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_free(memory: *mut std::ffi::c_void);
}

const WRITE_BUFFER: usize = 64 << 20;
const RECYCLED: usize = 2;

pub struct RocksDb {
    db: *mut Db,
    durable: *mut WriteOptions,
    pipelined: bool,
}

// SAFETY: RocksDB's handles may be used from all threads at once; they live as long as the program.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

/// The error that RocksDB has left, if any.
fn check(error: *mut c_char) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB gives a string that ends with zero, and that is ours to free.
    let words = unsafe {
        let words = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        words
    };
    Err(words.into())
}

impl RocksDb {
    pub fn new(load: &Load, pipelined: bool) -> Result<RocksDb, Error> {
        let path = CString::new(fresh(load, "rocksdb")?.to_string_lossy().as_bytes())?;
        let mut error: *mut c_char = null_mut();
        // SAFETY: the handles are RocksDB's own; it copies the options.
        let store = unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER);
            rocksdb_options_set_recycle_log_file_num(options, RECYCLED);
            rocksdb_options_set_enable_pipelined_write(options, u8::from(pipelined));
            rocksdb_options_set_stats_dump_period_sec(options, 0);
            let durable = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(durable, 1);
            let db = rocksdb_open(options, path.as_ptr(), &mut error);
            RocksDb { db, durable, pipelined }
        };
        check(error)?;
        store.fill(load.committers)?;
        Ok(store)
    }

    /// Writes until there are log files to recycle, none of it durable.
    fn fill(&self, committers: usize) -> Result<(), Error> {
        // SAFETY: as in `new`.
        let quick = unsafe { rocksdb_writeoptions_create() };
        let value = vec![7; 1024];
        for at in 0..(RECYCLED + 2) * WRITE_BUFFER / value.len() {
            self.put(quick, at % committers, &value)?;
        }
        Ok(())
    }

    fn put(&self, how: *mut WriteOptions, committer: usize, value: &[u8]) -> Result<(), Error> {
        let key = (committer as u64).to_be_bytes();
        let mut error: *mut c_char = null_mut();
        // SAFETY: key and value live until the call returns.
        unsafe {
            let (key, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            rocksdb_put(self.db, how, key, 8, value_at, value.len(), &mut error);
        }
        check(error)
    }
}

impl Store for RocksDb {
    fn commit(&self, committer: usize, record: &[u8]) -> Result<(), Error> {
        self.put(self.durable, committer, record)
    }

    fn about(&self) -> Value {
        let how = format!(
            "sync=true, recycle_log_file_num={RECYCLED}, enable_pipelined_write={}",
            self.pipelined
        );
        json!({"version": version(), "how": how})
    }
}

/// Of the library that is loaded, as its file is called.
fn version() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let file = maps.lines().find_map(|line| line.split("librocksdb.so.").nth(1));
    file.unwrap_or("?").to_owned()
}
