//! `a = ANY('{1,2}')` as `a IN ('1', '2')`, where the statement spells out the values.

use datafusion::sql::sqlparser::ast::{BinaryOperator, CastKind, Expr, Value};

use crate::arrays::items_of;

/// Writes one such expression so; others are left.
pub(super) fn rewrite(expr: &mut Expr) {
    let (left, list, negated) = match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            (left, items(right), false)
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            (left, items(right), true)
        }
        _ => return,
    };
    let Some(list) = list else { return };
    if list.is_empty() {
        *expr = Expr::Value(Value::Boolean(negated).into());
        return;
    }
    let own = std::mem::replace(left.as_mut(), Expr::Value(Value::Null.into()));
    *expr = Expr::InList { expr: Box::new(own), list, negated };
}

/// The items of an array that is written out.
fn items(array: &Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Nested(inner) => items(inner),
        Expr::Array(array) => {
            let is_nested = array.elem.iter().any(|own| matches!(own, Expr::Array(_)));
            (!is_nested).then(|| array.elem.clone())
        }
        Expr::Value(value) => {
            let Value::SingleQuotedString(text) = &value.value else { return None };
            // A text that is no array is reported where it is cast.
            let items = items_of(text).ok()?.into_iter();
            let value = |item: Option<String>| {
                let value = item.map_or(Value::Null, Value::SingleQuotedString);
                Expr::Value(value.into())
            };
            Some(items.map(value).collect())
        }
        Expr::Cast {
            expr,
            data_type,
            kind: kind @ (CastKind::Cast | CastKind::DoubleColon),
            ..
        } => {
            let item = crate::dialect::item_type(data_type)?;
            let cast = |own| Expr::Cast {
                kind: kind.clone(),
                expr: Box::new(own),
                data_type: item.clone(),
                array: false,
                format: None,
            };
            Some(items(expr)?.into_iter().map(cast).collect())
        }
        _ => None,
    }
}
