//! All rows of a table that nobody else uses: read to be checked or to be rewritten.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use cellar_instance::database::{Alteration, Database};
use cellar_instance::heap::{Scan, Statement};

use super::change::Change;
use super::checks::Checks;
use super::scope::Scope;
use super::table::{RowColumns, row_error};
use crate::error::Error;

/// How many rows are read, and written, together: few enough for one transaction with any redo log.
const ROWS: usize = 1000;
const TEXT_BYTES: usize = 256 << 10;

/// The error number of a transaction that is too large.
pub(super) const TOO_LARGE: u32 = 70207;

/// The rows of a table.
pub(crate) struct OldRows<'a> {
    columns: &'a RowColumns,
    statement: Statement,
    scan: Scan,
    is_over: bool,
}

impl<'a> OldRows<'a> {
    /// Begins to read them.
    ///
    /// # Errors
    /// The table is gone.
    pub fn of(columns: &'a RowColumns, statement: Statement) -> Result<OldRows<'a>, Error> {
        let scan = statement.shares(&columns.rows, 1)?.scan(0);
        Ok(OldRows { columns, statement, scan, is_over: false })
    }

    /// The next rows, all their columns; `None` after the last.
    ///
    /// # Errors
    /// A row is damaged; the disk reports one.
    pub async fn next(&mut self) -> Result<Option<Vec<ArrayRef>>, Error> {
        let all: Vec<usize> = (0..self.columns.schema.fields().len()).collect();
        let mut builder = self.columns.builder(&all)?;
        while !self.is_over && builder.rows() < ROWS && builder.text_bytes() < TEXT_BYTES {
            match self.scan.next().await? {
                None => self.is_over = true,
                Some(rows) => {
                    for (_, row) in rows.iter() {
                        self.columns.push(&mut builder, &self.statement, row).await?;
                    }
                }
            }
        }
        if builder.rows() == 0 {
            return Ok(None);
        }
        let arrays = builder.finish().map_err(|error| row_error(&self.columns.name, &error))?;
        Ok(Some(arrays))
    }

    /// Checks the constraints of a table on each row.
    ///
    /// # Errors
    /// One is violated; as of [`OldRows::next`].
    pub async fn check(mut self, checks: &Checks) -> Result<(), Error> {
        while let Some(arrays) = self.next().await? {
            checks.check(&arrays)?;
        }
        Ok(())
    }
}

/// A table that nobody sees yet, and the constraints on its rows.
pub(crate) struct Filling<'a> {
    /// The table, without indexes.
    pub columns: &'a RowColumns,
    /// Its conditions.
    pub checks: &'a Checks,
    /// Who has made it.
    pub alteration: &'a Alteration,
    /// The database.
    pub database: &'a Arc<Database>,
    /// What is read meanwhile.
    pub statement: &'a Statement,
}

impl Filling<'_> {
    /// Adds rows in a transaction of their own, or in several if they are too many for one.
    ///
    /// # Errors
    /// As of an INSERT.
    pub async fn insert(&self, batch: &RecordBatch) -> Result<(), Error> {
        let mut left = vec![batch.clone()];
        while let Some(batch) = left.pop() {
            match self.insert_together(&batch).await {
                Err(error) if error.number == TOO_LARGE && batch.num_rows() > 1 => {
                    let half = batch.num_rows() / 2;
                    left.push(batch.slice(half, batch.num_rows() - half));
                    left.push(batch.slice(0, half));
                }
                inserted => inserted?,
            }
        }
        Ok(())
    }

    async fn insert_together(&self, batch: &RecordBatch) -> Result<(), Error> {
        let transaction = self.alteration.filling()?;
        let scope = Scope::filling(self.database, transaction, self.statement.clone());
        let (columns, checks) = (self.columns, self.checks);
        let change = Change { columns, checks, scope: &scope, wants_rows: false };
        change.insert(batch).await?;
        match scope.transaction.lock().await.take() {
            Some(transaction) => Ok(transaction.commit().await?),
            None => Ok(()),
        }
    }
}
