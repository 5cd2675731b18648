//! Columns of a subquery that correlate it with an outer row, under unique names.
//!
//! DataFusion makes a join of the subquery and finds these columns by name alone in its result: `EXISTS
//! (SELECT b.id FROM b, c WHERE c.id = a.id)` became one where `b.id` is `a.id`.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::mark_joins::Names;
use crate::walk::{Walk, WalkPlan};

/// The rule. It runs before subqueries become joins.
#[derive(Debug, Default)]
pub(crate) struct TiedColumns;

impl AnalyzerRule for TiedColumns {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        let rewrite = |plan: LogicalPlan| match plan {
            LogicalPlan::Subquery(own) if !own.outer_ref_columns.is_empty() => {
                let subquery = Arc::unwrap_or_clone(own.subquery);
                let rewritten = with_own_names(subquery, &mut names)?;
                Ok(rewritten.update_data(|plan| {
                    LogicalPlan::Subquery(Subquery { subquery: Arc::new(plan), ..own })
                }))
            }
            other => Ok(Transformed::no(other)),
        };
        let plan = plan.map_up_with_subqueries(with_itself)?.data;
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "tied_columns"
    }
}

/// A condition that an outer column equals itself, rewritten to show that it is null for null: DataFusion
/// drops it when it makes a join of a subquery.
fn with_itself(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(mut filter) = plan else { return Ok(Transformed::no(plan)) };
    let spelt_out = |expr: Expr| match expr {
        Expr::BinaryExpr(own)
            if own.op == Operator::Eq
                && own.left == own.right
                && own.left.contains_outer()
                && !own.left.is_volatile() =>
        {
            let unknown = lit(ScalarValue::Boolean(None));
            Ok(Transformed::yes(own.left.is_not_null().or(unknown)))
        }
        other => Ok(Transformed::no(other)),
    };
    let predicate = filter.predicate.map_up(spelt_out)?;
    filter.predicate = predicate.data;
    Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), predicate.transformed))
}

fn with_own_names(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let taken = names_given(&plan)?;
    plan.map_up(|plan| match plan {
        LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => {
            of_filter(filter, &taken, names)
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Names that a subquery gives to computed columns.
fn names_given(plan: &LogicalPlan) -> Result<BTreeSet<String>> {
    let mut given = BTreeSet::new();
    plan.each(|plan| {
        for expr in plan.expressions() {
            if !matches!(expr, Expr::Column(_)) {
                given.insert(expr.schema_name().to_string());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(given)
}

fn of_filter(
    filter: Filter,
    taken: &BTreeSet<String>,
    names: &mut Names,
) -> Result<Transformed<LogicalPlan>> {
    let columns = filter.input.schema().columns();
    let is_unclear = |column: &Column| {
        let same = columns.iter().filter(|other| other.name == column.name).count();
        same > 1 || taken.contains(&column.name)
    };
    let conjuncts = split_conjunction_owned(filter.predicate.clone());
    let tied = conjuncts.iter().filter(|own| own.contains_outer()).flat_map(Expr::column_refs);
    let unclear: BTreeSet<Column> = tied.filter(|column| is_unclear(column)).cloned().collect();
    if unclear.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let named: Vec<(Column, String)> =
        unclear.into_iter().map(|column| (column, names.next("tied"))).collect();
    let renamed = |expr: Expr| match &expr {
        Expr::Column(column) => match named.iter().find(|(old, _)| old == column) {
            Some((_, new)) => {
                Ok(Transformed::yes(Expr::Column(Column::new_unqualified(new.clone()))))
            }
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    };
    let mut all = Vec::new();
    for conjunct in conjuncts {
        all.push(match conjunct.contains_outer() {
            true => conjunct.map_up(renamed)?.data,
            false => conjunct,
        });
    }
    let original: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
    let mut with_tied = original.clone();
    with_tied.extend(named.iter().map(|(old, new)| Expr::Column(old.clone()).alias(new.clone())));
    let plan = LogicalPlanBuilder::from(filter.input)
        .project(with_tied)?
        .filter(conjunction(all).unwrap_or_else(|| lit(true)))?
        .project(original)?
        .build()?;
    Ok(Transformed::yes(plan))
}
