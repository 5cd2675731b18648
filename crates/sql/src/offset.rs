//! An OFFSET right above the sort whose first rows it skips.
//!
//! If a projection between a sort and an OFFSET drops the sort columns, DataFusion 55 removes the sort:
//! in a subquery, `SELECT a || b FROM t ORDER BY a OFFSET 10` then skips any ten rows. (Its
//! `ensure_sorting` takes an input without an order for one whose order is not needed.)

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::walk::Walk;

/// The rule. It runs before those that remove sorts.
#[derive(Debug)]
pub(crate) struct OffsetAtSort;

impl PhysicalOptimizerRule for OffsetAtSort {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let change = |plan: Arc<dyn ExecutionPlan>| {
            let limit = plan.downcast_ref::<GlobalLimitExec>().filter(|limit| limit.skip() > 0);
            let Some(limit) = limit else { return Ok(Transformed::no(plan)) };
            match moved(limit, limit.input())? {
                Some(moved) => Ok(Transformed::yes(moved)),
                None => Ok(Transformed::no(plan)),
            }
        };
        Ok(plan.map_up(change)?.data)
    }

    fn name(&self) -> &'static str {
        "offset_at_sort"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The projections of `input` with the limit below them; `None`: there are none over a sort.
fn moved(
    limit: &GlobalLimitExec,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let below = projection.input();
    let is_sort = below.downcast_ref::<SortExec>().is_some()
        || below.downcast_ref::<SortPreservingMergeExec>().is_some();
    let below: Arc<dyn ExecutionPlan> = match is_sort {
        true => Arc::new(GlobalLimitExec::new(Arc::clone(below), limit.skip(), limit.fetch())),
        false => match moved(limit, below)? {
            Some(below) => below,
            None => return Ok(None),
        },
    };
    replace_children_if_necessary(Arc::clone(input), vec![below]).map(Some)
}
