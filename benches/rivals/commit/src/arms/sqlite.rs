//! SQLite, write-ahead log. It has no group commit: one connection, which committers use in turn.
//! Exclusive locking saves the locks between processes. Each reader has its own connection.

use std::path::PathBuf;
use std::sync::Mutex;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use super::fresh;
use crate::Error;
use crate::group::Together;
use crate::load::{Load, row};
use crate::reads::{Keys, Reads};

pub struct Sqlite {
    connection: Mutex<Connection>,
    path: PathBuf,
    /// Kibibytes of a connection's cache.
    cache: usize,
}

impl Sqlite {
    pub fn new(load: &Load) -> Result<Sqlite, Error> {
        let path = fresh(load, "sqlite")?.join("db");
        let (mut connection, cache) = (Connection::open(&path)?, load.cache() >> 10);
        if load.readers == 0 {
            connection.pragma_update(None, "locking_mode", "exclusive")?;
        }
        connection.pragma_update(None, "cache_size", -(cache as i64))?;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        if mode != "wal" {
            return Err(format!("SQLite's journal mode is {mode}").into());
        }
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute("create table log(id integer primary key, record blob not null)", [])?;
        let filling = connection.transaction()?;
        for key in 0..load.keys() {
            let mut insert = filling.prepare_cached("insert into log values (?1, ?2)")?;
            insert.execute((key as i64, row(key, load.bytes)))?;
        }
        filling.commit()?;
        // The log keeps its size: a commit does not extend it.
        connection.query_row("pragma wal_checkpoint(restart)", [], |_| Ok(()))?;
        Ok(Sqlite { connection: Mutex::new(connection), path, cache })
    }
}

impl Together for Sqlite {
    fn commit_all(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Error> {
        let mut connection = self.connection.lock().unwrap_or_else(|e| e.into_inner());
        let sql = "update log set record = ?2 where id = ?1";
        if let [(key, record)] = records {
            connection.prepare_cached(sql)?.execute((*key as i64, record))?;
            return Ok(());
        }
        let transaction = connection.transaction()?;
        let mut update = transaction.prepare_cached(sql)?;
        for (key, record) in records {
            update.execute((*key as i64, record))?;
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

impl Reads for Sqlite {
    fn read(&self, keys: &mut Keys) -> Result<(), Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.pragma_update(None, "cache_size", -(self.cache as i64))?;
        let mut select = connection.prepare("select record from log where id = ?1")?;
        while let Some(key) = keys.next() {
            let mut rows = select.query([key as i64])?;
            let row = rows.next()?.ok_or("no row has this key")?;
            keys.got(row.get_ref(0)?.as_blob()?)?;
        }
        Ok(())
    }

    fn how(&self) -> &'static str {
        "a prepared select by integer primary key, a connection and a cache for each reader"
    }
}
