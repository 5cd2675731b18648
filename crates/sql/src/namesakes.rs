//! Nodes of a plan that give several columns of one name: no filter about these goes down through them.
//!
//! DataFusion finds the columns of a filter by their names in each node on the way down, so that a filter
//! about the second `y` of `SELECT a.y, b.y` becomes one about the first. Around its rules that push
//! filters down, such nodes get a lid.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};

use crate::walk::Walk;

/// The rule that puts the lids on, or takes them off.
#[derive(Debug)]
pub(crate) struct Lids {
    puts: bool,
}

impl Lids {
    /// The rules, with lids around those that push filters down.
    pub(crate) fn around(
        rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    ) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
        let mut out: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = Vec::new();
        for rule in rules {
            match rule.name().starts_with("FilterPushdown") {
                true => {
                    out.push(Arc::new(Lids { puts: true }));
                    out.push(rule);
                    out.push(Arc::new(Lids { puts: false }));
                }
                false => out.push(rule),
            }
        }
        out
    }
}

impl PhysicalOptimizerRule for Lids {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let change = |plan: Arc<dyn ExecutionPlan>| match plan.downcast_ref::<LidExec>() {
            Some(lid) if !self.puts => Ok(Transformed::yes(Arc::clone(&lid.input))),
            None if self.puts && has_namesakes(&plan.schema()) => {
                Ok(Transformed::yes(Arc::new(LidExec { input: plan }) as Arc<dyn ExecutionPlan>))
            }
            _ => Ok(Transformed::no(plan)),
        };
        Ok(plan.map_up(change)?.data)
    }

    fn name(&self) -> &'static str {
        if self.puts { "lids_on" } else { "lids_off" }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn has_namesakes(schema: &Schema) -> bool {
    (0..schema.fields().len()).any(|at| is_namesake(schema, at))
}

/// Whether a column has the name of another one.
fn is_namesake(schema: &Schema, at: usize) -> bool {
    let Some(own) = schema.fields().get(at) else { return true };
    schema.fields().iter().filter(|field| field.name() == own.name()).count() > 1
}

/// Its input, through which only filters go down whose columns have a name of their own.
#[derive(Debug)]
struct LidExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for LidExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LidExec")
    }
}

impl ExecutionPlan for LidExec {
    fn name(&self) -> &'static str {
        "LidExec"
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
            (Some(input), true) => Ok(Arc::new(LidExec { input })),
            _ => datafusion::common::internal_err!("LidExec has one input"),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let schema = self.input.schema();
        // The index may be wrong already; the name is what was asked for.
        let is_clear = |filter: &Arc<dyn PhysicalExpr>| {
            collect_columns(filter).iter().all(|column| {
                schema.fields().iter().filter(|field| field.name() == column.name()).count() == 1
            })
        };
        match filters.iter().all(is_clear) {
            true => FilterDescription::from_children(filters, &self.children()),
            false => Ok(FilterDescription::all_unsupported(&filters, &self.children())),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
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
            _ => datafusion::common::internal_err!("LidExec has one input"),
        }
    }
}
