//! Subqueries of a plan, replaced by operators that run them for each row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema, JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::min_max::max;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery, Placeholder};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Subquery, lit, not, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use super::node::{Apply, Gives};
use super::placeholders;
use crate::mark_joins::{handing_on, outer_columns};
use crate::set_comparison::SetComparisons;
use crate::walk::{Walk, WalkPlan};

/// The number of subqueries of a plan that are correlated with an outer row.
pub(super) fn tied(plan: &LogicalPlan) -> Result<usize> {
    let mut pick = Pick { only: Some(usize::MAX), seen: 0 };
    pick.of_plan(plan)?;
    Ok(pick.seen)
}

/// A plan in which its correlated subqueries, or one of them, are replaced by operators.
pub(super) fn applied(plan: &LogicalPlan, only: Option<usize>) -> Result<LogicalPlan> {
    Pick { only, seen: 0 }.of_plan(plan)
}

/// The subqueries to replace, in the order in which they are met.
struct Pick {
    only: Option<usize>,
    seen: usize,
}

impl Pick {
    fn of_plan(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let plan = SetComparisons.analyze(plan.clone(), &ConfigOptions::default())?;
        // From outside in: what is within a subquery that is run for each row is planned together with
        // that subquery.
        Ok(plan.map_down_with_subqueries(|plan| self.of_node(plan))?.data)
    }

    /// Whether a subquery is to be replaced.
    fn takes(&mut self, subquery: &LogicalPlan) -> Result<bool> {
        let mut values = Values::of(Arc::new(DFSchema::empty()));
        values.settle(subquery.clone(), &[])?;
        if values.names.is_empty() {
            return Ok(false);
        }
        let at = self.seen;
        self.seen += 1;
        Ok(self.only.is_none_or(|only| only == at))
    }

    fn of_node(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) => match lateral_of(&join) {
                Some(own) if self.takes(&own.subquery)? => lateral(join, &own),
                _ => self.joined(join),
            },
            LogicalPlan::Extension(_) => Ok(Transformed::no(plan)),
            plan => self.values(plan),
        }
    }

    /// An inner join with a subquery in its condition: the condition becomes a filter over the join.
    fn joined(&mut self, mut join: Join) -> Result<Transformed<LogicalPlan>> {
        let has_any =
            join.filter.as_ref().map_or(Ok(false), |own| own.any(|e| Ok(is_subquery(e))))?;
        let (true, JoinType::Inner) = (has_any, join.join_type) else {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        };
        let Some(filter) = join.filter.take() else {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        };
        let over = Filter::try_new(filter, Arc::new(LogicalPlan::Join(join)))?;
        let new = self.values(LogicalPlan::Filter(over))?;
        Ok(Transformed::yes(new.data))
    }

    /// Subqueries among the expressions of an operator: they become columns, added to its rows below it.
    fn values(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
        let mut has_any = false;
        for expr in plan.expressions() {
            has_any |= expr.any(|expr| Ok(is_subquery(expr)))?;
        }
        if !has_any {
            return Ok(Transformed::no(plan));
        }
        let tied_to: Vec<Column> = plan.expressions().iter().flat_map(outer_columns).collect();
        let mut lift = Lift { input: handing_on(input.clone(), &tied_to)?, pick: self };
        let before = lift.input.clone();
        let preserver = NamePreserver::new(&plan);
        let mut exprs = Vec::new();
        for expr in plan.expressions() {
            let name = preserver.save(&expr);
            exprs.push(name.restore(lift.of(expr, None)?));
        }
        let input = lift.input;
        if input == before {
            return Ok(Transformed::no(plan));
        }
        let columns = plan.schema().columns();
        let new = plan.with_new_exprs(exprs, vec![input])?;
        let new = match new.schema().columns() == columns {
            true => new,
            // Operators that pass on all columns of their input.
            false => {
                let columns = columns.into_iter().map(Expr::Column);
                LogicalPlanBuilder::from(new).project(columns)?.build()?
            }
        };
        Ok(Transformed::yes(new))
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_))
}

/// The input of an operator, to which columns are added one by one.
struct Lift<'a> {
    input: LogicalPlan,
    pick: &'a mut Pick,
}

impl Lift<'_> {
    /// An expression with columns in the place of its subqueries. `guard`: the rows for which it is
    /// evaluated.
    fn of(&mut self, expr: Expr, guard: Option<&Expr>) -> Result<Expr> {
        match expr {
            Expr::ScalarSubquery(own) if self.pick.takes(&own.subquery)? => {
                let mut values = Values::of(Arc::clone(self.input.schema()));
                let plan = values.settle(own.subquery.as_ref().clone(), &[])?;
                self.column(plan, values, guard)
            }
            Expr::Exists(own) if self.pick.takes(&own.subquery.subquery)? => {
                let mut values = Values::of(Arc::clone(self.input.schema()));
                let rows = values.settle(own.subquery.subquery.as_ref().clone(), &[])?;
                let plan = LogicalPlanBuilder::from(rows)
                    .limit(0, Some(1))?
                    .aggregate(Vec::<Expr>::new(), [count(lit(1i64)).alias("rows")])?
                    .build()?;
                let is_one = self.column(plan, values, guard)?.eq(lit(1i64));
                Ok(if own.negated { not(is_one) } else { is_one })
            }
            Expr::InSubquery(own) if self.pick.takes(&own.subquery.subquery)? => {
                self.is_among(own, guard)
            }
            Expr::Case(own) => self.case(own, guard),
            other => Ok(other.map_children(|own| Ok(Transformed::yes(self.of(own, guard)?)))?.data),
        }
    }

    /// Each branch is evaluated for its own rows alone.
    fn case(&mut self, own: Case, guard: Option<&Expr>) -> Result<Expr> {
        let base = own.expr.map(|own| self.of(*own, guard)).transpose()?;
        let mut before: Vec<Expr> = guard.cloned().into_iter().collect();
        let mut when_then_expr = Vec::new();
        for (when, then) in own.when_then_expr {
            let when = self.of(*when, conjunction(before.clone()).as_ref())?;
            let is = match &base {
                Some(base) => base.clone().eq(when.clone()),
                None => when.clone(),
            };
            let mut now = before.clone();
            now.push(is.clone().is_true());
            let then = self.of(*then, conjunction(now).as_ref())?;
            before.push(is.is_not_true());
            when_then_expr.push((Box::new(when), Box::new(then)));
        }
        let guard = conjunction(before);
        let other = own.else_expr.map(|own| self.of(*own, guard.as_ref())).transpose()?;
        let (expr, else_expr) = (base.map(Box::new), other.map(Box::new));
        Ok(Expr::Case(Case { expr, when_then_expr, else_expr }))
    }

    /// `x IN (S)`: 2 where a row is equal, 1 where one may be, else 0; null if there are no rows.
    fn is_among(&mut self, own: InSubquery, guard: Option<&Expr>) -> Result<Expr> {
        let InSubquery { expr, subquery, negated } = own;
        let expr = self.of(*expr, guard)?;
        let mut values = Values::of(Arc::clone(self.input.schema()));
        let rows = values.settle(subquery.subquery.as_ref().clone(), &[])?;
        let (_, field) =
            datafusion::logical_expr::ExprSchemable::to_field(&expr, self.input.schema())?;
        let wanted = values.placeholder(field, expr);
        let Some(column) = rows.schema().columns().into_iter().next() else {
            return datafusion::common::plan_err!("a subquery without columns behind IN");
        };
        let is_equal = Expr::Column(column).eq(wanted);
        let sort = when(is_equal.clone(), lit(2i64))
            .when(is_equal.is_null(), lit(1i64))
            .otherwise(lit(0i64))?;
        let plan = LogicalPlanBuilder::from(rows)
            .aggregate(Vec::<Expr>::new(), [max(sort).alias("among")])?
            .build()?;
        let found = self.column(plan, values, guard)?;
        let is = when(found.clone().eq(lit(2i64)), lit(true))
            .when(found.eq(lit(1i64)), lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))?;
        Ok(if negated { not(is) } else { is })
    }

    /// A column with the value of a subquery.
    fn column(&mut self, plan: LogicalPlan, values: Values, guard: Option<&Expr>) -> Result<Expr> {
        let data_type = match plan.schema().fields().iter().next() {
            Some(field) => field.data_type().clone(),
            None => DataType::Null,
        };
        let name = format!("__applied_{}", number());
        let field = Field::new(&name, data_type, true);
        let own = DFSchema::from_unqualified_fields(vec![field].into(), Default::default())?;
        let input = std::mem::replace(&mut self.input, LogicalPlanBuilder::empty(false).build()?);
        let taken = values.finish(&plan)?;
        let own = Apply::new(input, (plan, Gives::Value), taken, guard.cloned(), Arc::new(own))?;
        self.input = own.plan();
        Ok(Expr::Column(Column::new_unqualified(name)))
    }
}

/// The subquery that a join runs for each row on its left.
fn lateral_of(join: &Join) -> Option<Subquery> {
    let own = match join.right.as_ref() {
        LogicalPlan::SubqueryAlias(named) => named.input.as_ref(),
        other => other,
    };
    match own {
        LogicalPlan::Subquery(own)
            if matches!(join.join_type, JoinType::Inner | JoinType::Left) =>
        {
            Some(own.clone())
        }
        _ => None,
    }
}

/// `FROM t JOIN LATERAL (S) ON ..`.
fn lateral(join: Join, own: &Subquery) -> Result<Transformed<LogicalPlan>> {
    let mut values = Values::of(Arc::clone(join.left.schema()));
    let mut plan = values.settle(own.subquery.as_ref().clone(), &[])?;
    if let LogicalPlan::SubqueryAlias(named) = join.right.as_ref() {
        plan = LogicalPlanBuilder::from(plan).alias(named.alias.clone())?.build()?;
    }
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    if let Some(condition) = conjunction(equal.chain(join.filter.clone()).collect::<Vec<_>>()) {
        let of_row = |expr: Expr| match &expr {
            Expr::Column(column) if join.left.schema().has_column(column) => {
                let field = Arc::clone(join.left.schema().field_from_column(column)?);
                Ok(Transformed::yes(values.placeholder(field, expr)))
            }
            _ => Ok(Transformed::no(expr)),
        };
        let condition = condition.map_up(of_row)?.data;
        plan = LogicalPlanBuilder::from(plan).filter(condition)?.build()?;
    }
    let (gives, own) = match join.join_type {
        JoinType::Left => {
            let fields = join.right.schema().iter().map(|(table, field)| {
                (table.cloned(), Arc::new(field.as_ref().clone().with_nullable(true)))
            });
            let own = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
            (Gives::RowsOrNone, Arc::new(own))
        }
        _ => (Gives::Rows, Arc::clone(join.right.schema())),
    };
    let taken = values.finish(&plan)?;
    let input = Arc::unwrap_or_clone(join.left);
    Ok(Transformed::yes(Apply::new(input, (plan, gives), taken, None, own)?.plan()))
}

/// What a subquery takes from the outer row.
struct Values {
    outside: DFSchemaRef,
    names: Vec<String>,
    /// The expressions that provide them.
    exprs: Vec<Expr>,
    fields: Vec<FieldRef>,
}

impl Values {
    fn of(outside: DFSchemaRef) -> Values {
        Values { outside, names: Vec::new(), exprs: Vec::new(), fields: Vec::new() }
    }

    /// The placeholder for a value.
    fn placeholder(&mut self, field: FieldRef, expr: Expr) -> Expr {
        let at = self.exprs.iter().position(|own| *own == expr).unwrap_or_else(|| {
            self.names.push(format!("$__outside_{}", number()));
            self.exprs.push(expr);
            self.fields.push(field);
            self.names.len() - 1
        });
        let field = Some(Arc::clone(&self.fields[at]));
        Expr::Placeholder(Placeholder::new_with_field(self.names[at].clone(), field))
    }

    /// Names and values, with those that the plan already takes from further outside.
    fn finish(mut self, plan: &LogicalPlan) -> Result<(Vec<String>, Vec<Expr>)> {
        for own in placeholders(plan)? {
            if let Expr::Placeholder(other) = &own
                && !self.names.contains(&other.id)
            {
                self.names.push(other.id.clone());
                self.exprs.push(own);
            }
        }
        Ok((self.names, self.exprs))
    }

    /// A plan with placeholders for what it takes from outside. `near`: the schemas outside of it that
    /// still lie within the subquery.
    fn settle(&mut self, plan: LogicalPlan, near: &[DFSchemaRef]) -> Result<LogicalPlan> {
        let plan = match plan {
            // The left side is outside of what is run for each of its rows.
            LogicalPlan::Join(join) if lateral_of(&join).is_some() => {
                let left = self.settle(Arc::unwrap_or_clone(Arc::clone(&join.left)), near)?;
                let mut nearer = near.to_vec();
                nearer.push(Arc::clone(left.schema()));
                let right = self.settle(Arc::unwrap_or_clone(Arc::clone(&join.right)), &nearer)?;
                let (left, right) = (Arc::new(left), Arc::new(right));
                LogicalPlan::Join(Join { left, right, ..join })
            }
            LogicalPlan::Subquery(own) => {
                let plan = self.settle(Arc::unwrap_or_clone(own.subquery), near)?;
                let outer_ref_columns = plan.all_out_ref_exprs();
                // Nothing in it depends on a row any more.
                if outer_ref_columns.is_empty() {
                    return Ok(plan);
                }
                let subquery = Arc::new(plan);
                return Ok(LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, ..own }));
            }
            plan => plan.map_children(|own| Ok(Transformed::yes(self.settle(own, near)?)))?.data,
        };
        let mut nearer = near.to_vec();
        nearer.extend(plan.inputs().iter().map(|own| Arc::clone(own.schema())));
        let names = NamePreserver::new(&plan);
        let plan = plan.map_own(|expr| {
            let name = names.save(&expr);
            let expr = self.settle_expr(expr, near, &nearer)?;
            Ok(Transformed::yes(name.restore(expr)))
        })?;
        Ok(plan.data)
    }

    fn settle_expr(
        &mut self,
        expr: Expr,
        near: &[DFSchemaRef],
        nearer: &[DFSchemaRef],
    ) -> Result<Expr> {
        let settled = expr.map_up(|expr| match expr {
            Expr::OuterReferenceColumn(field, column) => {
                let is_near = near.iter().any(|own| own.has_column(&column));
                if is_near {
                    return Ok(Transformed::no(Expr::OuterReferenceColumn(field, column)));
                }
                let value = match self.outside.has_column(&column) {
                    true => Expr::Column(column),
                    false => Expr::OuterReferenceColumn(Arc::clone(&field), column),
                };
                Ok(Transformed::yes(self.placeholder(field, value)))
            }
            Expr::ScalarSubquery(own) => {
                Ok(Transformed::yes(Expr::ScalarSubquery(self.settle_within(own, nearer)?)))
            }
            Expr::Exists(own) => {
                let subquery = self.settle_within(own.subquery, nearer)?;
                Ok(Transformed::yes(Expr::Exists(Exists { subquery, ..own })))
            }
            Expr::InSubquery(own) => {
                let subquery = self.settle_within(own.subquery, nearer)?;
                Ok(Transformed::yes(Expr::InSubquery(InSubquery { subquery, ..own })))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(settled?.data)
    }

    fn settle_within(&mut self, own: Subquery, near: &[DFSchemaRef]) -> Result<Subquery> {
        let plan = self.settle(own.subquery.as_ref().clone(), near)?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, ..own })
    }
}

/// A number that no other operator of this process has.
fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
