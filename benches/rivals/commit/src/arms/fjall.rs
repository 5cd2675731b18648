//! fjall. A batch that is made durable with `fdatasync` under the lock of its journal; it has no
//! group commit.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use serde_json::{Value, json};

use super::{fresh, locked};
use crate::Error;
use crate::group::Together;
use crate::load::{Load, row};
use crate::reads::{Keys, Reads};

pub struct Fjall {
    database: Database,
    log: Keyspace,
}

impl Fjall {
    pub fn new(load: &Load) -> Result<Fjall, Error> {
        let dir = fresh(load, "fjall")?;
        let cache = load.cache() as u64;
        let builder = Database::builder(dir).manual_journal_persist(true).cache_size(cache);
        let database = builder.open()?;
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
        let log = database.keyspace("log", options)?;
        for key in 0..load.keys() {
            log.insert(key.to_be_bytes(), row(key, load.bytes))?;
        }
        database.persist(PersistMode::SyncAll)?;
        if load.readers > 0 {
            log.rotate_memtable_and_wait()?;
            log.major_compact()?;
        }
        Ok(Fjall { database, log })
    }
}

impl Together for Fjall {
    fn commit_all(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (key, record) in records {
            batch.insert(&self.log, key.to_be_bytes(), record.as_slice());
        }
        batch.commit()?;
        Ok(())
    }

    fn about(&self) -> Value {
        json!({"version": locked("fjall"), "how": "PersistMode::SyncData"})
    }
}

impl Reads for Fjall {
    fn read(&self, keys: &mut Keys) -> Result<(), Error> {
        while let Some(key) = keys.next() {
            let row = self.log.get(key.to_be_bytes())?.ok_or("no row has this key")?;
            keys.got(&row)?;
        }
        Ok(())
    }

    fn how(&self) -> &'static str {
        "get, no snapshot; all in tables of its cache"
    }
}
