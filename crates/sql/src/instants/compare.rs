//! Comparisons of timestamps with constants.
//!
//! DataFusion reads text beside a timestamp in nanoseconds, and converts operands of two units to the
//! finer one: years beyond 2262 fail. Here a text is read in the unit of the column, microseconds at
//! least; one beyond the range of the column is compared with its last instant.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use crate::rules::each_expression;
use crate::walk::WalkPlan;

/// The rule. It runs before DataFusion chooses types.
#[derive(Debug, Default)]
pub(crate) struct CompareInstants;

impl AnalyzerRule for CompareInstants {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.map_up_with_subqueries(|plan| each_expression(plan, one))?.data)
    }

    fn name(&self) -> &'static str {
        "compare_instants"
    }
}

fn one(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op)
                || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) =>
        {
            let types = (left.get_type(schema)?, right.get_type(schema)?);
            let other = if let Some(instant) = instant_of(&types.0, &right) {
                compared(&left, op, &instant)
            } else if let (Some(op), Some(instant)) = (op.swap(), instant_of(&types.1, &left)) {
                compared(&right, op, &instant)
            } else if let Some(common) = with_date(&types.0, &types.1) {
                let left = left.cast_to(&common, schema)?;
                let right = right.cast_to(&common, schema)?;
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
            } else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            Ok(Transformed::yes(other))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let data_type = expr.get_type(schema)?;
            let ends = (instant_of(&data_type, &low), instant_of(&data_type, &high));
            let (Some(low), Some(high)) = ends else {
                let ends = [low.get_type(schema)?, high.get_type(schema)?];
                let is_mixed = ends.iter().any(|end| with_date(&data_type, end).is_some());
                if !is_mixed || expr.is_volatile() {
                    let between = Between { expr, negated, low, high };
                    return Ok(Transformed::no(Expr::Between(between)));
                }
                // Each bound in the common type with the value.
                let above = one((*expr).clone().gt_eq(*low), schema)?.data;
                let both = above.and(one(expr.lt_eq(*high), schema)?.data);
                return Ok(Transformed::yes(if negated {
                    Expr::Not(Box::new(both))
                } else {
                    both
                }));
            };
            let above = compared(&expr, Operator::GtEq, &low);
            let both = above.and(compared(&expr, Operator::LtEq, &high));
            Ok(Transformed::yes(if negated { Expr::Not(Box::new(both)) } else { both }))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let data_type = expr.get_type(schema)?;
            let instants = list.iter().map(|item| instant_of(&data_type, item));
            let Some(instants) = instants.collect::<Option<Vec<_>>>() else {
                return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
            };
            // A value out of the column's range does not occur in it.
            let held = instants.into_iter().filter_map(|instant| match instant {
                Instant::Held(scalar) => Some(Expr::Literal(scalar, None)),
                Instant::Before(_) | Instant::After(_) => None,
            });
            let held: Vec<Expr> = held.collect();
            if held.len() == list.len() || !held.is_empty() {
                let list = InList { expr, list: held, negated };
                return Ok(Transformed::yes(Expr::InList(list)));
            }
            Ok(Transformed::no(Expr::InList(InList { expr, list, negated })))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether an operator compares by order.
pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The type in which a date and a timestamp are compared; DataFusion takes nanoseconds.
fn with_date(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Timestamp};
    match (left, right) {
        (Date32 | Date64, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32 | Date64) => {
            let is_fine = *unit == TimeUnit::Nanosecond;
            (!is_fine).then(|| Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        _ => None,
    }
}

/// A constant for a column of timestamps.
enum Instant {
    Held(ScalarValue),
    /// It is before the first instant of the type, which is this.
    Before(ScalarValue),
    /// It is after the last one, which is this.
    After(ScalarValue),
}

/// The constant `expr` for a column of timestamps; `None`: one of the two is something else.
fn instant_of(column: &DataType, expr: &Expr) -> Option<Instant> {
    let DataType::Timestamp(unit, zone) = column else { return None };
    let wanted = match unit {
        TimeUnit::Nanosecond => TimeUnit::Nanosecond,
        _ => TimeUnit::Microsecond,
    };
    let wide = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
    let exact = DataType::Timestamp(wanted, zone.clone());
    if let Some(text) = text_of(expr) {
        let text = ScalarValue::Utf8(Some(text.trim().to_owned()));
        if let Ok(scalar) = text.cast_to(&exact) {
            return Some(Instant::Held(scalar));
        }
        return beyond(text.cast_to(&wide).ok()?, column);
    }
    // A constant in another unit, or a date.
    let (inner, own) = match expr {
        Expr::Literal(scalar, _) => (scalar.clone(), scalar.data_type()),
        Expr::Cast(cast) => {
            let text = ScalarValue::Utf8(Some(text_of(&cast.expr)?.trim().to_owned()));
            let own = cast.field.data_type().clone();
            (text.cast_to(&own).ok()?, own)
        }
        _ => return None,
    };
    match own {
        DataType::Timestamp(own, _) if own != *unit && wanted == TimeUnit::Nanosecond => {
            match inner.cast_to(&exact) {
                Ok(scalar) => Some(Instant::Held(scalar)),
                Err(_) => beyond(inner.cast_to(&wide).ok()?, column),
            }
        }
        // A day begins at midnight of the zone.
        DataType::Date32 | DataType::Date64 if zone.is_some() => None,
        DataType::Date32 | DataType::Date64 => match inner.cast_to(&exact) {
            Ok(scalar) => Some(Instant::Held(scalar)),
            Err(_) => beyond(inner.cast_to(&wide).ok()?, column),
        },
        _ => None,
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)),
            _,
        ) => Some(text),
        _ => None,
    }
}

/// The end of the range of a column in nanoseconds that an instant in microseconds exceeds.
fn beyond(instant: ScalarValue, column: &DataType) -> Option<Instant> {
    let ScalarValue::TimestampMicrosecond(Some(micros), _) = instant else { return None };
    let DataType::Timestamp(TimeUnit::Nanosecond, zone) = column else { return None };
    let end = |value| ScalarValue::TimestampNanosecond(Some(value), zone.clone());
    Some(match micros < 0 {
        true => Instant::Before(end(i64::MIN)),
        false => Instant::After(end(i64::MAX)),
    })
}

/// The comparison with an instant. If it is beyond the last instant, every value is less.
fn compared(column: &Expr, op: Operator, instant: &Instant) -> Expr {
    let with = |op, scalar: &ScalarValue| {
        let literal = Expr::Literal(scalar.clone(), None);
        Expr::BinaryExpr(BinaryExpr::new(Box::new(column.clone()), op, Box::new(literal)))
    };
    match (instant, op) {
        (Instant::Held(scalar), op) => with(op, scalar),
        (Instant::After(last), Operator::Lt | Operator::LtEq | Operator::NotEq) => {
            with(Operator::LtEq, last)
        }
        (Instant::After(last), _) => with(Operator::Gt, last),
        (Instant::Before(first), Operator::Gt | Operator::GtEq | Operator::NotEq) => {
            with(Operator::GtEq, first)
        }
        (Instant::Before(first), _) => with(Operator::Lt, first),
    }
}
