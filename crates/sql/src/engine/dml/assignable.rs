//! Which values may be assigned to which columns: as in PostgreSQL, a number is not stored as a date, nor a text as a
//! number, unless the statement says so by a cast. What stands in quotes takes the type of its column.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::columnar::table::enum_of;
use crate::enums::type_word_of;
use crate::error::Error;
use crate::json::uuids::is_uuid;
use crate::numbers::from_text::{NUMERIC, NUMERIC_SCALE, too_fine};
use crate::rows::RowColumns;

/// Types between which values are assigned alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Number,
    Boolean,
    Text,
    /// A day, or a moment.
    Moment,
    Time,
    Interval,
    Bytes,
    Array,
    /// Any type, and those that have rules of their own: enum, NULL.
    Open,
}

fn family_of(field: &Field) -> Family {
    if enum_of(field).is_some() {
        return Family::Open;
    }
    match field.data_type() {
        own if own.is_numeric() => Family::Number,
        own if own.is_string() => Family::Text,
        DataType::Boolean => Family::Boolean,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Family::Moment,
        DataType::Time32(_) | DataType::Time64(_) => Family::Time,
        DataType::Interval(_) | DataType::Duration(_) => Family::Interval,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Family::Bytes,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => Family::Array,
        _ => Family::Open,
    }
}

fn is_assigned(from: Family, to: Family, field: &Field) -> bool {
    match (from, to) {
        (from, to) if from == to => true,
        (Family::Open, _) | (_, Family::Open) => true,
        // Every value has a text; the texts of other types are values of their own.
        (_, Family::Text) => true,
        (Family::Moment, Family::Time) => {
            !matches!(field.data_type(), DataType::Date32 | DataType::Date64)
        }
        (Family::Interval, Family::Time) | (Family::Time, Family::Interval) => true,
        _ => false,
    }
}

/// Refuses a value of this type for a column.
///
/// # Errors
/// 42804 values of this type are not assigned to the column's.
fn check(columns: &RowColumns, at: usize, field: &Field) -> Result<(), Error> {
    let column = columns.schema.field(at);
    if is_assigned(family_of(field), family_of(column), field) {
        return Ok(());
    }
    let text = format!(
        "column \"{}\" is of type {} but expression is of type {}",
        column.name(),
        type_word_of(column),
        type_word_of(field),
    );
    Err(Error::new(932, "42804", text).next(format!("cast it: (..)::{}", type_word_of(column))))
}

/// Refuses a number with more digits behind the point than NUMERIC keeps.
///
/// # Errors
/// 22003 some of them would be lost.
fn check_digits(columns: &RowColumns, at: usize, expr: &Expr) -> Result<(), Error> {
    let (Expr::Literal(value, _), true) = (expr, *columns.schema.field(at).data_type() == NUMERIC)
    else {
        return match expr {
            Expr::Alias(alias) => check_digits(columns, at, &alias.expr),
            _ => Ok(()),
        };
    };
    let ScalarValue::Decimal128(Some(number), _, scale) = value else { return Ok(()) };
    let beyond = u32::try_from(*scale).unwrap_or(0).saturating_sub(NUMERIC_SCALE);
    let lost = 10i128.checked_pow(beyond).map_or(*number, |step| number % step);
    match lost {
        0 => Ok(()),
        _ => Err(Error::new(1438, "22003", too_fine(&value.to_string()))
            .of_column(&columns.name, columns.schema.field(at).name())),
    }
}

/// Refuses the columns of a plan, from `first` on, for these columns of a table.
///
/// # Errors
/// 42804 the values of one are not assigned to the column.
pub(super) fn check_plan(
    columns: &RowColumns,
    plan: &LogicalPlan,
    first: usize,
    places: &[usize],
) -> Result<(), Error> {
    for (own, at) in places.iter().enumerate() {
        let Some(field) = plan.schema().fields().get(first + own) else { break };
        if let LogicalPlan::Projection(projection) = plan
            && let Some(expr) = projection.expr.get(first + own)
        {
            check_digits(columns, *at, expr)?;
        }
        if !is_untyped(plan, first + own) {
            check(columns, *at, field)?;
        }
    }
    Ok(())
}

/// Refuses rows of VALUES, which are cast to the types of the columns by then.
///
/// # Errors
/// 42804 a value is not assigned to its column.
pub(super) fn check_values(
    columns: &RowColumns,
    plan: &LogicalPlan,
    places: &[usize],
) -> Result<(), Error> {
    let mut plan = plan;
    while let LogicalPlan::Projection(projection) = plan {
        plan = &projection.input;
    }
    let LogicalPlan::Values(values) = plan else { return Ok(()) };
    let schema = DFSchema::empty();
    for row in &values.values {
        for (expr, at) in row.iter().zip(places) {
            let Expr::Cast(cast) = expr else { continue };
            check_digits(columns, *at, &cast.expr)?;
            if is_text(&cast.expr) || is_uuid(&cast.expr, &schema) {
                continue;
            }
            // What cannot be told is told where it is computed.
            if let Ok((_, field)) = cast.expr.to_field(&schema) {
                check(columns, *at, &field)?;
            }
        }
    }
    Ok(())
}

/// Refuses expressions over `names` for the columns they are assigned to.
///
/// # Errors
/// 42804 the values of one are not assigned to its column.
pub(super) fn check_assigned(
    columns: &RowColumns,
    assigned: &[(usize, Expr)],
    names: &DFSchema,
) -> Result<(), Error> {
    for (at, expr) in assigned.iter().filter(|(_, expr)| !is_text(expr)) {
        if let Ok((_, field)) = expr.to_field(names) {
            check(columns, *at, &field)?;
        }
    }
    Ok(())
}

/// Whether an expression is a text in quotes, or a parameter.
fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null() || value.data_type().is_string(),
        Expr::Placeholder(_) => true,
        Expr::Alias(alias) => is_text(&alias.expr),
        _ => false,
    }
}

/// Whether a column of a query is a text in quotes, which has no type of its own.
fn is_untyped(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.get(at) {
            Some(Expr::Alias(alias)) if is_text(&alias.expr) => true,
            Some(Expr::Column(column)) => projection
                .input
                .schema()
                .maybe_index_of_column(column)
                .is_some_and(|at| is_untyped(&projection.input, at)),
            Some(expr) => is_text(expr),
            None => false,
        },
        LogicalPlan::Sort(sort) => is_untyped(&sort.input, at),
        LogicalPlan::Limit(limit) => is_untyped(&limit.input, at),
        LogicalPlan::Filter(filter) => is_untyped(&filter.input, at),
        LogicalPlan::SubqueryAlias(alias) => is_untyped(&alias.input, at),
        LogicalPlan::Union(union) => union.inputs.iter().all(|input| is_untyped(input, at)),
        LogicalPlan::Values(values) => {
            values.values.iter().all(|row| row.get(at).is_some_and(is_text))
        }
        _ => false,
    }
}
