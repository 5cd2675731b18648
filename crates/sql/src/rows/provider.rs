//! A table in the heap as DataFusion plans with it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, cast};
use datafusion::physical_plan::ExecutionPlan;

use super::access::access;
use super::checks::expression;
use super::exec::HeapScanExec;
use super::session::Scope;
use super::table::RowColumns;
use crate::columnar::table::default_of;
use crate::error::Error;

/// A table; its rows are those that the statement sees, which the state that it is planned with has.
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
    /// A table, with the numbers of its rows or without, and what columns get that are not named.
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

/// What columns of a table get that are not named.
pub(crate) fn defaults(state: &SessionState, columns: &RowColumns) -> HashMap<String, Expr> {
    let value = |field: &Arc<Field>| {
        let value = default_value(state, default_of(field)?, field.data_type()).ok()?;
        Some((field.name().clone(), value))
    };
    columns.schema.fields().iter().filter_map(value).collect()
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
        // They choose an index; each row is asked again.
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
        let way = access(&columns, filters)
            .filter(|way| scope.statement.has_whole(&columns.rows.indexes[way.index]));
        let partitions = match way {
            Some(_) => 1,
            None => state.config().target_partitions(),
        };
        let scope = (*scope).clone();
        let scan = HeapScanExec::new((columns, way), scope, projection, schema, partitions)?;
        Ok(Arc::new(scan))
    }
}
