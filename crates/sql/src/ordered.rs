//! The order of a subquery, kept for functions that depend on the order of their rows.
//!
//! `SELECT string_agg(x, ',') FROM (SELECT x FROM t ORDER BY y)` has no defined order in DataFusion 55,
//! which removes a sort that no operator above requires. PostgreSQL and Oracle keep it, and people rely
//! on it if there is no ORDER BY in the call or its window.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, Filter, Limit, LogicalPlan, LogicalPlanBuilder,
    Projection, Sort, SortExpr, SubqueryAlias, Window, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

use crate::mark_joins::{Names, handing_on, outer_columns};
use crate::walk::{Walk, WalkPlan};

/// Aggregates whose result depends on the order of rows.
const AGGREGATES: [&str; 5] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];
/// Window functions that depend on which rows are peers: without an order, all are.
const OF_PEERS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct OrderOfSubquery;

impl AnalyzerRule for OrderOfSubquery {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        let rewrite = |plan: LogicalPlan| match plan {
            LogicalPlan::Aggregate(own) => in_aggregates(own, &mut names),
            LogicalPlan::Window(own) => in_windows(own, &mut names),
            other => Ok(Transformed::no(other)),
        };
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "order_of_subquery"
    }
}

/// Aggregates in the order of the rows below.
fn in_aggregates(own: Aggregate, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let plan = LogicalPlan::Aggregate(own.clone());
    if !own.aggr_expr.iter().any(|expr| takes_order(expr.clone().unalias())) {
        return Ok(Transformed::no(plan));
    }
    // Texts are concatenated in one order at a time.
    if own.aggr_expr.iter().any(|expr| has_order(expr.clone().unalias())) {
        return Ok(Transformed::no(plan));
    }
    let Some((input, keys)) = ordered(&own.input, names)? else { return Ok(Transformed::no(plan)) };
    let preserver = NamePreserver::new(&plan);
    let change = |expr: Expr| {
        let name = preserver.save(&expr);
        let expr = expr.map_up(|expr| match expr {
            Expr::AggregateFunction(mut call)
                if takes_order(Expr::AggregateFunction(call.clone())) =>
            {
                call.params.order_by.clone_from(&keys);
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(name.restore(expr.data))
    };
    let aggregates = own.aggr_expr.into_iter().map(change).collect::<Result<Vec<_>>>()?;
    let new = Aggregate::try_new(Arc::new(input), own.group_expr, aggregates)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(new)))
}

fn takes_order(expr: Expr) -> bool {
    let Expr::AggregateFunction(call) = expr else { return false };
    let params = &call.params;
    params.order_by.is_empty() && !params.distinct && AGGREGATES.contains(&call.func.name())
}

fn has_order(expr: Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call)
        if call.func.name() == "string_agg" && !call.params.order_by.is_empty())
}

/// Windows without an order get the order of the rows below; others beside them stay as they are.
fn in_windows(own: Window, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let plan = LogicalPlan::Window(own.clone());
    let (ordered_by, others): (Vec<Expr>, Vec<Expr>) =
        own.window_expr.into_iter().partition(|expr| is_by_position(expr.clone().unalias()));
    if ordered_by.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let Some((input, keys)) = ordered(&own.input, names)? else { return Ok(Transformed::no(plan)) };
    let preserver = NamePreserver::new(&plan);
    let change = |expr: Expr| {
        let name = preserver.save(&expr);
        let expr = expr.map_up(|expr| match expr {
            Expr::WindowFunction(mut call) => {
                call.params.order_by.clone_from(&keys);
                Ok(Transformed::yes(Expr::WindowFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(name.restore(expr.data))
    };
    let windows = ordered_by.into_iter().map(change).collect::<Result<Vec<_>>>()?;
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let mut new = LogicalPlanBuilder::from(input).window(windows)?;
    if !others.is_empty() {
        new = new.window(others)?;
    }
    // Windows pass on all columns of their input, including those that only the order needs.
    Ok(Transformed::yes(new.project(columns)?.build()?))
}

/// Whether a window without an order may get one: it refers to rows by position, or to all of them.
fn is_by_position(expr: Expr) -> bool {
    let Expr::WindowFunction(call) = expr else { return false };
    let (params, frame) = (&call.params, &call.params.window_frame);
    let is_whole = matches!(&frame.start_bound, WindowFrameBound::Preceding(by) if by.is_null())
        && matches!(&frame.end_bound, WindowFrameBound::Following(by) if by.is_null());
    params.order_by.is_empty()
        && (is_whole || frame.units == WindowFrameUnits::Rows)
        && !OF_PEERS.contains(&call.fun.name())
}

/// A plan that passes on the rows of an ordered subquery, with its sort keys, also if these must be
/// passed on in addition; `None`: there is no such subquery.
fn ordered(plan: &LogicalPlan, names: &mut Names) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
    let found = match plan {
        LogicalPlan::Sort(sort) => sorted(sort, names)?,
        LogicalPlan::Distinct(Distinct::On(own)) => first_of_each(plan, own),
        LogicalPlan::Filter(filter) => match ordered(&filter.input, names)? {
            Some((input, keys)) => {
                let filter = Filter::try_new(filter.predicate.clone(), Arc::new(input))?;
                Some((LogicalPlan::Filter(filter), keys))
            }
            None => None,
        },
        LogicalPlan::Limit(limit) => ordered(&limit.input, names)?.map(|(input, keys)| {
            (LogicalPlan::Limit(Limit { input: Arc::new(input), ..limit.clone() }), keys)
        }),
        LogicalPlan::SubqueryAlias(own) => match ordered(&own.input, names)? {
            Some((input, keys)) => {
                let inner = Arc::clone(input.schema());
                let alias = SubqueryAlias::try_new(Arc::new(input), own.alias.clone())?;
                let keys = keys.into_iter().map(|key| renamed(key, &inner, &alias.schema));
                let keys = keys.collect::<Result<Vec<_>>>()?;
                Some((LogicalPlan::SubqueryAlias(alias), keys))
            }
            None => None,
        },
        LogicalPlan::Window(own) => match ordered(&own.input, names)? {
            Some((input, keys)) => {
                let window = Window::try_new(own.window_expr.clone(), Arc::new(input))?;
                Some((LogicalPlan::Window(window), keys))
            }
            None => None,
        },
        LogicalPlan::Projection(own) => match ordered(&own.input, names)? {
            Some((input, keys)) => Some(projected(own, input, keys, names)?),
            None => None,
        },
        _ => None,
    };
    Ok(found)
}

/// A sort that uses columns for what a subquery returns, so that it is not computed again.
fn sorted(sort: &Sort, names: &mut Names) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
    let is_plain = |key: &SortExpr| {
        Ok::<_, DataFusionError>(!key.expr.is_volatile() && !key.expr.any(|e| Ok(is_query(e)))?)
    };
    let mut computed: Vec<Expr> = Vec::new();
    let mut keys = Vec::new();
    for key in &sort.expr {
        if is_plain(key)? {
            keys.push(key.clone());
            continue;
        }
        let name = names.next("order");
        computed.push(key.expr.clone().alias(name.clone()));
        keys.push(SortExpr { expr: Expr::Column(Column::new_unqualified(name)), ..key.clone() });
    }
    if computed.is_empty() {
        return Ok(Some((LogicalPlan::Sort(sort.clone()), keys)));
    }
    let tied_to: Vec<Column> = sort.expr.iter().flat_map(|key| outer_columns(&key.expr)).collect();
    let columns = sort.input.schema().columns().into_iter().map(Expr::Column);
    let input = handing_on(sort.input.as_ref().clone(), &tied_to)?;
    let plan = LogicalPlanBuilder::from(input)
        .project(columns.chain(computed))?
        .sort_with_limit(keys.clone(), sort.fetch)?
        .build()?;
    Ok(Some((plan, keys)))
}

fn is_query(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_))
}

/// The rows of DISTINCT ON, if the sort keys are among their columns.
fn first_of_each(plan: &LogicalPlan, own: &DistinctOn) -> Option<(LogicalPlan, Vec<SortExpr>)> {
    let given = |key: &SortExpr| {
        let at = own.select_expr.iter().position(|e| e.clone().unalias() == key.expr)?;
        let column = Column::from(own.schema.qualified_field(at));
        Some(SortExpr { expr: Expr::Column(column), ..key.clone() })
    };
    let keys = own.sort_expr.as_ref()?.iter().map(given).collect::<Option<Vec<_>>>()?;
    Some((plan.clone(), keys))
}

/// A sort key over columns named as in `outer` instead of `inner`.
fn renamed(key: SortExpr, inner: &DFSchema, outer: &DFSchema) -> Result<SortExpr> {
    let expr = key.expr.map_up(|expr| match expr {
        Expr::Column(column) => {
            let at = inner.index_of_column(&column)?;
            Ok(Transformed::yes(Expr::Column(Column::from(outer.qualified_field(at)))))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(SortExpr { expr: expr.data, ..key })
}

/// A projection that passes on the sort keys as well.
fn projected(
    own: &Projection,
    input: LogicalPlan,
    keys: Vec<SortExpr>,
    names: &mut Names,
) -> Result<(LogicalPlan, Vec<SortExpr>)> {
    let mut exprs = own.expr.clone();
    let mut by = Vec::new();
    for key in keys {
        let known = own.expr.iter().position(|expr| expr.clone().unalias() == key.expr);
        let column = match known {
            Some(at) => Column::from(own.schema.qualified_field(at)),
            None => {
                let name = names.next("order");
                exprs.push(key.expr.alias(name.clone()));
                Column::new_unqualified(name)
            }
        };
        by.push(SortExpr { expr: Expr::Column(column), ..key });
    }
    let new = Projection::try_new(exprs, Arc::new(input))?;
    Ok((LogicalPlan::Projection(new), by))
}
