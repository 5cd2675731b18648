//! A columnar table as DataFusion plans with it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;

use crate::columnar::exec::CellScanExec;
use crate::columnar::tables::Columnar;
use crate::error::Error;

/// A columnar table by its name; each scan takes the segments that it has then.
pub struct ColumnarTable {
    name: String,
    schema: SchemaRef,
    tables: Columnar,
}

impl std::fmt::Debug for ColumnarTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnarTable({})", self.name)
    }
}

impl ColumnarTable {
    /// The table of that name of the catalog, which has these columns.
    pub fn new(name: String, schema: SchemaRef, tables: Columnar) -> ColumnarTable {
        ColumnarTable { name, schema, tables }
    }
}

#[async_trait]
impl TableProvider for ColumnarTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // The cell asks each row: on encoded columns, or DataFusion's own expression on decoded ones.
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = self.tables.open(&self.name).await;
        let table = table.map_err(|e| DataFusionError::External(Box::new(e)))?;
        // A view, a prepared statement or another session knew a table that has gone since.
        if *table.schema() != self.schema {
            let text = format!("table \"{}\" has other columns than it had", self.name);
            let error = Error::new(942, "42P01", text)
                .next("make the view or the statement again, over the table as it is now");
            return Err(DataFusionError::External(Box::new(error)));
        }
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let physical = |filter: &Expr| state.create_physical_expr(filter.clone(), &schema);
        let filters = filters.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let partitions = state.config().target_partitions();
        Ok(Arc::new(CellScanExec::new(table, projection, filters, limit, partitions)?))
    }
}
