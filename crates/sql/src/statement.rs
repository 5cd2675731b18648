//! Statements, read and sorted by who carries them out.

use cellar_instance::administration::Command;
use cellar_storage::request::WorkRequest;

use datafusion::common::TableReference;

use crate::explain::options::ExplainOptions;
use crate::rows::SequenceOptions;

/// A statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// For the instance: disk groups, parameters, the redo log.
    Command(Command),
    /// `SHOW PARAMETER [pattern]`.
    ShowParameter(Option<String>),
    /// `EXPLAIN WORK FOR ALTER DISKGROUP ...`: tells what would be done, and does nothing.
    ExplainWork(WorkRequest),
    /// `EXPLAIN` of a statement for DataFusion.
    Explain(ExplainOptions, Box<datafusion::sql::parser::Statement>),
    /// For the engine: what DataFusion's parser does not know of what defines something.
    Define(Define),
    /// COPY as PostgreSQL has it.
    Copy(Box<crate::copy::Copy>),
    /// For DataFusion.
    Query(Box<datafusion::sql::parser::Statement>),
}

/// The column that a sequence goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedBy {
    /// None.
    Nobody,
    /// This one, of this table.
    Column(TableReference, String),
}

/// A statement that defines something.
#[derive(Clone, Debug)]
pub enum Define {
    /// CREATE SEQUENCE.
    CreateSequence {
        /// Its name.
        name: TableReference,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// What is said of it.
        options: SequenceOptions,
        /// OWNED BY.
        owned_by: Option<OwnedBy>,
    },
    /// VACUUM, or ANALYZE.
    Maintain {
        /// Which of them.
        verb: &'static str,
        /// The tables that are named.
        tables: Vec<TableReference>,
    },
    /// ALTER SEQUENCE.
    AlterSequence {
        /// Its name.
        name: TableReference,
        /// IF EXISTS.
        if_exists: bool,
        /// What is said of it.
        options: SequenceOptions,
        /// OWNED BY.
        owned_by: Option<OwnedBy>,
    },
}
