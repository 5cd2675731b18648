//! The leaf of a plan that reads a table in the heap.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use cellar_format::rows::RowColumns as Builder;
use cellar_instance::heap::{Entries, Scan};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures_util::stream;

use super::access::Access;
use super::session::Scope;
use super::table::{RowColumns, row_error};
use crate::error::Error;

/// Rows of a batch.
const ROWS: usize = 8192;

/// Entries of an index that are read together.
const ENTRIES: usize = 256;

/// A scan of a table in the heap, as the statement sees it.
#[derive(Clone, Debug)]
pub(crate) struct HeapScanExec {
    columns: Arc<RowColumns>,
    /// The index that is used; `None`: all rows are read.
    access: Option<Access>,
    scope: Scope,
    /// Columns that come out; the one behind the last is the number of the row.
    projection: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl HeapScanExec {
    /// A scan of these columns, by so many tasks.
    pub fn new(
        (columns, access): (Arc<RowColumns>, Option<Access>),
        scope: Scope,
        projection: Vec<usize>,
        schema: SchemaRef,
        partitions: usize,
    ) -> HeapScanExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties);
        HeapScanExec { columns, access, scope, projection, schema, properties }
    }

    /// The name of the table.
    pub fn table(&self) -> &str {
        &self.columns.name
    }

    /// The index that is used, and what chooses its keys; `None`: all rows are read.
    pub fn index(&self) -> Option<(&str, String)> {
        let access = self.access.as_ref()?;
        let index = &self.columns.rows.indexes[access.index];
        Some((&index.name, access.conditions.join(" and ")))
    }
}

impl DisplayAs for HeapScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "HeapScanExec: table={}, columns=[{}]", self.table(), names.join(", "))?;
        match self.index() {
            None => Ok(()),
            Some((index, keys)) => write!(f, ", index={index}, keys=[{keys}]"),
        }
    }
}

impl ExecutionPlan for HeapScanExec {
    fn name(&self) -> &'static str {
        "HeapScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan of the heap has no children"),
        }
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let failed = |error: cellar_instance::Error| external(Error::from(error));
        let (statement, table) = (&self.scope.statement, &self.columns.rows);
        let source = match &self.access {
            Some(access) => {
                let bound = |key: &Vec<u8>| Bound::Included(Bytes::copy_from_slice(key));
                let bounds = (bound(access.keys.start()), bound(access.keys.end()));
                let index = &table.indexes[access.index];
                Source::Index(statement.range(index, bounds, false).map_err(failed)?)
            }
            None => {
                let parts = self.properties.partitioning.partition_count();
                let mut scans = statement.scan(table, parts).map_err(failed)?;
                if partition >= scans.len() {
                    return internal_err!("a scan of {parts} parts has no part {partition}");
                }
                Source::Pages(scans.swap_remove(partition))
            }
        };
        let reading = Reading { source, of: self.clone(), is_over: false };
        let rows = stream::try_unfold(reading, |mut reading| async move {
            let batch = reading.next().await.map_err(external)?;
            Ok(batch.map(|batch| (batch, reading)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Where rows come from.
enum Source {
    Pages(Scan),
    Index(Entries),
}

/// A partition under way.
struct Reading {
    source: Source,
    of: HeapScanExec,
    is_over: bool,
}

impl Reading {
    /// Adds the next rows to columns, and their numbers.
    async fn more(&mut self, builder: &mut Builder, ids: &mut Vec<u64>) -> Result<(), Error> {
        let HeapScanExec { columns, access, scope, .. } = &self.of;
        match &mut self.source {
            Source::Pages(scan) => match scan.next().await? {
                None => self.is_over = true,
                Some(rows) => {
                    for (id, row) in rows.iter() {
                        columns.push(builder, &scope.statement, row).await?;
                        ids.push(id);
                    }
                }
            },
            Source::Index(entries) => {
                let is_one = access.as_ref().is_some_and(|access| access.is_one);
                let found = entries.next(if is_one { 1 } else { ENTRIES }).await?;
                self.is_over = is_one || found.is_empty();
                let rows = scope.statement.rows(&columns.rows, &found).await?;
                for (id, row) in found.iter().zip(rows) {
                    let Some(row) = row else { continue };
                    columns.push(builder, &scope.statement, &row).await?;
                    ids.push(*id);
                }
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        let row_id = self.of.columns.schema.fields().len();
        let own: Vec<usize> =
            self.of.projection.iter().copied().filter(|at| *at < row_id).collect();
        let mut builder = self.of.columns.builder(&own)?;
        let mut ids = Vec::new();
        while builder.rows() < ROWS && !self.is_over {
            self.more(&mut builder, &mut ids).await?;
        }
        let HeapScanExec { columns, projection, schema, .. } = &self.of;
        if ids.is_empty() {
            return Ok(None);
        }
        let count = ids.len();
        let made = builder.finish().map_err(|error| row_error(&columns.name, &error))?;
        let (mut made, ids) = (made.into_iter(), Arc::new(UInt64Array::from(ids)) as ArrayRef);
        let arrays: Vec<ArrayRef> = projection
            .iter()
            .filter_map(|at| if *at == row_id { Some(Arc::clone(&ids)) } else { made.next() })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options);
        batch.map(Some).map_err(|error| crate::failure::from_arrow(&error))
    }
}
