//! Expressions that DataFusion calls by one name, told apart.
//!
//! Its names leave casts and subqueries out: `sum(x)` and `sum(x::double)` in one SELECT, or `GROUP BY x,
//! x::text`, have one name and are refused. Where that would be so, casts and subqueries are marked by a
//! function whose name has their text; a rule takes it away again before anything is computed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, Expr as PlanExpr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderByKind, Query, SelectItem, SetExpr, Value, VisitMut, VisitorMut,
};

use crate::dialect::call;
use crate::rules::each_expression;

/// The function's name.
const APART: &str = "__apart";

/// Marks what would have one name in each SELECT of a statement or query.
pub(crate) fn tell_apart<T: VisitMut>(ast: &mut T) {
    let _: ControlFlow<()> = ast.visit(&mut Queries);
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

/// Each SELECT of a query, the only one with what it is sorted by.
fn in_selects(body: &mut SetExpr, order: Vec<&mut Expr>) {
    match body {
        SetExpr::Select(select) => {
            let mut parts: Vec<&mut Expr> = Vec::new();
            parts.extend(select.projection.iter_mut().filter_map(|item| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    Some(expr)
                }
                _ => None,
            }));
            parts.extend(select.having.iter_mut().chain(select.qualify.iter_mut()));
            parts.extend(order);
            let groups = match &mut select.group_by {
                GroupByExpr::Expressions(groups, _) => groups.as_mut_slice(),
                GroupByExpr::All(_) => &mut [],
            };
            mark(parts, groups);
        }
        SetExpr::SetOperation { left, right, .. } => {
            in_selects(left, Vec::new());
            in_selects(right, Vec::new());
        }
        _ => {}
    }
}

fn mark(mut parts: Vec<&mut Expr>, groups: &mut [Expr]) {
    let mut named = Named::default();
    for group in groups.iter() {
        named.add(group);
    }
    for expr in parts.iter_mut().map(|expr| &mut **expr).chain(groups.iter_mut()) {
        let _: ControlFlow<()> =
            expr.visit(&mut Within { depth: 0, act: |e: &mut Expr| named.add_call(e) });
    }
    let wanted = named.unclear();
    if wanted.is_empty() {
        return;
    }
    let marked = |expr: &mut Expr| {
        let text = expr.to_string();
        if is_left_out(expr) && wanted.contains(&text) {
            let text = Expr::Value(Value::SingleQuotedString(text).into());
            let own = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            *expr = call(APART, vec![own, text]);
        }
    };
    for expr in parts.into_iter().chain(groups.iter_mut()) {
        let _: ControlFlow<()> = expr.visit(&mut Within { depth: 0, act: marked });
    }
}

/// What DataFusion's names do not tell of.
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
    )
}

/// Expressions by what their names would have of them.
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
                left_out.insert(expr.to_string());
            }
        };
        let _: ControlFlow<()> = bare.visit(&mut Within { depth: 0, act });
        let _: ControlFlow<()> = bare.visit(&mut Within { depth: 0, act: without });
        let same = self.0.entry(bare.to_string().to_lowercase()).or_default();
        same.insert(expr.to_string(), left_out);
    }

    /// The texts of what makes the difference between those of one name.
    fn unclear(self) -> BTreeSet<String> {
        let several = self.0.into_values().filter(|same| same.len() > 1);
        several.flat_map(BTreeMap::into_values).flatten().collect()
    }
}

/// An expression without what its name leaves out.
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

/// Acts on the expressions of a SELECT, from below, not on those of its subqueries.
struct Within<F> {
    depth: usize,
    act: F,
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

/// The function: its first argument.
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(own) => Ok(own),
            None => internal_err!("{APART} without an argument"),
        }
    }
}

/// The rule that takes the function away. It comes first.
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
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "named_apart"
    }
}
