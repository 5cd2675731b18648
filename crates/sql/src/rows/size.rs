//! The estimated number of rows that a scan of the heap returns.

use cellar_instance::heap::TableSize;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};

use super::distinct::Distinct;
use super::table::RowColumns;

/// The default selectivity of a condition.
const PASSES: f64 = 0.3;

/// The assumed bytes of a text.
const TEXT_BYTES: usize = 24;

/// Statistics of these columns, for this many rows filtered by this many conditions.
pub(super) fn statistics(
    columns: &RowColumns,
    (distinct, rows): (&Distinct, u64),
    projection: &[usize],
    conditions: usize,
) -> Statistics {
    let passes = PASSES.powi(i32::try_from(conditions).unwrap_or(i32::MAX));
    let rows = (rows as f64 * passes).ceil() as usize;
    let of = |at: &usize| {
        let mut known = ColumnStatistics::new_unknown();
        if let Some(values) = distinct.get(at) {
            known.distinct_count = Precision::Inexact((*values as usize).min(rows.max(1)));
        }
        known
    };
    let width = |at: &usize| match columns.schema.fields().get(*at) {
        Some(field) => field.data_type().primitive_width().unwrap_or(TEXT_BYTES),
        None => size_of::<u64>(),
    };
    let width: usize = projection.iter().map(width).sum();
    Statistics {
        num_rows: Precision::Inexact(rows),
        total_byte_size: Precision::Inexact(rows.saturating_mul(width)),
        column_statistics: projection.iter().map(of).collect(),
    }
}

/// About how many rows have to be read until `fetch` pass.
pub(super) fn rows_until(fetch: usize, conditions: usize) -> f64 {
    fetch as f64 / PASSES.powi(i32::try_from(conditions).unwrap_or(i32::MAX))
}

/// How many rows an index can find at less cost than reading all pages of the table.
pub(super) fn rows_by_index(size: TableSize) -> u64 {
    // In a full scan a page costs about as much as fetching one row from a page in memory; a table of few pages is
    // read in no time either way.
    size.pages.max(FEW_PAGES)
}

/// Pages of a small table.
const FEW_PAGES: u64 = 128;
