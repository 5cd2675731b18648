//! Expressions of a plan as SQL writes them: no column numbers, no type names around constants.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Schema, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr,
    IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr, TryCastExpr,
};

use crate::numbers::checked::Checked;
use crate::numbers::float::Canonical;

/// The most values of a list that are shown; beyond that, their number.
const LISTED: usize = 8;

/// A function from columns to their names.
pub(crate) type Names<'a> = &'a dyn Fn(&Column) -> String;

/// A column by its own name.
pub(crate) fn own_name(column: &Column) -> String {
    column.name().to_owned()
}

/// An expression with its columns named by `names`.
pub(crate) fn words(expr: &Arc<dyn PhysicalExpr>, names: Names<'_>) -> String {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return names(column);
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return constant(literal.value());
    }
    if let Some((left, op, right)) = operation(expr) {
        let left = inside(left, &op, false, names);
        let right = inside(right, &op, true, names);
        return format!("{left} {} {right}", operator(&op));
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return format!("not {}", closed(not.arg(), names));
    }
    if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        return format!("-{}", closed(negative.arg(), names));
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return format!("{} is null", closed(is_null.arg(), names));
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return format!("{} is not null", closed(is_not_null.arg(), names));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let not = if like.negated() { "not " } else { "" };
        let like_word = if like.case_insensitive() { "ilike" } else { "like" };
        let (value, pattern) = (closed(like.expr(), names), closed(like.pattern(), names));
        return format!("{value} {not}{like_word} {pattern}");
    }
    others(expr, names)
}

fn others(expr: &Arc<dyn PhysicalExpr>, names: Names<'_>) -> String {
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let not = if list.negated() { "not " } else { "" };
        let mut values: Vec<String> =
            list.list().iter().take(LISTED).map(|value| words(value, names)).collect();
        if list.len() > LISTED {
            values.push(format!(".. {} values", list.len()));
        }
        return format!("{} {not}in ({})", closed(list.expr(), names), values.join(", "));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return format!("cast({} as {})", words(cast.expr(), names), type_name(cast.cast_type()));
    }
    if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        let of = words(cast.expr(), names);
        return format!("try_cast({of} as {})", type_name(cast.cast_type()));
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        return case_words(case, names);
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return function_words(function, names);
    }
    if expr.downcast_ref::<ScalarSubqueryExpr>().is_some() {
        return "(subquery)".to_owned();
    }
    if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
        let columns: Vec<String> = expr.children().iter().map(|of| words(of, names)).collect();
        return format!("{} as known at run time", columns.join(", "));
    }
    fmt_sql(expr.as_ref()).to_string()
}

fn case_words(case: &CaseExpr, names: Names<'_>) -> String {
    let mut out = "case".to_owned();
    if let Some(of) = case.expr() {
        out.push_str(&format!(" {}", words(of, names)));
    }
    for (when, then) in case.when_then_expr() {
        out.push_str(&format!(" when {} then {}", words(when, names), words(then, names)));
    }
    if let Some(other) = case.else_expr() {
        out.push_str(&format!(" else {}", words(other, names)));
    }
    out.push_str(" end");
    out
}

type Operand = Arc<dyn PhysicalExpr>;

/// The operation on two operands, even if a function of ours computes it.
fn operation(expr: &Operand) -> Option<(&Operand, Operator, &Operand)> {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return Some((binary.left(), *binary.op(), binary.right()));
    }
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let checked = function.fun().inner().downcast_ref::<Checked>()?;
    match function.args() {
        [left, right] => Some((left, checked.arithmetic().operator(), right)),
        _ => None,
    }
}

/// A function as it was written.
fn function_words(function: &ScalarFunctionExpr, names: Names<'_>) -> String {
    let inner = function.fun().inner();
    match function.args() {
        [only] if inner.downcast_ref::<Checked>().is_some() => {
            format!("-{}", closed(only, names))
        }
        // It gives equal numbers equal bits: no user wrote it.
        [only] if inner.downcast_ref::<Canonical>().is_some() => words(only, names),
        arguments => {
            let arguments: Vec<String> =
                arguments.iter().map(|argument| words(argument, names)).collect();
            format!("{}({})", function.fun().name(), arguments.join(", "))
        }
    }
}

/// An operand: in parentheses if it binds less tightly than its context.
fn inside(
    expr: &Arc<dyn PhysicalExpr>,
    outer: &Operator,
    is_right: bool,
    names: Names<'_>,
) -> String {
    let text = words(expr, names);
    let Some((_, inner, _)) = operation(expr) else {
        let binds_less = expr.downcast_ref::<NotExpr>().is_some() && *outer != Operator::And;
        return if binds_less { format!("({text})") } else { text };
    };
    let (of_inner, of_outer) = (inner.precedence(), outer.precedence());
    let joins = inner == *outer && matches!(outer, Operator::And | Operator::Or | Operator::Plus);
    let is_open = of_inner > of_outer || joins || (of_inner == of_outer && !is_right);
    if is_open && of_inner > 0 { text } else { format!("({text})") }
}

/// An operand in a context that binds more tightly than any operator.
fn closed(expr: &Arc<dyn PhysicalExpr>, names: Names<'_>) -> String {
    let text = words(expr, names);
    let is_open = operation(expr).is_some()
        || expr.downcast_ref::<NotExpr>().is_some()
        || expr.downcast_ref::<LikeExpr>().is_some()
        || expr.downcast_ref::<InListExpr>().is_some();
    if is_open { format!("({text})") } else { text }
}

fn operator(op: &Operator) -> String {
    match op {
        Operator::NotEq => "<>".to_owned(),
        Operator::StringConcat => "||".to_owned(),
        op => op.to_string().to_lowercase(),
    }
}

/// A constant as it can be typed.
pub(crate) fn constant(value: &ScalarValue) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::Utf8View(Some(text))
        | ScalarValue::LargeUtf8(Some(text)) => {
            let text = text.replace('\'', "''");
            let control = |c: char| match c.is_control() {
                true => c.escape_default().to_string(),
                false => c.to_string(),
            };
            format!("'{}'", text.chars().map(control).collect::<String>())
        }
        ScalarValue::Dictionary(_, value) => constant(value),
        value => {
            let shown = value.to_array().ok().and_then(|array| shown(array.as_ref()));
            shown.unwrap_or_else(|| value.to_string())
        }
    }
}

fn shown(array: &dyn Array) -> Option<String> {
    let options = FormatOptions::new()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
        .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let formatter = ArrayFormatter::try_new(array, &options).ok()?;
    formatter.value(0).try_to_string().ok()
}

/// The name of a type in SQL.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            format!("decimal({precision},{scale})")
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "varchar".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea".to_owned(),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "time".to_owned(),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "timestamp".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

/// An entry of ORDER BY.
pub(crate) fn sort_key(key: &PhysicalSortExpr, names: Names<'_>) -> String {
    let mut text = words(&key.expr, names);
    if key.options.descending {
        text.push_str(" desc");
    }
    // PostgreSQL's rule: nulls are greater than all values.
    if key.options.nulls_first != key.options.descending {
        text.push_str(if key.options.nulls_first { " nulls first" } else { " nulls last" });
    }
    text
}

/// A call of an aggregate function with these arguments.
pub(crate) fn call_text(call: &AggregateFunctionExpr, mut arguments: Vec<String>) -> String {
    // count(*) counts a constant.
    if call.fun().name() == "count" && call.expressions().iter().all(is_constant) {
        arguments = vec!["*".to_owned()];
    }
    let distinct = if call.is_distinct() { "distinct " } else { "" };
    format!("{}({distinct}{})", call.fun().name(), arguments.join(", "))
}

fn is_constant(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Literal>().is_some()
}

/// The names of a table's columns.
pub(crate) fn of_schema(schema: &Schema) -> impl Fn(&Column) -> String + '_ {
    |column| match schema.fields().get(column.index()) {
        Some(field) => field.name().clone(),
        None => own_name(column),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::physical_plan::expressions::{binary, col, in_list, like, lit, not};

    use super::*;
    use arrow::datatypes::Field;

    fn shown(expr: &Arc<dyn PhysicalExpr>) -> String {
        words(expr, &own_name)
    }

    #[test]
    fn expressions_are_written_as_they_can_be_typed() {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let schema = Schema::new(vec![
            field("a", DataType::Int64),
            field("b", DataType::Int64),
            field("s", DataType::Utf8),
        ]);
        let (a, b) = (col("a", &schema).unwrap(), col("b", &schema).unwrap());
        let s = col("s", &schema).unwrap();
        let of = |l: &Arc<dyn PhysicalExpr>, op, r: &Arc<dyn PhysicalExpr>| {
            binary(Arc::clone(l), op, Arc::clone(r), &schema).unwrap()
        };
        let sum = of(&a, Operator::Plus, &b);
        assert_eq!(shown(&of(&sum, Operator::Multiply, &a)), "(a + b) * a");
        assert_eq!(shown(&of(&a, Operator::Minus, &of(&a, Operator::Minus, &b))), "a - (a - b)");
        assert_eq!(shown(&of(&of(&a, Operator::Minus, &b), Operator::Minus, &b)), "a - b - b");
        let (less, more) = (of(&a, Operator::Lt, &b), of(&sum, Operator::GtEq, &lit(7i64)));
        let either = of(&less, Operator::Or, &more);
        assert_eq!(shown(&of(&either, Operator::And, &less)), "(a < b or a + b >= 7) and a < b");
        assert_eq!(shown(&not(Arc::clone(&either)).unwrap()), "not (a < b or a + b >= 7)");
        let list = (1..=20i64).map(lit).collect();
        let list = in_list(Arc::clone(&a), list, &true, &schema).unwrap();
        assert_eq!(shown(&list), "a not in (1, 2, 3, 4, 5, 6, 7, 8, .. 20 values)");
        let like = like(false, false, s, lit("it's %"), &schema).unwrap();
        assert_eq!(shown(&like), "s like 'it''s %'");
        let date = ScalarValue::Date32(Some(9131));
        assert_eq!(
            (constant(&date), constant(&ScalarValue::Null)),
            ("1995-01-01".into(), "null".into())
        );
        let decimal = ScalarValue::Decimal128(Some(-5), 15, 2);
        assert_eq!(constant(&decimal), "-0.05");
    }
}
