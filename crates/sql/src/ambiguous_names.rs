//! Plan nodes through which no filter is pushed down by a name that stands for another column below.
//!
//! DataFusion finds the columns of a filter by name in each node on the way down, so that a filter on
//! the second `y` of `SELECT a.y, b.y` becomes one on the first. While its rules push filters down, such
//! nodes get a barrier above them. So do inputs in which a name is a different column than above them: of a
//! union whose inputs have their columns in different orders, of a semi join whose keys have other names on
//! its other side, of groups by an expression with the name of a column.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};

use crate::walk::Walk;

/// The rule that inserts the barriers, or removes them.
#[derive(Debug)]
pub(crate) struct PushdownBarrier {
    inserts: bool,
}

impl PushdownBarrier {
    /// The rules, with barriers inserted before those that push filters down, and removed after them.
    pub(crate) fn around(
        rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    ) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
        let mut out: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = Vec::new();
        for rule in rules {
            match rule.name().starts_with("FilterPushdown") {
                true => {
                    out.push(Arc::new(PushdownBarrier { inserts: true }));
                    out.push(rule);
                    out.push(Arc::new(PushdownBarrier { inserts: false }));
                }
                false => out.push(rule),
            }
        }
        out
    }
}

impl PhysicalOptimizerRule for PushdownBarrier {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let change = |plan: Arc<dyn ExecutionPlan>| match plan.downcast_ref::<BarrierExec>() {
            Some(barrier) if !self.inserts => Ok(Transformed::yes(Arc::clone(&barrier.input))),
            None if self.inserts => with_barriers(plan),
            _ => Ok(Transformed::no(plan)),
        };
        Ok(plan.map_up(change)?.data)
    }

    fn name(&self) -> &'static str {
        if self.inserts { "pushdown_barriers" } else { "pushdown_barriers_removed" }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Inserts barriers above a node and its inputs where needed.
fn with_barriers(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let barrier = |input: &Arc<dyn ExecutionPlan>, closed: BTreeSet<String>| {
        Arc::new(BarrierExec { input: Arc::clone(input), closed }) as Arc<dyn ExecutionPlan>
    };
    let mut out = Transformed::no(plan);
    let closed = misleading(&out.data);
    if closed.iter().any(|names| !names.is_empty()) {
        let inputs = out.data.children().into_iter().zip(closed);
        let inputs = inputs.map(|(input, names)| match names.is_empty() {
            true => Arc::clone(input),
            false => barrier(input, names),
        });
        let (inputs, options) =
            (inputs.collect(), ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep));
        out = Transformed::yes(out.data.replace_children(inputs, options)?);
    }
    if has_ambiguous_names(&out.data.schema()) {
        out = Transformed::yes(barrier(&out.data, BTreeSet::new()));
    }
    Ok(out)
}

/// For each input of a node, the output names that stand for other columns in that input.
fn misleading(plan: &Arc<dyn ExecutionPlan>) -> Vec<BTreeSet<String>> {
    let is_other = |input: &Arc<dyn ExecutionPlan>, name: &str, column: Option<usize>| {
        input.schema().index_of(name).is_ok_and(|at| Some(at) != column)
    };
    if let Some(union) = plan.downcast_ref::<UnionExec>() {
        let schema = union.schema();
        let of = |input: &Arc<dyn ExecutionPlan>| {
            let names = schema.fields().iter().map(|field| field.name()).enumerate();
            let other = names.filter(|(at, name)| is_other(input, name, Some(*at)));
            other.map(|(_, name)| name.clone()).collect()
        };
        return union.inputs().iter().map(of).collect();
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let input = aggregate.input();
        let keys = aggregate.group_expr().expr().iter();
        let other = keys.filter(|(key, name)| is_other(input, name, column_of(key)));
        return vec![other.map(|(_, name)| name.clone()).collect()];
    }
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Vec::new() };
    // A filter on an output key is also pushed to the other side, under the name that it has here.
    let semi = |input: &Arc<dyn ExecutionPlan>, pairs: &[(PhysicalExprRef, PhysicalExprRef)]| {
        let names = pairs.iter().filter_map(|(own, _)| own.downcast_ref::<Column>());
        let is_key = |name: &str| {
            let mut same = pairs.iter().filter(|(own, _)| name_of(own) == Some(name));
            same.any(|(_, other)| !is_other(input, name, column_of(other)))
        };
        let other = names.map(Column::name).filter(|name| !is_key(name));
        other.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    match join.join_type() {
        JoinType::LeftSemi => vec![BTreeSet::new(), semi(join.right(), join.on())],
        JoinType::RightSemi => {
            let turned = join.on().iter().map(|(left, right)| (right.clone(), left.clone()));
            let turned: Vec<(PhysicalExprRef, PhysicalExprRef)> = turned.collect();
            vec![semi(join.left(), &turned), BTreeSet::new()]
        }
        _ => Vec::new(),
    }
}

fn column_of(expr: &PhysicalExprRef) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

fn name_of(expr: &PhysicalExprRef) -> Option<&str> {
    expr.downcast_ref::<Column>().map(Column::name)
}

fn has_ambiguous_names(schema: &Schema) -> bool {
    (0..schema.fields().len()).any(|at| is_ambiguous(schema, at))
}

/// Whether a column shares its name with another one.
fn is_ambiguous(schema: &Schema, at: usize) -> bool {
    let Some(own) = schema.fields().get(at) else { return true };
    schema.fields().iter().filter(|field| field.name() == own.name()).count() > 1
}

/// Passes on its input; only filters whose columns have a unique name, and none of these, are pushed
/// through.
#[derive(Debug)]
struct BarrierExec {
    input: Arc<dyn ExecutionPlan>,
    closed: BTreeSet<String>,
}

impl DisplayAs for BarrierExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BarrierExec")
    }
}

impl ExecutionPlan for BarrierExec {
    fn name(&self) -> &'static str {
        "BarrierExec"
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
            (Some(input), true) => Ok(Arc::new(BarrierExec { input, closed: self.closed.clone() })),
            _ => datafusion::common::internal_err!("BarrierExec has one input"),
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
                let named = schema.fields().iter().filter(|field| field.name() == column.name());
                named.count() == 1 && !self.closed.contains(column.name())
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
            _ => datafusion::common::internal_err!("BarrierExec has one input"),
        }
    }
}
