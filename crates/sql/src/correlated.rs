//! Scalar subqueries correlated with an outer row by anything but equalities: `(SELECT count(*) FROM n
//! WHERE n.y < t.x)`, `(SELECT y FROM n WHERE n.y < t.x ORDER BY y LIMIT 1)`, as a value or after
//! LATERAL; after LATERAL also with several rows, `(SELECT y FROM n WHERE n.x = t.x LIMIT 3)`.
//!
//! DataFusion groups the rows of a subquery by the outer columns in its equalities, and here there are
//! none. So each outer row gets a number, is joined with its rows, and these are aggregated by that
//! number.

mod items;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, TableReference, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprFunctionExt, FetchType, Filter, Join, LogicalPlan, LogicalPlanBuilder,
    SkipType, SortExpr, Subquery, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

use crate::mark_joins::{Names, handing_on, outer_columns};
use crate::walk::{Walk, WalkPlan};

/// The rule. It runs before types are chosen.
#[derive(Debug, Default)]
pub(crate) struct ForEachRow;

impl AnalyzerRule for ForEachRow {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        let plan = plan.map_down_with_subqueries(without_limit)?.data;
        let plan = plan.map_down_with_subqueries(narrowed)?.data;
        Ok(plan.map_up_with_subqueries(|plan| rewrite(plan, &mut names))?.data)
    }

    fn name(&self) -> &'static str {
        "for_each_row"
    }
}

/// Drops the LIMIT over the only row of an aggregation without groups.
fn without_limit(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Limit(limit) = &plan else { return Ok(Transformed::no(plan)) };
    let is_any = matches!(limit.get_fetch_type()?, FetchType::Literal(rows) if rows != Some(0))
        && matches!(limit.get_skip_type()?, SkipType::Literal(0));
    let rows = match limit.input.as_ref() {
        LogicalPlan::Sort(sort) => &sort.input,
        _ => &limit.input,
    };
    let is_one = matches!(rows.as_ref(), LogicalPlan::Projection(own)
        if matches!(own.input.as_ref(), LogicalPlan::Aggregate(own) if own.group_expr.is_empty()));
    match is_any && is_one {
        true => Ok(Transformed::yes(rows.as_ref().clone())),
        false => Ok(Transformed::no(plan)),
    }
}

/// A condition on the outer rows alone is moved below the numbering, because no rule takes it past the
/// numbers.
fn narrowed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
    let lateral = match filter.input.as_ref() {
        LogicalPlan::Join(join) if is_lateral(join) => Some(join),
        _ => None,
    };
    let rows = lateral.map_or(&filter.input, |join| &join.left);
    let (mut of_rows, mut others) = (Vec::new(), Vec::new());
    for conjunct in split_conjunction_owned(filter.predicate.clone()) {
        let is_theirs = !conjunct.is_volatile()
            && !conjunct.contains_outer()
            && !conjunct.any(|expr| Ok(is_subquery(expr)))?
            && conjunct.column_refs().iter().all(|column| rows.schema().has_column(column));
        if is_theirs { &mut of_rows } else { &mut others }.push(conjunct);
    }
    let (Some(of_rows), is_one) = (conjunction(of_rows), others.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    if lateral.is_none() && is_one {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let rows = LogicalPlan::Filter(Filter::try_new(of_rows, Arc::clone(rows))?);
    let rows = match lateral {
        Some(join) => LogicalPlan::Join(Join { left: Arc::new(rows), ..join.clone() }),
        None => rows,
    };
    Ok(Transformed::yes(match conjunction(others) {
        Some(others) => LogicalPlan::Filter(Filter::try_new(others, Arc::new(rows))?),
        None => rows,
    }))
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_))
}

/// Whether a join is a LATERAL join with a subquery.
fn is_lateral(join: &Join) -> bool {
    let own = match join.right.as_ref() {
        LogicalPlan::SubqueryAlias(named) => named.input.as_ref(),
        other => other,
    };
    matches!(own, LogicalPlan::Subquery(own) if !own.outer_ref_columns.is_empty())
        && matches!(join.join_type, JoinType::Inner | JoinType::Left)
}

fn rewrite(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Aggregate(_) => {
            values(plan, names)
        }
        LogicalPlan::Window(_) | LogicalPlan::Sort(_) => computed_before(plan, names),
        LogicalPlan::Join(join) => lateral(join, names),
        other => Ok(Transformed::no(other)),
    }
}

/// Windows or a sort over correlated subqueries: these become columns that are computed below, and
/// dropped above.
fn computed_before(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let is_tied = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(own) if !own.outer_ref_columns.is_empty());
    let mut has_tied = false;
    for expr in plan.expressions() {
        has_tied |= expr.any(|expr| Ok(is_tied(expr)))?;
    }
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    if !has_tied {
        return Ok(Transformed::no(plan));
    }
    let mut computed: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut tied_to = Vec::new();
    let preserver = NamePreserver::new(&plan);
    let mut exprs = Vec::new();
    for expr in plan.expressions() {
        let name = preserver.save(&expr);
        let expr = expr.map_down(|expr| match expr {
            Expr::ScalarSubquery(own) if !own.outer_ref_columns.is_empty() => {
                let name = names.next("computed");
                tied_to.extend(outer_columns(&Expr::ScalarSubquery(own.clone())));
                computed.push(Expr::ScalarSubquery(own).alias(name.clone()));
                Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
            }
            other => Ok(Transformed::no(other)),
        })?;
        exprs.push(name.restore(expr.data));
    }
    let input = handing_on(input.clone(), &tied_to)?;
    let input = LogicalPlanBuilder::from(input).project(computed)?.build()?;
    let input = values(input, names)?.data;
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let new = plan.with_new_exprs(exprs, vec![input])?;
    Ok(Transformed::yes(LogicalPlanBuilder::from(new).project(columns)?.build()?))
}

/// Scalar subqueries among the expressions of a plan.
fn values(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    let is_own =
        |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(own) if is_own_subquery(own)));
    let mut has_own = false;
    for expr in plan.expressions() {
        has_own |= expr.any(is_own)?;
    }
    if !has_own {
        return Ok(Transformed::no(plan));
    }
    let mut input = input.clone();
    let preserver = NamePreserver::new(&plan);
    let mut exprs = Vec::new();
    for expr in plan.expressions() {
        let name = preserver.save(&expr);
        let expr = expr.map_down(|expr| match expr {
            Expr::ScalarSubquery(own)
                if !own.outer_ref_columns.is_empty() && has_window(&own.subquery)? =>
            {
                not_impl_err!("window functions in a subquery that is tied to a row outside")
            }
            Expr::ScalarSubquery(own) if is_own_subquery(&own) && may_be_many(&own.subquery)? => {
                not_impl_err!("a LIMIT other than 1, or an OFFSET, in a subquery of one value")
            }
            Expr::ScalarSubquery(own) if is_own_subquery(&own) => {
                let found = for_each_row(&input, &own.subquery, names)?;
                match found.map(|own| (own.plan, <[Expr; 1]>::try_from(own.values))) {
                    Some((plan, Ok([value]))) => {
                        input = plan;
                        Ok(Transformed::yes(value))
                    }
                    _ => Ok(Transformed::no(Expr::ScalarSubquery(own))),
                }
            }
            other => Ok(Transformed::no(other)),
        })?;
        exprs.push(name.restore(expr.data));
    }
    let columns = plan.schema().columns();
    let is_filter = matches!(plan, LogicalPlan::Filter(_));
    let new = plan.with_new_exprs(exprs, vec![input])?;
    // A condition passes on all columns of its input.
    let new = match is_filter {
        true => {
            LogicalPlanBuilder::from(new).project(columns.into_iter().map(Expr::Column))?.build()?
        }
        false => new,
    };
    Ok(Transformed::yes(new))
}

/// `FROM t, LATERAL (SELECT count(*) ..)`.
fn lateral(join: Join, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let (own, alias) = match join.right.as_ref() {
        LogicalPlan::Subquery(own) => (own, None),
        LogicalPlan::SubqueryAlias(named) => match named.input.as_ref() {
            LogicalPlan::Subquery(own) => (own, Some(named.alias.clone())),
            _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
        },
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let is_plain = matches!(join.join_type, JoinType::Inner | JoinType::Left)
        && join.on.is_empty()
        && join.filter.as_ref().is_none_or(|filter| *filter == lit(true));
    if has_window(&own.subquery)? && !own.outer_ref_columns.is_empty() {
        return not_impl_err!(
            "window functions behind LATERAL, over rows that are tied to another"
        );
    }
    if join.join_type == JoinType::Left && Top::of(&own.subquery)?.is_some_and(|top| top.skip > 0) {
        return not_impl_err!("an OFFSET behind LEFT JOIN LATERAL");
    }
    if !is_plain || !is_own_subquery(own) || has_having(own) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let Some(PerRow { mut plan, values, there }) = for_each_row(&join.left, &own.subquery, names)?
    else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    if let Some(there) = there.filter(|_| join.join_type == JoinType::Inner) {
        plan = LogicalPlanBuilder::from(plan).filter(there)?.build()?;
    }
    let mut columns: Vec<Expr> =
        join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let named = values.into_iter().zip(join.right.schema().columns());
    columns.extend(named.map(|(value, own)| value.alias_qualified(alias.clone(), own.name)));
    Ok(Transformed::yes(LogicalPlanBuilder::from(plan).project(columns)?.build()?))
}

fn is_own_subquery(own: &Subquery) -> bool {
    // Unnesting an outer array is in a subquery of its own, where DataFusion does not look.
    if items::has_items(&own.subquery).unwrap_or_default() {
        return true;
    }
    if own.outer_ref_columns.is_empty() {
        return false;
    }
    // For groups that exist, DataFusion loses the HAVING.
    if has_having(own) {
        return true;
    }
    let mut pull_up = PullUpCorrelatedExpr::new().with_need_handle_count_bug(true);
    let pulled = (*own.subquery).clone().rewrite(&mut pull_up).data();
    pulled.is_err() || !pull_up.can_pull_up
}

fn has_having(own: &Subquery) -> bool {
    let is_over_filter = matches!(&*own.subquery, LogicalPlan::Projection(projection)
        if matches!(projection.input.as_ref(), LogicalPlan::Filter(_)));
    is_over_filter && aggregation_of(&own.subquery).is_some()
}

/// Whether the limit of a subquery lets more than one row pass, or skips some: an outer row without any
/// would be lost.
fn may_be_many(plan: &LogicalPlan) -> Result<bool> {
    Ok(Top::of(plan)?.is_some_and(|top| top.fetch != 1 || top.skip > 0))
}

/// Whether a window is computed over rows of a subquery, which DataFusion does before it decorrelates them.
fn has_window(plan: &LogicalPlan) -> Result<bool> {
    // Windows added here count the rows that inner subqueries refer to.
    let is_own = |expr: &Expr| {
        let name = expr.schema_name().to_string();
        name.starts_with("__number_") || name.starts_with("__place_")
    };
    plan.any(|plan| match plan {
        LogicalPlan::Window(window) => Ok(!window.window_expr.iter().all(is_own)),
        _ => Ok(false),
    })
}

/// An aggregation without groups, and the expressions over it; with HAVING, they are null unless it is
/// true.
fn aggregation_of(plan: &LogicalPlan) -> Option<(Vec<Expr>, &Aggregate)> {
    match plan {
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Aggregate(own) => Some((projection.expr.clone(), own)),
            LogicalPlan::Filter(having) => match having.input.as_ref() {
                LogicalPlan::Aggregate(own) => {
                    let only = |output: &Expr| {
                        when(having.predicate.clone(), output.clone().unalias()).end().ok()
                    };
                    Some((projection.expr.iter().map(only).collect::<Option<_>>()?, own))
                }
                _ => None,
            },
            _ => None,
        },
        LogicalPlan::Aggregate(own) => {
            Some((own.schema.columns().into_iter().map(Expr::Column).collect(), own))
        }
        _ => None,
    }
    .filter(|(_, own)| own.group_expr.is_empty())
}

/// Rows, each with the result of a subquery.
struct PerRow {
    /// The rows, with more columns.
    plan: LogicalPlan,
    /// The results of the subquery.
    values: Vec<Expr>,
    /// Whether the subquery has a row; `None`: always.
    there: Option<Expr>,
}

/// The rows of `input` with the results of the subquery in additional columns.
fn for_each_row(
    input: &LogicalPlan,
    subquery: &LogicalPlan,
    names: &mut Names,
) -> Result<Option<PerRow>> {
    if let Some(top) = Top::of(subquery)? {
        return top.for_each_row(input, names);
    }
    let Some((outputs, own)) = aggregation_of(subquery) else { return Ok(None) };
    let Some(Pairs { plan, columns, number, inner }) = Pairs::new(input, &own.input, names)? else {
        return Ok(None);
    };
    let mut groups = vec![Expr::Column(Column::new_unqualified(number))];
    groups.extend(columns.iter().cloned());
    let mut aggregates = Vec::new();
    let mut found: Vec<(Column, Expr)> = Vec::new();
    for (expr, column) in own.aggr_expr.iter().zip(own.schema.columns()) {
        let name = names.next("aggregate");
        aggregates.push(inner.of_its_rows(expr.clone())?.alias(name.clone()));
        found.push((column, Expr::Column(Column::new_unqualified(name))));
    }
    let of_found = |expr: Expr| match &expr {
        Expr::Column(column) => match found.iter().find(|(old, _)| old == column) {
            Some((_, new)) => Transformed::yes(new.clone()),
            None => Transformed::no(expr),
        },
        _ => from_outside(expr),
    };
    let mut all = columns;
    let mut values = Vec::new();
    for output in outputs {
        let name = names.next("value");
        let output = output.unalias_nested().data.map_down(|expr| {
            // What stands for an outer column is not part of the aggregation.
            let new = of_found(expr);
            Ok(Transformed::new(new.data, new.transformed, jump_if(new.transformed)))
        })?;
        all.push(output.data.alias(name.clone()));
        values.push(Expr::Column(Column::new_unqualified(name)));
    }
    let plan =
        LogicalPlanBuilder::from(plan).aggregate(groups, aggregates)?.project(all)?.build()?;
    Ok(Some(PerRow { plan, values, there: None }))
}

fn jump_if(transformed: bool) -> TreeNodeRecursion {
    if transformed { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue }
}

/// `SELECT expressions FROM .. ORDER BY .. LIMIT n OFFSET m`.
struct Top<'a> {
    skip: u64,
    fetch: u64,
    outputs: Vec<Expr>,
    order: Vec<SortExpr>,
    input: &'a LogicalPlan,
}

impl Top<'_> {
    fn of(plan: &LogicalPlan) -> Result<Option<Top<'_>>> {
        let LogicalPlan::Limit(limit) = plan else { return Ok(None) };
        let (FetchType::Literal(fetch), SkipType::Literal(skip)) =
            (limit.get_fetch_type()?, limit.get_skip_type()?)
        else {
            return Ok(None);
        };
        let (fetch, skip) = (fetch.map_or(u64::MAX, |rows| rows as u64), skip as u64);
        // Sort columns that are not selected are dropped above the sort.
        let (chosen, plan) = match limit.input.as_ref() {
            LogicalPlan::Projection(own) if matches!(*own.input, LogicalPlan::Sort(_)) => {
                (Some(&own.expr), own.input.as_ref())
            }
            other => (None, other),
        };
        let (order, plan) = match plan {
            LogicalPlan::Sort(sort) => (sort.expr.clone(), sort.input.as_ref()),
            other => (Vec::new(), other),
        };
        let LogicalPlan::Projection(own) = plan else { return Ok(None) };
        // A sort key is an output of the projection, or one of its inputs.
        let given = own.schema.columns();
        let of_input = |expr: Expr| match &expr {
            Expr::Column(column) => match given.iter().position(|own| own == column) {
                Some(at) => {
                    let expr = own.expr[at].clone().unalias();
                    Ok(Transformed::new(expr, true, TreeNodeRecursion::Jump))
                }
                None => Ok(Transformed::no(expr)),
            },
            _ => Ok(Transformed::no(expr)),
        };
        let outputs = match chosen {
            Some(chosen) => {
                let outputs = chosen.iter().map(|expr| expr.clone().map_down(of_input).data());
                outputs.collect::<Result<Vec<_>>>()?
            }
            None => own.expr.clone(),
        };
        let mut by = Vec::new();
        for one in order {
            by.push(SortExpr { expr: one.expr.map_down(of_input)?.data, ..one });
        }
        Ok(Some(Top { skip, fetch, outputs, order: by, input: &own.input }))
    }

    fn for_each_row(self, input: &LogicalPlan, names: &mut Names) -> Result<Option<PerRow>> {
        let Some(Pairs { plan, columns, number, inner }) = Pairs::new(input, self.input, names)?
        else {
            return Ok(None);
        };
        let mut by = Vec::new();
        for one in self.order {
            by.push(SortExpr { expr: inner.of_pair(one.expr)?, ..one });
        }
        let place = names.next("place");
        let number = Expr::Column(Column::new_unqualified(number));
        let window = row_number().partition_by(vec![number]);
        let window = if by.is_empty() { window } else { window.order_by(by) }.build()?;
        let at = Expr::Column(Column::new_unqualified(place.clone()));
        // If there are none, the outer row stays.
        let last = self.skip.saturating_add(self.fetch.max(1));
        let top = at.between(lit(self.skip + 1), lit(last));
        let is_there = || inner.column(THERE).is_not_null().and(lit(self.fetch > 0));
        let (mut all, mut values) = (columns, Vec::new());
        for output in self.outputs {
            let name = names.next("value");
            let output = inner.of_pair(output.unalias())?;
            all.push(when(is_there(), output).end()?.alias(name.clone()));
            values.push(Expr::Column(Column::new_unqualified(name)));
        }
        let name = names.next("there");
        all.push(is_there().alias(name.clone()));
        let there = Some(Expr::Column(Column::new_unqualified(name)));
        let plan = LogicalPlanBuilder::from(plan)
            .window([window.alias(place)])?
            .filter(top)?
            .project(all)?
            .build()?;
        Ok(Some(PerRow { plan, values, there }))
    }
}

/// Each outer row with its rows of a subquery, or none.
struct Pairs {
    plan: LogicalPlan,
    /// The columns of the outer rows.
    columns: Vec<Expr>,
    /// The name of the column that numbers the outer rows.
    number: String,
    inner: Inner,
}

impl Pairs {
    fn new(input: &LogicalPlan, rows: &LogicalPlan, names: &mut Names) -> Result<Option<Pairs>> {
        if let Some(pairs) = items::pairs(input, rows, names)? {
            return Ok(Some(pairs));
        }
        let mut pull_up = PullUpCorrelatedExpr::new();
        let rows = rows.clone().rewrite(&mut pull_up).data()?;
        if !pull_up.can_pull_up {
            return Ok(None);
        }
        let inner = Inner::new(rows, names.next("rows"));
        let condition = conjunction(pull_up.join_filters).unwrap_or_else(|| lit(true));
        let number = names.next("number");
        let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
        let plan = LogicalPlanBuilder::from(input.clone())
            .window([row_number().alias(number.clone())])?
            .join_on(inner.plan()?, JoinType::Left, [inner.of_pair(condition)?])?
            .build()?;
        Ok(Some(Pairs { plan, columns, number, inner }))
    }
}

/// Once it is beside the row, a reference to the outer row is a plain column.
fn from_outside(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
        other => Transformed::no(other),
    }
}

/// The rows of a subquery, with unique column names: the same table may be outside.
struct Inner {
    plan: LogicalPlan,
    alias: TableReference,
}

/// A column of theirs that is null only where there is no row.
const THERE: &str = "__there";

impl Inner {
    fn new(plan: LogicalPlan, alias: String) -> Inner {
        Inner { plan, alias: TableReference::bare(alias) }
    }

    fn plan(&self) -> Result<LogicalPlan> {
        let columns = self.plan.schema().columns().into_iter().enumerate();
        let mut own: Vec<Expr> =
            columns.map(|(at, column)| Expr::Column(column).alias(format!("__{at}"))).collect();
        own.push(lit(true).alias(THERE));
        LogicalPlanBuilder::from(self.plan.clone()).project(own)?.alias(self.alias.clone())?.build()
    }

    fn column(&self, name: impl Into<String>) -> Expr {
        Expr::Column(Column::new(Some(self.alias.clone()), name))
    }

    /// An expression over an outer row and one of these.
    fn of_pair(&self, expr: Expr) -> Result<Expr> {
        let columns = self.plan.schema().columns();
        let new = |expr: Expr| {
            let new = match &expr {
                Expr::Column(column) => match columns.iter().position(|own| own == column) {
                    Some(at) => Transformed::yes(self.column(format!("__{at}"))),
                    None => Transformed::no(expr),
                },
                _ => from_outside(expr),
            };
            Ok(Transformed::new(new.data, new.transformed, jump_if(new.transformed)))
        };
        Ok(expr.map_down(new)?.data)
    }

    /// Aggregates over these rows alone, including the case that an outer row has none.
    fn of_its_rows(&self, expr: Expr) -> Result<Expr> {
        let there = self.column(THERE).is_not_null();
        let only = |expr: Expr| match expr {
            Expr::AggregateFunction(mut call) => {
                let filter = call.params.filter.take();
                call.params.filter = Some(Box::new(match filter {
                    Some(filter) => there.clone().and(*filter),
                    None => there.clone(),
                }));
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        };
        let expr = self.of_pair(expr.unalias_nested().data)?;
        Ok(expr.map_up(only)?.data)
    }
}
