//! Tables of any types, and the store of their long values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, ListArray,
    PrimitiveArray, StringArray, StringViewArray, new_null_array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use bytes::Bytes;
use cellar_format::rows::{LongValue, RowLayout, RowWriter};
use proptest::prelude::*;
use proptest::test_runner::Config;

/// So many cases, times `CASES` of the environment.
pub fn cases(count: u32) -> Config {
    let times = std::env::var("CASES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    Config { cases: count * times, failure_persistence: None, ..Config::default() }
}

/// Every type that rows have.
pub fn types() -> Vec<DataType> {
    vec![
        DataType::Boolean,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 4),
        DataType::Decimal128(9, -2),
        DataType::Date32,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Zurich".into())),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Utf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::BinaryView,
        list_of(DataType::Int32),
        list_of(DataType::Utf8View),
        list_of(DataType::Decimal128(9, 2)),
    ]
}

/// Lists of such items.
fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// Every type of which there are keys.
pub fn key_types() -> Vec<DataType> {
    types().into_iter().filter(|own| !own.is_nested()).collect()
}

/// Numbers near to each other and to zero, and any.
fn number() -> impl Strategy<Value = i64> + Clone {
    prop_oneof![2 => -3..4i64, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}

fn float() -> impl Strategy<Value = f64> + Clone {
    let some = vec![0.0, -0.0, 1.5, -1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    prop_oneof![2 => prop::sample::select(some), 1 => prop::num::f64::ANY]
}

/// Microseconds that fit an interval of Arrow.
fn micros() -> impl Strategy<Value = i64> + Clone {
    prop_oneof![-2..3i64, i64::MIN / 1000..i64::MAX / 1000]
}

fn text(may_be_long: bool) -> BoxedStrategy<String> {
    let short = "[\\x00abäß🦀]{0,9}";
    if !may_be_long {
        return short.boxed();
    }
    let sized = |bytes: std::ops::Range<usize>| {
        bytes.prop_map(|bytes| "ä".repeat(bytes / 2) + &"x".repeat(bytes % 2))
    };
    prop_oneof![12 => short, 3 => sized(9..40), 1 => sized(2046..2051), 1 => sized(2051..9000)]
        .boxed()
}

fn array<T: 'static + std::fmt::Debug>(
    rows: usize,
    nulls: u32,
    value: impl Strategy<Value = T> + 'static,
    build: impl Fn(Vec<Option<T>>) -> ArrayRef + 'static,
) -> BoxedStrategy<ArrayRef> {
    let value =
        (0..100u32, value).prop_map(move |(chance, value)| (chance >= nulls).then_some(value));
    prop::collection::vec(value, rows).prop_map(build).boxed()
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
) -> impl Fn(Vec<Option<T::Native>>) -> ArrayRef + 'static {
    let data_type = data_type.clone();
    move |values| {
        let values = values.into_iter().collect::<PrimitiveArray<T>>();
        Arc::new(values.with_data_type(data_type.clone()))
    }
}

/// Values of a type, of 100 of which `nulls` are NULL.
pub fn array_of(
    data_type: DataType,
    rows: usize,
    nulls: u32,
    may_be_long: bool,
) -> BoxedStrategy<ArrayRef> {
    let of = &data_type;
    match of {
        DataType::Boolean => {
            array(rows, nulls, any::<bool>(), |values| Arc::new(BooleanArray::from(values)))
        }
        DataType::Int16 => {
            array(rows, nulls, number().prop_map(|own| own as i16), primitive::<Int16Type>(of))
        }
        DataType::Int32 => {
            array(rows, nulls, number().prop_map(|own| own as i32), primitive::<Int32Type>(of))
        }
        DataType::Int64 => array(rows, nulls, number(), primitive::<Int64Type>(of)),
        DataType::Float32 => {
            array(rows, nulls, float().prop_map(|own| own as f32), primitive::<Float32Type>(of))
        }
        DataType::Float64 => array(rows, nulls, float(), primitive::<Float64Type>(of)),
        DataType::Decimal128(_, _) => {
            let wide = (number(), number()).prop_map(|(a, b)| i128::from(a) * i128::from(b));
            array(rows, nulls, wide, primitive::<Decimal128Type>(of))
        }
        DataType::Date32 => {
            array(rows, nulls, number().prop_map(|own| own as i32), primitive::<Date32Type>(of))
        }
        DataType::Time64(_) => array(rows, nulls, number(), primitive::<Time64MicrosecondType>(of)),
        DataType::Timestamp(_, _) => {
            array(rows, nulls, number(), primitive::<TimestampMicrosecondType>(of))
        }
        DataType::Interval(_) => {
            let span = (number(), number(), micros()).prop_map(|(months, days, micros)| {
                IntervalMonthDayNano::new(months as i32, days as i32, micros * 1000)
            });
            array(rows, nulls, span, primitive::<IntervalMonthDayNanoType>(of))
        }
        DataType::Utf8 => {
            array(rows, nulls, text(may_be_long), |own| Arc::new(StringArray::from(own)))
        }
        DataType::Utf8View => {
            array(rows, nulls, text(may_be_long), |own| Arc::new(StringViewArray::from_iter(own)))
        }
        DataType::Binary => {
            array(rows, nulls, text(may_be_long), |own| Arc::new(BinaryArray::from_iter(own)))
        }
        DataType::List(item) => {
            let items = array_of(item.data_type().clone(), rows * 3, nulls, false);
            let lists = prop::collection::vec((0..4usize, 0..100u32), rows);
            let item = Arc::clone(item);
            let build = move |(items, lists): (ArrayRef, Vec<(usize, u32)>)| -> ArrayRef {
                let offsets = OffsetBuffer::from_lengths(lists.iter().map(|(length, _)| *length));
                let there: Vec<bool> = lists.iter().map(|(_, chance)| *chance >= nulls).collect();
                let (item, there) = (Arc::clone(&item), Some(there.into()));
                Arc::new(ListArray::try_new(item, offsets, items, there).expect("lists of items"))
            };
            (items, lists).prop_map(build).boxed()
        }
        _ => array(rows, nulls, text(may_be_long), |own| Arc::new(BinaryViewArray::from_iter(own))),
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    pub layout: RowLayout,
    pub arrays: Vec<ArrayRef>,
    pub rows: usize,
}

/// Columns of such types, each of which may have NULL.
pub fn layout_of(types: impl IntoIterator<Item = DataType>) -> RowLayout {
    let fields = types.into_iter().enumerate();
    let fields = fields.map(|(at, own)| Field::new(format!("c{at}"), own, true));
    RowLayout::of(&Schema::new(fields.collect::<Vec<_>>())).expect("rows have all of them")
}

/// Any table, of arrays that are slices of longer ones.
pub fn table(
    columns: std::ops::Range<usize>,
    rows: usize,
    may_be_long: bool,
) -> impl Strategy<Value = Table> {
    table_of(types(), columns, rows, may_be_long)
}

/// The same, of columns of these types.
pub fn table_of(
    types: Vec<DataType>,
    columns: std::ops::Range<usize>,
    rows: usize,
    may_be_long: bool,
) -> impl Strategy<Value = Table> {
    let all = prop::collection::vec(prop::sample::select(types), columns);
    let nulls = prop::sample::select(vec![0, 5, 50]);
    (all, 0..=rows, 0..3usize, nulls).prop_flat_map(move |(types, rows, slack, nulls)| {
        let arrays =
            types.iter().map(|own| array_of(own.clone(), rows + 2 * slack, nulls, may_be_long));
        let layout = layout_of(types.iter().cloned());
        arrays.collect::<Vec<_>>().prop_map(move |arrays| {
            let arrays = arrays.iter().map(|array| array.slice(slack, rows)).collect();
            Table { layout: layout.clone(), arrays, rows }
        })
    })
}

/// Long values, by their page.
#[derive(Debug, Default)]
pub struct LongStore(HashMap<u32, Bytes>);

impl LongStore {
    pub fn put(&mut self, column: usize, bytes: &[u8]) -> LongValue {
        let page = self.0.len() as u32 + 7;
        self.0.insert(page, Bytes::copy_from_slice(bytes));
        LongValue { column, page, length: bytes.len() as u32 }
    }

    pub fn get(&self, long: &[LongValue]) -> Vec<(usize, Bytes)> {
        long.iter().map(|long| (long.column, self.0[&long.page].clone())).collect()
    }
}

impl Table {
    /// The bytes of all rows.
    pub fn write(&self, store: &mut LongStore) -> Vec<Vec<u8>> {
        if self.arrays.is_empty() {
            return Vec::new();
        }
        let arrays = self.layout.packed(&self.arrays).expect("arrays of the layout");
        let writer = RowWriter::new(&self.layout, &arrays).expect("arrays of the layout");
        assert_eq!(writer.rows(), self.rows);
        let rows = (0..self.rows).map(|at| {
            let long = writer.long_values(at).into_iter();
            let long: Vec<LongValue> =
                long.map(|(column, bytes)| store.put(column, bytes)).collect();
            // Behind what is there.
            let mut out = b"before".to_vec();
            writer.write(at, &long, &mut out).expect("its long values are stored");
            out.split_off(6)
        });
        rows.collect()
    }
}

/// The same values as another type of texts or bytes.
pub fn as_type(array: &ArrayRef, data_type: &DataType) -> ArrayRef {
    let texts = |array: &ArrayRef| -> Vec<Option<String>> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().iter().map(owned).collect(),
            _ => array.as_string_view().iter().map(owned).collect(),
        }
    };
    let bytes = |array: &ArrayRef| -> Vec<Option<Vec<u8>>> {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        match array.data_type() {
            DataType::Binary => array.as_binary::<i32>().iter().map(owned).collect(),
            _ => array.as_binary_view().iter().map(owned).collect(),
        }
    };
    match data_type {
        DataType::Utf8 => Arc::new(StringArray::from_iter(texts(array))),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter(texts(array))),
        DataType::Binary => Arc::new(BinaryArray::from_iter(bytes(array))),
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(bytes(array))),
        _ => array.clone(),
    }
}

/// A text type's other one.
pub fn other_view(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Utf8View => DataType::Utf8,
        DataType::Binary => DataType::BinaryView,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    }
}

/// NULL as a value of a type.
pub fn null(data_type: &DataType) -> ArrayRef {
    new_null_array(data_type, 1)
}
