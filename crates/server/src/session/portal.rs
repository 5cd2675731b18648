//! Prepared statements, and portals: what is left to send of a statement that runs.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cellar_sql::{Error, Parameter, Prepared};
use futures_util::{Stream, StreamExt};

use super::command::Command;

/// A prepared statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub sql: String,
    pub tag: String,
    /// What the session itself does; `None`: the engine runs it.
    pub command: Option<Command>,
    /// What the engine knows of it; `None`: there is no statement in the text, or only a command.
    pub prepared: Option<Arc<Prepared>>,
    /// The oids of its parameters.
    pub types: Vec<u32>,
}

/// Rows as they come.
pub(super) type RowStream = Pin<Box<dyn Stream<Item = Result<RecordBatch, Error>> + Send>>;

/// Rows of which some may have been sent already.
pub(super) struct Left {
    stream: RowStream,
    schema: SchemaRef,
    batch: Option<RecordBatch>,
    /// The next row of the batch.
    at: usize,
    /// Rows that were sent.
    pub told: u64,
}

/// The progress of a portal.
pub(super) enum State {
    /// Nothing has been executed yet.
    Bound,
    /// Rows are left.
    Open(Left),
    /// Everything is sent.
    Done,
}

/// A statement with values for its parameters, and what is left of its rows.
pub(super) struct Portal {
    pub statement: Arc<Statement>,
    pub values: Vec<Parameter>,
    /// The formats of its columns.
    pub formats: Vec<i16>,
    pub state: State,
    /// It survives the end of its transaction: a cursor WITH HOLD.
    pub is_held: bool,
    /// Its transaction has not ended yet.
    pub is_new: bool,
    /// It is an SQL cursor: only FETCH and MOVE read it.
    pub is_cursor: bool,
}

impl Left {
    pub fn new(schema: SchemaRef, stream: RowStream) -> Left {
        Left { stream, schema, batch: None, at: 0, told: 0 }
    }

    /// Of rows that are all here.
    pub fn of(batch: RecordBatch) -> Left {
        let schema = batch.schema();
        let stream = Box::pin(futures_util::stream::empty());
        Left { stream, schema, batch: Some(batch), at: 0, told: 0 }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows, at most `most` of them; `None`: there are no more.
    pub async fn next(&mut self, most: usize) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(batch) = &self.batch {
                let left = batch.num_rows() - self.at;
                if left > 0 {
                    let count = left.min(most);
                    let rows = batch.slice(self.at, count);
                    self.at += count;
                    self.told += count as u64;
                    return Ok(Some(rows));
                }
            }
            self.batch = self.stream.next().await.transpose()?;
            self.at = 0;
            if self.batch.is_none() {
                return Ok(None);
            }
        }
    }

    /// Reads all that is left, so that nothing of the transaction is needed any more.
    pub async fn read_all(mut self) -> Result<Left, Error> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next(usize::MAX).await? {
            batches.push(Ok(batch));
        }
        let stream = Box::pin(futures_util::stream::iter(batches));
        Ok(Left { stream, batch: None, at: 0, told: 0, ..self })
    }
}
