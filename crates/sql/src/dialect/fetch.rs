//! `FETCH FIRST n ROWS ONLY | WITH TIES`, rewritten as a LIMIT or as a condition on ranks.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Fetch, LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, Value, WindowSpec, WindowType,
};

use crate::call::call;
use crate::error::Error;

/// Puts it in the place of FETCH.
///
/// # Errors
/// 03001 for PERCENT, and for ties where there is no order or rows are merged; 00900 beside LIMIT.
pub(super) fn rewrite(query: &mut Query) -> Result<(), Error> {
    let Some(Fetch { with_ties, percent, quantity }) = query.fetch.take() else { return Ok(()) };
    if percent {
        return Err(Error::not_yet("FETCH ... PERCENT").next("fetch first n rows only"));
    }
    let wanted = quantity.unwrap_or_else(|| number(1));
    if with_ties {
        return ties(query, wanted);
    }
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(wanted),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(wanted),
        Some(_) => return Err(Error::syntax("both LIMIT and FETCH")),
    }
    Ok(())
}

fn number(value: usize) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}

/// `WITH TIES`: rows whose rank is among the first.
fn ties(query: &mut Query, wanted: Expr) -> Result<(), Error> {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind)
    else {
        return Err(Error::syntax("WITH TIES without ORDER BY: no rows are equal in an order"));
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(not_over("UNION")) };
    if select.distinct.is_some() || select.qualify.is_some() {
        return Err(not_over("DISTINCT and QUALIFY"));
    }
    let sum = |left, right| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(left))),
        op: BinaryOperator::Plus,
        right: Box::new(Expr::Nested(Box::new(right))),
    };
    let last = match &query.limit_clause {
        None => wanted,
        Some(LimitClause::LimitOffset { limit: None, offset: None, .. }) => wanted,
        Some(LimitClause::LimitOffset { limit: None, offset: Some(offset), .. }) => {
            sum(offset.value.clone(), wanted)
        }
        Some(_) => return Err(Error::syntax("both LIMIT and FETCH")),
    };
    let mut rank = call("rank", vec![]);
    if let Expr::Function(function) = &mut rank {
        let order_by = order.iter().map(|by| of_rows(by, select)).collect();
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: Vec::new(),
            order_by,
            window_frame: None,
        }));
    }
    select.qualify = Some(Expr::BinaryOp {
        left: Box::new(rank),
        op: BinaryOperator::LtEq,
        right: Box::new(last),
    });
    Ok(())
}

fn not_over(what: &str) -> Error {
    Error::not_yet(format!("FETCH ... WITH TIES over {what}"))
        .next("select * from (select ...) q order by ... fetch first n rows with ties")
}

/// What is sorted by, where it is a place or a name in what is selected, as the expression there.
fn of_rows(by: &OrderByExpr, select: &Select) -> OrderByExpr {
    let at = |at: usize| match select.projection.get(at.checked_sub(1)?)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    };
    let found = match &by.expr {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok().and_then(at),
            _ => None,
        },
        Expr::Identifier(name) => select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => Some(expr),
            _ => None,
        }),
        _ => None,
    };
    OrderByExpr { expr: found.unwrap_or(&by.expr).clone(), ..by.clone() }
}
