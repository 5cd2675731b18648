//! LMDB. One transaction writes at a time; without flags a commit writes the pages, `fdatasync`, then
//! the page that makes them valid, by `O_DSYNC`. It has no group commit.

use lmdb::{Database, DatabaseFlags, Environment, Transaction, WriteFlags};
use serde_json::{Value, json};

use super::fresh;
use crate::Error;
use crate::group::Together;
use crate::load::{Load, row};
use crate::reads::{Keys, Reads};

pub struct Lmdb {
    environment: Environment,
    log: Database,
}

impl Lmdb {
    pub fn new(load: &Load) -> Result<Lmdb, Error> {
        let dir = fresh(load, "lmdb")?;
        // Space for twice the pages: a row of 1 KB takes at least a quarter of one.
        let map = load.room() * 4;
        let environment = Environment::new().set_map_size(map).open(&dir)?;
        let log = environment.create_db(None, DatabaseFlags::empty())?;
        let store = Lmdb { environment, log };
        let rows: Vec<_> = (0..load.keys()).map(|key| (key, row(key, load.bytes))).collect();
        store.commit_all(&rows)?;
        Ok(store)
    }
}

impl Together for Lmdb {
    fn commit_all(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Error> {
        let mut transaction = self.environment.begin_rw_txn()?;
        for (key, record) in records {
            transaction.put(self.log, &key.to_be_bytes(), record, WriteFlags::empty())?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn about(&self) -> Value {
        json!({"version": "0.9.24", "how": "no flags: neither MDB_NOSYNC nor MDB_NOMETASYNC"})
    }
}

impl Reads for Lmdb {
    fn read(&self, keys: &mut Keys) -> Result<(), Error> {
        let mut idle = self.environment.begin_ro_txn()?.reset();
        while let Some(key) = keys.next() {
            let transaction = idle.renew()?;
            keys.got(transaction.get(self.log, &key.to_be_bytes())?)?;
            idle = transaction.reset();
        }
        Ok(())
    }

    fn how(&self) -> &'static str {
        "a transaction for each read, renewed, the value where it is mapped"
    }
}
