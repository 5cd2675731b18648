//! SQLite, write-ahead log. It has no group commit: one connection, which committers take in turn.
//! Exclusive locking spares it the locks between processes. Each committer has a row, so that a
//! commit writes one page of the log and checkpoints have little to do.

use std::sync::Mutex;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::fresh;
use crate::Error;
use crate::group::Together;
use crate::load::Load;

pub struct Sqlite(Mutex<Connection>);

impl Sqlite {
    pub fn new(load: &Load) -> Result<Sqlite, Error> {
        let connection = Connection::open(fresh(load, "sqlite")?.join("db"))?;
        connection.pragma_update(None, "locking_mode", "exclusive")?;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        if mode != "wal" {
            return Err(format!("SQLite's journal mode is {mode}").into());
        }
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute("create table log(id integer primary key, record blob not null)", [])?;
        for committer in 0..load.committers {
            let row = (committer as i64, vec![0; load.bytes]);
            connection.execute("insert into log values (?1, ?2)", row)?;
        }
        Ok(Sqlite(Mutex::new(connection)))
    }
}

impl Together for Sqlite {
    fn commit_all(&self, records: &[(usize, Vec<u8>)]) -> Result<(), Error> {
        let mut connection = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let sql = "update log set record = ?2 where id = ?1";
        if let [(committer, record)] = records {
            connection.prepare_cached(sql)?.execute((*committer as i64, record))?;
            return Ok(());
        }
        let transaction = connection.transaction()?;
        let mut update = transaction.prepare_cached(sql)?;
        for (committer, record) in records {
            update.execute((*committer as i64, record))?;
        }
        drop(update);
        transaction.commit()?;
        Ok(())
    }

    fn about(&self) -> Value {
        let how = "journal_mode=wal, synchronous=full, locking_mode=exclusive";
        json!({"version": rusqlite::version(), "how": how})
    }
}
