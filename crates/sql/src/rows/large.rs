//! Transactions too large for one commit. The tables they change most are rewritten as the transaction sees
//! them, and at commit each new table replaces the old one.

use std::sync::Arc;

use bytes::Bytes;
use cellar_instance::catalog::{RowTable, Table};
use cellar_instance::database::{Alteration, Database, Definitions};
use cellar_instance::heap::{ChangeError, Statement, Transaction};

use super::build::built;
use super::change::Change;
use super::checks::Checks;
use super::rewrite::TOO_LARGE;
use super::scope::Scope;
use super::table::RowColumns;
use crate::error::Error;
use crate::instants::zoned::KEPT;

/// The most rows with long values read together, and the most bytes of these; so much fits any page cache.
const ROWS: usize = 64;
const LONG_BYTES: u64 = 4 << 20;

/// Who commits.
pub(super) struct Committer<'a> {
    pub database: &'a Arc<Database>,
    pub session: &'a cellar_wait::Session,
    pub definitions: &'a Definitions,
}

impl Committer<'_> {
    /// Makes a transaction fit one commit.
    ///
    /// # Errors
    /// 70207 it does not fit, and sees tables as of an older snapshot; 00060, 30006 of locks; no space for a second
    /// copy of a table's rows.
    pub async fn make_fit(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let Err(mut refused) = transaction.check_fits().await else { return Ok(()) };
        if refused.number() != TOO_LARGE {
            return Err(refused.into());
        }
        if transaction.is_snapshot() {
            // A copy would lose newer rows, which it does not see.
            return Err(Error::from(refused).next("run the transaction under READ COMMITTED"));
        }
        for object in transaction.changed_tables() {
            let catalog = self.definitions.catalog()?;
            let has_place = |table: &&Table| {
                table.rows.as_ref().is_some_and(|rows: &RowTable| rows.object == object)
            };
            let Some(table) = catalog.tables.iter().find(has_place) else { continue };
            Box::pin(self.write_anew(transaction, &table.name)).await?;
            match transaction.check_fits().await {
                Err(error) if error.number() == TOO_LARGE => refused = error,
                fits => return Ok(fits?),
            }
        }
        Err(refused.into())
    }

    async fn write_anew(&self, transaction: &mut Transaction, name: &str) -> Result<(), Error> {
        let mut alteration = self.definitions.begin_move(transaction, self.session, name).await?;
        let mut rows = alteration.rows().clone();
        let old = self.columns(&alteration, &rows)?;
        rows.object = alteration.new_table().await?;
        let plain = self.columns(&alteration, &RowTable { indexes: Vec::new(), ..rows.clone() })?;
        let mut copy = Copy { committer: self, alteration: &alteration, old: &old, new: &plain };
        copy.all().await?;
        let columns = self.columns(&alteration, &rows)?;
        for at in 0..rows.indexes.len() {
            rows.indexes[at].object = built(&mut alteration, &columns, at).await?;
        }
        Ok(alteration.move_rows(transaction, rows).await?)
    }

    fn columns(&self, alteration: &Alteration, rows: &RowTable) -> Result<RowColumns, Error> {
        let table = Table { rows: Some(rows.clone()), ..alteration.table().clone() };
        // Rows are copied as stored, so the time zone does not matter.
        RowColumns::of(&table, rows, (&KEPT.into(), &*self.definitions.catalog()?))
    }
}

/// A copy in progress of a table's rows into a new table that nobody sees yet.
struct Copy<'a> {
    committer: &'a Committer<'a>,
    alteration: &'a Alteration,
    old: &'a RowColumns,
    new: &'a RowColumns,
}

impl Copy<'_> {
    /// Copies all rows that the transaction sees.
    async fn all(&mut self) -> Result<(), Error> {
        let statement = self.alteration.statement();
        let mut scan = statement.shares(&self.old.rows, 1)?.scan(0);
        let checks = Checks::passed(self.new);
        let mut scope = self.filling(&statement).await?;
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        loop {
            let rows = scan.next().await?;
            let is_over = rows.is_none();
            for (_, row) in rows.iter().flat_map(|rows| rows.iter()) {
                let long = self.old.long_values(row)?;
                let row = Bytes::copy_from_slice(row);
                if long.is_empty() {
                    scope.open().await?.load_row(row, Vec::new()).await?;
                    continue;
                }
                bytes += long.iter().map(|long| u64::from(long.length)).sum::<u64>();
                waiting.push(row);
                if waiting.len() >= ROWS || bytes >= LONG_BYTES {
                    bytes = 0;
                    let rows = std::mem::take(&mut waiting);
                    scope = self.with_long_values(scope, &checks, &rows).await?;
                }
            }
            if is_over {
                let scope = self.with_long_values(scope, &checks, &waiting).await?;
                return self.commit(scope).await;
            }
        }
    }

    /// A transaction that loads rows.
    async fn filling(&self, statement: &Statement) -> Result<Scope, Error> {
        let mut filling = self.alteration.filling()?;
        filling.begin_load(&self.new.rows, self.new.may_share()).await?;
        Ok(Scope::filling(self.committer.database, filling, statement.clone()))
    }

    /// Adds rows with long values, which are written again. That generates redo: beyond a limit it is committed, and
    /// a new transaction continues.
    async fn with_long_values(
        &self,
        scope: Scope,
        checks: &Checks,
        rows: &[Bytes],
    ) -> Result<Scope, Error> {
        let batch = self.old.batch(&scope.statement, rows).await?;
        let change = Change { columns: self.new, checks, scope: &scope, wants_rows: false };
        let stored = change.stored(&change.fitted(batch.columns())?)?;
        let writer = change.writer(&stored)?;
        let mut filling = scope.open().await?;
        for row in 0..writer.rows() {
            let new = change.new_row(&mut filling, &writer, row, &[]).await?;
            filling.load_row(new.bytes, Vec::new()).await?;
        }
        let is_much = filling.changed_bytes() > LONG_BYTES.min(filling.bytes_max() / 4);
        drop(filling);
        if !is_much {
            return Ok(scope);
        }
        let statement = scope.statement.clone();
        self.commit(scope).await?;
        self.filling(&statement).await
    }

    async fn commit(&self, scope: Scope) -> Result<(), Error> {
        let Some(mut filling) = scope.transaction.lock().await.take() else { return Ok(()) };
        match filling.close_load(&self.new.rows).await {
            Ok(()) => Ok(filling.commit().await?),
            Err(ChangeError::Other(error)) => Err(error.into()),
            Err(ChangeError::Duplicate { .. }) => {
                Err(Error::new(600, "XX000", "a table without indexes has a key twice"))
            }
        }
    }
}
