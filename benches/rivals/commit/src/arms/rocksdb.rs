//! RocksDB. Writers are grouped by RocksDB itself. Log files are recycled, so that a sync finds
//! their size unchanged.

use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBRecoveryMode, Options, WriteOptions,
};
use serde_json::{Value, json};

use super::fresh;
use crate::Error;
use crate::load::{Load, Store, row};
use crate::reads::{Keys, Reads};

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
        // Records are incompressible.
        options.set_compression_type(DBCompressionType::None);
        let mut tables = BlockBasedOptions::default();
        tables.set_block_cache(&Cache::new_lru_cache(load.cache())?);
        tables.set_bloom_filter(10.0, false);
        options.set_block_based_table_factory(&tables);
        let store = RocksDb { db: DB::open(&options, fresh(load, "rocksdb")?)?, pipelined };
        if load.readers == 0 {
            store.fill(load.keys())?;
        }
        for key in 0..load.keys() {
            store.db.put(key.to_be_bytes(), row(key, load.bytes))?;
        }
        if load.readers > 0 {
            store.db.flush()?;
            store.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        }
        Ok(store)
    }

    /// Writes until there are log files to recycle, none of it durable.
    fn fill(&self, keys: u64) -> Result<(), Error> {
        let value = vec![7; 1024];
        for at in 0..(RECYCLED + 2) * WRITE_BUFFER / value.len() {
            self.db.put((at as u64 % keys).to_be_bytes(), &value)?;
        }
        Ok(())
    }
}

impl Store for RocksDb {
    fn commit(&self, _: usize, key: u64, record: &[u8]) -> Result<(), Error> {
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        self.db.put_opt(key.to_be_bytes(), record, &durable)?;
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

impl Reads for RocksDb {
    fn read(&self, keys: &mut Keys) -> Result<(), Error> {
        while let Some(key) = keys.next() {
            let row = self.db.get_pinned(key.to_be_bytes())?.ok_or("no row has this key")?;
            keys.got(&row)?;
        }
        Ok(())
    }

    fn how(&self) -> &'static str {
        "get_pinned, no snapshot; one level of tables with Bloom filters, all in the block cache"
    }
}

/// The version of the loaded library, from its file name.
fn version() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let file = maps.lines().find_map(|line| line.split("librocksdb.so.").nth(1));
    file.unwrap_or("built in").to_owned()
}
