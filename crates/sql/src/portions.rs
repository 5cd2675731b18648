//! Small batches in place of large ones, below sorts that have little memory.
//!
//! A scan passes on a row group at a time, and when a batch is split over two partitions both halves
//! keep all its texts. A sort takes twice the memory of each batch that it is given, and cannot spill
//! before it has one: the share of each concurrent sort must be larger than that.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::walk::Walk;

/// About how many bytes a portion has.
const BYTES: usize = 256 << 10;

/// The same plan, with portions as the input of its sorts.
pub(crate) fn below_sorts(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let change = |plan: Arc<dyn ExecutionPlan>| {
        let Some(input) = sorted(&plan) else { return Ok(Transformed::no(plan)) };
        let portions: Arc<dyn ExecutionPlan> = Arc::new(PortionsExec { input: Arc::clone(input) });
        Ok(Transformed::yes(replace_children_if_necessary(plan, vec![portions])?))
    };
    Ok(plan.map_up(change)?.data)
}

/// The number of sorts of a plan that may run at once and that keep all rows.
pub(crate) fn sorts(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let mut found = 0;
    // The closure reports no error.
    let _ = plan.each(|plan| {
        if let Some(input) = sorted(plan) {
            found += input.output_partitioning().partition_count();
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// The input of a sort that keeps all rows and may spill.
fn sorted(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()).map(SortExec::input)
}

/// The rows of its input, in portions that share no memory.
#[derive(Debug)]
pub(crate) struct PortionsExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for PortionsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PortionsExec")
    }
}

impl ExecutionPlan for PortionsExec {
    fn name(&self) -> &'static str {
        "PortionsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(PortionsExec { input })),
            _ => datafusion::common::internal_err!("PortionsExec has one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let most = context.session_config().batch_size();
        let rows = self.input.execute(partition, context)?;
        let portions = rows.map_ok(move |batch| {
            let rows = portion_rows(&batch, most);
            let starts = (0..batch.num_rows()).step_by(rows);
            stream::iter(starts).map(move |start| portion(&batch, start, rows))
        });
        let portions = portions.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), portions)))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => datafusion::common::internal_err!("PortionsExec has one input"),
        }
    }
}

/// The number of rows of a batch that take [`BYTES`], at most `most`.
fn portion_rows(batch: &RecordBatch, most: usize) -> usize {
    let bytes: usize = batch.columns().iter().map(bytes).sum();
    let row = (bytes / batch.num_rows().max(1)).max(1);
    (BYTES / row).clamp(1, most.max(1))
}

/// The bytes of an array's own rows.
fn bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => 16 * array.len() + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => 16 * array.len() + array.as_binary_view().total_buffer_bytes_used(),
        // For a type that cannot tell, all that it holds.
        _ => array
            .to_data()
            .get_slice_memory_size()
            .unwrap_or_else(|_| array.get_array_memory_size()),
    }
}

/// A copy of some rows of a batch.
fn portion(batch: &RecordBatch, start: usize, rows: usize) -> Result<RecordBatch> {
    let end = batch.num_rows().min(start + rows);
    // A batch has no more rows than that: its arrays are smaller than the memory.
    let places: UInt32Array = (start..end).map(|row| row as u32).collect::<Vec<_>>().into();
    let columns: Result<Vec<ArrayRef>> =
        batch.columns().iter().map(|column| copied(column, &places)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(end - start));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns?, &options)?)
}

fn copied(column: &ArrayRef, places: &UInt32Array) -> Result<ArrayRef> {
    let copy = take(column, places, None)?;
    Ok(match copy.data_type() {
        DataType::Utf8View => Arc::new(copy.as_string_view().gc()),
        DataType::BinaryView => Arc::new(copy.as_binary_view().gc()),
        _ => copy,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::compute::concat_batches;

    use super::*;

    #[test]
    fn portions_hold_the_rows_of_a_batch_and_no_memory_of_others() {
        let texts: Vec<String> =
            (0..1000).map(|n| format!("a text of its own {n:>2000}")).collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from_iter_values(0..1000))),
            ("t", Arc::new(StringViewArray::from_iter_values(texts))),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("two columns of 1000 rows");
        let rows = portion_rows(&batch, 8192);
        assert!((50..200).contains(&rows), "{rows}");
        let portions: Vec<_> = (0..1000)
            .step_by(rows)
            .map(|start| portion(&batch, start, rows).expect("rows of the batch"))
            .collect();
        assert!(portions.iter().all(|one| one.get_array_memory_size() < 2 * BYTES));
        assert_eq!(concat_batches(&batch.schema(), &portions).expect("one schema"), batch);
        assert_eq!(portion_rows(&batch.slice(0, 0), 8192), 8192);
        let narrow = batch.project(&[0]).expect("the first column");
        assert_eq!(portion_rows(&narrow, 300), 300);
    }
}
