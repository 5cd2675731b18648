//! Comparisons of rows, such as `(a, b) IN ((1, 2), (3, 4))`, as comparisons of their values.
//!
//! DataFusion compares structs, in one type each and with other rules for nulls.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Query, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, UnaryOperator, Value,
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
        Expr::Between { expr, negated, low, high } => {
            let (Some(row), Some(low), Some(high)) =
                (values_of(expr), values_of(low), values_of(high))
            else {
                return Ok(None);
            };
            let above = compare(row, &BinaryOperator::GtEq, low)?;
            let below = compare(row, &BinaryOperator::LtEq, high)?;
            let all = above.zip(below).map(|(above, below)| {
                nested(binary(nested(above), BinaryOperator::And, nested(below)))
            });
            Ok(all.map(|all| if *negated { not(all) } else { all }))
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

/// `(a, b) IN (SELECT ..)` by `EXISTS`, with SQL's three values:
///
/// `CASE WHEN EXISTS (equal) THEN TRUE WHEN EXISTS (null here and maybe equal) THEN NULL
/// WHEN EXISTS (null there and maybe equal) THEN NULL ELSE FALSE END`
///
/// Rows that have a null are compared with all others one by one; they are looked for apart, so that
/// the others are found by their keys.
fn in_subquery(row: &[Expr], subquery: &Query, negated: bool) -> Result<Expr, Error> {
    let names: Vec<Ident> = (1..=row.len()).map(|at| Ident::new(format!("__in_{at}"))).collect();
    let own = || names.iter().cloned().map(Expr::Identifier);
    let pairs = row.iter().zip(own());
    let all = pairs.map(|(value, name)| nested(binary(name, BinaryOperator::Eq, value.clone())));
    let all = all.reduce(|all, more| binary(all, BinaryOperator::And, more));
    let equal = nested(all.unwrap_or_else(|| truth(true)));
    let maybe = Expr::IsNotFalse(Box::new(equal.clone()));
    let any_null = |values: &mut dyn Iterator<Item = Expr>| {
        let nulls = values.map(|value| Expr::IsNull(Box::new(nested(value))));
        let any = nulls.reduce(|any, more| binary(any, BinaryOperator::Or, more));
        nested(any.unwrap_or_else(|| truth(false)))
    };
    let null_there = binary(any_null(&mut own()), BinaryOperator::And, maybe.clone());
    // As a key: a row without nulls has none, and is not compared.
    let key = case(vec![(any_null(&mut row.iter().cloned()), number("1"))], None);
    let is_asked = binary(Expr::Identifier(Ident::new(ONE)), BinaryOperator::Eq, key);
    let null_here = binary(is_asked, BinaryOperator::And, maybe);
    let exists = |condition: Expr| -> Result<Expr, Error> {
        let subquery = Box::new(rows_where(subquery, names.clone(), condition)?);
        Ok(Expr::Exists { subquery, negated: false })
    };
    let unknown = || Expr::Value(Value::Null.into());
    let whens = vec![
        (exists(equal)?, truth(!negated)),
        (exists(null_there)?, unknown()),
        (exists(null_here)?, unknown()),
    ];
    Ok(nested(case(whens, Some(truth(negated)))))
}

fn truth(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

fn number(text: &str) -> Expr {
    Expr::Value(Value::Number(text.to_owned(), false).into())
}

fn case(whens: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    let conditions = whens.into_iter().map(|(condition, result)| CaseWhen { condition, result });
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: conditions.collect(),
        else_result: otherwise.map(Box::new),
    }
}

/// A column that is always 1.
const ONE: &str = "__in_one";

/// `SELECT 1 FROM (SELECT __in.*, 1 AS one FROM (subquery) AS __in (names)) AS __in WHERE condition`.
fn rows_where(subquery: &Query, names: Vec<Ident>, condition: Expr) -> Result<Query, Error> {
    let template = format!(
        "SELECT 1 FROM (SELECT __in.*, 1 AS {ONE} FROM (SELECT 1) AS __in) AS __in WHERE TRUE"
    );
    let parsed = Parser::new(&CellarDialect)
        .try_with_sql(&template)
        .and_then(|mut parser| parser.parse_query())
        .map_err(|e| Error::syntax(e.to_string()))?;
    let mut query = *parsed;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = Some(condition);
    }
    let own = derived(&mut query).and_then(|(with_one, _)| derived(with_one));
    if let Some((inner, Some(alias))) = own {
        *inner = subquery.clone();
        // One column twice is fine: they get names of their own here.
        crate::names::settle_query(inner);
        alias.columns =
            names.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
    }
    Ok(query)
}

/// The subquery that a query is of, and what it is called by.
fn derived(query: &mut Query) -> Option<(&mut Query, Option<&mut TableAlias>)> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, alias, .. } => Some((subquery, alias.as_mut())),
        _ => None,
    }
}
