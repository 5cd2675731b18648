//! Statements, read and sorted by who carries them out.

use cellar_instance::administration::Command;
use cellar_storage::request::WorkRequest;

use crate::explain::options::ExplainOptions;

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
    /// For DataFusion.
    Query(Box<datafusion::sql::parser::Statement>),
}
