//! The order of jsonb values: sort keys whose bytes have PostgreSQL's order, and the rule that compares
//! and sorts by them. As texts, 9 would come after 10, and 1.0 would not equal 1.
//!
//! Source: the documentation of jsonb. From last to first: objects, arrays, booleans, numbers, strings,
//! null; of two arrays, or two objects, the one with more items or members comes later.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::form::{Form, wrong_json};
use super::value::{Json, read};
use crate::rules::unbounded;

/// The first byte of a key, by the type of the value.
const NULL: u8 = 1;
const TEXT: u8 = 2;
const NUMBER: u8 = 3;
const BOOL: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

/// The key of a whole value.
fn key_of(value: &Json) -> Vec<u8> {
    let mut key = Vec::new();
    match value {
        // As in PostgreSQL, for historical reasons.
        Json::Array(items) if items.is_empty() => key.push(0),
        other => add(other, &mut key),
    }
    key
}

/// Adds the key of a value. Its nesting is as deep as that of a parsed text.
fn add(value: &Json, key: &mut Vec<u8>) {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
    match value {
        Json::Null => key.push(NULL),
        Json::Text(text) => {
            key.push(TEXT);
            end_text(text, key);
        }
        Json::Number(digits) => {
            key.push(NUMBER);
            number(digits, key);
        }
        Json::Bool(own) => key.extend([BOOL, u8::from(*own)]),
        Json::Array(items) => {
            key.push(ARRAY);
            key.extend(count(items.len()));
            items.iter().for_each(|item| add(item, key));
        }
        Json::Object(members) => {
            key.push(OBJECT);
            key.extend(count(members.len()));
            for (name, value) in members {
                end_text(name, key);
                add(value, key);
            }
        }
    }
}

/// A text and its terminator, which sorts before any continuation.
fn end_text(text: &str, key: &mut Vec<u8>) {
    key.extend_from_slice(text.as_bytes());
    key.push(0);
}

/// A number of any length: its sign, the position of its first digit, its digits and their terminator.
fn number(digits: &str, key: &mut Vec<u8>) {
    let (is_negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    let zeros = part.len() - part.trim_start_matches('0').len();
    let (place, digits) = match whole.is_empty() {
        true => (-(zeros as i64), part[zeros..].to_owned()),
        false => (whole.len() as i64, format!("{whole}{part}")),
    };
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        key.push(1);
        return;
    }
    let begin = key.len();
    key.push(2);
    key.extend_from_slice(&(place as u64 ^ (1 << 63)).to_be_bytes());
    key.extend_from_slice(digits.as_bytes());
    key.push(0);
    if is_negative {
        key[begin..].iter_mut().for_each(|byte| *byte = !*byte);
        key[begin] = 0;
    }
}

/// Whether an expression is jsonb, according to its field.
fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| {
        let form = field.metadata().get(super::form::FORM);
        form.and_then(|form| Form::of(form)) == Some(Form::Jsonb)
    })
}

/// The key of an expression.
fn key(expr: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = ScalarUDF::new_from_impl(JsonKey { signature });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

/// Makes a comparison of jsonb values use their keys; returns any other expression.
///
/// # Errors
/// The expression, unchanged.
pub(super) fn compared(expr: Expr, schema: &DFSchema) -> std::result::Result<Expr, Box<Expr>> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let boxed = |expr: Box<Expr>| Box::new(key(*expr));
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom),
            right,
        }) if is_jsonb(&left, schema) || is_jsonb(&right, schema) => {
            Ok(Expr::BinaryExpr(BinaryExpr { left: boxed(left), op, right: boxed(right) }))
        }
        Expr::Between(own) if is_jsonb(&own.expr, schema) => Ok(Expr::Between(Between {
            expr: boxed(own.expr),
            negated: own.negated,
            low: boxed(own.low),
            high: boxed(own.high),
        })),
        Expr::InList(own) if is_jsonb(&own.expr, schema) => Ok(Expr::InList(InList {
            expr: boxed(own.expr),
            list: own.list.into_iter().map(key).collect(),
            negated: own.negated,
        })),
        other => Err(Box::new(other)),
    }
}

/// Makes a window, or an aggregate, take rows in the order of jsonb values; returns whether it has changed.
pub(super) fn in_order(expr: &mut Expr, schema: &DFSchema) -> bool {
    let order = match expr {
        Expr::WindowFunction(own) => &mut own.params.order_by,
        Expr::AggregateFunction(own) => &mut own.params.order_by,
        _ => return false,
    };
    let mut changed = false;
    for own in order.iter_mut().filter(|own| is_jsonb(&own.expr, schema)) {
        own.expr = key(std::mem::take(&mut own.expr));
        changed = true;
    }
    changed
}

/// Makes a sort use the keys of jsonb values.
pub(super) fn sorted(plan: LogicalPlan) -> LogicalPlan {
    let LogicalPlan::Sort(mut sort) = plan else { return plan };
    for own in &mut sort.expr {
        if is_jsonb(&own.expr, sort.input.schema()) {
            own.expr = key(std::mem::take(&mut own.expr));
        }
    }
    LogicalPlan::Sort(sort)
}

/// The keys of values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonKey {
    signature: Signature,
}

impl ScalarUDFImpl for JsonKey {
    fn name(&self) -> &'static str {
        "jsonb_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        unbounded(self, inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let texts = cast(&array, &DataType::Utf8)?;
        let mut keys = BinaryBuilder::new();
        for text in texts.as_string::<i32>() {
            let Some(text) = text else {
                keys.append_null();
                continue;
            };
            let value = read(text).map_err(|wrong| wrong_json(text, &wrong));
            let value = value.map_err(|error| DataFusionError::External(Box::new(error)))?;
            keys.append_value(key_of(&value));
        }
        let keys: ArrayRef = Arc::new(keys.finish());
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(_) if !keys.is_empty() => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&keys, 0)?)
            }
            _ => ColumnarValue::Array(keys),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<u8> {
        key_of(&read(text).expect("it is JSON"))
    }

    #[test]
    fn keys_are_in_the_order_of_values() {
        let order = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"a\\u0001\"",
            "\"aa\"",
            "\"b\"",
            "-1e30",
            "-10",
            "-9.5",
            "-9",
            "-0.01",
            "-0.001",
            "0",
            "1e-30",
            "0.001",
            "0.01",
            "0.1",
            "1",
            "1.05",
            "1.5",
            "2",
            "9",
            "10",
            "99.99",
            "100",
            "12345678901234567890",
            "false",
            "true",
            "[null]",
            "[1]",
            "[2]",
            "[1, 1]",
            "[1, 2]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"b\": 0}",
            "{\"a\": 1, \"b\": 1}",
        ];
        for pair in order.windows(2) {
            assert!(of(pair[0]) < of(pair[1]), "{} < {}", pair[0], pair[1]);
        }
        for (one, other) in [("1", "1.0"), ("-0", "0.00"), ("100", "1e2"), ("[1.50]", "[1.5]")] {
            assert_eq!(of(one), of(other), "{one} = {other}");
        }
    }
}
