//! A columnar table as DataFusion sees it in planning.

use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, cast};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::columnar::exec::CellScanExec;
use crate::columnar::tables::Columnar;
use crate::error::Error;
use crate::instants::zoned::fields_in_zone;

/// A columnar table by its name; each scan takes the segments that it has at that time.
pub struct ColumnarTable {
    name: String,
    /// The columns as they are stored.
    kept: SchemaRef,
    /// The same with timestamps in the time zone of the session.
    schema: SchemaRef,
    tables: Columnar,
}

impl std::fmt::Debug for ColumnarTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnarTable({})", self.name)
    }
}

impl ColumnarTable {
    /// The catalog's table of that name, which has these columns.
    pub fn new(name: String, schema: SchemaRef, tables: Columnar) -> ColumnarTable {
        ColumnarTable { name, kept: Arc::clone(&schema), schema, tables }
    }

    /// The same for a session in this time zone.
    #[must_use]
    pub fn in_zone(self, zone: &Arc<str>) -> ColumnarTable {
        ColumnarTable { schema: fields_in_zone(&self.kept, zone), ..self }
    }

    /// Whether an expression names columns that are stored as another type.
    fn names_other(&self, expr: &Expr) -> bool {
        expr.column_refs().iter().any(|column| {
            let kept = self.kept.field_with_name(column.name()).ok();
            kept.map(Field::data_type)
                != self.schema.field_with_name(column.name()).ok().map(Field::data_type)
        })
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
        // The cell tests each row: on encoded columns, or by DataFusion's own expression on decoded ones.
        let push = |filter: &&Expr| match self.names_other(filter) {
            true => TableProviderFilterPushDown::Unsupported,
            false => TableProviderFilterPushDown::Exact,
        };
        Ok(filters.iter().map(push).collect())
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
        // A view, a prepared statement or another session knew a table that has been dropped since.
        if *table.schema() != self.kept {
            let text = format!("table \"{}\" has other columns than it had", self.name);
            let error = Error::new(942, "42P01", text)
                .next("make the view or the statement again, over the table as it is now");
            return Err(DataFusionError::External(Box::new(error)));
        }
        let schema = DFSchema::try_from(Arc::clone(&self.kept))?;
        let physical = |filter: &Expr| state.create_physical_expr(filter.clone(), &schema);
        let filters = filters.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let partitions = state.config().target_partitions();
        let scan = CellScanExec::new(table, projection.clone(), filters, limit, partitions)?;
        let scan: Arc<dyn ExecutionPlan> = Arc::new(scan);
        if Arc::ptr_eq(&self.kept, &self.schema) {
            return Ok(scan);
        }
        let shown = self.schema.project(&projection)?;
        let column = |(at, field): (usize, &Arc<Field>)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
            let own = cast(column, &scan.schema(), field.data_type().clone())?;
            Ok((own, field.name().clone()))
        };
        let columns = shown.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(ProjectionExec::try_new(columns, scan)?))
    }
}
