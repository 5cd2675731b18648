//! Refusals, and how they are told.

use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::types::IntervalMonthDayNano;
use arrow_array::{
    ArrayRef, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray, StringViewArray,
};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use bytes::Bytes;
use cellar_format::rows::{
    KeyWriter, LongValue, ROW_BYTES_MAX, RowColumns, RowError, RowLayout, RowWriter,
};
use cellar_page::row::{Value, encode};

use crate::table::layout_of;

fn texts(texts: Vec<Option<String>>) -> ArrayRef {
    Arc::new(StringArray::from(texts))
}

#[test]
fn a_type_without_rows_is_told_by_column_and_type() {
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("seen", nanos.clone(), true),
    ]);
    let error = RowLayout::of(&schema).expect_err("rows have microseconds");
    assert_eq!(error, RowError::Type { column: "seen".to_owned(), data_type: nanos });
    assert!(error.to_string().contains("column seen has type Timestamp(ns)"), "{error}");
    assert_eq!(error.number(), 902);
}

#[test]
fn arrays_of_another_type_number_or_length_are_refused() {
    let layout = layout_of([DataType::Int32, DataType::Utf8]);
    let (int, long): (ArrayRef, ArrayRef) =
        (Arc::new(Int32Array::from(vec![1, 2])), Arc::new(Int64Array::from(vec![1, 2])));
    let (text, one) = (texts(vec![None, None]), texts(vec![None]));
    let error =
        |arrays: &[ArrayRef]| RowWriter::new(&layout, arrays).map(|_| ()).expect_err("refused");
    assert_eq!(error(from_ref(&int)).number(), 947);
    assert_eq!(error(&[int.clone(), one]).number(), 947);
    assert_eq!(error(&[long.clone(), text.clone()]).number(), 932);
    assert!(RowWriter::new(&layout, &[int.clone(), text]).is_ok());
    let views: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
    assert!(RowWriter::new(&layout, &[int.clone(), views]).is_ok());

    let keys = KeyWriter::new(&layout, &[(0, false)]).expect("it is there");
    let mut key = Vec::new();
    assert_eq!(keys.key_of(&[long.slice(0, 1)], &mut key).map_err(|e| e.number()), Err(932));
    assert_eq!(keys.key_of(from_ref(&int), &mut key).map_err(|e| e.number()), Err(947));
    let one = int.slice(0, 1);
    assert_eq!(
        keys.key_of(&[one.clone(), one.clone()], &mut key).map_err(|e| e.number()),
        Err(947)
    );
    assert!(key.is_empty());
    let bound = std::ops::Bound::Included(&one);
    let range = keys.range(from_ref(&one), bound, bound);
    assert_eq!(range.map_err(|e| e.number()), Err(947), "no column is left for a bound");

    assert_eq!(RowColumns::new(&layout, &[2]).map(|_| ()).map_err(|e| e.number()), Err(904));
    assert_eq!(KeyWriter::new(&layout, &[(2, true)]).map(|_| ()).map_err(|e| e.number()), Err(904));
    assert!(layout.clone().with_default(0, int).is_err(), "two values");
    assert!(layout.with_default(0, long.slice(0, 1)).is_err(), "another type");
}

#[test]
fn null_is_refused_where_the_schema_has_none() {
    let layout = RowLayout::of(&Schema::new(vec![Field::new("name", DataType::Utf8, false)]));
    let layout = layout.expect("rows have texts");
    let null = RowError::Null { column: "name".to_owned() };
    let arrays = [texts(vec![None])];
    assert_eq!(RowWriter::new(&layout, &arrays).map(|_| ()), Err(null.clone()));
    let mut columns = RowColumns::new(&layout, &[0]).expect("it is there");
    columns.push(&encode(&[Value::Null]), &[]).expect("a row");
    assert_eq!(columns.finish_batch(), Err(null));
}

#[test]
fn intervals_have_whole_microseconds() {
    let kind = DataType::Interval(IntervalUnit::MonthDayNano);
    let layout = layout_of([DataType::Int32, kind]);
    let spans = [1_000, -1_500].map(|nanos| IntervalMonthDayNano::new(1, -2, nanos));
    let arrays: [ArrayRef; 2] = [
        Arc::new(Int32Array::from(vec![7, 8])),
        Arc::new(IntervalMonthDayNanoArray::from(spans.to_vec())),
    ];
    let writer = RowWriter::new(&layout, &arrays).expect("arrays of the layout");
    let mut out = Vec::new();
    writer.write(0, &[], &mut out).expect("a microsecond");
    let written = out.clone();
    let error = RowError::Nanoseconds { column: "c1".to_owned(), nanos: -1_500 };
    assert_eq!(writer.write(1, &[], &mut out), Err(error));
    assert_eq!(out, written, "nothing is added");

    // Of a row that was never written so: Arrow has no such interval.
    let row = encode(&[Value::Null, Value::Interval { months: 0, days: 0, micros: i64::MAX }]);
    let mut columns = RowColumns::new(&layout, &[1]).expect("it is there");
    assert_eq!(columns.push(&row, &[]).map_err(|error| error.number()), Err(70213));
}

#[test]
fn text_that_is_none_is_told_by_its_row() {
    for kind in [DataType::Utf8, DataType::Utf8View] {
        let layout = layout_of([DataType::Int32, kind]);
        let mut columns = RowColumns::new(&layout, &[1]).expect("it is there");
        let row = |bytes| encode(&[Value::Int4(1), Value::Bytes(bytes)]);
        // Good as one, and not each by itself.
        for bytes in [&b"well"[..], b"a longer text, which is well", b"\xC3", b"\xA4"] {
            columns.push(&row(bytes), &[]).expect("a row");
        }
        let error = RowError::NotText { column: "c1".to_owned(), row: 2 };
        assert_eq!(columns.finish(), Err(error));
        // The next rows are others.
        columns.push(&row("ä".as_bytes()), &[]).expect("a row");
        assert_eq!(columns.finish_batch().map(|batch| batch.num_rows()), Ok(1));
    }
    let layout = layout_of([DataType::Utf8]);
    let keys = KeyWriter::new(&layout, &[(0, false)]).expect("it is there");
    assert!(keys.key(&encode(&[Value::Bytes(b"\xC3")]), &mut Vec::new()).is_err());
}

#[test]
fn long_values_are_to_be_given_as_the_row_says() {
    let layout = layout_of([DataType::Utf8, DataType::Utf8]);
    let arrays = [texts(vec![Some("short".to_owned())]), texts(vec![Some("x".repeat(2_049))])];
    let writer = RowWriter::new(&layout, &arrays).expect("arrays of the layout");
    let mut row = Vec::new();
    assert_eq!(writer.write(0, &[], &mut row), Err(RowError::LongMissing { column: 1 }));
    assert!(row.is_empty());
    // A short one may be put apart as well.
    let long = [
        LongValue { column: 0, page: 3, length: 5 },
        LongValue { column: 1, page: 4, length: 2_049 },
    ];
    writer.write(0, &long, &mut row).expect("all are given");
    let mut columns = RowColumns::new(&layout, &[1, 0]).expect("they are there");
    assert_eq!(columns.long_values(&row).as_deref(), Ok(&long[..]));
    let (one, two) = ((0, Bytes::from("short")), (1, Bytes::from("x".repeat(2_048))));
    let error = RowError::LongLength { column: 1, expected: 2_049, found: 2_048 };
    assert_eq!(columns.push(&row, &[one, two]), Err(error));
    assert_eq!(columns.rows(), 0);
}

#[test]
fn a_row_that_no_page_takes_has_its_longest_texts_apart() {
    let layout = layout_of(vec![DataType::Utf8; 6]);
    let arrays: Vec<ArrayRef> =
        (0..6).map(|column| texts(vec![Some("x".repeat(1_900 + column)), None])).collect();
    let writer = RowWriter::new(&layout, &arrays).expect("arrays of the layout");
    let long = writer.long_values(0);
    assert_eq!(long.iter().map(|(column, _)| *column).collect::<Vec<_>>(), [4, 5]);
    let long: Vec<LongValue> = long
        .into_iter()
        .map(|(column, bytes)| LongValue { column, page: 1, length: bytes.len() as u32 })
        .collect();
    let mut row = Vec::new();
    writer.write(0, &long, &mut row).expect("all are given");
    assert!(row.len() <= ROW_BYTES_MAX && row.len() > ROW_BYTES_MAX - 2_000, "{}", row.len());
    assert!(writer.long_values(1).is_empty());
}
