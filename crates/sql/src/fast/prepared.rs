//! A prepared statement: what is known of it before it is executed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::parser::Statement as DfStatement;

use super::lex::Lexed;

/// A statement that is executed again and again.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) sql: String,
    /// For the fast path: the text without constants, and its key in the plan cache.
    pub(crate) lexed: Option<(Lexed, String)>,
    /// For the common path: the statement, if it has parameters to bind.
    pub(crate) statement: Option<DfStatement>,
    pub(crate) parameters: Vec<DataType>,
    /// The OIDs of their types, for clients.
    pub(crate) oids: Vec<u32>,
    pub(crate) columns: Option<SchemaRef>,
}

impl Prepared {
    /// The statement.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The types of its parameters, `$1` first.
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// The OIDs of its parameters' types, as clients know them.
    pub fn parameter_oids(&self) -> &[u32] {
        &self.oids
    }

    /// The columns of the rows it returns, if it returns any.
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.columns.as_ref()
    }
}

/// A named statement, prepared by PREPARE in SQL or by a protocol message.
#[derive(Debug)]
pub(crate) struct NamedStatement {
    pub prepared: Arc<Prepared>,
    /// The statement as it was sent.
    pub text: String,
    /// When it was prepared, in microseconds since 1970.
    pub since: Option<i64>,
    pub from_sql: bool,
}

/// The prepared statements of a session, by name.
#[derive(Debug, Default)]
pub(crate) struct NamedStatements(Mutex<BTreeMap<String, NamedStatement>>);

impl NamedStatements {
    pub fn all(&self) -> MutexGuard<'_, BTreeMap<String, NamedStatement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
