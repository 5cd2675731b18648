//! Errors of rows, sorted by who must act, with Oracle's numbers where the meaning is the same.

use std::sync::Arc;

use arrow_schema::DataType;
use cellar_page::row::BadRow;

use super::labels::Labels;

/// Why rows and columns were not made of each other.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// User: there are no rows with such values.
    #[error("column {column} has type {data_type}, which rows do not have: choose another type")]
    Type {
        /// The name of the column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// User: more columns than a row counts.
    #[error("{columns} columns are too many for a row: {max} are the most")]
    TooManyColumns {
        /// How many they are.
        columns: usize,
        /// The most that are possible.
        max: usize,
    },
    /// Caller: there is no such column.
    #[error("there is no column {column}: the layout has {columns}, counted from 0")]
    NoColumn {
        /// The number.
        column: usize,
        /// How many the layout has.
        columns: usize,
    },
    /// Caller: more or fewer arrays than columns, or of other lengths.
    #[error("{found} {what} were given where {expected} are needed")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many there must be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// Caller: an array is not of its column's type.
    #[error("column {column} has type {expected}, not {found}: cast the values first")]
    OtherType {
        /// The name of the column.
        column: String,
        /// Its type.
        expected: DataType,
        /// The type of the array.
        found: DataType,
    },
    /// User: NULL in a column that has none.
    #[error("column {column} takes no NULL")]
    Null {
        /// The name of the column.
        column: String,
    },
    /// User: a text that is none of the labels of its column.
    #[error("{} has no label \"{label}\"", labels.name)]
    NoLabel {
        /// The labels.
        labels: Arc<Labels>,
        /// The text.
        label: String,
    },
    /// User: rows keep microseconds.
    #[error("an interval of column {column} has {nanos} ns: round it to microseconds")]
    Nanoseconds {
        /// The name of the column.
        column: String,
        /// The nanoseconds of the interval.
        nanos: i64,
    },
    /// User: the value is in pages of its own.
    #[error("a value of column {column} is too long for an index: leave it out, or index a part")]
    NoKey {
        /// The name of the column.
        column: String,
    },
    /// User: arrays are bytes in a row, which are not in the order of the values.
    #[error("column {column} has arrays, of which there is no index: index another column")]
    NoOrder {
        /// The name of the column.
        column: String,
    },
    /// Caller: a long value was not given: store or read it first, see `long_values`.
    #[error("a value of column {column} is in pages of its own, which were not given")]
    LongMissing {
        /// The number of the column.
        column: usize,
    },
    /// The disk: a long value is not as long as its row says.
    #[error("a long value of column {column} has {found} bytes, its row says {expected}")]
    LongLength {
        /// The number of the column.
        column: usize,
        /// Its length in bytes by the row.
        expected: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// Caller: an array of texts holds no more: finish it, and push the row again.
    #[error("the texts of column {column} exceed {max} bytes in one array: make it of fewer rows")]
    Full {
        /// The number of the column.
        column: usize,
        /// The most bytes of an array.
        max: usize,
    },
    /// User: something computed of rows has more digits than its type.
    #[error("{} is beyond {low} to {high}", number.map_or("a result".to_owned(), |own| own.to_string()))]
    Beyond {
        /// It, if 128 bits can hold it.
        number: Option<i128>,
        /// The least number of the type.
        low: i128,
        /// The greatest.
        high: i128,
    },
    /// The disk: a row is not one that was written so.
    #[error(transparent)]
    Damaged(#[from] BadRow),
    /// The disk: a text is no text.
    #[error("row {row} of those that were read has a text in column {column} that is not UTF-8")]
    NotText {
        /// The name of the column.
        column: String,
        /// Which of the rows that were pushed, from 0.
        row: usize,
    },
}

impl RowError {
    /// Its number.
    pub fn number(&self) -> u32 {
        match self {
            RowError::Type { .. } => 902,
            RowError::TooManyColumns { .. } => 1792,
            RowError::NoColumn { .. } => 904,
            RowError::Count { .. } => 947,
            RowError::OtherType { .. } => 932,
            RowError::Null { .. } => 1400,
            RowError::NoLabel { .. } => 1722,
            RowError::Nanoseconds { .. } => 70210,
            RowError::NoKey { .. } => 1450,
            RowError::NoOrder { .. } => 2327,
            RowError::LongMissing { .. } => 70211,
            RowError::LongLength { .. } => 22922,
            RowError::Full { .. } => 70212,
            RowError::Beyond { .. } => 1426,
            RowError::Damaged(_) | RowError::NotText { .. } => 70213,
        }
    }
}
