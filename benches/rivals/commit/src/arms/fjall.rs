//! fjall. A batch that is made durable with `fdatasync` under the lock of its journal; it has no
//! group commit. Each committer has a key.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use serde_json::{Value, json};

use super::{fresh, locked};
use crate::Error;
use crate::group::Together;
use crate::load::Load;

pub struct Fjall {
    database: Database,
    log: Keyspace,
}

impl Fjall {
    pub fn new(load: &Load) -> Result<Fjall, Error> {
        let dir = fresh(load, "fjall")?;
        let database = Database::builder(dir).manual_journal_persist(true).open()?;
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
        let log = database.keyspace("log", options)?;
        Ok(Fjall { database, log })
    }
}

impl Together for Fjall {
    fn commit_all(&self, records: &[(usize, Vec<u8>)]) -> Result<(), Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (committer, record) in records {
            batch.insert(&self.log, (*committer as u64).to_be_bytes(), record.as_slice());
        }
        batch.commit()?;
        Ok(())
    }

    fn about(&self) -> Value {
        json!({"version": locked("fjall"), "how": "PersistMode::SyncData"})
    }
}
