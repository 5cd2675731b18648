//! Queries inside expressions that clients write: lists of rows, rows of lists, and sizes.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, GroupByExpr, Ident, OrderBy, OrderByKind, Query, SelectItem, SetExpr,
    Statement, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, Value, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::super::expanded::EXPANDED;
use super::super::said::{is_vector, parts};
use super::cast;
use crate::call::call;
use crate::grammar::CellarDialect;
use crate::walk::visit;

/// Functions that return the sizes read by pg_class.
pub(super) const SIZES: [&str; 3] = ["pg_table_size", "pg_relation_size", "pg_total_relation_size"];

fn number(value: i64) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}

/// The arguments of a function, if each is a plain expression.
fn args(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let expr = |arg| match arg {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().map(expr).collect()
}

/// The replacement of a function.
pub(super) fn of_function(function: &Function) -> Option<Expr> {
    let own = parts(&function.name).pop()?;
    match (own.as_str(), &function.args) {
        ("array", FunctionArguments::Subquery(query)) => list_of(query),
        ("_pg_expandarray", _) => match &args(function)?[..] {
            [list] => Some(call("unnest", vec![call(EXPANDED, vec![(*list).clone()])])),
            _ => None,
        },
        ("generate_subscripts", _) => {
            let args = args(function)?;
            let [list, ..] = &args[..] else { return None };
            let first = i64::from(!is_vector(list));
            let count = cast::as_bigint(call("array_upper", vec![(*list).clone(), number(1)]));
            let last = match first {
                0 => Expr::BinaryOp {
                    left: Box::new(count),
                    op: BinaryOperator::Minus,
                    right: Box::new(number(1)),
                },
                _ => count,
            };
            Some(call("unnest", vec![call("generate_series", vec![number(first), last])]))
        }
        _ => None,
    }
}

/// `ARRAY(SELECT x FROM unnest(list) x)`, also with a text before each item.
fn of_list(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let ([item], [from], None) = (&select.projection[..], &select.from[..], &select.selection)
    else {
        return None;
    };
    let TableFactor::Table { name, args: Some(args), alias: Some(alias), .. } = &from.relation
    else {
        return None;
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = &args.args[..] else { return None };
    if !from.joins.is_empty() || parts(name).pop().as_deref() != Some("unnest") {
        return None;
    }
    let called = alias.columns.first().map_or(&alias.name, |column| &column.name);
    let is_one = |expr: &Expr| matches!(expr, Expr::Identifier(own) if own.value == called.value);
    let (SelectItem::UnnamedExpr(own) | SelectItem::ExprWithAlias { expr: own, .. }) = item else {
        return None;
    };
    let before = match own {
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } if is_one(right) => {
            left.as_ref().clone()
        }
        own if is_one(own) => Expr::Value(Value::SingleQuotedString(String::new()).into()),
        _ => return None,
    };
    Some(call("texts_behind", vec![before, list.clone()]))
}

/// `ARRAY(SELECT ..)`: the rows of a query as a list.
fn list_of(query: &Query) -> Option<Expr> {
    if let Some(own) = of_list(query) {
        return Some(own);
    }
    let mut query = query.clone();
    let is_all = query.limit_clause.is_none() && query.fetch.is_none() && query.with.is_none();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let has_groups = select.distinct.is_some()
        || select.having.is_some()
        || !matches!(&select.group_by, GroupByExpr::Expressions(own, _) if own.is_empty());
    if !is_all || has_groups {
        return None;
    }
    let [SelectItem::UnnamedExpr(own) | SelectItem::ExprWithAlias { expr: own, .. }] =
        &select.projection[..]
    else {
        return None;
    };
    let mut order = Vec::new();
    if let Some(OrderBy { kind: OrderByKind::Expressions(said), .. }) = query.order_by.take() {
        for mut by in said {
            // ORDER BY a position, of which there is only one.
            if matches!(by.expr, Expr::Value(_)) {
                by.expr = own.clone();
            }
            order.push(by);
        }
    }
    let mut made = call("array_agg", vec![own.clone()]);
    if let (Expr::Function(function), false) = (&mut made, order.is_empty())
        && let FunctionArguments::List(list) = &mut function.args
    {
        let clause = FunctionArgumentClause::OrderBy(order);
        list.clauses.push(clause);
    }
    select.projection = vec![SelectItem::UnnamedExpr(made)];
    let rows = Expr::Subquery(Box::new(query));
    Some(call("coalesce", vec![rows, call("make_array", Vec::new())]))
}

fn column_alias(own: Ident) -> TableAliasColumnDef {
    TableAliasColumnDef { name: own, data_type: None }
}

/// Whether an expression is the upper bound of a list.
fn is_end_of_list(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    parts(&function.name).pop().is_some_and(|own| own == "array_upper")
}

/// The most columns of a table.
const COLUMNS_MAX: i64 = 1600;

/// Removes the schema from functions in FROM.
pub(super) fn functions(factor: &mut TableFactor) {
    plain_function(factor);
    let TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } = factor else {
        return;
    };
    if name.0.len() == 2 && parts(name)[0] == "pg_catalog" {
        name.0.remove(0);
    }
    if *with_ordinality {
        return;
    }
    let own = parts(name).pop().unwrap_or_default();
    let exprs = args.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let Some(exprs) = exprs.collect::<Option<Vec<Expr>>>() else { return };
    let is_constant = |expr: &Expr| matches!(expr, Expr::Value(_) | Expr::UnaryOp { .. });
    let named = |alias: &mut Option<TableAlias>| {
        alias.take().map(|mut alias: TableAlias| {
            if alias.columns.is_empty() {
                alias.columns = vec![column_alias(alias.name.clone())];
            }
            alias
        })
    };
    let lists = match own.as_str() {
        "unnest" => exprs,
        "generate_series" if exprs.get(1).is_some_and(is_end_of_list) => {
            // Lists of columns: past their end there is NULL.
            if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(last))) = args.args.get_mut(1) {
                *last = number(COLUMNS_MAX);
            }
            *alias = named(alias);
            return;
        }
        "generate_series" if !exprs.iter().all(is_constant) => vec![call("generate_series", exprs)],
        _ => return,
    };
    let alias = named(alias);
    *factor = TableFactor::UNNEST {
        alias,
        array_exprs: lists,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

/// `LATERAL f(..)` as `f(..)`: for a function the word has no effect.
fn plain_function(factor: &mut TableFactor) {
    let TableFactor::Function { name, args, with_ordinality, alias, .. } = factor else { return };
    *factor = TableFactor::Table {
        name: name.clone(),
        alias: alias.take(),
        args: Some(TableFunctionArgs { args: std::mem::take(args), settings: None }),
        with_hints: Vec::new(),
        version: None,
        with_ordinality: *with_ordinality,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
}

/// Makes functions for sizes read pg_class, where the statement does not.
pub(super) fn with_classes(statement: &mut Statement) {
    struct Sizes;
    impl VisitorMut for Sizes {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::Function(function) = &*expr else { return ControlFlow::Continue(()) };
            let own = parts(&function.name).pop().unwrap_or_default();
            let Some(of) = args(function).and_then(|args| args.first().map(|own| (*own).clone()))
            else {
                return ControlFlow::Continue(());
            };
            if SIZES.contains(&own.as_str())
                && let Some(other) = size_of(&own, of)
            {
                *expr = other;
            }
            ControlFlow::Continue(())
        }
    }
    // It terminates by itself.
    let _ = visit(statement, &mut Sizes);
}

/// `(SELECT pg_table_size(oid) FROM pg_class WHERE oid = ..)`.
fn size_of(own: &str, of: Expr) -> Option<Expr> {
    let text =
        format!("(select {own}(sized.oid) from pg_catalog.pg_class sized where sized.oid = 0)");
    let mut parser = Parser::new(&CellarDialect).try_with_sql(&text).ok()?;
    let mut made = parser.parse_expr().ok()?;
    let query = match &mut made {
        Expr::Subquery(query) => query,
        _ => return None,
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    if let Some(Expr::BinaryOp { right, .. }) = &mut select.selection {
        **right = call("regclass_in", vec![of]);
    }
    Some(made)
}
