//! Properties of a CREATE TABLE that DataFusion has no place for: the disk group, the lengths of columns.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateTableOptions, Expr, SqlOption, Statement as SqlStatement, Value,
};

use crate::columnar::table::with_length;
use crate::dialect::length_of;
use crate::parse::table_kind::TABLESPACE;

/// The group of a table, and the lengths of its columns.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The disk group that is named.
    pub group: Option<String>,
    /// For each column that the statement names the characters that a value has at most, if it says so.
    lengths: Vec<Option<usize>>,
}

impl Made {
    /// What a statement says; the name of the group is taken out of it.
    pub fn of(statement: &mut DfStatement) -> Made {
        let DfStatement::Statement(inner) = statement else { return Made::default() };
        let SqlStatement::CreateTable(create) = inner.as_mut() else { return Made::default() };
        let lengths = create.columns.iter().map(|column| length_of(&column.data_type)).collect();
        Made { group: take_group(create), lengths }
    }

    /// The columns with their lengths.
    pub fn with_lengths(&self, schema: &SchemaRef) -> SchemaRef {
        let fields = schema.fields().iter().enumerate().map(|(at, field)| {
            let field = field.as_ref().clone();
            match self.lengths.get(at).copied().flatten() {
                Some(length) => with_length(field, length),
                None => field,
            }
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

fn take_group(create: &mut CreateTable) -> Option<String> {
    let CreateTableOptions::With(options) = &create.table_options else { return None };
    let [SqlOption::KeyValue { key, value: Expr::Value(value) }] = &options[..] else {
        return None;
    };
    let Value::SingleQuotedString(group) = &value.value else { return None };
    let group = key.value.eq_ignore_ascii_case(TABLESPACE).then(|| group.to_uppercase())?;
    create.table_options = CreateTableOptions::None;
    Some(group)
}
