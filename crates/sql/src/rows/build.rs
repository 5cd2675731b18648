//! Indexes built from existing rows.

use cellar_instance::catalog::RowTable;
use cellar_instance::database::{Alteration, BuildError, Keys};

use super::table::RowColumns;
use crate::error::Error;

/// Builds index `at` of a table from its rows; returns the index's number in the heap. `columns`: the table with the
/// index.
///
/// # Errors
/// 01452 two rows have the same key in a unique index; a value is too long for a key; no space.
pub(crate) async fn built(
    alteration: &mut Alteration,
    columns: &RowColumns,
    at: usize,
) -> Result<u32, Error> {
    let (table, index) = (&columns.rows, &columns.rows.indexes[at]);
    let of = |row: &[u8]| columns.key(at, row);
    let has_null = |key: &[u8]| columns.has_null(at, key);
    let keys = Keys { of: &of, has_null: &has_null };
    match alteration.new_index(table.object, index, &keys).await {
        Ok(number) => Ok(number),
        Err(BuildError::Other(error)) => Err(error.into()),
        Err(BuildError::Duplicate(row)) => Err(duplicate(alteration, columns, at, row).await?),
    }
}

/// The error that names the key two rows share.
async fn duplicate(
    alteration: &mut Alteration,
    columns: &RowColumns,
    at: usize,
    row: u64,
) -> Result<Error, Error> {
    let index = &columns.rows.indexes[at];
    let text = format!("unique index \"{}\" cannot be made", index.name);
    let error = Error::new(1452, "23505", text).of_constraint(&columns.name, &index.name);
    let statement = alteration.statement();
    let own = RowTable::plain(columns.rows.object);
    let Some(bytes) = statement.row(&own, row).await? else { return Ok(error) };
    let batch = columns.batch(&statement, &[bytes]).await?;
    let (names, values) = columns.key_text(at, batch.columns(), 0);
    let text = format!("{}: key ({names})=({values}) is duplicated", error.message);
    let error = Error { message: text, ..error };
    Ok(error.next("change or delete one of the rows, then try again"))
}
