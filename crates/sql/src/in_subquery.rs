//! `IN` and `NOT IN` over subqueries with SQL's three-valued logic, where DataFusion has two values.
//!
//! `x NOT IN (S)` is true if no row of S equals x, none is null, and x is not null unless S is empty.
//! DataFusion plans that correctly as a join only for an uncorrelated subquery that is compared with a
//! column, as a condition of its own. Everywhere else `IN` is rewritten as `EXISTS`, which is true or
//! false; and in the select list `EXISTS` is rewritten as a count.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    lit, not, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::mark_joins::{Names, grouped, has_subquery_in, marked, outside, sorted};
use crate::walk::{Walk, WalkPlan};

/// The rule. It runs before types are chosen, because it adds comparisons.
#[derive(Debug, Default)]
pub(crate) struct ThreeValuedIn;

impl AnalyzerRule for ThreeValuedIn {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        Ok(plan.map_up_with_subqueries(|plan| rewrite(plan, &mut names))?.data)
    }

    fn name(&self) -> &'static str {
        "three_valued_in"
    }
}

fn rewrite(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let filter = match plan {
        LogicalPlan::Filter(filter) => filter,
        LogicalPlan::Projection(_) | LogicalPlan::Window(_) => return in_values(plan, names),
        LogicalPlan::Aggregate(own) => {
            let grouped = grouped(own, names)?;
            if !grouped.transformed {
                return in_values(grouped.data, names);
            }
            // What is computed below is a projection of its own.
            return grouped.transform_data(|plan| plan.map_up(|plan| in_values(plan, names)));
        }
        LogicalPlan::Sort(sort) => {
            let sorted = sorted(sort, names)?;
            if !sorted.transformed {
                return Ok(sorted);
            }
            // What is computed below is a projection of its own.
            return sorted.transform_data(|plan| plan.map_up(|plan| in_values(plan, names)));
        }
        LogicalPlan::Join(join) if has_subquery_in(&join)? => {
            return match outside(join)? {
                LogicalPlan::Filter(filter) => rewrite(LogicalPlan::Filter(filter), names),
                other => other.map_children(|child| match child {
                    LogicalPlan::Filter(_) => rewrite(child, names),
                    other => Ok(Transformed::no(other)),
                }),
            };
        }
        other => return Ok(Transformed::no(other)),
    };
    if !has_in(&filter.predicate)? {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let schema = Arc::clone(filter.input.schema());
    let mut conjuncts = Vec::new();
    for conjunct in split_conjunction_owned(filter.predicate) {
        conjuncts.push(match conjunct {
            // Cases that a join handles.
            Expr::InSubquery(own) if !own.negated || is_plain(&own) => Expr::InSubquery(own),
            Expr::Not(inner) => match *inner {
                Expr::InSubquery(own) if own.negated || is_plain(&own) => {
                    Expr::InSubquery(InSubquery { negated: !own.negated, ..own })
                }
                inner => condition(Expr::Not(Box::new(inner)), Wanted::True, &schema)?,
            },
            other => condition(other, Wanted::True, &schema)?,
        });
    }
    let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
}

/// Subqueries in what a query returns, groups by or aggregates: there DataFusion supports only scalar ones.
fn in_values(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let mut has_own = false;
    for expr in plan.expressions() {
        has_own |= expr.any(|e| Ok(matches!(e, Expr::InSubquery(_) | Expr::Exists(_))))?;
    }
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    if !has_own {
        return Ok(Transformed::no(plan));
    }
    let schema = Arc::clone(input.schema());
    let preserver = NamePreserver::new(&plan);
    let three_valued = plan.map_own(|expr| {
        let name = preserver.save(&expr);
        let below = |expr: Expr| match expr {
            Expr::InSubquery(own) => Ok(Transformed::yes(membership(own, Wanted::All, &schema)?)),
            other => Ok(Transformed::no(other)),
        };
        Ok(expr.map_down(below)?.update_data(|expr| name.restore(expr)))
    })?;
    Ok(Transformed::yes(marked(three_valued.data, names)?.data))
}

fn has_in(expr: &Expr) -> Result<bool> {
    expr.any(|expr| Ok(matches!(expr, Expr::InSubquery(_)) || RowIn::of(expr).is_some()))
}

/// The dialect's form of `(a, b) IN (S)`:
/// `CASE WHEN EXISTS (..) THEN TRUE WHEN EXISTS (..) THEN NULL .. ELSE FALSE END`.
struct RowIn<'a> {
    equal: &'a Exists,
    maybe: Vec<&'a Exists>,
    negated: bool,
}

impl RowIn<'_> {
    fn of(expr: &Expr) -> Option<RowIn<'_>> {
        let Expr::Case(case) = expr else { return None };
        let truth = |expr: &Expr| match expr {
            Expr::Literal(ScalarValue::Boolean(value), _) => *value,
            _ => None,
        };
        let is_null = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.is_null());
        let otherwise = truth(case.else_expr.as_deref()?)?;
        let mut whens = case.when_then_expr.iter().map(|(when, then)| match &**when {
            Expr::Exists(own) if !own.negated => Some((own, &**then)),
            _ => None,
        });
        let (equal, then) = whens.next()??;
        let mut maybe = Vec::new();
        for when in whens {
            let (own, then) = when?;
            is_null(then).then(|| maybe.push(own))?;
        }
        let is_own = case.expr.is_none() && !maybe.is_empty() && truth(then)? != otherwise;
        is_own.then_some(RowIn { equal, maybe, negated: otherwise })
    }

    /// A simpler equivalent, if null counts as one of the other values.
    fn as_condition(&self, wanted: Wanted) -> Option<Expr> {
        let exists = |own: &Exists| Expr::Exists(own.clone());
        let none = |own: &Exists| Expr::Exists(Exists { negated: true, ..own.clone() });
        let all = || std::iter::once(self.equal).chain(self.maybe.iter().copied());
        match (wanted, self.negated) {
            (Wanted::All, _) => None,
            (Wanted::True, false) => Some(exists(self.equal)),
            (Wanted::False, true) => Some(none(self.equal)),
            (Wanted::True, true) => all().map(none).reduce(Expr::and),
            (Wanted::False, false) => all().map(exists).reduce(Expr::or),
        }
    }
}

/// Whether `x NOT IN (S)` becomes a null-aware join: S is the same for each row, and x is not.
fn is_plain(own: &InSubquery) -> bool {
    own.subquery.outer_ref_columns.is_empty() && own.expr.any_column_refs()
}

/// The values of a condition that must be told apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Only whether it is true: null counts as false.
    True,
    /// Only whether it is false: null counts as true.
    False,
    /// All three values.
    All,
}

fn condition(expr: Expr, wanted: Wanted, schema: &DFSchema) -> Result<Expr> {
    if !has_in(&expr)? {
        return Ok(expr);
    }
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let left = condition(*left, wanted, schema)?;
            let right = condition(*right, wanted, schema)?;
            Ok(Expr::BinaryExpr(BinaryExpr::new(left.into(), op, right.into())))
        }
        Expr::Not(inner) => {
            let wanted = match wanted {
                Wanted::True => Wanted::False,
                Wanted::False => Wanted::True,
                Wanted::All => Wanted::All,
            };
            Ok(not(condition(*inner, wanted, schema)?))
        }
        Expr::InSubquery(own) => membership(own, wanted, schema),
        other => {
            let row = RowIn::of(&other).and_then(|row| row.as_condition(wanted));
            if let Some(row) = row {
                return Ok(row);
            }
            let below = |expr: Expr| match expr {
                Expr::InSubquery(own) => {
                    Ok(Transformed::yes(membership(own, Wanted::All, schema)?))
                }
                other => Ok(Transformed::no(other)),
            };
            Ok(other.map_down(below)?.data)
        }
    }
}

fn membership(own: InSubquery, wanted: Wanted, schema: &DFSchema) -> Result<Expr> {
    // A value that itself refers to a query further out cannot be moved into the subquery.
    let is_further_out = own.expr.any(|e| Ok(matches!(e, Expr::OuterReferenceColumn(_, _))))?;
    if is_further_out || own.subquery.subquery.schema().fields().len() != 1 {
        return Ok(Expr::InSubquery(own));
    }
    let negated = own.negated;
    match (wanted, negated) {
        (Wanted::True, false) => Ok(Expr::InSubquery(apart(own, schema)?)),
        (Wanted::True, true) => is_missing(&own, schema),
        (Wanted::False, false) => Ok(not(is_missing(&own, schema)?)),
        (Wanted::False, true) => Ok(not(is_there(&own, schema)?)),
        (Wanted::All, _) => {
            let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
            when(is_there(&own, schema)?, lit(!negated))
                .when(is_missing(&own, schema)?, lit(negated))
                .otherwise(unknown)
        }
    }
}

/// The subquery with a unique name for its column, if the value has another type: a cast would take the
/// column's name, and the column is needed beside the cast if it correlates the subquery.
fn apart(own: InSubquery, schema: &DFSchema) -> Result<InSubquery> {
    let inner = &own.subquery.subquery;
    let (relation, field) = inner.schema().qualified_field(0);
    let is_tied = !own.subquery.outer_ref_columns.is_empty();
    if !is_tied || own.expr.get_type(schema)? == *field.data_type() {
        return Ok(own);
    }
    let column = Expr::Column(Column::new(relation.cloned(), field.name()));
    let plan = LogicalPlanBuilder::from(Arc::clone(inner)).project([column.alias(VALUE)])?;
    let subquery = own.subquery.with_plan(Arc::new(plan.build()?));
    Ok(InSubquery { subquery, ..own })
}

/// Whether some row of the subquery equals the value.
fn is_there(own: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    exists(own, schema, |column, value| column.eq(value), false)
}

/// Whether the value is certainly not in the subquery.
fn is_missing(own: &InSubquery, schema: &DFSchema) -> Result<Expr> {
    let mut all = vec![exists(own, schema, |column, value| column.eq(value), true)?];
    if own.subquery.subquery.schema().field(0).is_nullable() {
        all.push(exists(own, schema, |column, _| column.is_null(), true)?);
    }
    if own.expr.nullable(schema)? {
        let is_empty = exists(own, schema, |_, _| lit(true), true)?;
        all.push((*own.expr).clone().is_not_null().or(is_empty));
    }
    Ok(conjunction(all).unwrap_or_else(|| lit(true)))
}

/// The name of the column of a subquery: the same table may be outside too.
const VALUE: &str = "__in_value";

/// `EXISTS` over the rows of the subquery for which a condition is true; `negated`: `NOT EXISTS`.
pub(crate) fn exists(
    own: &InSubquery,
    schema: &DFSchema,
    wanted: impl FnOnce(Expr, Expr) -> Expr,
    negated: bool,
) -> Result<Expr> {
    let inner = &own.subquery.subquery;
    let (relation, field) = inner.schema().qualified_field(0);
    let column = Expr::Column(Column::new(relation.cloned(), field.name()));
    let inner = LogicalPlanBuilder::from(Arc::clone(inner)).project([column.alias(VALUE)])?;
    let column = Expr::Column(Column::new_unqualified(VALUE));
    let mut outer = own.subquery.outer_ref_columns.clone();
    let from_outside = |expr: Expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let reference = Expr::OuterReferenceColumn(field, column);
            if !outer.contains(&reference) {
                outer.push(reference.clone());
            }
            Ok(Transformed::yes(reference))
        }
        other => Ok(Transformed::no(other)),
    };
    let value = (*own.expr).clone().map_up(from_outside)?.data;
    let predicate = wanted(column, value);
    let plan = match predicate == lit(true) {
        true => inner.build()?,
        false => inner.filter(predicate)?.build()?,
    };
    let subquery = Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns: outer,
        spans: own.subquery.spans.clone(),
    };
    Ok(Expr::Exists(Exists { subquery, negated }))
}
