//! A wrapper of DataFusion's rule that turns DISTINCT aggregation into two steps: that rule assumes that
//! a sum of sums has the type of its parts, but a sum of integers is a bigint, and a sum of bigints a
//! decimal.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{
    Aggregate, Cast, Expr, ExprSchemable, LogicalPlan, Projection, cast,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::numbers::sum::is_narrow;

/// The rule, around the other one.
#[derive(Debug)]
pub(crate) struct DistinctSums(pub Arc<dyn OptimizerRule + Send + Sync>);

/// A sum of integers, made one of bigints; `None`: it is another call.
fn widened(expr: &Expr, aggregate: &Aggregate) -> Result<Option<Expr>> {
    let Expr::AggregateFunction(call) = expr else { return Ok(None) };
    let [argument] = &call.params.args[..] else { return Ok(None) };
    if call.func.name() != "sum" || call.params.distinct {
        return Ok(None);
    }
    if !is_narrow(&argument.get_type(aggregate.input.schema())?) {
        return Ok(None);
    }
    let mut call = call.clone();
    call.params.args = vec![cast(argument.clone(), DataType::Int64)];
    Ok(Some(Expr::AggregateFunction(call)))
}

/// The aggregation over sums of bigints; `None`: it has no sum of integers beside a DISTINCT.
fn over_bigints(aggregate: &Aggregate) -> Result<Option<Aggregate>> {
    let is_distinct =
        |expr: &Expr| matches!(expr, Expr::AggregateFunction(call) if call.params.distinct);
    if !aggregate.aggr_expr.iter().any(is_distinct) {
        return Ok(None);
    }
    let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
    let mut has_changed = false;
    for call in &aggregate.aggr_expr {
        let other = widened(call, aggregate)?;
        has_changed |= other.is_some();
        calls.push(other.unwrap_or_else(|| call.clone()));
    }
    if !has_changed {
        return Ok(None);
    }
    let (input, keys) = (Arc::clone(&aggregate.input), aggregate.group_expr.clone());
    Ok(Some(Aggregate::try_new(input, keys, calls)?))
}

impl OptimizerRule for DistinctSums {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return self.0.rewrite(plan, config) };
        let Some(other) = over_bigints(aggregate)? else { return self.0.rewrite(plan, config) };
        let other = self.0.rewrite(LogicalPlan::Aggregate(other), config)?;
        if !other.transformed {
            return Ok(Transformed::no(plan));
        }
        let columns = other.data.schema().columns().into_iter().zip(aggregate.schema.iter());
        let exprs = columns.map(|(column, (qualifier, field))| {
            let own = field.data_type();
            let expr = match column_type(&other.data, &column)? == *own {
                true => Expr::Column(column),
                false => Expr::Cast(Cast::new(Box::new(Expr::Column(column)), own.clone())),
            };
            Ok(expr.alias_qualified(qualifier.cloned(), field.name()))
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        let projection = Projection::try_new(exprs, Arc::new(other.data))?;
        Ok(Transformed::yes(LogicalPlan::Projection(projection)))
    }
}

fn column_type(plan: &LogicalPlan, column: &datafusion::common::Column) -> Result<DataType> {
    Expr::Column(column.clone()).get_type(plan.schema())
}
