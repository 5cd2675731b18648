//! redb. One transaction writes at a time; `Durability::Immediate`, and one phase, which is the
//! cheaper commit.

use redb::{Builder, Database, Durability, ReadableDatabase, TableDefinition};
use serde_json::{Value, json};

use super::{fresh, locked};
use crate::Error;
use crate::group::Together;
use crate::load::{Load, row};
use crate::reads::{Keys, Reads};

const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

pub struct Redb(Database);

impl Redb {
    pub fn new(load: &Load) -> Result<Redb, Error> {
        let path = fresh(load, "redb")?.join("db");
        let store = Redb(Builder::new().set_cache_size(load.cache()).create(path)?);
        let rows: Vec<_> = (0..load.keys()).map(|key| (key, row(key, load.bytes))).collect();
        store.commit_all(&rows)?;
        Ok(store)
    }
}

impl Together for Redb {
    fn commit_all(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Error> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        let mut table = transaction.open_table(LOG)?;
        for (key, record) in records {
            table.insert(*key, record.as_slice())?;
        }
        drop(table);
        transaction.commit()?;
        Ok(())
    }

    fn about(&self) -> Value {
        json!({"version": locked("redb"), "how": "Durability::Immediate, one phase; all in its cache"})
    }
}

impl Reads for Redb {
    fn read(&self, keys: &mut Keys) -> Result<(), Error> {
        while let Some(key) = keys.next() {
            let table = self.0.begin_read()?.open_table(LOG)?;
            let row = table.get(key)?.ok_or("no row has this key")?;
            keys.got(row.value())?;
        }
        Ok(())
    }

    fn how(&self) -> &'static str {
        "a transaction for each read, the value where it is"
    }
}
