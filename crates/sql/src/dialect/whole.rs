//! The type of integer literals that a query returns: integer where they fit, as in PostgreSQL.
//!
//! DataFusion reads every one as a bigint. Beside another value that does not matter: their common type
//! is chosen. A literal that is itself a result, or one of several, is cast.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, SelectItem, SetExpr,
    UnaryOperator, Value,
};

/// Functions that give one of their arguments, or its type.
const CHOOSING: [&str; 10] =
    ["coalesce", "nvl", "ifnull", "nvl2", "nullif", "greatest", "least", "min", "max", "pg_typeof"];

/// A column of a result.
pub(super) fn of_item(item: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
        settle(expr);
    }
}

/// The values of VALUES that are a query.
pub(super) fn of_values(body: &mut SetExpr) {
    if let SetExpr::Values(values) = body {
        values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(settle);
    }
}

/// What an expression chooses from, or puts in an array.
pub(super) fn within(expr: &mut Expr) {
    match expr {
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter_mut().for_each(|when| settle(&mut when.result));
            if let Some(other) = else_result {
                settle(other);
            }
        }
        Expr::Array(array) => array.elem.iter_mut().for_each(settle),
        Expr::Function(function) => {
            let name = function.name.to_string();
            let FunctionArguments::List(list) = &mut function.args else { return };
            if !CHOOSING.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                return;
            }
            for arg in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg {
                    settle(expr);
                }
            }
        }
        _ => {}
    }
}

/// Casts a whole number that fits; all else is left.
fn settle(expr: &mut Expr) {
    if fits(expr) {
        let number = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(number),
            data_type: DataType::Int(None),
            array: false,
            format: None,
        };
    }
}

fn fits(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => {
            fits(inner)
        }
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<i32>().is_ok(),
            _ => false,
        },
        _ => false,
    }
}
