//! Keys of rows for who checks indexes: as changes of the rows make them.

use std::sync::Arc;

use cellar_instance::catalog::{Catalog, RowTable, Table};
use cellar_instance::heap::KeysOfRow;

use super::table::RowColumns;
use crate::instants::zoned::KEPT;

/// What makes the keys of a row of a table, one for each of its indexes; `None`: its columns are not understood.
pub fn keys_of_rows(catalog: &Catalog, table: &Table, rows: &RowTable) -> Option<KeysOfRow> {
    let columns = RowColumns::of(table, rows, (&KEPT.into(), catalog)).ok()?;
    Some(Arc::new(move |row: &[u8]| columns.keys(row).ok()))
}
