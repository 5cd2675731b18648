//! `FROM t, unnest(t.a)`: the items of each row's arrays beside the row. DataFusion has no join in which
//! one side unnests arrays of the other.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Projection, Unnest};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{Walk, WalkPlan, are_of};

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct LateralUnnest;

impl AnalyzerRule for LateralUnnest {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "lateral_unnest"
    }
}

/// Rows that are items of outer values: one side of a join, or a part of a subquery.
pub(crate) struct Items {
    /// The alias of the columns.
    pub alias: Option<TableReference>,
    /// The projections over the items: the last one first.
    pub chosen: Vec<Projection>,
    pub unnest: Unnest,
    /// The arrays.
    pub arrays: Projection,
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(Transformed::no(plan)) };
    let is_plain = join.join_type == JoinType::Inner && join.on.is_empty();
    match items_of(&join.right, None, Vec::new()).filter(|_| is_plain) {
        Some(items) if are_of(&items.arrays.expr, join.left.schema())? => beside(&join, items),
        _ => Ok(Transformed::no(LogicalPlan::Join(join))),
    }
}

/// The items that a plan returns; `None`: it is some other plan.
pub(crate) fn items_of(
    plan: &LogicalPlan,
    alias: Option<&TableReference>,
    mut chosen: Vec<Projection>,
) -> Option<Items> {
    match plan {
        LogicalPlan::SubqueryAlias(own) if chosen.is_empty() => {
            items_of(&own.input, Some(alias.unwrap_or(&own.alias)), chosen)
        }
        LogicalPlan::Subquery(own) => items_of(&own.subquery, alias, chosen),
        LogicalPlan::Projection(own) => {
            chosen.push(own.clone());
            items_of(&own.input, alias, chosen)
        }
        LogicalPlan::Unnest(unnest) => {
            let LogicalPlan::Projection(arrays) = unnest.input.as_ref() else { return None };
            let is_of_one = matches!(arrays.input.as_ref(), LogicalPlan::EmptyRelation(_));
            let refers = arrays.expr.iter().any(Expr::contains_outer);
            let (alias, unnest, arrays) = (alias.cloned(), unnest.clone(), arrays.clone());
            (is_of_one && refers).then_some(Items { alias, chosen, unnest, arrays })
        }
        _ => None,
    }
}

/// An expression over columns of a projection, as one over the projection's input.
pub(crate) fn of_projection(expr: Expr, below: &Projection) -> Result<Expr> {
    let made = expr.transform_up(|expr| match &expr {
        Expr::Column(column) => {
            let names = below.schema.columns();
            let at = names.iter().position(|own| own.name == column.name);
            Ok(match at {
                Some(at) => Transformed::yes(below.expr[at].clone().unalias_nested().data),
                None => Transformed::no(expr),
            })
        }
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(made.data)
}

fn beside(join: &Join, items: Items) -> Result<Transformed<LogicalPlan>> {
    let Items { alias, chosen, unnest, arrays } = items;
    let of_left = || join.left.schema().columns().into_iter().map(Expr::Column);
    let mut columns: Vec<Expr> = of_left().collect();
    for (expr, column) in arrays.expr.iter().zip(arrays.schema.columns()) {
        let of_row = |expr: Expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Ok(Transformed::yes(Expr::Column(column))),
            other => Ok(Transformed::no(other)),
        };
        let value = expr.clone().unalias_nested().data.map_up(of_row)?.data;
        columns.push(value.alias(column.name));
    }
    let plan = LogicalPlanBuilder::from(Arc::clone(&join.left))
        .project(columns)?
        .unnest_columns_with_options(unnest.exec_columns, unnest.options)?;
    let mut columns: Vec<Expr> = of_left().collect();
    for (at, column) in join.right.schema().columns().into_iter().enumerate() {
        let mut value = match chosen.first() {
            Some(last) => last.expr[at].clone().unalias_nested().data,
            None => Expr::Column(unnest.schema.columns()[at].clone()),
        };
        for below in chosen.iter().skip(1) {
            value = of_projection(value, below)?;
        }
        columns.push(value.alias_qualified(alias.clone(), column.name));
    }
    let plan = plan.project(columns)?;
    let plan = match join.filter.clone() {
        Some(filter) => plan.filter(filter)?,
        None => plan,
    };
    Ok(Transformed::yes(plan.build()?))
}
