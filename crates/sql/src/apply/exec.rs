//! The operator as it runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{cast, concat_batches, take};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::ParamValues;
use datafusion::common::internal_err;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, collect,
};
use datafusion::scalar::ScalarValue;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::node::Gives;
use crate::one_row::several_rows;

/// The most bytes of results that are kept for later rows.
const KEPT_BYTES: usize = 16 << 20;

/// About how many rows come out at once.
const ROWS: usize = 8192;

/// A subquery, and what it takes from each row.
pub(super) struct Each {
    /// Optimized, with placeholders.
    pub plan: LogicalPlan,
    pub state: SessionState,
    /// The names of the placeholders.
    pub names: Vec<String>,
    pub values: Vec<Arc<dyn PhysicalExpr>>,
    pub guard: Option<Arc<dyn PhysicalExpr>>,
    pub gives: Gives,
}

impl fmt::Debug for Each {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Each({:?} of {:?})", self.gives, self.values)
    }
}

/// Rows, each with the result of a subquery.
#[derive(Debug)]
pub(crate) struct ApplyExec {
    input: Arc<dyn ExecutionPlan>,
    each: Arc<Each>,
    /// The additional columns.
    own: SchemaRef,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl ApplyExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, each: Arc<Each>, own: &SchemaRef) -> ApplyExec {
        let before = input.schema();
        let fields: Vec<Arc<Field>> = before.fields().iter().chain(own.fields()).cloned().collect();
        let schema = Arc::new(Schema::new(fields));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let (own, properties) = (Arc::clone(own), Arc::new(properties));
        ApplyExec { input, each, own, schema, properties }
    }
}

impl DisplayAs for ApplyExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("subquery for each row")
    }
}

impl ExecutionPlan for ApplyExec {
    fn name(&self) -> &'static str {
        "subquery for each row"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut how = TreeNodeRecursion::Continue;
        for expr in self.each.values.iter().chain(&self.each.guard) {
            how = how.visit_sibling(|| f(expr))?;
        }
        Ok(how)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(ApplyExec::new(input, Arc::clone(&self.each), &self.own))),
            None => internal_err!("an operator without its input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (own, schema) = (Arc::clone(&self.own), Arc::clone(&self.schema));
        let running =
            Running { each: Arc::clone(&self.each), own, schema, kept: HashMap::new(), bytes: 0 };
        let rows = stream::try_unfold((rows, running), |(mut rows, mut running)| async move {
            match rows.try_next().await? {
                Some(batch) => {
                    let found = running.of_batch(&batch).await?;
                    Ok::<_, DataFusionError>(Some((found, (rows, running))))
                }
                None => Ok(None),
            }
        });
        let rows = rows.map_ok(|found| stream::iter(found.into_iter().map(Ok))).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows.boxed())))
    }
}

/// The state of one partition.
struct Running {
    each: Arc<Each>,
    own: SchemaRef,
    schema: SchemaRef,
    /// Results of the subquery for the values met so far.
    kept: HashMap<Vec<ScalarValue>, RecordBatch>,
    bytes: usize,
}

impl Running {
    async fn of_batch(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let each = Arc::clone(&self.each);
        let column = |expr: &Arc<dyn PhysicalExpr>| -> Result<ArrayRef> {
            expr.evaluate(batch)?.into_array(batch.num_rows())
        };
        let values = each.values.iter().map(column).collect::<Result<Vec<_>>>()?;
        let guard = each.guard.as_ref().map(column).transpose()?;
        let is_asked = |row: usize| match &guard {
            Some(guard) => guard.as_boolean().is_valid(row) && guard.as_boolean().value(row),
            None => true,
        };
        let none = RecordBatch::new_empty(Arc::clone(&self.own));
        let alone = nulls(&self.own)?;
        let (mut found, mut all) = (Found::default(), Vec::new());
        for row in 0..batch.num_rows() {
            let rows = match is_asked(row) {
                true => {
                    let values = values.iter().map(|own| ScalarValue::try_from_array(own, row));
                    self.rows(values.collect::<Result<Vec<_>>>()?).await?
                }
                false => none.clone(),
            };
            let rows = match (each.gives, rows.num_rows()) {
                (Gives::Value, 2..) => {
                    return Err(DataFusionError::External(Box::new(several_rows())));
                }
                (Gives::Value | Gives::RowsOrNone, 0) => alone.clone(),
                _ => rows,
            };
            found.add(row, rows);
            if found.outside.len() >= ROWS {
                all.push(self.beside(batch, std::mem::take(&mut found))?);
            }
        }
        if !found.outside.is_empty() {
            all.push(self.beside(batch, found)?);
        }
        Ok(all)
    }

    /// The rows of a batch with the results found for them.
    fn beside(&self, batch: &RecordBatch, found: Found) -> Result<RecordBatch> {
        let count = found.outside.len();
        let outside = UInt64Array::from(found.outside);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for column in batch.columns() {
            columns.push(take(column, &outside, None)?);
        }
        columns.extend(concat_batches(&self.own, &found.rows)?.columns().iter().cloned());
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// The result of the subquery for these values.
    async fn rows(&mut self, values: Vec<ScalarValue>) -> Result<RecordBatch> {
        if let Some(rows) = self.kept.get(&values) {
            return Ok(rows.clone());
        }
        let each = &self.each;
        let named = each.names.iter().cloned();
        let named = named.zip(values.iter().cloned().map(ScalarAndMetadata::from));
        let plan = each.plan.clone();
        let plan = plan.replace_params_with_values(&ParamValues::Map(named.collect()))?;
        let plan = each.state.query_planner().create_physical_plan(&plan, &each.state).await?;
        let batches = collect(plan, each.state.task_ctx()).await?;
        let batches = batches.iter().map(|own| typed(own, &self.own));
        let rows = concat_batches(&self.own, &batches.collect::<Result<Vec<_>>>()?)?;
        let bytes =
            rows.get_array_memory_size() + values.iter().map(ScalarValue::size).sum::<usize>();
        self.bytes += bytes;
        if self.bytes > KEPT_BYTES {
            self.kept.clear();
            self.bytes = bytes;
        }
        self.kept.insert(values, rows.clone());
        Ok(rows)
    }
}

/// Numbers of outer rows, each beside a row of the subquery.
#[derive(Default)]
struct Found {
    outside: Vec<u64>,
    rows: Vec<RecordBatch>,
}

impl Found {
    fn add(&mut self, row: usize, rows: RecordBatch) {
        self.outside.extend(std::iter::repeat_n(row as u64, rows.num_rows()));
        self.rows.push(rows);
    }
}

/// A row of nulls.
fn nulls(schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().iter();
    let columns = columns.map(|field| arrow::array::new_null_array(field.data_type(), 1)).collect();
    let fields = schema.fields().iter().map(|own| own.as_ref().clone().with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// Rows with the types that were announced at planning time.
fn typed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| Ok(cast(column, field.data_type())?));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
