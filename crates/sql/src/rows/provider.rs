//! DataFusion's table provider for a table in the heap.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use cellar_instance::heap::TableSize;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, cast};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use datafusion::sql::sqlparser::parser::Parser;

use super::access::{Access, ways};
use super::checks::expression;
use super::distinct::{Distinct, distinct};
use super::exec::{HeapScanExec, Read};
use super::sample::Sample;
use super::scope::Scope;
use super::size::rows_by_index;
use super::table::RowColumns;
use crate::columnar::table::default_of;
use crate::error::Error;
use crate::grammar::CellarDialect;

/// A table; its rows are those visible to the statement, which the session state it is planned with holds.
pub(crate) struct HeapTable {
    columns: Arc<RowColumns>,
    schema: SchemaRef,
    defaults: HashMap<String, Expr>,
}

impl std::fmt::Debug for HeapTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HeapTable({})", self.columns.name)
    }
}

impl HeapTable {
    /// Its key in the catalog.
    pub fn key(&self) -> &str {
        &self.columns.name
    }

    /// Its columns.
    pub fn columns(&self) -> &RowColumns {
        &self.columns
    }

    /// A table, with row numbers or without, and the DEFAULTs of its columns.
    pub fn new(columns: RowColumns, row_ids: bool, defaults: HashMap<String, Expr>) -> HeapTable {
        let schema = columns.query_schema(row_ids);
        HeapTable { columns: Arc::new(columns), schema, defaults }
    }
}

/// The value of a DEFAULT clause, for a column of this type.
///
/// # Errors
/// The text is no expression, or names a column.
pub(crate) fn default_value(
    state: &SessionState,
    text: &str,
    data_type: &DataType,
) -> std::result::Result<Expr, Error> {
    Ok(cast(expression(state, text, &DFSchema::empty())?, data_type.clone()))
}

/// The parsed DEFAULT of a column; NULL where it has none.
///
/// # Errors
/// The text in the catalog is not an expression.
pub(crate) fn default_expr(columns: &RowColumns, at: usize) -> std::result::Result<SqlExpr, Error> {
    let text = default_of(columns.schema.field(at)).unwrap_or("NULL");
    let parsed = Parser::new(&CellarDialect).try_with_sql(text);
    let parsed = parsed.and_then(|mut parser| parser.parse_expr());
    parsed.map_err(|error| Error::syntax(error.to_string()))
}

/// The DEFAULTs of a table's columns, by name; or the error that one in the catalog no longer is an expression.
pub(crate) fn defaults(
    state: &SessionState,
    columns: &RowColumns,
) -> impl Iterator<Item = (String, std::result::Result<Expr, Error>)> {
    columns.schema.fields().iter().filter_map(move |field| {
        let (name, table) = (field.name(), &columns.name);
        let value = default_value(state, default_of(field)?, field.data_type());
        let value = value.map_err(|cause| {
            let text = format!("the DEFAULT of column \"{name}\" of table \"{table}\" is no value");
            let next =
                format!("alter table {table} alter {name} set default .., or name the column");
            Error::new(1735, cause.sqlstate, text).caused_by(cause.next(next))
        });
        Some((name.clone(), value))
    })
}

#[async_trait]
impl TableProvider for HeapTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // They select an index. Which of them are tested on rows as stored is decided later.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let external = |error: Error| DataFusionError::External(Box::new(error));
        let Some(scope) = state.config().get_extension::<Scope>() else {
            let error = Error::new(600, "XX000", "a table in the heap is read by no statement");
            return Err(external(error));
        };
        let columns = scope.current(&self.columns).await.map_err(external)?;
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&projection)?);
        let read = way_to(&scope, columns, filters, &projection).await.map_err(external)?;
        let partitions = state.config().target_partitions();
        let scope = (*scope).clone();
        let scan = HeapScanExec::new(read, scope, projection, schema, partitions)?;
        Ok(Arc::new(scan))
    }
}

/// The access path for these conditions: an index where that costs less than reading all pages.
async fn way_to(
    scope: &Scope,
    columns: Arc<RowColumns>,
    filters: &[Expr],
    projection: &[usize],
) -> std::result::Result<Read, Error> {
    let statement = &scope.statement;
    let whole = |way: &Access| statement.is_complete_index(&columns.rows.indexes[way.index]);
    let mut ways: Vec<Access> = ways(&columns, filters).into_iter().filter(whole).collect();
    if ways.first().is_some_and(|way| way.is_one) {
        let access = Some(ways.swap_remove(0));
        let size = TableSize { pages: 1, rows: 1 };
        let (distinct, sample) = (Distinct::new(), Sample::default());
        return Ok(Read { columns, size, distinct, sample, access });
    }
    let (size, rows) = statement.sample(&columns.rows).await?;
    let sample = Sample::new(rows);
    // An unreadable index must not fail a statement that does not use it.
    let distinct = distinct(scope, &columns, size, projection).await.unwrap_or_default();
    let mut best = None;
    let mut least = rows_by_index(size);
    for way in ways {
        let rows = expected(scope, &columns, &way).await?;
        let told = columns.told(way.index);
        let cost = match projection.iter().all(|at| told.contains(at)) {
            true => rows / KEYS_A_ROW + way.ranges.len() as u64,
            false => rows,
        };
        // On a tie the first wins: it answers more conditions.
        if cost < least || (best.is_none() && cost == least) {
            (best, least) = (Some((way, rows)), cost);
        }
    }
    Ok(match best {
        None => Read { columns, size, distinct, sample, access: None },
        Some((way, rows)) => {
            let size = TableSize { rows: rows.clamp(1, size.rows.max(1)), ..size };
            Read { columns, size, distinct, sample, access: Some(way) }
        }
    })
}

/// How many keys can be read in the time it takes to fetch one row.
const KEYS_A_ROW: u64 = 32;

/// How many ranges of an index are sampled for their number of rows; the rest are assumed to be alike.
const ASKED: usize = 8;

/// About how many rows an access path finds, plus one for each descent of the index.
async fn expected(
    scope: &Scope,
    columns: &RowColumns,
    way: &Access,
) -> std::result::Result<u64, Error> {
    let index = &columns.rows.indexes[way.index];
    let bound = |key: &Vec<u8>| Bound::Included(Bytes::copy_from_slice(key));
    let asked = way.ranges.iter().take(ASKED);
    let (mut rows, count) = (0, asked.len() as u64);
    for range in asked {
        let bounds = (bound(range.start()), bound(range.end()));
        rows += scope.statement.expected(index, bounds).await?;
    }
    let all = way.ranges.len() as u64;
    Ok((rows * all).div_ceil(count.max(1)) + all)
}
