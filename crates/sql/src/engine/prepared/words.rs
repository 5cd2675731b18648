//! PREPARE, EXECUTE and DEALLOCATE.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_recursion::async_recursion as boxed;
use datafusion::common::DFSchema;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, FromTable, Ident, Statement as SqlStatement, TableObject,
};

use super::{bind, infer};
use crate::engine::dml::{changes, query_over};
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::fast::Prepared;
use crate::instants::zoned::in_zone;
use crate::names::folded;
use crate::rows::{parsed_as, type_of_cast};

/// The column of an EXPLAIN.
pub(super) fn explained() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8, false)]))
}

/// Whether a statement has parameters and columns.
pub(super) fn is_planned(statement: &SqlStatement) -> bool {
    matches!(
        statement,
        SqlStatement::Query(_)
            | SqlStatement::Insert(_)
            | SqlStatement::Update(_)
            | SqlStatement::Delete(_)
    )
}

/// A query without its locks; `None`: it changes rows, and its columns are unknown until it has run.
pub(super) fn only_read(statement: &SqlStatement) -> Option<SqlStatement> {
    let SqlStatement::Query(query) = statement else { return None };
    if changes(query) {
        return None;
    }
    let mut query = query.clone();
    query.locks.clear();
    Some(SqlStatement::Query(query))
}

/// A query for the columns that a change returns.
pub(super) fn returning(statement: &SqlStatement) -> Option<SqlStatement> {
    let (items, table, alias) = match statement {
        SqlStatement::Insert(insert) => {
            let TableObject::TableName(name) = &insert.table else { return None };
            let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
            (insert.returning.clone()?, name.clone(), alias)
        }
        SqlStatement::Update(update) => {
            return Some(query_over(update.returning.clone()?, update.table.clone()));
        }
        SqlStatement::Delete(delete) => {
            let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) =
                &delete.from;
            return Some(query_over(delete.returning.clone()?, tables.first()?.clone()));
        }
        _ => return None,
    };
    let own = table.0.last()?.as_ident()?.clone();
    let mut relation =
        crate::engine::dml::table_named(&own.value, alias.unwrap_or_else(|| own.clone()));
    if let datafusion::sql::sqlparser::ast::TableFactor::Table { name, .. } = &mut relation {
        *name = table;
    }
    let from = datafusion::sql::sqlparser::ast::TableWithJoins { relation, joins: Vec::new() };
    Some(query_over(items, from))
}

/// The statement in a PREPARE: the text after AS.
fn body(sql: &str) -> Option<&str> {
    let rest = sql.trim_start();
    let rest = rest.get("prepare".len()..)?.trim_start();
    let rest = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.1,
        None => rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
    };
    let mut rest = rest.trim_start();
    if rest.starts_with('(') {
        let mut depth = 0usize;
        let end = rest.find(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        rest = rest[end + 1..].trim_start();
    }
    let (word, rest) = rest.split_at_checked(2)?;
    word.eq_ignore_ascii_case("as").then_some(rest)
}

impl Engine {
    /// Runs a statement about prepared statements; `None`: it is another one.
    #[boxed]
    pub(in crate::engine) async fn about_prepared(
        &self,
        sql: &str,
        statement: &DfStatement,
    ) -> Result<Option<Outcome>, Error> {
        let DfStatement::Statement(inner) = statement else { return Ok(None) };
        match inner.as_ref() {
            SqlStatement::Prepare { name, data_types, statement } => {
                let text = body(sql).map_or_else(|| statement.to_string(), str::to_owned);
                let named = self.prepare_named(name, data_types, &text).await?;
                self.name_statement(&folded(name), named, sql.trim(), true)?;
                Ok(Some(done(format!("Statement {} prepared.", folded(name)))))
            }
            SqlStatement::Execute { .. } => {
                let (prepared, values) = self.executed(inner)?;
                let answer = self.execute_with(&prepared, values).await?;
                Ok(Some(answer.outcome()))
            }
            SqlStatement::Deallocate { name, .. } => {
                let name = folded(name);
                if name == "all" {
                    self.named().clear();
                    return Ok(Some(done("All statements deallocated.")));
                }
                match self.named().remove(&name) {
                    Some(_) => Ok(Some(done(format!("Statement {name} deallocated.")))),
                    None => Err(no_statement(&name)),
                }
            }
            _ => Ok(None),
        }
    }

    /// The statement that an EXECUTE stands for; others as they are.
    pub(in crate::engine) fn unprepared(
        &self,
        statement: DfStatement,
    ) -> Result<DfStatement, Error> {
        let DfStatement::Statement(inner) = &statement else { return Ok(statement) };
        if !matches!(inner.as_ref(), SqlStatement::Execute { .. }) {
            return Ok(statement);
        }
        let (prepared, values) = self.executed(inner)?;
        match &prepared.statement {
            Some(statement) => bind::bound(statement, &values),
            None => match crate::parse::parse(&prepared.sql)? {
                crate::statement::Statement::Query(statement) => Ok(*statement),
                _ => Err(Error::not_yet("EXPLAIN of this statement")),
            },
        }
    }

    async fn prepare_named(
        &self,
        name: &Ident,
        types: &[SqlType],
        sql: &str,
    ) -> Result<Arc<Prepared>, Error> {
        let name = folded(name);
        if self.named().contains_key(&name) {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(Error::new(955, "42P05", text).next(format!("deallocate {name}")));
        }
        let types = types.iter().map(|own| self.type_said(own).map(Some));
        let types = types.collect::<Result<Vec<_>, Error>>()?;
        Ok(Arc::new(self.prepared_of(sql, &types).await?))
    }

    /// The type that a statement says.
    fn type_said(&self, data_type: &SqlType) -> Result<DataType, Error> {
        match infer::of_texts(data_type) {
            Some(known) => Ok(known),
            None => type_of_cast(&self.state(), data_type),
        }
    }

    /// The statement that is executed, and the values of its parameters.
    fn executed(&self, statement: &SqlStatement) -> Result<(Arc<Prepared>, Vec<ArrayRef>), Error> {
        let SqlStatement::Execute { name: Some(name), parameters, .. } = statement else {
            return Err(Error::not_yet("this EXECUTE"));
        };
        let name = name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
        let prepared = self.statement_named(&name).ok_or_else(|| no_statement(&name))?;
        bind::check_count(&prepared, parameters.len()).map_err(|mut error| {
            error.sqlstate = "42601";
            error
        })?;
        let (state, names) = (self.state(), DFSchema::empty());
        let failed = |error| from_datafusion(&error);
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options);
        let row = row.map_err(|error| crate::failure::from_arrow(&error))?;
        let mut values = Vec::with_capacity(parameters.len());
        let zone = Arc::clone(&self.settings.now().zone);
        let types = prepared.parameters.iter().zip(&prepared.oids);
        for (expr, (data_type, oid)) in parameters.iter().zip(types) {
            let data_type = in_zone(data_type, &zone);
            let made = parsed_as(&state, expr.clone(), &names, Some(&data_type))?;
            let made = state.create_physical_expr(made, &names).map_err(failed)?;
            let value = made.evaluate(&row).and_then(|value| value.into_array(1));
            values.push(bind::in_form(value.map_err(failed)?, *oid)?);
        }
        Ok((prepared, values))
    }
}

fn no_statement(name: &str) -> Error {
    let text = format!("prepared statement \"{name}\" does not exist");
    Error::new(4043, "26000", text).next("prepare it: PREPARE name AS ..")
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn the_text_behind_as_is_what_is_prepared() {
        assert_eq!(body("PREPARE p AS select 1"), Some(" select 1"));
        assert_eq!(body(" prepare \"p q\" (int, numeric(3,1)) as select 1"), Some(" select 1"));
        assert_eq!(body("prepare p"), None);
    }
}
