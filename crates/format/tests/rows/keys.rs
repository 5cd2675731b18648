//! Keys are in the order of the values, and ranges hold the keys that a comparison would.

use std::cmp::Ordering;
use std::ops::{Bound, RangeInclusive};
use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, StringArray};
use arrow_schema::DataType;
use cellar_format::rows::{KeyWriter, RowError, RowLayout};
use proptest::prelude::*;

use crate::table::{LongStore, Table, array_of, cases, key_types, layout_of, null, table_of};

fn bytes(array: &ArrayRef, row: usize) -> &[u8] {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
        DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
        DataType::Binary => array.as_binary::<i32>().value(row),
        _ => array.as_binary_view().value(row),
    }
}

/// The order of two values as PostgreSQL has it: NULL is the largest, then NaN; -0 is 0.
fn order(array: &ArrayRef, a: usize, b: usize) -> Ordering {
    fn plain<T: ArrowPrimitiveType>(array: &ArrayRef, a: usize, b: usize) -> Ordering
    where
        T::Native: Ord,
    {
        let array = array.as_primitive::<T>();
        array.value(a).cmp(&array.value(b))
    }
    let float = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
    match (array.is_null(a), array.is_null(b)) {
        (false, false) => {}
        (a, b) => return a.cmp(&b),
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(a).cmp(&array.as_boolean().value(b)),
        DataType::Int16 => plain::<Int16Type>(array, a, b),
        DataType::Int32 => plain::<Int32Type>(array, a, b),
        DataType::Int64 => plain::<Int64Type>(array, a, b),
        DataType::Decimal128(_, _) => plain::<Decimal128Type>(array, a, b),
        DataType::Date32 => plain::<Date32Type>(array, a, b),
        DataType::Time64(_) => plain::<Time64MicrosecondType>(array, a, b),
        DataType::Timestamp(_, _) => plain::<TimestampMicrosecondType>(array, a, b),
        DataType::Float32 => {
            let array = array.as_primitive::<Float32Type>();
            float(array.value(a).into(), array.value(b).into())
        }
        DataType::Float64 => {
            let array = array.as_primitive::<Float64Type>();
            float(array.value(a), array.value(b))
        }
        DataType::Interval(_) => {
            let array = array.as_primitive::<IntervalMonthDayNanoType>();
            let nanos = |row| {
                let own = array.value(row);
                let days = i128::from(own.months) * 30 + i128::from(own.days);
                days * 86_400_000_000_000 + i128::from(own.nanoseconds)
            };
            nanos(a).cmp(&nanos(b))
        }
        _ => bytes(array, a).cmp(bytes(array, b)),
    }
}

/// The order of two rows in an index.
fn row_order(table: &Table, index: &[(usize, bool)], a: usize, b: usize) -> Ordering {
    let each = index.iter().map(|(column, descending)| {
        let order = order(&table.arrays[*column], a, b);
        if *descending { order.reverse() } else { order }
    });
    each.fold(Ordering::Equal, Ordering::then)
}

/// Whether a store finds a key in a range.
fn holds(range: &RangeInclusive<Vec<u8>>, key: &[u8]) -> bool {
    let (start, end) = (&range.start()[..], &range.end()[..]);
    key >= start && (key <= end || key.starts_with(end))
}

/// A table without long values, columns of an index of it, and some rows.
fn indexed() -> impl Strategy<Value = (Table, Vec<(usize, bool)>, Vec<usize>)> {
    let columns = prop::collection::vec((any::<usize>(), any::<bool>()), 1..4);
    let rows = prop::collection::vec(any::<usize>(), 3);
    (table_of(key_types(), 1..6, 14, false), columns, rows).prop_map(|(table, columns, rows)| {
        let count = table.arrays.len();
        let columns = columns.into_iter().map(|(column, descending)| (column % count, descending));
        let rows = rows.into_iter().map(|row| row % table.rows.max(1)).collect();
        (table.clone(), columns.collect(), rows)
    })
}

fn keys_of(writer: &KeyWriter, rows: &[Vec<u8>]) -> Vec<(Vec<u8>, bool)> {
    let keys = rows.iter().map(|row| {
        let mut key = b"before".to_vec();
        let has_null = writer.key(row, &mut key).expect("as it was written");
        (key.split_off(6), has_null)
    });
    keys.collect()
}

/// Whether a value is within bounds: row `row` of a column, whose rows `low` and `high` are the bounds.
fn is_between(array: &ArrayRef, row: usize, low: Bound<usize>, high: Bound<usize>) -> bool {
    let is_above = match low {
        Bound::Included(low) => order(array, row, low).is_ge(),
        Bound::Excluded(low) => order(array, row, low).is_gt(),
        Bound::Unbounded => true,
    };
    is_above
        && match high {
            Bound::Included(high) => order(array, row, high).is_le(),
            Bound::Excluded(high) => order(array, row, high).is_lt(),
            // With a bound NULL is outside, unless that bound is NULL itself.
            Bound::Unbounded => low == Bound::Unbounded || !array.is_null(row),
        }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn keys_are_in_the_order_of_the_values((table, index, _) in indexed()) {
        let rows = table.write(&mut LongStore::default());
        let writer = KeyWriter::new(&table.layout, &index).expect("they are there");
        let keys = keys_of(&writer, &rows);
        for (a, (key, has_null)) in keys.iter().enumerate() {
            let is_null = |(column, _): &(usize, bool)| table.arrays[*column].is_null(a);
            prop_assert_eq!(*has_null, index.iter().any(is_null));
            for (b, (other, _)) in keys.iter().enumerate() {
                prop_assert_eq!(key.cmp(other), row_order(&table, &index, a, b));
                prop_assert!(a == b || key == other || !key.starts_with(other));
            }
            // The key of the values is that of the row, and of the first of them what it begins with.
            let values: Vec<ArrayRef> =
                index.iter().map(|(column, _)| table.arrays[*column].slice(a, 1)).collect();
            for count in 0..=values.len() {
                let mut prefix = Vec::new();
                writer.key_of(&values[..count], &mut prefix).expect("values of its columns");
                prop_assert!(key.starts_with(&prefix) && (count < values.len() || *key == prefix));
            }
        }
    }

    #[test]
    fn ranges_hold_what_lies_between(
        (table, index, picked) in indexed(),
        equal in 0..4usize,
        kinds in prop::array::uniform2(0..3usize),
    ) {
        let rows = table.write(&mut LongStore::default());
        let writer = KeyWriter::new(&table.layout, &index).expect("they are there");
        let keys = keys_of(&writer, &rows);
        let equal = equal % index.len();
        let (before, column) = (&index[..equal], &table.arrays[index[equal].0]);
        if table.rows == 0 {
            return Ok(());
        }
        let value = |column: usize, row: usize| table.arrays[column].slice(row, 1);
        let prefix: Vec<ArrayRef> = before.iter().map(|(column, _)| value(*column, picked[0])).collect();
        let bound = |at: usize| match kinds[at] {
            0 => Bound::Unbounded,
            1 => Bound::Included(picked[at + 1]),
            _ => Bound::Excluded(picked[at + 1]),
        };
        let (low, high) = (bound(0), bound(1));
        let of = |row: usize| column.slice(row, 1);
        let (low_value, high_value) = (low.map(of), high.map(of));
        let range = writer.range(&prefix, low_value.as_ref(), high_value.as_ref());
        let range = range.expect("values of its columns");
        for (row, (key, _)) in keys.iter().enumerate() {
            // A lower bound that is NULL asks for NULL.
            let is_null_sought = matches!((low, high), (Bound::Included(low), Bound::Unbounded) if column.is_null(low));
            let wanted = row_order(&table, before, row, picked[0]).is_eq()
                && is_between(column, row, low, high);
            if !is_null_sought {
                prop_assert_eq!(holds(&range, key), wanted, "row {} of {:?}", row, range);
            }
        }
    }

    #[test]
    fn null_is_asked_for_by_its_value(
        (column, descending) in prop::sample::select(key_types())
            .prop_flat_map(|own| (array_of(own, 9, 40, false), any::<bool>())),
    ) {
        let layout = layout_of([column.data_type().clone()]);
        let table = Table { layout, rows: column.len(), arrays: vec![column.clone()] };
        let rows = table.write(&mut LongStore::default());
        let writer = KeyWriter::new(&table.layout, &[(0, descending)]).expect("it is there");
        let none = null(column.data_type());
        let is_null = writer.range(from_ref(&none), Bound::Unbounded, Bound::Unbounded);
        let is_null = is_null.expect("a value of its column");
        let is_there = writer.range(&[], Bound::Unbounded, Bound::Excluded(&none));
        let is_there = is_there.expect("a value of its column");
        for (row, (key, _)) in keys_of(&writer, &rows).iter().enumerate() {
            prop_assert_eq!(holds(&is_null, key), column.is_null(row));
            prop_assert_eq!(holds(&is_there, key), !column.is_null(row));
        }
    }
}

/// Texts whose key a row cannot have: too long for the row, or as what an added column is.
#[test]
fn a_value_in_pages_of_its_own_has_no_key() {
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(3_000)]));
    let layout: RowLayout = layout_of([DataType::Utf8, DataType::Utf8]);
    let layout = layout.with_default(1, long.clone()).expect("a text");
    let one = layout_of([DataType::Utf8]);
    let table = Table { layout: one, rows: 1, arrays: vec![long.clone()] };
    let rows = table.write(&mut LongStore::default());
    for column in [0, 1] {
        let writer = KeyWriter::new(&layout, &[(column, false)]).expect("it is there");
        let mut key = vec![9];
        let expected = RowError::NoKey { column: format!("c{column}") };
        assert_eq!(writer.key(&rows[0], &mut key), Err(expected));
        assert_eq!(key, [9], "nothing is added");
        // As a bound it lies where it would.
        writer.key_of(from_ref(&long), &mut key).expect("a text");
    }
}
