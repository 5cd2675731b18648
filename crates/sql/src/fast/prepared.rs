//! A prepared statement: what is known of it before it is executed.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::parser::Statement as DfStatement;

use super::lex::Lexed;

/// A statement that is executed again and again.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) sql: String,
    /// For the fast path: the text without constants, and by what its plan is known.
    pub(crate) lexed: Option<(Lexed, String)>,
    /// For the common way: where there are parameters to put in.
    pub(crate) statement: Option<DfStatement>,
    pub(crate) parameters: Vec<DataType>,
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

    /// The columns of the rows that it gives, if it gives any.
    pub fn columns(&self) -> Option<&SchemaRef> {
        self.columns.as_ref()
    }
}
