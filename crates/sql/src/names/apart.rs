//! Expressions to which DataFusion gives the same name, told apart.
//!
//! Its names omit casts and subqueries: `sum(x)` and `sum(x::double)` in one SELECT, or `GROUP BY x,
//! x::text`, get one name and are refused. In such a case casts and subqueries are marked by a function
//! whose name contains their text; a rule removes it again before anything is computed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr as PlanExpr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{
    CastKind, Distinct, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    OrderByKind, Query, SelectItem, SetExpr, Value, VisitMut, VisitorMut,
};

use super::folded;
use crate::call::call;
use crate::rules::{each_expression, unbounded};
use crate::walk::WalkPlan;
use crate::walk::visit;

/// The function's name.
const APART: &str = "__apart";

/// Marks the expressions in each SELECT of a statement or query that would get the same name.
pub(crate) fn tell_apart<T: VisitMut>(ast: &mut T) {
    let _: ControlFlow<()> = visit(ast, &mut Queries);
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let order = match query.order_by.as_mut().map(|order| &mut order.kind) {
            Some(OrderByKind::Expressions(order)) => {
                order.iter_mut().map(|by| &mut by.expr).collect()
            }
            _ => Vec::new(),
        };
        in_selects(&mut query.body, order);
        ControlFlow::Continue(())
    }
}

/// Each SELECT of a query; if it is the only one, together with the ORDER BY.
fn in_selects(body: &mut SetExpr, order: Vec<&mut Expr>) {
    match body {
        SetExpr::Select(select) => {
            let by_name = named_groups(&select.group_by, &select.projection);
            let mut parts: Vec<&mut Expr> = Vec::new();
            parts.extend(select.projection.iter_mut().filter_map(|item| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    Some(expr)
                }
                _ => None,
            }));
            parts.extend(select.having.iter_mut().chain(select.qualify.iter_mut()));
            parts.extend(order);
            if let Some(Distinct::On(on)) = &mut select.distinct {
                parts.extend(on.iter_mut());
            }
            if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
                parts.extend(groups.iter_mut());
            }
            mark(parts, &by_name);
        }
        SetExpr::SetOperation { left, right, .. } => {
            in_selects(left, Vec::new());
            in_selects(right, Vec::new());
        }
        _ => {}
    }
}

/// The GROUP BY expressions of a SELECT, also if given by the position or the name of an item.
fn named_groups(group_by: &GroupByExpr, items: &[SelectItem]) -> Vec<Expr> {
    let GroupByExpr::Expressions(groups, _) = group_by else { return Vec::new() };
    let selected = |at: usize| match items.get(at.checked_sub(1)?)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    };
    let mut all = Vec::new();
    for group in groups {
        match group {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                all.extend(sets.iter().flatten().cloned());
            }
            Expr::Value(value) => {
                let at = value.value.to_string().parse().ok();
                all.extend(at.and_then(selected).cloned());
            }
            Expr::Identifier(name) => all.extend(items.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if folded(alias) == folded(name) => {
                    Some(expr.clone())
                }
                _ => None,
            })),
            _ => {}
        }
        all.push(group.clone());
    }
    all
}

fn mark(mut parts: Vec<&mut Expr>, groups: &[Expr]) {
    let mut named = Named::default();
    groups.iter().for_each(|group| named.add(group));
    for expr in &mut parts {
        let _: ControlFlow<()> =
            visit(*expr, &mut Within { depth: 0, act: |e: &mut Expr| named.add_call(e) });
    }
    let wanted = named.unclear();
    if wanted.is_empty() {
        return;
    }
    let marked = |expr: &mut Expr| {
        // The subquery of ANY is not a value by itself.
        if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr {
            bare(right);
        }
        let text = canonical(expr);
        if is_left_out(expr) && wanted.contains(&text) {
            let text = Expr::Value(Value::SingleQuotedString(text).into());
            let own = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            *expr = call(APART, vec![own, text]);
        }
    };
    for expr in parts {
        let _: ControlFlow<()> = visit(expr, &mut Within { depth: 0, act: marked });
    }
}

/// Removes the mark from an expression.
fn bare(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    let is_mark = matches!(&function.name.0[..], [part]
        if part.as_ident().is_some_and(|name| name.value == APART));
    if is_mark && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(own))) = list.args.first_mut()
    {
        *expr = std::mem::replace(own, Expr::Identifier(Ident::new("")));
    }
}

/// The canonical text of an expression, the same for each way to write it: `x::text`,
/// `CAST(t.X AS TEXT)`, `(x)::text`.
fn canonical(expr: &Expr) -> String {
    let mut own = expr.clone();
    let act = |expr: &mut Expr| match expr {
        Expr::Identifier(name) => *name = Ident::new(folded(name)),
        Expr::CompoundIdentifier(parts) => {
            if let Some(last) = parts.last() {
                *expr = Expr::Identifier(Ident::new(folded(last)));
            }
        }
        Expr::Nested(inner) if matches!(**inner, Expr::Identifier(_)) => {
            *expr = std::mem::replace(inner, Expr::Identifier(Ident::new("")));
        }
        Expr::Cast { kind: kind @ CastKind::DoubleColon, .. } => *kind = CastKind::Cast,
        other => bare(other),
    };
    let _: ControlFlow<()> = visit(&mut own, &mut Within { depth: 0, act });
    own.to_string()
}

/// Whether DataFusion's names omit an expression.
fn is_left_out(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Cast { .. }
            | Expr::AtTimeZone { .. }
            | Expr::Exists { .. }
            | Expr::Subquery(_)
            | Expr::InSubquery { .. }
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. }
    ) || matches!(expr, Expr::Nested(inner)
        if matches!(**inner, Expr::BinaryOp { .. } | Expr::UnaryOp { .. }))
}

/// Expressions by the names that they would get.
#[derive(Default)]
struct Named(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Named {
    fn add_call(&mut self, expr: &Expr) {
        if matches!(expr, Expr::Function(_)) {
            self.add(expr);
        }
    }

    fn add(&mut self, expr: &Expr) {
        let mut bare = expr.clone();
        let mut left_out = BTreeSet::new();
        let act = |expr: &mut Expr| {
            if is_left_out(expr) {
                left_out.insert(canonical(expr));
            }
        };
        let _: ControlFlow<()> = visit(&mut bare, &mut Within { depth: 0, act });
        let _: ControlFlow<()> = visit(&mut bare, &mut Within { depth: 0, act: without });
        let same = self.0.entry(bare.to_string().to_lowercase()).or_default();
        same.insert(canonical(expr), left_out);
    }

    /// The texts of the parts that distinguish expressions with the same name.
    fn unclear(self) -> BTreeSet<String> {
        let several = self.0.into_values().filter(|same| same.len() > 1);
        several.flat_map(BTreeMap::into_values).flatten().collect()
    }
}

/// An expression without the parts that its name omits.
fn without(expr: &mut Expr) {
    let placeholder = || Expr::Identifier(Ident::new("_"));
    *expr = match std::mem::replace(expr, placeholder()) {
        Expr::Cast { expr: inner, .. } | Expr::Nested(inner) => *inner,
        Expr::AtTimeZone { timestamp, .. } => *timestamp,
        Expr::CompoundIdentifier(mut parts) => match parts.pop() {
            Some(last) => Expr::Identifier(last),
            None => placeholder(),
        },
        own if is_left_out(&own) => placeholder(),
        own => own,
    };
}

/// Acts on the expressions of a SELECT, bottom up, but not on those of its subqueries.
pub(crate) struct Within<F> {
    /// The nesting depth of queries: 0 at the start.
    pub(crate) depth: usize,
    pub(crate) act: F,
}

impl<F: FnMut(&mut Expr)> VisitorMut for Within<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.act)(expr);
        }
        ControlFlow::Continue(())
    }
}

/// The function: it returns its first argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Apart {
    signature: Signature,
}

impl Apart {
    pub(crate) fn udf() -> ScalarUDF {
        ScalarUDF::from(Apart { signature: Signature::any(2, Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &'static str {
        APART
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(own) => Ok(own.clone()),
            None => internal_err!("{APART} without an argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first() {
            Some(own) => Ok(FieldRef::clone(own)),
            None => internal_err!("{APART} without an argument"),
        }
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(own) => Ok(own),
            None => internal_err!("{APART} without an argument"),
        }
    }
}

/// The rule that removes the function. It runs first.
#[derive(Debug)]
pub(crate) struct NamedApart;

impl AnalyzerRule for NamedApart {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let bare = |expr: PlanExpr| match expr {
            PlanExpr::ScalarFunction(mut own) if own.func.name() == APART => {
                match own.args.is_empty() {
                    true => internal_err!("{APART} without an argument"),
                    false => Ok(Transformed::yes(own.args.swap_remove(0))),
                }
            }
            other => Ok(Transformed::no(other)),
        };
        let rewrite = |plan: LogicalPlan| each_expression(plan, |expr, _| bare(expr));
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "named_apart"
    }
}
