//! Results of statements, sent to the client.

use std::sync::Arc;

use arrow::datatypes::Schema;
use bytes::{Buf, Bytes};
use cellar_sql::{Answer, Error, Outcome};
use futures_util::{StreamExt, TryStreamExt};

use super::portal::{Left, RowStream};
use super::said::said_of;
use super::{Done, Failure, Session, watched};
use crate::values::rows::{columns, write_some};
use crate::wire::backend::{Column, Said};

/// Width of a line of EXPLAIN: as wide as people make their terminals.
const WIDTH: usize = 160;

/// Rows that are made ready for the wire together.
const PART: usize = 256;

/// The result of a statement, as far as rows of it are left.
pub(super) enum Given {
    Rows(Left),
    /// Rows that say why it cannot be done.
    Refused(Left, Error),
    Copied(cellar_sql::CopyOutput),
    /// A table made from a query, with so many rows; `None`: it existed already, or was to have none.
    Filled(Option<u64>),
    /// Only a tag, and what else the user should know.
    Done(Option<u64>, Vec<String>),
}

/// What is given by an answer.
pub(super) fn given(answer: Answer) -> Result<Given, Error> {
    let outcome = match answer {
        Answer::Rows(batch) => return Ok(Given::Rows(Left::of(batch))),
        Answer::Changed(count, _) => return Ok(Given::Done(Some(count), Vec::new())),
        Answer::Other(outcome) => outcome,
    };
    let left = |schema, stream: RowStream| Left::new(schema, stream);
    Ok(match outcome {
        Outcome::Rows(stream) => {
            let schema = stream.schema();
            let stream = stream.map_err(|error| cellar_sql::failure::from_datafusion(&error));
            Given::Rows(left(schema, Box::pin(stream)))
        }
        Outcome::Refused(stream, error) => {
            let schema = stream.schema();
            let stream = stream.map_err(|error| cellar_sql::failure::from_datafusion(&error));
            Given::Refused(left(schema, Box::pin(stream)), error)
        }
        Outcome::Copied(copied) => Given::Copied(copied),
        Outcome::Plan(plan) => {
            let batch = plan.batch(WIDTH).map_err(|error| {
                Error::new(600, "XX000", format!("the plan cannot be shown: {error}"))
            })?;
            Given::Rows(Left::of(batch))
        }
        Outcome::Changed(count, _) => Given::Done(Some(count), Vec::new()),
        Outcome::Filled { rows, .. } => Given::Filled(rows),
        Outcome::Done { notices, .. } => Given::Done(None, notices),
    })
}

/// The tag of a statement that is done, with its count.
pub(super) fn tag_with(tag: &str, count: Option<u64>) -> String {
    match (tag, count) {
        ("INSERT", count) => format!("INSERT 0 {}", count.unwrap_or(0)),
        ("SELECT" | "UPDATE" | "DELETE" | "COPY" | "FETCH" | "MOVE" | "MERGE", Some(count)) => {
            format!("{tag} {count}")
        }
        _ => tag.to_owned(),
    }
}

/// The length of the first line; all of them if there is but a part of one.
fn line(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1)
}

/// The length of the first row in binary; of the header and the end all that there is.
fn tuple(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    let count = rest.try_get_i16().unwrap_or(-1);
    for _ in 0..count.max(0) {
        let length = rest.try_get_i32().unwrap_or(-1);
        let length = usize::try_from(length).unwrap_or(0);
        if length > rest.len() {
            return bytes.len();
        }
        rest.advance(length);
    }
    if count < 0 { bytes.len() } else { bytes.len() - rest.len() }
}

impl Session {
    /// Sends all of an answer: columns, rows, and the tag.
    pub(super) async fn tell(&mut self, answer: Answer, tag: &str) -> Done {
        match given(answer)? {
            Given::Rows(mut left) => {
                let columns = self.send_columns(left.schema(), &[])?;
                self.send_rows(&mut left, &columns, usize::MAX).await?;
                self.out.complete(&tag_with(tag, Some(left.told)));
            }
            Given::Refused(mut left, error) => {
                let columns = self.send_columns(left.schema(), &[])?;
                self.send_rows(&mut left, &columns, usize::MAX).await?;
                return Err(error.into());
            }
            Given::Copied(copied) => {
                let count = self.copy_out(copied).await?;
                self.out.complete(&tag_with(tag, Some(count)));
            }
            Given::Filled(count) => self.send_filled(count),
            Given::Done(count, notices) => self.send_done(tag, count, notices),
        }
        Ok(())
    }

    /// Reports that a table was made from a query.
    pub(super) fn send_filled(&mut self, count: Option<u64>) {
        let tag = if count.is_some() { "SELECT" } else { "CREATE TABLE AS" };
        self.send_done(tag, count, Vec::new());
    }

    /// Reports the end of a statement that returns no rows.
    pub(super) fn send_done(&mut self, tag: &str, count: Option<u64>, notices: Vec<String>) {
        for notice in notices {
            self.out.said(&Said::notice(notice));
        }
        self.out.complete(&tag_with(tag, count));
    }

    pub(super) fn send_columns(
        &mut self,
        schema: &Arc<Schema>,
        formats: &[i16],
    ) -> Done<Vec<Column>> {
        let columns = columns(schema, formats)?;
        self.out.columns(&columns);
        Ok(columns)
    }

    /// Sends rows, at most `most` of them; returns whether there may be more.
    pub(super) async fn send_rows(
        &mut self,
        left: &mut Left,
        columns: &[Column],
        most: usize,
    ) -> Done<bool> {
        let mut wanted = most;
        while wanted > 0 {
            let batch = {
                let canceller = self.engine.canceller();
                let work = left.next(wanted);
                watched((&mut self.frames, &mut self.out), &canceller, &mut self.stop, work)
                    .await??
            };
            let Some(batch) = batch else { return Ok(false) };
            wanted -= batch.num_rows();
            // What a column is made into for the wire is made for few rows at a time.
            for begin in (0..batch.num_rows()).step_by(PART) {
                let part = batch.slice(begin, PART.min(batch.num_rows() - begin));
                let mut at = 0;
                while at < part.num_rows() {
                    at = write_some(&part, columns, at, &mut self.out)?;
                    self.out.flush_much().await?;
                }
            }
        }
        Ok(true)
    }

    /// Sends the bytes of a COPY TO STDOUT; returns the number of rows.
    pub(super) async fn copy_out(&mut self, copied: cellar_sql::CopyOutput) -> Done<u64> {
        self.out.copying(b'H', i16::from(copied.is_binary), copied.columns);
        let counter = copied.counter();
        let (mut bytes, mut is_first, mut before) = (copied.bytes, true, Bytes::new());
        loop {
            let next = {
                let canceller = self.engine.canceller();
                let work = bytes.next();
                watched((&mut self.frames, &mut self.out), &canceller, &mut self.stop, work).await?
            };
            let Some(next) = next else { break };
            let mut rest = next?;
            while !rest.is_empty() {
                let length = match copied.is_binary {
                    true if is_first => rest.len(),
                    true => tuple(&rest),
                    false => line(&rest),
                };
                let row = rest.split_to(length);
                // What comes before the rows is in the message of the first one.
                if is_first && copied.is_binary {
                    before = row;
                } else if before.is_empty() {
                    self.out.copy_data(&row);
                } else {
                    self.out.copy_data(&[std::mem::take(&mut before), row].concat());
                }
                is_first = false;
                self.out.flush_much().await?;
            }
        }
        self.out.plain(b'c');
        Ok(counter())
    }

    /// The failure of a statement.
    pub(super) fn failed(error: &Error, sql: &str) -> Failure {
        Failure::Reported(Box::new(said_of(error, sql)))
    }
}
