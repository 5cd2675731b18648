//! RocksDB. Writers are grouped by RocksDB itself. Log files are recycled, so that a sync finds
//! their size unchanged. Each committer has a key, so that flushes have little to write.

use rocksdb::{DB, DBRecoveryMode, Options, WriteOptions};
use serde_json::{Value, json};

use super::fresh;
use crate::Error;
use crate::load::{Load, Store};

const WRITE_BUFFER: usize = 64 << 20;
const RECYCLED: usize = 2;

pub struct RocksDb {
    db: DB,
    pipelined: bool,
}

impl RocksDb {
    pub fn new(load: &Load, pipelined: bool) -> Result<RocksDb, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(WRITE_BUFFER);
        options.set_recycle_log_file_num(RECYCLED);
        // The only mode in which RocksDB 7.8 recycles; with any other it drops the number silently.
        options.set_wal_recovery_mode(DBRecoveryMode::SkipAnyCorruptedRecord);
        options.set_enable_pipelined_write(pipelined);
        options.set_stats_dump_period_sec(0);
        let store = RocksDb { db: DB::open(&options, fresh(load, "rocksdb")?)?, pipelined };
        store.fill(load.committers)?;
        Ok(store)
    }

    /// Writes until there are log files to recycle, none of it durable.
    fn fill(&self, committers: usize) -> Result<(), Error> {
        let value = vec![7; 1024];
        for at in 0..(RECYCLED + 2) * WRITE_BUFFER / value.len() {
            self.db.put(((at % committers) as u64).to_be_bytes(), &value)?;
        }
        Ok(())
    }
}

impl Store for RocksDb {
    fn commit(&self, committer: usize, record: &[u8]) -> Result<(), Error> {
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        self.db.put_opt((committer as u64).to_be_bytes(), record, &durable)?;
        Ok(())
    }

    fn about(&self) -> Value {
        let how = format!(
            "sync=true, recycle_log_file_num={RECYCLED} (recovery skips what is corrupted), \
             enable_pipelined_write={}",
            self.pipelined
        );
        json!({"version": version(), "how": how})
    }
}

/// Of the library that is loaded, as its file is called.
fn version() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let file = maps.lines().find_map(|line| line.split("librocksdb.so.").nth(1));
    file.unwrap_or("built in").to_owned()
}
