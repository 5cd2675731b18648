//! COPY in PostgreSQL's text, CSV and binary formats: rows from a byte stream, and rows as a byte stream.

mod binary;
pub(crate) mod form;
pub(crate) mod read;
pub(crate) mod records;
pub(crate) mod text;
pub(crate) mod values;
pub(crate) mod write;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use datafusion::sql::parser::Statement as DfStatement;
use futures_util::Stream;

use crate::error::Error;
use form::Form;

/// A COPY.
#[derive(Clone, Debug)]
pub struct Copy {
    pub(crate) what: What,
    pub(crate) is_from: bool,
    pub(crate) place: Place,
    pub(crate) form: Form,
}

/// The source or the target in the database.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A table, as named in the statement, and columns of it; none: all.
    Table { table: String, columns: Vec<String> },
    /// The rows of a query.
    Query(Box<DfStatement>),
}

/// The other end.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A file, as the statement names it.
    File(String),
    /// STDIN, or STDOUT.
    Stream,
}

impl Copy {
    /// Whether it reads STDIN.
    pub fn reads_stream(&self) -> bool {
        self.is_from && matches!(self.place, Place::Stream)
    }

    /// Whether it is in the binary format.
    pub fn is_binary(&self) -> bool {
        self.form.is_binary
    }

    /// Whether it is in CSV format, not text format.
    pub fn is_csv(&self) -> bool {
        self.form.is_csv
    }
}

/// Bytes that a COPY FROM STDIN reads, as they come.
pub type CopyInput = Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>;

/// The rows of a COPY TO STDOUT, as they are written.
pub struct CopyOutput {
    /// The bytes: whole lines.
    pub bytes: CopyInput,
    /// Whether it is in CSV format, not text format.
    pub is_csv: bool,
    /// Whether it is in the binary format.
    pub is_binary: bool,
    /// The number of its columns.
    pub columns: usize,
    pub(crate) rows: Arc<AtomicU64>,
}

impl CopyOutput {
    /// Counts the rows so far.
    pub fn counter(&self) -> impl Fn() -> u64 + Send + 'static {
        let rows = Arc::clone(&self.rows);
        move || rows.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for CopyOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CopyOutput({} columns)", self.columns)
    }
}
