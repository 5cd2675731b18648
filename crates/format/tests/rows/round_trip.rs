//! Round trips: rows that were written are read as they were, and columns that were added later as their
//! defaults.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema};
use cellar_format::rows::{RowColumns, RowError, RowLayout, RowWriter};
use cellar_page::row::{ROW_BYTES_MIN, decode, encode};
use proptest::prelude::*;

use crate::table::{
    LongStore, Table, array_of, as_type, cases, layout_of, other_view, table, types,
};

/// Columns that are added later: their types and defaults.
fn added() -> impl Strategy<Value = Vec<Option<ArrayRef>>> {
    let one = prop::sample::select(types()).prop_flat_map(|own| array_of(own, 1, 30, true));
    prop::collection::vec(prop::option::weighted(0.8, one), 0..3)
}

/// The layout of a table with columns behind those that its rows have.
fn grown(types: Vec<DataType>, added: &[Option<ArrayRef>]) -> RowLayout {
    let columns = types.len();
    let of = |array: &Option<ArrayRef>| {
        array.as_ref().map_or(DataType::Int32, |own| own.data_type().clone())
    };
    let mut layout = layout_of(types.into_iter().chain(added.iter().map(of)));
    for (at, default) in added.iter().enumerate() {
        if let Some(default) = default {
            layout =
                layout.with_default(columns + at, default.clone()).expect("a value of its type");
        }
    }
    layout
}

fn check(array: &ArrayRef, expected: &ArrayRef) {
    array.to_data().validate_full().expect("a sound array");
    assert_eq!(array.data_type(), expected.data_type());
    assert_eq!(array, expected);
}

/// Reads rows in parts, and holds each part against what was written.
fn read(
    table: &Table,
    added: &[Option<ArrayRef>],
    (projection, flip, part): (&[usize], bool, usize),
) {
    let mut store = LongStore::default();
    let rows = table.write(&mut store);
    let types = table.layout.schema().fields().iter().map(|field| match flip {
        true => other_view(field.data_type()),
        false => field.data_type().clone(),
    });
    let layout = grown(types.collect(), added);
    let projection: Vec<usize> = match layout.columns() {
        0 => Vec::new(),
        columns => projection.iter().map(|column| column % columns).collect(),
    };
    let mut columns = RowColumns::new(&layout, &projection).expect("they are there");
    for (number, rows) in rows.chunks(part).enumerate() {
        for (at, row) in rows.iter().enumerate() {
            let long = columns.long_values(row).expect("as it was written");
            let values = store.get(&long);
            if let Some(first) = long.first() {
                // A push without them leaves nothing behind.
                let pushed = columns.push(row, &values[1..]);
                assert_eq!(pushed, Err(RowError::LongMissing { column: first.column }));
                assert_eq!(columns.rows(), at);
            }
            columns.push(row, &values).expect("as it was written");
        }
        let batch = columns.finish_batch().expect("as they were written");
        assert_eq!((batch.num_rows(), batch.num_columns()), (rows.len(), projection.len()));
        for (array, column) in batch.columns().iter().zip(&projection) {
            let data_type = layout.schema().field(*column).data_type();
            match table.arrays.get(*column) {
                Some(own) => {
                    check(array, &as_type(&own.slice(number * part, rows.len()), data_type))
                }
                None => match &added[*column - table.arrays.len()] {
                    Some(own) => (0..rows.len()).for_each(|row| check(&array.slice(row, 1), own)),
                    None => assert_eq!(array.null_count(), rows.len()),
                },
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(1_500))]

    #[test]
    fn rows_are_read_as_they_were_written(
        table in table(0..9, 12, true),
        added in added(),
        projection in prop::collection::vec(any::<usize>(), 0..6),
        flip in any::<bool>(),
        part in 1..8usize,
    ) {
        read(&table, &added, (&projection, flip, part));
        let all: Vec<usize> = (0..table.arrays.len() + added.len()).collect();
        read(&table, &added, (&all, flip, 100));
    }

    #[test]
    fn bytes_of_rows_are_those_of_pages(table in table(1..12, 12, true)) {
        for row in table.write(&mut LongStore::default()) {
            let values = decode(&row, table.layout.types()).expect("as it was written");
            prop_assert_eq!(values.len(), table.arrays.len());
            prop_assert_eq!(encode(&values), row);
        }
    }
}

#[test]
fn rows_without_columns_are_counted() {
    let layout = layout_of([]);
    let options = RecordBatchOptions::new().with_row_count(Some(3));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
    let batch = batch.expect("no columns");
    let writer = RowWriter::of(&layout, &batch).expect("its columns are the layout's");
    let mut columns = RowColumns::new(&layout, &[]).expect("there is nothing to lack");
    for at in 0..writer.rows() {
        let mut row = Vec::new();
        writer.write(at, &[], &mut row).expect("nothing is long");
        assert_eq!(row, [0; ROW_BYTES_MIN]);
        columns.push(&row, &[]).expect("as it was written");
    }
    assert_eq!(columns.finish_batch().expect("there are no texts").num_rows(), 3);
}
