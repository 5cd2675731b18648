//! The leaf of a plan that reads a table in the heap.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use cellar_format::rows::RowColumns as Builder;
use cellar_instance::heap::{Entries, Scan, Shares};
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

/// Bytes of texts in a batch, beyond which it ends with the page.
const TEXT_BYTES: usize = 8 << 20;

/// Entries of an index that are read together.
const ENTRIES: usize = 256;

/// A scan of a table in the heap, as the statement sees it.
#[derive(Clone, Debug)]
pub(crate) struct HeapScanExec {
    columns: Arc<RowColumns>,
    /// The index that is used; `None`: all rows are read.
    access: Option<Access>,
    /// Else what each partition reads of it: divided once, for it may grow meanwhile.
    shares: Option<Arc<Shares>>,
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
    ) -> Result<HeapScanExec> {
        let partitions = partitions.max(1);
        let shares = match access {
            Some(_) => None,
            None => {
                let shares = scope.statement.shares(&columns.rows, partitions);
                Some(Arc::new(shares.map_err(|error| external(error.into()))?))
            }
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties);
        Ok(HeapScanExec { columns, access, shares, scope, projection, schema, properties })
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
        let source = match (&self.access, &self.shares) {
            (Some(access), _) => {
                let bound = |key: &Vec<u8>| Bound::Included(Bytes::copy_from_slice(key));
                let bounds = (bound(access.keys.start()), bound(access.keys.end()));
                let index = &table.indexes[access.index];
                Source::Index(statement.range(index, bounds, false).map_err(failed)?)
            }
            (None, Some(shares)) => Source::Pages(shares.scan(partition)),
            (None, None) => return internal_err!("a scan of the heap without its share"),
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
        let HeapScanExec { columns, scope, .. } = &self.of;
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
                let found = entries.next(ENTRIES).await?;
                self.is_over = found.len() < ENTRIES;
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
        while builder.rows() < ROWS && builder.text_bytes() < TEXT_BYTES && !self.is_over {
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
