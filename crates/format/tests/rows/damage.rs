//! Rows that are not as they were written: an error or other values, never a panic, and other rows are read
//! as before.

use cellar_format::rows::{KeyWriter, RowColumns, RowError};
use proptest::prelude::*;

use crate::table::{LongStore, cases, table};

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn damaged_rows_do_no_harm(
        table in table(1..9, 6, true),
        projection in prop::collection::vec(any::<usize>(), 0..6),
        flips in prop::collection::vec((any::<usize>(), 0..8u32), 1..4),
        cut in any::<usize>(),
    ) {
        let mut store = LongStore::default();
        let rows = table.write(&mut store);
        let count = table.arrays.len();
        let projection: Vec<usize> = projection.iter().map(|column| column % count).collect();
        let has_key = |column: &&usize| !table.arrays[**column].data_type().is_nested();
        let index = projection.iter().filter(has_key).map(|column| (*column, column % 2 == 0));
        let index: Vec<(usize, bool)> = index.collect();
        let mut columns = RowColumns::new(&table.layout, &projection).expect("they are there");
        let mut good = RowColumns::new(&table.layout, &projection).expect("they are there");
        let keys = KeyWriter::new(&table.layout, &index).expect("they are there");
        let mut key = Vec::new();
        for row in &rows {
            let mut damaged = row.clone();
            for (at, bit) in &flips {
                damaged[at % row.len()] ^= 1 << bit;
            }
            for bad in [&damaged, &row[..cut % row.len()].to_vec(), &damaged[..cut % row.len()].to_vec()] {
                let _ = keys.key(bad, &mut key);
                let _ = columns.long_values(bad);
                // On its own, where the array may have text that is none.
                let mut alone = RowColumns::new(&table.layout, &projection).expect("they are there");
                let _ = alone.push(bad, &[]);
                let rows = alone.rows();
                match alone.finish_batch() {
                    Ok(batch) => {
                        prop_assert_eq!(batch.num_rows(), rows);
                        for array in batch.columns() {
                            array.to_data().validate_full().expect("a sound array");
                        }
                    }
                    Err(error) => {
                        let is_value =
                            matches!(error, RowError::NotText { row: 0, .. } | RowError::Damaged(_));
                        prop_assert!(is_value, "{}", error);
                    }
                }
            }
            // One that is refused, between others.
            let before = columns.rows();
            let has_columns = !projection.is_empty();
            let cut = &row[..(cut % row.len()).min(2)];
            prop_assert!(columns.push(cut, &[]).is_err());
            prop_assert_eq!(columns.rows(), before);
            let long = store.get(&columns.long_values(row).expect("as it was written"));
            if has_columns && !long.is_empty() {
                prop_assert!(columns.push(row, &[]).is_err());
            }
            columns.push(row, &long).expect("as it was written");
            good.push(row, &long).expect("as it was written");
        }
        prop_assert_eq!(columns.finish_batch(), good.finish_batch());
    }

    #[test]
    fn any_bytes_are_a_row_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        table in table(1..9, 0, false),
    ) {
        let all: Vec<usize> = (0..table.arrays.len()).collect();
        let mut columns = RowColumns::new(&table.layout, &all).expect("they are there");
        let _ = columns.long_values(&bytes);
        let _ = columns.push(&bytes, &[]);
        let _ = columns.finish_batch();
        let has_key = |column: &&usize| !table.arrays[**column].data_type().is_nested();
        let index = all.iter().filter(has_key).map(|column| (*column, false));
        let index: Vec<(usize, bool)> = index.collect();
        let keys = KeyWriter::new(&table.layout, &index).expect("they are there");
        let mut key = Vec::new();
        let written = keys.key(&bytes, &mut key);
        prop_assert!(written.is_ok() || key.is_empty());
    }
}
