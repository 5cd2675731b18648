//! Round trips: encoded columns are decoded again, bit for bit.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, Float64Array, StringArray};
use arrow_schema::DataType;
use cellar_format::group::{encode, rows_to_try};
use cellar_format::header::{Encoding, Order, ROWS_MAX};
use cellar_format::{Refused, Rows, Value, array_of};
use proptest::prelude::*;

use crate::table::{Group, OWNER, Rng, cases, spec, values_of};

fn check(group: &Group, rows: &Rows) {
    let columns = group.columns();
    for (at, column) in columns.iter().enumerate() {
        let column = column.as_ref().expect("all are read");
        let array = array_of(column, rows, &group.types[at]).expect("as it was written");
        array.to_data().validate_full().expect("a sound array");
        assert_eq!(array.data_type(), &group.types[at]);
        let expected: Vec<_> = match rows {
            Rows::All(_) => group.values[at][..group.rows()].to_vec(),
            Rows::Blocks(from, to, _) => {
                group.values[at][from * 1024..(to * 1024).min(group.rows())].to_vec()
            }
            Rows::Some(rows) => {
                rows.iter().map(|r| group.values[at][*r as usize].clone()).collect()
            }
        };
        let found = values_of(&array);
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "column {at} of {}", group.types[at]);
        assert_eq!(found.len(), expected.len());
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn what_is_encoded_is_given_out(spec in spec(), one_in in prop_oneof![Just(1usize), Just(2), Just(200)]) {
        let group = Group::random(&spec);
        check(&group, &Rows::All(group.rows()));
        let mut rng = Rng(spec.seed);
        let some = (0..group.rows() as u32).filter(|_| rng.one_in(one_in)).collect();
        let (some, all) = (Rows::Some(some), Rows::All(group.rows()));
        check(&group, &some);
        check(&group, &Rows::none());
        // In parts.
        for rows in [some, all] {
            let blocks = 1 + rng.below(3);
            let mut before = 0;
            while before < rows.count() {
                let part = rows.part(before, blocks);
                prop_assert_eq!(part.count(), (rows.count() - before).min(blocks * 1024));
                check(&group, &part);
                before += part.count();
            }
            prop_assert_eq!(rows.part(before, blocks).count(), 0);
        }
    }
}

#[test]
fn all_encodings_come_about() {
    let mut seen = Vec::new();
    for seed in 0..60 {
        let all = (0..crate::table::types().len()).collect();
        let group = Group::random(&crate::table::Spec { types: all, rows: 700, seed });
        for entry in &group.header.entries {
            if !seen.contains(&entry.encoding) {
                seen.push(entry.encoding);
            }
        }
    }
    use Encoding::*;
    for encoding in [Nulls, Ints, Int128, Dict, Text, PatchedDelta] {
        assert!(seen.contains(&encoding), "{encoding:?} never came about");
    }
}

/// The order of values, by a plain look at each pair.
fn plain_order(values: &[Option<Value>]) -> Order {
    let pairs = || values.windows(2).map(|pair| (&pair[0], &pair[1]));
    match values.iter().all(Option::is_some) {
        true if pairs().all(|(a, b)| a < b) => Order::Strict,
        true if pairs().all(|(a, b)| a <= b) => Order::Ascending,
        _ => Order::Any,
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_order_of_a_column_is_told(spec in spec(), rows in 1usize..6) {
        let spec = crate::table::Spec { rows, ..spec };
        let group = Group::random(&spec);
        for (entry, values) in group.header.entries.iter().zip(&group.values) {
            prop_assert_eq!(entry.order, plain_order(values), "{:?}", values);
        }
    }
}

#[test]
fn the_most_rows_of_many_columns_go_around() {
    let spec = crate::table::Spec { types: vec![0, 3, 13], rows: ROWS_MAX, seed: 5 };
    let group = Group::random(&spec);
    check(&group, &Rows::All(group.rows()));
    let spec = crate::table::Spec { types: vec![1; 1600], rows: 40, seed: 5 };
    let group = Group::random(&spec);
    check(&group, &Rows::All(group.rows()));
}

/// Bytes that no packing makes smaller.
fn noise(rows: usize, length: usize) -> ArrayRef {
    let mut rng = Rng(1);
    let row = |_| (0..length).map(|_| rng.next() as u8).collect::<Vec<u8>>();
    Arc::new(BinaryArray::from_iter_values((0..rows).map(row)))
}

#[test]
fn long_strings_find_a_number_of_rows_that_fits() {
    let all = noise(1024, 70_000);
    let (mut rows, mut tries) = (1024, 0);
    let encoded = loop {
        tries += 1;
        assert!(tries < 8, "still {rows} rows");
        match encode(&[all.slice(0, rows)], OWNER) {
            Ok(encoded) => break encoded,
            Err(Refused::TooLarge { bytes, .. }) => rows = rows_to_try(rows, bytes, 1),
            Err(other) => panic!("{other:?}"),
        }
    };
    assert!((10..16).contains(&encoded.header().rows), "{} rows", encoded.header().rows);
}

#[test]
fn a_table_of_many_columns_has_more_than_a_row_in_a_region() {
    for (columns, least) in [(150, 700), (1600, 16)] {
        let mut rng = Rng(1);
        let column = |_| -> ArrayRef {
            let floats = (0..1024).map(|_| f64::from_bits(rng.next()));
            Arc::new(Float64Array::from_iter_values(floats))
        };
        let all: Vec<ArrayRef> = (0..columns).map(column).collect();
        let (mut rows, mut tries) = (1024, 0);
        let group = loop {
            let some: Vec<ArrayRef> = all.iter().map(|array| array.slice(0, rows)).collect();
            match encode(&some, OWNER) {
                Ok(_) => break Group::of(&some),
                Err(Refused::TooLarge { bytes, .. }) => rows = rows_to_try(rows, bytes, columns),
                Err(other) => panic!("{other:?}"),
            }
            tries += 1;
            assert!(tries < 8, "still {rows} rows");
        };
        assert!(group.rows() >= least, "{} rows of {columns} columns", group.rows());
        check(&group, &Rows::All(group.rows()));
    }
}

#[test]
fn strings_that_shrink_beyond_measure_are_refused_and_not_a_panic() {
    let long = "k".repeat(1 << 20);
    let rows = (0..300).map(|row| format!("{row}{long}"));
    let array: ArrayRef = Arc::new(StringArray::from_iter_values(rows));
    let (mut rows, mut tries) = (300, 0);
    while let Err(refused) = encode(&[array.slice(0, rows)], OWNER) {
        let Refused::TooLarge { bytes, .. } = refused else { panic!("{refused:?}") };
        rows = rows_to_try(rows, bytes, 1);
        tries += 1;
        assert!(tries < 8, "still {rows} rows");
    }
}

#[test]
fn a_long_string_that_is_wanted_often_is_there_once() {
    // Of 3,000 rows half have the long string and the others each one of their own.
    let long = "k".repeat(400_000);
    let row = |row: usize| {
        if row.is_multiple_of(2) { long.clone() } else { format!("{:04}", row % 2800) }
    };
    let array: ArrayRef = Arc::new(StringArray::from_iter_values((0..3000).map(row)));
    let group = Group::of(&[array]);
    assert_eq!(group.header.entries[0].encoding, Encoding::Dict);
    let some = Rows::Some((0..3000).filter(|row| row % 3 == 0).collect());
    check(&group, &some);
    let columns = group.columns();
    let column = columns[0].as_ref().expect("read");
    let array = array_of(column, &some, &group.types[0]).expect("as it was written");
    assert!(array.get_buffer_memory_size() < 2 << 20, "{}", array.get_buffer_memory_size());
}

#[test]
fn numbers_are_not_given_out_as_what_they_are_not() {
    let group = Group::of(&[Arc::new(Float64Array::from(vec![1.5, 2.5]))]);
    let columns = group.columns();
    let column = columns[0].as_ref().expect("read");
    for other in [DataType::Int64, DataType::Float32, DataType::Utf8View, DataType::Boolean] {
        assert!(array_of(column, &Rows::All(2), &other).is_err(), "as {other}");
    }
}
