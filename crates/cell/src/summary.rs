//! Per-column summary of a segment, from the headers of its row groups.

use cellar_format::header::Bounds;
use cellar_format::{Header, Value};

/// What is known of a column in all rows of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSummary {
    /// Rows that have no value.
    pub nulls: u64,
    /// The smallest and the largest value; of strings perhaps only how they begin. `None`: no row has one.
    pub ends: Option<(Value, Value)>,
    /// Whether the ends are values themselves.
    pub is_exact: bool,
}

/// What is known of all rows of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many they are.
    pub rows: u64,
    /// Each column.
    pub columns: Vec<ColumnSummary>,
}

impl Summary {
    /// Of the headers of row groups that have the same columns.
    pub(crate) fn new(headers: &[Header]) -> Summary {
        let columns = headers.first().map_or(0, |header| header.entries.len());
        let rows = headers.iter().map(|header| u64::from(header.rows)).sum();
        Summary { rows, columns: (0..columns).map(|at| ColumnSummary::new(headers, at)).collect() }
    }
}

impl ColumnSummary {
    fn new(headers: &[Header], at: usize) -> ColumnSummary {
        let (mut nulls, mut is_exact) = (0, true);
        let mut numbers: Option<(i128, i128)> = None;
        let mut strings: Option<(&[u8], &[u8])> = None;
        for header in headers {
            let entry = &header.entries[at];
            nulls += u64::from(entry.nulls);
            match &entry.bounds {
                Bounds::None => {}
                Bounds::Numbers { min, max } => {
                    let (low, high) = numbers.unwrap_or((*min, *max));
                    numbers = Some((low.min(*min), high.max(*max)));
                }
                Bounds::Strings { min, max } => {
                    is_exact &= min.is_whole() && max.is_whole();
                    let (min, max) = (min.bytes(), max.bytes());
                    let (low, high) = strings.unwrap_or((min, max));
                    strings = Some((low.min(min), high.max(max)));
                }
            }
        }
        let of_numbers = numbers.map(|(low, high)| (Value::Number(low), Value::Number(high)));
        let of_strings = strings.map(|(low, high)| (Value::from(low), Value::from(high)));
        ColumnSummary { nulls, ends: of_numbers.or(of_strings), is_exact }
    }

    /// Of the rows of both.
    #[must_use]
    pub fn with(&self, other: &ColumnSummary) -> ColumnSummary {
        let ends = match (&self.ends, &other.ends) {
            (Some((low, high)), Some((min, max))) => {
                Some((low.min(min).clone(), high.max(max).clone()))
            }
            (ends, None) | (None, ends) => ends.clone(),
        };
        ColumnSummary {
            nulls: self.nulls + other.nulls,
            ends,
            is_exact: self.is_exact && other.is_exact,
        }
    }
}
