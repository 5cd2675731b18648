//! Comparisons of rows, such as `(a, b) IN ((1, 2), (3, 4))`, as comparisons of their values.
//!
//! DataFusion compares structs, in one type each and with other rules for nulls.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SetExpr, TableAliasColumnDef, TableFactor, UnaryOperator,
    Value,
};
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::Error;
use crate::grammar::CellarDialect;

/// What stands for a comparison of rows; `None`: it is none.
///
/// # Errors
/// 00920 for rows of different lengths.
pub(super) fn rewrite(expr: &Expr) -> Result<Option<Expr>, Error> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let (Some(left), Some(right)) = (values_of(left), values_of(right)) else {
                return Ok(None);
            };
            compare(left, op, right)
        }
        Expr::InList { expr, list, negated } => {
            let Some(row) = values_of(expr) else { return Ok(None) };
            let mut any = None;
            for item in list {
                let Some(other) = values_of(item) else { return Err(lengths(row.len(), 1)) };
                any = both(any, BinaryOperator::Or, equal(row, other)?);
            }
            Ok(any.map(|any| if *negated { not(nested(any)) } else { nested(any) }))
        }
        // Of what is not known the opposite is not known either.
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => match in_parentheses(expr) {
            Expr::InSubquery { expr, subquery, negated } => match values_of(expr) {
                Some(row) => in_subquery(row, subquery, !negated).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        },
        Expr::InSubquery { expr, subquery, negated } => match values_of(expr) {
            Some(row) => in_subquery(row, subquery, *negated).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The values of a row of two or more.
fn values_of(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(values) if values.len() > 1 => Some(values),
        Expr::Nested(inner) => values_of(inner),
        _ => None,
    }
}

fn in_parentheses(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => in_parentheses(inner),
        other => other,
    }
}

fn lengths(left: usize, right: usize) -> Error {
    let text = format!("a row of {left} values is compared with one of {right}");
    Error::new(920, "42601", text).next("give both as many values")
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn both(all: Option<Expr>, op: BinaryOperator, more: Expr) -> Option<Expr> {
    Some(match all {
        Some(all) => binary(all, op, more),
        None => more,
    })
}

fn equal(left: &[Expr], right: &[Expr]) -> Result<Expr, Error> {
    if left.len() != right.len() {
        return Err(lengths(left.len(), right.len()));
    }
    let pairs = left.iter().zip(right);
    let all = pairs.map(|(a, b)| nested(binary(a.clone(), BinaryOperator::Eq, b.clone())));
    let all = all.reduce(|all, more| binary(all, BinaryOperator::And, more));
    Ok(nested(all.unwrap_or_else(|| Expr::Value(Value::Boolean(true).into()))))
}

/// Rows are in the order of their first values that differ.
fn compare(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Option<Expr>, Error> {
    use BinaryOperator as B;
    let strict = match op {
        B::Eq => return equal(left, right).map(Some),
        B::NotEq => return Ok(Some(not(equal(left, right)?))),
        B::Lt | B::LtEq => B::Lt,
        B::Gt | B::GtEq => B::Gt,
        _ => return Ok(None),
    };
    if left.len() != right.len() {
        return Err(lengths(left.len(), right.len()));
    }
    let mut pairs: Vec<_> = left.iter().zip(right).collect();
    let Some((a, b)) = pairs.pop() else { return Ok(None) };
    let last = nested(binary(a.clone(), op.clone(), b.clone()));
    let whole = pairs.into_iter().rev().fold(last, |rest, (a, b)| {
        let before = binary(a.clone(), strict.clone(), b.clone());
        let same = nested(binary(a.clone(), B::Eq, b.clone()));
        nested(binary(nested(before), B::Or, nested(binary(same, B::And, rest))))
    });
    Ok(Some(whole))
}

/// `EXISTS` over the rows of the subquery that are equal, or for `NOT IN`, that may be.
fn in_subquery(row: &[Expr], subquery: &Query, negated: bool) -> Result<Expr, Error> {
    let names: Vec<Ident> = (1..=row.len()).map(|at| Ident::new(format!("__in_{at}"))).collect();
    let pairs = row.iter().zip(&names);
    let all = pairs.map(|(value, name)| {
        nested(binary(Expr::Identifier(name.clone()), BinaryOperator::Eq, value.clone()))
    });
    let all = all.reduce(|all, more| binary(all, BinaryOperator::And, more));
    let equal = nested(all.unwrap_or_else(|| Expr::Value(Value::Boolean(true).into())));
    let condition = if negated { Expr::IsNotFalse(Box::new(equal)) } else { equal };
    let subquery = Box::new(rows_where(subquery, names, condition)?);
    Ok(Expr::Exists { subquery, negated })
}

/// `SELECT 1 FROM (subquery) AS __in (names) WHERE condition`.
fn rows_where(subquery: &Query, names: Vec<Ident>, condition: Expr) -> Result<Query, Error> {
    let template = "SELECT 1 FROM (SELECT 1) AS __in WHERE TRUE";
    let parsed = Parser::new(&CellarDialect)
        .try_with_sql(template)
        .and_then(|mut parser| parser.parse_query())
        .map_err(|e| Error::syntax(e.to_string()))?;
    let mut query = *parsed;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = Some(condition);
        if let Some(TableFactor::Derived { subquery: inner, alias: Some(alias), .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            **inner = subquery.clone();
            alias.columns = names
                .into_iter()
                .map(|name| TableAliasColumnDef { name, data_type: None })
                .collect();
        }
    }
    Ok(query)
}
