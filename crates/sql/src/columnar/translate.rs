//! DataFusion's expressions in the form that a cell understands: predicates on encoded columns, and
//! arithmetic on their integers. What the cell does not understand is reported in words, and evaluated
//! on decoded columns.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use cellar_format::value::{key_of_f32, key_of_f64};
use cellar_format::{Expr, Like, Predicate, Relation, Test, Value};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};

use crate::numbers::checked::{Arithmetic, Checked};
use crate::words::{own_name, type_name, words};

/// Why an expression is not evaluated on encoded columns.
pub type Reason = String;

/// The predicate that holds where `expr` is true (`turned`: false) and not null.
///
/// # Errors
/// In words, what in it is not understood.
pub fn predicate(
    expr: &Arc<dyn PhysicalExpr>,
    turned: bool,
    schema: &Schema,
) -> Result<Predicate, Reason> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return match literal.value() {
            ScalarValue::Boolean(Some(value)) if *value != turned => Ok(Predicate::All),
            ScalarValue::Boolean(_) | ScalarValue::Null => Ok(Predicate::None),
            other => Err(format!("{other} is no condition")),
        };
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return predicate(not.arg(), !turned, schema);
    }
    if let Some(column) = expr.downcast_ref::<Column>() {
        let wanted = i128::from(!turned);
        return Ok(test(column.index(), Test::Numbers(wanted, wanted)));
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        let column = column_of(is_null.arg())?;
        return Ok(test(column, if turned { Test::NotNull } else { Test::Null }));
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        let column = column_of(is_not_null.arg())?;
        return Ok(test(column, if turned { Test::Null } else { Test::NotNull }));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return like_of(like, turned, schema);
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return in_list(list, turned, schema);
    }
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => binary_of(binary, turned, schema),
        None => Err(format!("{} is evaluated on decoded rows", shown(expr))),
    }
}

fn shown(expr: &Arc<dyn PhysicalExpr>) -> String {
    words(expr, &own_name)
}

fn test(column: usize, test: Test) -> Predicate {
    Predicate::Test { column, test }
}

fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Result<usize, Reason> {
    match expr.downcast_ref::<Column>() {
        Some(column) => Ok(column.index()),
        None => Err(format!("{} is not a column", shown(expr))),
    }
}

fn literal_of(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

/// -0 and 0 as floating-point columns order them. DataFusion treats them as equal; it compares
/// everything else in the same order.
const ZEROS: [i128; 2] = [-1, 0];

/// A constant as columns of that type store it; `None` is null.
fn value_of(scalar: &ScalarValue, data_type: &DataType) -> Result<Option<Value>, Reason> {
    use ScalarValue as S;
    let is_text = matches!(data_type, DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8);
    let is_binary = matches!(data_type, DataType::BinaryView | DataType::Binary);
    let same = match scalar {
        S::Utf8(_) | S::Utf8View(_) | S::LargeUtf8(_) => is_text,
        S::Binary(_) | S::BinaryView(_) | S::LargeBinary(_) => is_binary,
        S::Null => true,
        other => other.data_type() == *data_type,
    };
    if !same {
        return Err(format!("{scalar} is not of the column's type {data_type}"));
    }
    if scalar.is_null() {
        return Ok(None);
    }
    let number = match scalar {
        S::Utf8(Some(s)) | S::Utf8View(Some(s)) | S::LargeUtf8(Some(s)) => {
            return Ok(Some(Value::Bytes(s.as_bytes().into())));
        }
        S::Binary(Some(b)) | S::BinaryView(Some(b)) | S::LargeBinary(Some(b)) => {
            return Ok(Some(Value::Bytes(b.as_slice().into())));
        }
        S::Float32(Some(float)) => key_of_f32(*float).into(),
        S::Float64(Some(float)) => key_of_f64(*float).into(),
        other => match number_of(other) {
            Some(number) => number,
            None => return Err(format!("{other} is evaluated on decoded rows")),
        },
    };
    Ok(Some(Value::Number(number)))
}

/// The integer that a constant stands for.
fn number_of(scalar: &ScalarValue) -> Option<i128> {
    use ScalarValue as S;
    Some(match scalar {
        S::Boolean(Some(v)) => (*v).into(),
        S::Int8(Some(v)) => (*v).into(),
        S::Int16(Some(v)) => (*v).into(),
        S::Int32(Some(v)) | S::Date32(Some(v)) => (*v).into(),
        S::Time32Second(Some(v)) | S::Time32Millisecond(Some(v)) => (*v).into(),
        S::Int64(Some(v)) | S::Date64(Some(v)) => (*v).into(),
        S::Time64Microsecond(Some(v)) | S::Time64Nanosecond(Some(v)) => (*v).into(),
        S::TimestampSecond(Some(v), _)
        | S::TimestampMillisecond(Some(v), _)
        | S::TimestampMicrosecond(Some(v), _)
        | S::TimestampNanosecond(Some(v), _) => (*v).into(),
        S::UInt8(Some(v)) => (*v).into(),
        S::UInt16(Some(v)) => (*v).into(),
        S::UInt32(Some(v)) => (*v).into(),
        S::UInt64(Some(v)) => (*v).into(),
        S::Decimal128(Some(v), _, _) => *v,
        _ => return None,
    })
}

fn like_of(like: &LikeExpr, turned: bool, schema: &Schema) -> Result<Predicate, Reason> {
    if like.case_insensitive() {
        return Err("ILIKE is evaluated on decoded rows".to_owned());
    }
    let column = column_of(like.expr())?;
    let data_type = schema.field(column).data_type();
    let pattern = literal_of(like.pattern()).ok_or("its pattern is not a constant")?;
    Ok(match value_of(pattern, data_type)? {
        Some(Value::Bytes(pattern)) => {
            let pattern = std::str::from_utf8(&pattern).map_err(|_| "its pattern is no text")?;
            let like_it = Like::new(pattern);
            match like.negated() != turned {
                true => test(column, Test::NotLike(like_it)),
                false => test(column, Test::Like(like_it)),
            }
        }
        _ => Predicate::None,
    })
}

fn in_list(list: &InListExpr, turned: bool, schema: &Schema) -> Result<Predicate, Reason> {
    let column = column_of(list.expr())?;
    let data_type = schema.field(column).data_type();
    let (mut numbers, mut strings, mut has_null) = (Vec::new(), Vec::new(), false);
    for item in list.list() {
        let scalar = literal_of(item).ok_or("its list holds more than constants")?;
        match value_of(scalar, data_type)? {
            Some(Value::Number(number)) => numbers.push(number),
            Some(Value::Bytes(bytes)) => strings.push(bytes),
            None => has_null = true,
        }
    }
    if data_type.is_floating() && numbers.iter().any(|number| ZEROS.contains(number)) {
        numbers.extend(ZEROS);
    }
    numbers.sort_unstable();
    numbers.dedup();
    strings.sort_unstable();
    strings.dedup();
    let is_string = matches!(data_type, DataType::Utf8View | DataType::BinaryView);
    Ok(match (list.negated() != turned, is_string) {
        // A value that is not in a list with a null in it may be that null.
        (true, _) if has_null => Predicate::None,
        (true, false) => test(column, Test::NumberNotIn(numbers)),
        (true, true) => test(column, Test::StringNotIn(strings)),
        (false, false) => test(column, Test::NumberIn(numbers)),
        (false, true) => test(column, Test::StringIn(strings)),
    })
}

/// The negation of a comparison.
fn opposite(operator: Operator) -> Operator {
    match operator {
        Operator::Eq => Operator::NotEq,
        Operator::NotEq => Operator::Eq,
        Operator::Lt => Operator::GtEq,
        Operator::LtEq => Operator::Gt,
        Operator::Gt => Operator::LtEq,
        Operator::GtEq => Operator::Lt,
        other => other,
    }
}

fn binary_of(binary: &BinaryExpr, turned: bool, schema: &Schema) -> Result<Predicate, Reason> {
    let (left, right) = (binary.left(), binary.right());
    match (binary.op(), turned) {
        (Operator::And, false) | (Operator::Or, true) => {
            return Ok(Predicate::And(vec![
                predicate(left, turned, schema)?,
                predicate(right, turned, schema)?,
            ]));
        }
        (Operator::Or, false) | (Operator::And, true) => {
            return Ok(Predicate::Or(vec![
                predicate(left, turned, schema)?,
                predicate(right, turned, schema)?,
            ]));
        }
        _ => {}
    }
    let compares = matches!(
        binary.op(),
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
    );
    if !compares {
        return Err(format!("{} is evaluated on decoded rows", binary.op()));
    }
    let operator = if turned { opposite(*binary.op()) } else { *binary.op() };
    if let (Ok(column), Some(scalar)) = (column_of(left), literal_of(right)) {
        return compared(column, operator, scalar, schema);
    }
    if let (Some(scalar), Ok(column)) = (literal_of(left), column_of(right)) {
        let operator = operator.swap().ok_or("it cannot be turned round")?;
        return compared(column, operator, scalar, schema);
    }
    if let (Some(column), Some(ScalarValue::Float64(Some(double)))) =
        (real_as_double(left, schema), literal_of(right))
    {
        return compared_real(column, operator, *double, schema);
    }
    if let (Some(ScalarValue::Float64(Some(double))), Some(column)) =
        (literal_of(left), real_as_double(right, schema))
    {
        let operator = operator.swap().ok_or("it cannot be turned round")?;
        return compared_real(column, operator, *double, schema);
    }
    let (a, b) = (arithmetic(left, schema)?, arithmetic(right, schema)?);
    if a.1 != b.1 || left.data_type(schema).ok() != right.data_type(schema).ok() {
        return Err("its sides are of two types".to_owned());
    }
    let compare = |left, relation, right| Predicate::Compare { left, relation, right };
    Ok(match operator {
        Operator::Eq => compare(a.0, Relation::Equal, b.0),
        Operator::NotEq => compare(a.0, Relation::NotEqual, b.0),
        Operator::Lt => compare(a.0, Relation::Less, b.0),
        Operator::LtEq => compare(a.0, Relation::LessOrEqual, b.0),
        Operator::Gt => compare(b.0, Relation::Less, a.0),
        _ => compare(b.0, Relation::LessOrEqual, a.0),
    })
}

/// A column of 32-bit floating-point numbers that is compared as 64 bits.
fn real_as_double(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    let cast = expr.downcast_ref::<CastExpr>()?;
    let column = cast.expr().downcast_ref::<Column>()?.index();
    let is_real = *schema.field(column).data_type() == DataType::Float32;
    (is_real && *cast.cast_type() == DataType::Float64).then_some(column)
}

/// Such a column compared with a number that may not fit 32 bits: with its nearest 32-bit neighbours.
fn compared_real(
    column: usize,
    operator: Operator,
    double: f64,
    schema: &Schema,
) -> Result<Predicate, Reason> {
    let near = double as f32;
    let (below, above) = match f64::from(near).partial_cmp(&double) {
        Some(Ordering::Less) => (near, near.next_up()),
        Some(Ordering::Greater) => (near.next_down(), near),
        // The same number, or none.
        _ => return compared(column, operator, &ScalarValue::Float32(Some(near)), schema),
    };
    let with =
        |operator, real: f32| compared(column, operator, &ScalarValue::Float32(Some(real)), schema);
    match operator {
        Operator::Eq => Ok(Predicate::None),
        Operator::NotEq => Ok(test(column, Test::NotNull)),
        Operator::Lt | Operator::LtEq => with(Operator::LtEq, below),
        _ => with(Operator::GtEq, above),
    }
}

fn compared(
    column: usize,
    operator: Operator,
    scalar: &ScalarValue,
    schema: &Schema,
) -> Result<Predicate, Reason> {
    let data_type = schema.field(column).data_type();
    let Some(value) = value_of(scalar, data_type)? else { return Ok(Predicate::None) };
    Ok(match value {
        Value::Number(number) => {
            let is_zero = data_type.is_floating() && ZEROS.contains(&number);
            let (low, high) = if is_zero { (ZEROS[0], ZEROS[1]) } else { (number, number) };
            match operator {
                Operator::Eq => test(column, Test::Numbers(low, high)),
                Operator::NotEq if low != high => test(column, Test::NumberNotIn(vec![low, high])),
                Operator::NotEq => test(column, Test::NumberNotIn(vec![number])),
                // Nothing is below the least number, nor above the greatest.
                Operator::Lt => match low.checked_sub(1) {
                    Some(high) => test(column, Test::Numbers(i128::MIN, high)),
                    None => Predicate::None,
                },
                Operator::LtEq => test(column, Test::Numbers(i128::MIN, high)),
                Operator::Gt => match high.checked_add(1) {
                    Some(low) => test(column, Test::Numbers(low, i128::MAX)),
                    None => Predicate::None,
                },
                _ => test(column, Test::Numbers(low, i128::MAX)),
            }
        }
        Value::Bytes(bytes) => {
            let (low, high) = match operator {
                Operator::Eq => (Bound::Included(bytes.clone()), Bound::Included(bytes)),
                Operator::NotEq => return Ok(test(column, Test::StringNotIn(vec![bytes]))),
                Operator::Lt => (Bound::Unbounded, Bound::Excluded(bytes)),
                Operator::LtEq => (Bound::Unbounded, Bound::Included(bytes)),
                Operator::Gt => (Bound::Excluded(bytes), Bound::Unbounded),
                _ => (Bound::Included(bytes), Bound::Unbounded),
            };
            test(column, Test::Strings(low, high))
        }
    })
}

/// The scale of a type whose values are stored as integers; `None`: they are not.
fn scale_of(data_type: &DataType) -> Option<i8> {
    use DataType::*;
    match data_type {
        Decimal128(_, scale) => Some(*scale),
        Int8
        | Int16
        | Int32
        | Int64
        | UInt8
        | UInt16
        | UInt32
        | Date32
        | Date64
        | Timestamp(_, _) => Some(0),
        _ => None,
    }
}

/// The number of digits before the point that a type can always hold, and whether it has negative numbers.
fn room_of(data_type: &DataType) -> (i16, bool) {
    match data_type {
        DataType::Decimal128(precision, scale) => (i16::from(*precision) - i16::from(*scale), true),
        DataType::Int8 => (2, true),
        DataType::UInt8 => (2, false),
        DataType::Int16 => (4, true),
        DataType::UInt16 => (4, false),
        DataType::Int32 => (9, true),
        DataType::UInt32 => (9, false),
        DataType::Int64 => (18, true),
        _ => (19, false),
    }
}

/// Whether every number of a type fits another of the same or a larger scale.
fn widens(from: &DataType, to: &DataType) -> bool {
    let wider = |bits: Option<u8>, other: Option<u8>| bits.zip(other).is_some_and(|(a, b)| a >= b);
    let is_signed = |t: &DataType| room_of(t).1;
    match (from.is_integer(), to.is_integer()) {
        // Into a signed type of more bits, or one of the same signedness with at least as many.
        (true, true) if is_signed(from) == is_signed(to) => wider(bits_of(to), bits_of(from)),
        (true, true) => is_signed(to) && bits_of(to) > bits_of(from),
        _ => room_of(to).0 >= digits_of(from) && (room_of(to).1 || !is_signed(from)),
    }
}

fn bits_of(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => 8,
        DataType::Int16 | DataType::UInt16 => 16,
        DataType::Int32 | DataType::UInt32 => 32,
        DataType::Int64 | DataType::UInt64 => 64,
        _ => return None,
    })
}

/// The most digits before the point of an integer type.
fn digits_of(data_type: &DataType) -> i16 {
    match data_type {
        DataType::Decimal128(precision, scale) => i16::from(*precision) - i16::from(*scale),
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        _ => 20,
    }
}

fn power(exponent: i16) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

fn scaled(expr: Expr, by: i16) -> Result<Expr, Reason> {
    let beyond = "a factor is beyond 128 bits";
    match (by, expr) {
        (0, expr) => Ok(expr),
        (by, Expr::Constant(number)) => {
            let factor = power(by).ok_or(beyond)?;
            Ok(Expr::Constant(number.checked_mul(factor).ok_or(beyond)?))
        }
        (by, expr) => {
            let factor = Expr::Constant(power(by).ok_or(beyond)?);
            Ok(Expr::Mul(Box::new(expr), Box::new(factor)))
        }
    }
}

/// Arithmetic over integers: the expression, and its scale.
///
/// # Errors
/// In words, what in it is not understood.
pub fn arithmetic(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<(Expr, i8), Reason> {
    let data_type = expr.data_type(schema).map_err(|e| e.to_string())?;
    let type_of = type_name(&data_type);
    let not_whole = || format!("{} is of type {type_of}: evaluated on decoded rows", shown(expr));
    let scale = scale_of(&data_type).ok_or_else(not_whole)?;
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Ok((Expr::Column(column.index()), scale));
    }
    if let Some(scalar) = literal_of(expr) {
        let number = number_of(scalar).ok_or_else(not_whole)?;
        return Ok((Expr::Constant(number), scale));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let (inner, from) = arithmetic(cast.expr(), schema)?;
        let from_type = cast.expr().data_type(schema).map_err(|e| e.to_string())?;
        let is_decimal = matches!(data_type, DataType::Decimal128(_, _));
        let widens = widens(&from_type, &data_type) && scale >= from;
        // A literal does not grow; whether it fits is known.
        let fits = matches!(inner, Expr::Constant(_)) || widens;
        let is_whole = |t: &DataType| t.is_integer() || matches!(t, DataType::Decimal128(_, _));
        if !(fits
            && scale >= from
            && is_whole(&from_type)
            && (is_decimal || data_type.is_integer()))
        {
            return Err(format!("{} is evaluated on decoded rows", shown(expr)));
        }
        return Ok((scaled(inner, i16::from(scale) - i16::from(from))?, scale));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let checked = call.fun().inner().downcast_ref::<Checked>().ok_or_else(not_whole)?;
        let (low, high) = limits_of(&data_type).ok_or_else(not_whole)?;
        let within = |expr| Expr::Within(Box::new(expr), low, high);
        return match (call.args(), checked.arithmetic()) {
            ([only], Arithmetic::Negate) => {
                let (inner, scale) = arithmetic(only, schema)?;
                let zero = Box::new(Expr::Constant(0));
                Ok((within(Expr::Sub(zero, Box::new(inner))), scale))
            }
            ([left, right], own) => {
                let (inner, scale) = of_two(own.operator(), left, right, (scale, schema))?;
                Ok((within(inner), scale))
            }
            _ => Err(not_whole()),
        };
    }
    let binary = expr.downcast_ref::<BinaryExpr>().ok_or_else(not_whole)?;
    if !matches!(data_type, DataType::Decimal128(_, _)) {
        return Err(format!("{} may overflow {type_of}: evaluated on decoded rows", shown(expr)));
    }
    of_two(*binary.op(), binary.left(), binary.right(), (scale, schema))
}

/// The least and the greatest integer of a type.
fn limits_of(data_type: &DataType) -> Option<(i128, i128)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::Decimal128(precision, _) => {
            let end = power(i16::from(*precision))? - 1;
            (-end, end)
        }
        _ => return None,
    })
}

/// Arithmetic of two numbers whose result has this scale.
fn of_two(
    operator: Operator,
    left: &Arc<dyn PhysicalExpr>,
    right: &Arc<dyn PhysicalExpr>,
    (scale, schema): (i8, &Schema),
) -> Result<(Expr, i8), Reason> {
    let ((a, a_scale), (b, b_scale)) = (arithmetic(left, schema)?, arithmetic(right, schema)?);
    let sum = i16::from(a_scale) + i16::from(b_scale);
    let to = i16::from(scale);
    match operator {
        Operator::Multiply if sum == to => Ok((Expr::Mul(Box::new(a), Box::new(b)), scale)),
        Operator::Plus | Operator::Minus if a_scale.max(b_scale) == scale => {
            let a = Box::new(scaled(a, to - i16::from(a_scale))?);
            let b = Box::new(scaled(b, to - i16::from(b_scale))?);
            let is_plus = operator == Operator::Plus;
            Ok((if is_plus { Expr::Add(a, b) } else { Expr::Sub(a, b) }, scale))
        }
        _ => {
            let (left, right) = (shown(left), shown(right));
            Err(format!("{left} {operator} {right} is evaluated on decoded rows"))
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::physical_plan::expressions::{binary, cast, col, lit};

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("price", DataType::Decimal128(15, 2), false),
            Field::new("discount", DataType::Decimal128(15, 2), false),
            Field::new("flag", DataType::Utf8View, true),
            Field::new("n", DataType::Int64, true),
        ])
    }

    #[test]
    fn decimals_keep_their_scale_in_sums_and_products() {
        let schema = schema();
        let one = lit(ScalarValue::Decimal128(Some(1), 20, 0));
        let rest =
            binary(one, Operator::Minus, col("discount", &schema).unwrap(), &schema).unwrap();
        let price = col("price", &schema).unwrap();
        let product = binary(price, Operator::Multiply, rest, &schema).unwrap();
        let (expr, scale) = arithmetic(&product, &schema).unwrap();
        let rest = Expr::Sub(Box::new(Expr::Constant(100)), Box::new(Expr::Column(1)));
        let wanted = Expr::Mul(Box::new(Expr::Column(0)), Box::new(rest));
        assert_eq!((expr, scale), (wanted, 4));
    }

    #[test]
    fn what_may_overflow_or_lose_digits_stays_with_datafusion() {
        let schema = schema();
        let n = col("n", &schema).unwrap();
        let twice = binary(Arc::clone(&n), Operator::Plus, n, &schema).unwrap();
        assert!(arithmetic(&twice, &schema).unwrap_err().contains("may overflow"));
        let price = col("price", &schema).unwrap();
        let whole = cast(price, &schema, DataType::Decimal128(10, 0)).unwrap();
        assert!(arithmetic(&whole, &schema).is_err());
    }

    #[test]
    fn a_condition_turned_round_is_not_true_of_nulls() {
        let schema = schema();
        let flag = col("flag", &schema).unwrap();
        let same = binary(flag, Operator::Eq, lit("R"), &schema).unwrap();
        let not: Arc<dyn PhysicalExpr> = Arc::new(NotExpr::new(same));
        match predicate(&not, false, &schema).unwrap() {
            Predicate::Test { column: 2, test: Test::StringNotIn(list) } => {
                assert_eq!(list, [Box::from(b"R".as_slice())]);
            }
            other => panic!("{other:?}"),
        }
    }
}
