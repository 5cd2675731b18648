//! Keys and long values of stored rows, derived for the table check as changes derive them.

use std::sync::Arc;

use cellar_instance::catalog::{Catalog, RowTable, Table};
use cellar_instance::heap::RowReader;

use super::table::RowColumns;
use crate::instants::zoned::KEPT;

/// A reader of a table's rows; `None`: its columns are not understood.
pub fn reader_of_rows(catalog: &Catalog, table: &Table, rows: &RowTable) -> Option<RowReader> {
    let columns = Arc::new(RowColumns::of(table, rows, (&KEPT.into(), catalog)).ok()?);
    let of = Arc::clone(&columns);
    let keys = Arc::new(move |row: &[u8]| columns.keys(row).ok());
    let longs = Arc::new(move |row: &[u8]| {
        let longs = of.long_values(row).ok()?;
        Some(longs.into_iter().map(|long| (long.page, long.length)).collect())
    });
    Some(RowReader { keys, longs })
}
