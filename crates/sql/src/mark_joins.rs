//! Subqueries outside WHERE. An `EXISTS` in the select list, GROUP BY, an aggregate or ORDER BY becomes a
//! join that marks each row; one in a join condition becomes a separate condition.
//!
//! DataFusion does this for conditions; elsewhere it supports only scalar subqueries, and those only if
//! they are correlated by equalities.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::functions_aggregate::count::count;
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr,
    Subquery, lit, not,
};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

use crate::walk::Walk;

/// Names for marker columns and computed ones; numbered within a statement.
#[derive(Debug, Default)]
pub(crate) struct Names(usize);

impl Names {
    /// The next name.
    pub(crate) fn next(&mut self, kind: &str) -> String {
        self.0 += 1;
        format!("__{kind}_{}", self.0)
    }
}

/// Replaces each `EXISTS` of a projection, an aggregation or windows by a join.
pub(crate) fn marked(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    if !has_exists(&plan.expressions())? {
        return Ok(Transformed::no(plan));
    }
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    let mut input = input.clone();
    let preserver = NamePreserver::new(&plan);
    let mut exprs = Vec::new();
    for expr in plan.expressions() {
        let name = preserver.save(&expr);
        let expr = expr.map_down(|expr| match expr {
            Expr::Exists(own) => Ok(Transformed::yes(mark(&mut input, own, names)?)),
            other => Ok(Transformed::no(other)),
        })?;
        exprs.push(name.restore(expr.data));
    }
    let columns = plan.schema().columns();
    let is_window = matches!(plan, LogicalPlan::Window(_));
    let new = plan.with_new_exprs(exprs, vec![input])?;
    // Windows pass on all columns of their input, including the markers.
    let new = match is_window {
        true => {
            LogicalPlanBuilder::from(new).project(columns.into_iter().map(Expr::Column))?.build()?
        }
        false => new,
    };
    Ok(Transformed::yes(new))
}

/// A sort by an expression with a subquery: by a column that is computed below, and dropped above.
pub(crate) fn sorted(sort: Sort, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let mut has_any = false;
    for one in &sort.expr {
        has_any |= is_subquery(&one.expr)?;
    }
    if !has_any {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let columns: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut computed = columns.clone();
    let tied_to: Vec<Column> = sort.expr.iter().flat_map(|one| outer_columns(&one.expr)).collect();
    let input = handing_on(Arc::unwrap_or_clone(sort.input), &tied_to)?;
    let mut by = Vec::new();
    for one in sort.expr {
        if !is_subquery(&one.expr)? {
            by.push(one);
            continue;
        }
        let name = names.next("sorted");
        computed.push(one.expr.alias(name.clone()));
        by.push(SortExpr { expr: Expr::Column(Column::new_unqualified(name)), ..one });
    }
    let plan = LogicalPlanBuilder::from(input)
        .project(computed)?
        .sort_with_limit(by, sort.fetch)?
        .project(columns)?
        .build()?;
    Ok(Transformed::yes(plan))
}

/// An aggregation by, or of, correlated scalar subqueries: over columns that are computed below.
pub(crate) fn grouped(plan: Aggregate, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let is_tied = |expr: &Expr| {
        expr.any(|e| {
            Ok(matches!(e, Expr::ScalarSubquery(own) if !own.outer_ref_columns.is_empty()))
        })
    };
    let all = || plan.group_expr.iter().chain(&plan.aggr_expr);
    let mut has_any = false;
    for expr in all() {
        has_any |= is_tied(expr)?;
    }
    if !has_any {
        return Ok(Transformed::no(LogicalPlan::Aggregate(plan)));
    }
    let tied_to: Vec<Column> = all().flat_map(outer_columns).collect();
    let mut computed: Vec<Expr> =
        plan.input.schema().columns().into_iter().map(Expr::Column).collect();
    // The same subquery is computed once: the group key is then also what is shown.
    let mut known: Vec<(Expr, Expr)> = Vec::new();
    let mut columns_for = |exprs: &[Expr]| -> Result<Vec<Expr>> {
        let mut column = |expr: Expr| {
            if !matches!(&expr, Expr::ScalarSubquery(own) if !own.outer_ref_columns.is_empty()) {
                return Ok(Transformed::no(expr));
            }
            if let Some((_, column)) = known.iter().find(|(one, _)| *one == expr) {
                return Ok(Transformed::yes(column.clone()));
            }
            let name = names.next("grouped");
            computed.push(expr.clone().alias(name.clone()));
            let column = Expr::Column(Column::new_unqualified(name));
            known.push((expr, column.clone()));
            Ok(Transformed::yes(column))
        };
        exprs.iter().map(|e| Ok(e.clone().map_down(&mut column)?.data)).collect()
    };
    let (by, of) = (columns_for(&plan.group_expr)?, columns_for(&plan.aggr_expr)?);
    let input = handing_on(Arc::unwrap_or_clone(plan.input), &tied_to)?;
    let new = LogicalPlanBuilder::from(input).project(computed)?.aggregate(by, of)?.build()?;
    let shown = new.schema().columns().into_iter().zip(plan.schema.iter());
    let shown: Vec<Expr> = shown
        .map(|(column, (table, field))| {
            Expr::Column(column).alias_qualified(table.cloned(), field.name())
        })
        .collect();
    let new = LogicalPlanBuilder::from(new).project(shown)?.build()?;
    Ok(Transformed::yes(new))
}

fn is_subquery(expr: &Expr) -> Result<bool> {
    expr.any(|e| Ok(matches!(e, Expr::Exists(_) | Expr::InSubquery(_))))
}

/// Whether a join's condition contains a subquery.
pub(crate) fn has_subquery_in(join: &Join) -> Result<bool> {
    join.filter.as_ref().map_or(Ok(false), is_subquery)
}

/// A join whose conditions with subqueries become filters: over it, or over the one side that they refer
/// to and that may lack a partner. Others stay where they are.
pub(crate) fn outside(mut join: Join) -> Result<LogicalPlan> {
    let (mut rest, mut over, mut left, mut right) = (vec![], vec![], vec![], vec![]);
    for conjunct in join.filter.take().map(split_conjunction_owned).unwrap_or_default() {
        let about = |side: &LogicalPlan| {
            conjunct.column_refs().iter().all(|column| side.schema().has_column(column))
                && outer_columns(&conjunct).iter().all(|column| side.schema().has_column(column))
        };
        let place = match join.join_type {
            _ if !is_subquery(&conjunct)? => &mut rest,
            JoinType::Inner => &mut over,
            JoinType::Left if about(&join.right) => &mut right,
            JoinType::Right if about(&join.left) => &mut left,
            _ => &mut rest,
        };
        place.push(conjunct);
    }
    let filtered = |plan: Arc<LogicalPlan>, conditions| match conjunction(conditions) {
        Some(condition) => {
            Filter::try_new(condition, plan).map(|filter| Arc::new(LogicalPlan::Filter(filter)))
        }
        None => Ok(plan),
    };
    join.filter = conjunction(rest);
    join.left = filtered(join.left, left)?;
    join.right = filtered(join.right, right)?;
    Ok(Arc::unwrap_or_clone(filtered(Arc::new(LogicalPlan::Join(join)), over)?))
}

/// A projection extended by the columns that subqueries above it refer to; any other plan unchanged.
pub(crate) fn handing_on(plan: LogicalPlan, tied_to: &[Column]) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(own) = &plan else { return Ok(plan) };
    let mut exprs = own.expr.clone();
    for outer in tied_to {
        let column = Expr::Column(outer.clone());
        let is_missing = !own.schema.has_column(outer) && own.input.schema().has_column(outer);
        if is_missing && !exprs.contains(&column) {
            exprs.push(column);
        }
    }
    match exprs.len() == own.expr.len() {
        true => Ok(plan),
        false => Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&own.input))?)),
    }
}

/// The columns from outside that the subqueries of an expression refer to.
pub(crate) fn outer_columns(expr: &Expr) -> Vec<Column> {
    let mut columns = Vec::new();
    let seen = expr.each(|expr| {
        let subquery = match expr {
            Expr::InSubquery(own) => &own.subquery,
            Expr::Exists(own) => &own.subquery,
            Expr::ScalarSubquery(own) => own,
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        columns.extend(subquery.outer_ref_columns.iter().filter_map(|outer| match outer {
            Expr::OuterReferenceColumn(_, column) => Some(column.clone()),
            _ => None,
        }));
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(seen.is_ok(), "nothing here fails");
    columns
}

fn has_exists(exprs: &[Expr]) -> Result<bool> {
    for expr in exprs {
        if expr.any(|e| Ok(matches!(e, Expr::Exists(_))))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An expression that is true where `EXISTS` is; `input` gets it as a column, if it depends on the row.
fn mark(input: &mut LogicalPlan, own: Exists, names: &mut Names) -> Result<Expr> {
    let Exists { subquery, negated } = own;
    if subquery.outer_ref_columns.is_empty() {
        return counted(subquery, negated);
    }
    let mut pull_up = PullUpCorrelatedExpr::new().with_exists_sub_query(true);
    let plan = (*subquery.subquery).clone().rewrite(&mut pull_up).data()?;
    if !pull_up.can_pull_up {
        return counted(subquery, negated);
    }
    let alias = names.next("exists");
    let inner = pull_up.correlated_subquery_cols_map.values().flatten().cloned();
    let inner: BTreeSet<Column> = inner.collect();
    let condition = match conjunction(pull_up.join_filters) {
        Some(condition) => {
            let of_alias = |expr: Expr| match expr {
                Expr::Column(column) if inner.contains(&column) => {
                    let column = Column::new(Some(alias.clone()), column.name);
                    Ok(Transformed::yes(Expr::Column(column)))
                }
                other => Ok(Transformed::no(other)),
            };
            condition.map_up(of_alias)?.data
        }
        None => lit(true),
    };
    let right = LogicalPlanBuilder::from(plan).alias(alias.clone())?.build()?;
    *input = LogicalPlanBuilder::from(input.clone())
        .join_on(right, JoinType::LeftMark, Some(condition))?
        .build()?;
    let mark = Expr::Column(Column::new(Some(alias), "mark"));
    Ok(if negated { not(mark) } else { mark })
}

/// `EXISTS (S)` as `(SELECT count(*) FROM S) > 0`.
fn counted(subquery: Subquery, negated: bool) -> Result<Expr> {
    let rows = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery))
        .aggregate(Vec::<Expr>::new(), [count(lit(1i64))])?
        .build()?;
    let count = Expr::ScalarSubquery(Subquery { subquery: Arc::new(rows), ..subquery });
    let none = count.eq(lit(0i64));
    Ok(if negated { none } else { not(none) })
}
