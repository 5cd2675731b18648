//! Subqueries that refer to a query two or more levels further out.
//!
//! `EXISTS (SELECT FROM b WHERE b.x = a.x AND NOT EXISTS (SELECT FROM c WHERE c.y = a.y AND c.x =
//! b.x))`: DataFusion makes joins only from references to the next level. So the values that inner
//! levels need from the outer row are put beside the rows in between (`b`), without duplicates: the
//! inner query refers to these, and these are equal to the row's own. (The "magic set" of Neumann and
//! Kemper, Unnesting Arbitrary Queries, BTW 2015.)

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, binary_expr, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::mark_joins::Names;
use crate::walk::{Walk, WalkPlan};

/// The rule. It runs before any subquery becomes a join.
#[derive(Debug, Default)]
pub(crate) struct NestedSubqueries;

impl AnalyzerRule for NestedSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        // From outside in: what is added between two levels is what the next level finds outside.
        Ok(plan.map_down_with_subqueries(|plan| of_node(plan, &mut names))?.data)
    }

    fn name(&self) -> &'static str {
        "nested_subqueries"
    }
}

/// The subqueries of one operator, over the rows of its input.
fn of_node(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    let outside = input.clone();
    plan.map_own(|expr| {
        expr.map_down(|expr| match subquery_of(&expr) {
            Some(own) if has_nested(&own.subquery)? => {
                let inner = Arc::unwrap_or_clone(Arc::clone(&own.subquery));
                let inner = inner.map_down(|node| between(node, &outside, names))?;
                match inner.transformed {
                    true => Ok(Transformed::yes(with_plan(expr, inner.data))),
                    false => Ok(Transformed::no(expr)),
                }
            }
            _ => Ok(Transformed::no(expr)),
        })
    })
}

fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(own) => Some(&own.subquery),
        Expr::InSubquery(own) => Some(&own.subquery),
        Expr::ScalarSubquery(own) => Some(own),
        _ => None,
    }
}

/// The expression over another plan.
fn with_plan(expr: Expr, plan: LogicalPlan) -> Expr {
    let new = |own: Subquery| Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan),
        spans: own.spans,
    };
    match expr {
        Expr::Exists(own) => Expr::Exists(Exists { subquery: new(own.subquery), ..own }),
        Expr::InSubquery(own) => {
            Expr::InSubquery(InSubquery { subquery: new(own.subquery), ..own })
        }
        Expr::ScalarSubquery(own) => Expr::ScalarSubquery(new(own)),
        other => other,
    }
}

/// Whether subqueries of a plan have subqueries where they can be rewritten.
fn has_nested(plan: &LogicalPlan) -> Result<bool> {
    plan.any(|node| {
        let mut has_any = false;
        for expr in node.expressions().iter().filter(|_| is_of_one_input(node)) {
            has_any |= expr.any(|expr| Ok(subquery_of(expr).is_some()))?;
        }
        Ok(has_any)
    })
}

fn is_of_one_input(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_))
}

/// The columns that expressions need from outer queries, apart from the next one, and from the next one.
fn far_and_near(node: &LogicalPlan) -> Result<(BTreeSet<Column>, BTreeSet<Column>)> {
    let (mut far, mut near) = (BTreeSet::new(), BTreeSet::new());
    for expr in node.expressions().into_iter().flat_map(split_conjunction_owned) {
        let own = references(&expr)?;
        expr.each(|expr| {
            if let Some(own) = subquery_of(expr) {
                far.extend(free(&own.subquery)?);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        // A condition that depends on both is not a join condition with either.
        let is_of_both = expr.any(|expr| Ok(subquery_of(expr).is_some()))?;
        if is_of_both { &mut far } else { &mut near }.extend(own);
    }
    Ok((far, near))
}

/// An operator whose subqueries refer to `outside`: they are made to refer to columns put beside its rows.
fn between(
    node: LogicalPlan,
    outside: &LogicalPlan,
    names: &mut Names,
) -> Result<Transformed<LogicalPlan>> {
    let [input] = node.inputs()[..] else { return Ok(Transformed::no(node)) };
    if !is_of_one_input(&node) {
        return Ok(Transformed::no(node));
    }
    let (mut far, near) = far_and_near(&node)?;
    let is_outside =
        |column: &Column| !input.schema().has_column(column) && outside.schema().has_column(column);
    far.retain(is_outside);
    if far.is_empty() {
        return Ok(Transformed::no(node));
    }
    // All columns that a condition needs are added: the condition keeps the number of pairs small.
    far.extend(near.into_iter().filter(is_outside));
    let alias = TableReference::bare(names.next("outside"));
    let columns: Vec<(Column, Column)> = far
        .into_iter()
        .enumerate()
        .map(|(at, old)| (old, Column::new(Some(alias.clone()), format!("__outer_{at}"))))
        .collect();
    let own = columns.iter().map(|(old, new)| Expr::Column(old.clone()).alias(new.name.clone()));
    let values = LogicalPlanBuilder::from(outside.clone())
        .project(own.collect::<Vec<_>>())?
        .distinct()?
        .alias(alias)?
        .build()?;
    let preserver = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = preserver.save(&expr);
        exprs.push(name.restore(beside(expr, &columns, values.schema())?));
    }
    let mut are_own = lit(true);
    for (old, new) in &columns {
        let field = Arc::clone(outside.schema().field_from_column(old)?);
        let row = Expr::OuterReferenceColumn(field, old.clone());
        are_own =
            are_own.and(binary_expr(Expr::Column(new.clone()), Operator::IsNotDistinctFrom, row));
    }
    let given = node.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    let pairs = LogicalPlanBuilder::from(input.clone()).cross_join(values)?;
    let new = match &node {
        // Above this, the joins of what is within need not pass it on.
        LogicalPlan::Filter(_) => {
            let new = node.with_new_exprs(exprs, vec![pairs.build()?])?;
            LogicalPlanBuilder::from(new).filter(are_own)?.build()?
        }
        _ => node.with_new_exprs(exprs, vec![pairs.filter(are_own)?.build()?])?,
    };
    Ok(Transformed::yes(LogicalPlanBuilder::from(new).project(given)?.build()?))
}

/// The outer columns that an expression itself refers to.
fn references(expr: &Expr) -> Result<BTreeSet<Column>> {
    let mut columns = BTreeSet::new();
    expr.each(|expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr {
            columns.insert(column.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// The columns of outer queries that a subquery and those within it refer to.
fn free(plan: &LogicalPlan) -> Result<BTreeSet<Column>> {
    let mut columns = BTreeSet::new();
    plan.each(|node| {
        let inputs = node.inputs();
        for expr in node.expressions() {
            columns.extend(references(&expr)?);
            expr.each(|expr| {
                if let Some(own) = subquery_of(expr) {
                    let is_own = |column: &Column| {
                        inputs.iter().any(|input| input.schema().has_column(column))
                    };
                    columns.extend(free(&own.subquery)?.into_iter().filter(|c| !is_own(c)));
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// A condition that refers to columns beside its rows instead of outer ones; its subqueries refer to
/// them as outer columns.
fn beside(expr: Expr, columns: &[(Column, Column)], values: &DFSchema) -> Result<Expr> {
    let new_of = |old: &Column| columns.iter().find(|(own, _)| own == old).map(|(_, new)| new);
    let own = |expr: Expr| match &expr {
        Expr::OuterReferenceColumn(_, column) => match new_of(column) {
            Some(new) => Ok(Transformed::yes(Expr::Column(new.clone()))),
            None => Ok(Transformed::no(expr)),
        },
        _ => match subquery_of(&expr) {
            Some(subquery) => {
                let plan = within(&subquery.subquery, columns, values)?;
                Ok(Transformed::yes(with_plan(expr, plan)))
            }
            None => Ok(Transformed::no(expr)),
        },
    };
    Ok(expr.map_up(own)?.data)
}

/// A subquery, with everything within it, that refers to other outer columns.
fn within(
    plan: &LogicalPlan,
    columns: &[(Column, Column)],
    values: &DFSchema,
) -> Result<LogicalPlan> {
    let rewrite = |node: LogicalPlan| {
        // A nearer column of the same name would be found within it.
        let further: Vec<_> = columns
            .iter()
            .filter(|(old, _)| !node.inputs().iter().any(|input| input.schema().has_column(old)))
            .cloned()
            .collect();
        node.map_own(|expr| {
            expr.map_up(|expr| match &expr {
                Expr::OuterReferenceColumn(_, column) => {
                    match columns.iter().find(|(old, _)| old == column) {
                        Some((_, new)) => {
                            let field = Arc::clone(values.field_from_column(new)?);
                            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, new.clone())))
                        }
                        None => Ok(Transformed::no(expr)),
                    }
                }
                _ => match subquery_of(&expr) {
                    Some(own) => {
                        let plan = within(&own.subquery, &further, values)?;
                        Ok(Transformed::yes(with_plan(expr, plan)))
                    }
                    None => Ok(Transformed::no(expr)),
                },
            })
        })
    };
    Ok(plan.clone().map_up(rewrite)?.data)
}
