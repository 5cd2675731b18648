//! Rows that a statement adds to a table: a few through its transaction, many by the direct path of the
//! heap, which writes no redo for them and keeps none of them in memory.

use arrow::array::{ArrayRef, RecordBatch};
use cellar_instance::heap::ChangeError;

use super::change::Change;
use crate::columnar::write::bytes_of;
use crate::error::Error;

/// The most bytes of rows that go through the transaction.
const FEW_BYTES: usize = 8 << 20;

/// Rows that go through the transaction may take at most this fraction (1/n) of what fits one commit.
const FEW_PART: u64 = 4;

/// The most index entries that go through the transaction: each may be in a different page, which stays in memory.
const FEW_ENTRIES: usize = 64 << 10;

/// Where the rows of a statement go.
pub(crate) struct Sink<'a> {
    change: &'a Change<'a>,
    /// Rows held back until it is known whether they are few.
    waiting: Vec<Vec<ArrayRef>>,
    bytes: usize,
    rows: usize,
    /// Bytes beyond which rows count as many; 0: not computed yet.
    few: usize,
    is_loading: bool,
    count: u64,
}

impl<'a> Sink<'a> {
    /// For the rows of a statement without RETURNING and ON CONFLICT.
    pub fn new(change: &'a Change<'a>) -> Sink<'a> {
        let (waiting, bytes, rows, few) = (Vec::new(), 0, 0, 0);
        Sink { change, waiting, bytes, rows, few, is_loading: false, count: 0 }
    }

    /// Adds rows: all columns of the table.
    ///
    /// # Errors
    /// As [`Change::insert`], but a duplicate key may be reported later.
    pub async fn add(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.count += batch.num_rows() as u64;
        if self.change.scope.in_block || self.change.columns.refers_to_itself() {
            // Loaded rows are invisible before the commit, but later statements or foreign keys must see these.
            self.change.insert(batch).await?;
            return Ok(());
        }
        let arrays = self.change.fitted(batch.columns())?;
        self.change.checks.check(&arrays)?;
        if self.is_loading {
            return self.load(&arrays).await;
        }
        if self.few == 0 {
            let most = self.change.scope.open().await?.bytes_max() / FEW_PART;
            self.few = FEW_BYTES.min(usize::try_from(most).unwrap_or(usize::MAX)).max(1);
        }
        self.bytes += bytes_of(batch);
        self.rows += batch.num_rows();
        self.waiting.push(arrays);
        let entries = self.rows * self.change.columns.rows.indexes.len();
        if self.bytes <= self.few && entries <= FEW_ENTRIES {
            return Ok(());
        }
        self.is_loading = true;
        let columns = self.change.columns;
        self.change.scope.open().await?.begin_load(&columns.rows, columns.may_share()).await?;
        self.change.scope.check_place(columns)?;
        for arrays in std::mem::take(&mut self.waiting) {
            self.load(&arrays).await?;
        }
        Ok(())
    }

    async fn load(&self, arrays: &[ArrayRef]) -> Result<(), Error> {
        let mut transaction = self.change.scope.open().await?;
        let stored = self.change.stored(arrays)?;
        let writer = self.change.writer(&stored)?;
        for row in 0..writer.rows() {
            let new = self.change.new_row(&mut transaction, &writer, row, &[]).await?;
            transaction.load_row(new.bytes, new.keys).await?;
        }
        self.change.note_new(arrays, None)?;
        // Long values generate redo.
        Ok(transaction.check_size()?)
    }

    /// Finishes after the last row; returns how many there were. The commit makes them visible.
    ///
    /// # Errors
    /// As of [`Sink::add`].
    pub async fn finish(mut self) -> Result<u64, Error> {
        if self.is_loading {
            self.close().await?;
        }
        for arrays in std::mem::take(&mut self.waiting) {
            self.change.insert_fitted(&arrays).await?;
        }
        Ok(self.count)
    }

    async fn close(&self) -> Result<(), Error> {
        let (columns, scope) = (self.change.columns, self.change.scope);
        let mut transaction = scope.open().await?;
        match transaction.close_load(&columns.rows).await {
            Ok(()) => Ok(()),
            Err(ChangeError::Other(error)) => Err(error.into()),
            Err(ChangeError::Duplicate { index, row }) => {
                // The place of the row may be taken by now: then the key is not reported.
                let found = transaction.row_now(&columns.rows, row).await.ok().flatten();
                drop(transaction);
                let mut key = (String::new(), String::new());
                if let Some(bytes) = found
                    && let Ok(batch) = columns.batch(&scope.statement, &[bytes]).await
                {
                    key = columns.key_text(index, batch.columns(), 0);
                }
                Err(self.change.duplicate(index, &key))
            }
        }
    }
}
