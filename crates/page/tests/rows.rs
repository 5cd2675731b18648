//! Rows and keys: what is written is read, keys are in the order of their values, and any bytes are a row or an
//! error.

use std::cmp::Ordering;

use cellar_page::key;
use cellar_page::row::{BadRow, Type, Value, decode, encode};
use proptest::prelude::*;

/// A value that owns its bytes.
#[derive(Clone, Debug)]
enum Own {
    Null,
    Plain(Value<'static>),
    Text(String),
    Bytes(Vec<u8>),
}

impl Own {
    fn value(&self) -> Value<'_> {
        match self {
            Own::Null => Value::Null,
            Own::Plain(value) => *value,
            Own::Text(text) => Value::Text(text),
            Own::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

const TYPES: [Type; 13] = [
    Type::Bool,
    Type::Int2,
    Type::Int4,
    Type::Int8,
    Type::Float4,
    Type::Float8,
    Type::Decimal,
    Type::Date,
    Type::Time,
    Type::Timestamp,
    Type::Interval,
    Type::Text,
    Type::Bytes,
];

fn value_of(kind: Type) -> BoxedStrategy<Own> {
    let plain = |values: BoxedStrategy<Value<'static>>| values.prop_map(Own::Plain).boxed();
    let some = match kind {
        Type::Bool => plain(any::<bool>().prop_map(Value::Bool).boxed()),
        Type::Int2 => plain(any::<i16>().prop_map(Value::Int2).boxed()),
        Type::Int4 => plain(any::<i32>().prop_map(Value::Int4).boxed()),
        Type::Int8 => plain(any::<i64>().prop_map(Value::Int8).boxed()),
        Type::Float4 => plain(prop::num::f32::ANY.prop_map(Value::Float4).boxed()),
        Type::Float8 => plain(prop::num::f64::ANY.prop_map(Value::Float8).boxed()),
        Type::Decimal => plain(any::<i128>().prop_map(Value::Decimal).boxed()),
        Type::Date => plain(any::<i32>().prop_map(Value::Date).boxed()),
        Type::Time => plain(any::<i64>().prop_map(Value::Time).boxed()),
        Type::Timestamp => plain(any::<i64>().prop_map(Value::Timestamp).boxed()),
        Type::Interval => plain(
            (any::<i32>(), any::<i32>(), any::<i64>())
                .prop_map(|(months, days, micros)| Value::Interval { months, days, micros })
                .boxed(),
        ),
        Type::Text => "[\\x00ab]{0,6}".prop_map(Own::Text).boxed(),
        Type::Bytes => prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255)], 0..6)
            .prop_map(Own::Bytes)
            .boxed(),
    };
    prop_oneof![1 => Just(Own::Null), 4 => some].boxed()
}

fn row() -> impl Strategy<Value = (Vec<Type>, Vec<Own>)> {
    prop::collection::vec(prop::sample::select(&TYPES[..]), 0..20).prop_flat_map(|types| {
        let values: Vec<_> = types.iter().map(|kind| value_of(*kind)).collect();
        (Just(types), values)
    })
}

/// The order that PostgreSQL has for two values of one type, NULL last.
fn order(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    let float = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).expect("neither is NaN"),
        (a, b) => a.cmp(&b),
    };
    let span = |months: i32, days: i32, micros: i64| {
        (i128::from(months) * 30 + i128::from(days)) * 86_400_000_000 + i128::from(micros)
    };
    match (*a, *b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(&b),
        (Value::Int2(a), Value::Int2(b)) => a.cmp(&b),
        (Value::Int4(a), Value::Int4(b)) | (Value::Date(a), Value::Date(b)) => a.cmp(&b),
        (Value::Int8(a), Value::Int8(b))
        | (Value::Time(a), Value::Time(b))
        | (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(&b),
        (Value::Float4(a), Value::Float4(b)) => float(f64::from(a), f64::from(b)),
        (Value::Float8(a), Value::Float8(b)) => float(a, b),
        (Value::Decimal(a), Value::Decimal(b)) => a.cmp(&b),
        (
            Value::Interval { months: a, days: b, micros: c },
            Value::Interval { months: d, days: e, micros: f },
        ) => span(a, b, c).cmp(&span(d, e, f)),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (a, b) => panic!("{a:?} and {b:?} are of one type"),
    }
}

proptest! {
    #[test]
    fn a_row_is_read_as_it_was_written((types, own) in row()) {
        let values: Vec<Value<'_>> = own.iter().map(Own::value).collect();
        let bytes = encode(&values);
        prop_assert!(bytes.len() >= 6);
        let read = decode(&bytes, &types).unwrap();
        // NaN is not equal to itself: written again it is.
        prop_assert_eq!(encode(&read), bytes.clone());
        // A column that was added later is not in it.
        let mut more = types.clone();
        more.push(Type::Int8);
        prop_assert_eq!(decode(&bytes, &more).unwrap().len(), types.len());
        // A row that is cut off is an error, not a panic, where a value is missing.
        for end in 0..bytes.len() {
            let _ = decode(&bytes[..end], &types);
        }
    }

    #[test]
    fn any_bytes_are_a_row_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        types in prop::collection::vec(prop::sample::select(&TYPES[..]), 0..20),
    ) {
        let _: Result<_, BadRow> = decode(&bytes, &types);
    }

    #[test]
    fn keys_are_in_the_order_of_values(
        (kind, a, b) in prop::sample::select(&TYPES[..])
            .prop_flat_map(|kind| (Just(kind), value_of(kind), value_of(kind))),
        descending in any::<bool>(),
        tail in any::<(i32, i32)>(),
    ) {
        let key = |own: &Own, tail: i32| {
            let mut key = Vec::new();
            key::push(&mut key, &own.value(), descending);
            key::push(&mut key, &Value::Int4(tail), false);
            key
        };
        let made = key(&a, tail.0);
        let mut last = Vec::new();
        key::push(&mut last, &Value::Int4(tail.0), false);
        let is_null = a.value() == Value::Null;
        prop_assert_eq!(key::skip(&made, kind, descending), Some((is_null, &last[..])));
        prop_assert_eq!(key::skip(&made[..made.len() - last.len() - 1], kind, descending), None);
        let first = order(&a.value(), &b.value());
        let first = if descending { first.reverse() } else { first };
        let wanted = first.then(tail.0.cmp(&tail.1));
        let (a, b) = (key(&a, tail.0), key(&b, tail.1));
        prop_assert_eq!(a.cmp(&b), wanted, "{:?}", kind);
        prop_assert!(wanted == Ordering::Equal || !a.starts_with(&b) && !b.starts_with(&a));
        prop_assert!(a[0] != 0xFF);
    }
}
