//! A sequence as a table of one row: `SELECT last_value, is_called FROM s`.

use std::sync::Arc;

use arrow::array::{BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use cellar_instance::catalog::Sequence;
use datafusion::datasource::MemTable;

use crate::error::Error;
use crate::failure::{from_arrow, from_datafusion};
use crate::rows::RowTables;

/// The last value of a sequence whose next one is `next`, and whether it was handed out.
fn last_value(sequence: &Sequence, next: i64) -> (i64, bool) {
    let before = next.checked_sub(sequence.increment);
    let before = before.filter(|own| (sequence.least..=sequence.most).contains(own));
    match before.filter(|_| RowTables::is_called(sequence, next)) {
        Some(last) => (last, true),
        None => (next.clamp(sequence.least, sequence.most), false),
    }
}

/// The row of a sequence, as it is now.
pub(super) fn table_of(rows: &RowTables, sequence: &Sequence) -> Result<MemTable, Error> {
    let next = rows.database().heap().peek_value(sequence)?;
    let (last, is_called) = last_value(sequence, next);
    let schema = Arc::new(Schema::new(vec![
        Field::new("last_value", DataType::Int64, false),
        Field::new("log_cnt", DataType::Int64, false),
        Field::new("is_called", DataType::Boolean, false),
    ]));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from(vec![last])),
            Arc::new(Int64Array::from(vec![0])),
            Arc::new(BooleanArray::from(vec![is_called])),
        ],
    );
    let batch = batch.map_err(|error| from_arrow(&error))?;
    MemTable::try_new(schema, vec![vec![batch]]).map_err(|error| from_datafusion(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::SequenceOptions;

    #[test]
    fn what_comes_next_tells_what_was_last() {
        let sequence = SequenceOptions { start: Some(5), ..SequenceOptions::default() };
        let sequence = sequence.made().unwrap();
        assert_eq!(last_value(&sequence, 5), (5, false));
        assert_eq!(last_value(&sequence, 8), (7, true));
        // After setval(.., 1, false).
        assert_eq!(last_value(&sequence, 1), (1, false));
    }
}
