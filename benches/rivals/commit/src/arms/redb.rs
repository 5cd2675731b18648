//! redb. One transaction writes at a time; `Durability::Immediate`, and one phase, which is the
//! cheaper commit. Each committer has a key.

use redb::{Database, Durability, TableDefinition};
use serde_json::{Value, json};

use super::{fresh, locked};
use crate::Error;
use crate::group::Together;
use crate::load::Load;

const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

pub struct Redb(Database);

impl Redb {
    pub fn new(load: &Load) -> Result<Redb, Error> {
        Ok(Redb(Database::create(fresh(load, "redb")?.join("db"))?))
    }
}

impl Together for Redb {
    fn commit_all(&self, records: &[(usize, Vec<u8>)]) -> Result<(), Error> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        let mut table = transaction.open_table(LOG)?;
        for (committer, record) in records {
            table.insert(*committer as u64, record.as_slice())?;
        }
        drop(table);
        transaction.commit()?;
        Ok(())
    }

    fn about(&self) -> Value {
        json!({"version": locked("redb"), "how": "Durability::Immediate, one phase"})
    }
}
