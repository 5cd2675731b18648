//! Rows that refer to keys: by an index that begins with the columns of the foreign key, or among all rows.

use std::collections::HashMap;
use std::ops::Bound;

use arrow::array::ArrayRef;
use arrow::row::{OwnedRow, RowConverter, SortField};
use bytes::Bytes;
use cellar_instance::heap::Statement;

use crate::error::Error;
use crate::failure::from_arrow;
use crate::rows::table::{RowColumns, row_error};

/// Entries of an index that are read together.
const ENTRIES: usize = 1024;

/// An index whose first columns are these in some order, and the position among them of each index column.
fn index_of(table: &RowColumns, columns: &[usize]) -> Option<(usize, Vec<usize>)> {
    table.rows.indexes.iter().enumerate().find_map(|(at, index)| {
        let first = index.columns.get(..columns.len())?;
        let place = |own: usize| columns.iter().position(|column| *column == own);
        let places = first.iter().map(|own| place(own.column)).collect::<Option<Vec<_>>>()?;
        let mut each = places.clone();
        each.sort_unstable();
        each.dedup();
        (each.len() == columns.len()).then_some((at, places))
    })
}

/// The rows of a table that have one of these keys in these columns: for each its number, and which key. No key value
/// is NULL, and each has the type of its column.
///
/// # Errors
/// A page is damaged; the disk reports one.
pub(super) async fn rows_with(
    table: &RowColumns,
    statement: &Statement,
    columns: &[usize],
    keys: &[ArrayRef],
) -> Result<Vec<(u64, usize)>, Error> {
    find(table, statement, columns, (keys, usize::MAX)).await
}

/// As [`rows_with`], but stops at the first row found.
///
/// # Errors
/// As of [`rows_with`].
pub(super) async fn first_with(
    table: &RowColumns,
    statement: &Statement,
    columns: &[usize],
    keys: &[ArrayRef],
) -> Result<Option<(u64, usize)>, Error> {
    Ok(find(table, statement, columns, (keys, 1)).await?.into_iter().next())
}

/// At least so many of them, if there are that many.
async fn find(
    table: &RowColumns,
    statement: &Statement,
    columns: &[usize],
    (keys, most): (&[ArrayRef], usize),
) -> Result<Vec<(u64, usize)>, Error> {
    let index = index_of(table, columns);
    match index.filter(|(at, _)| statement.is_complete_index(&table.rows.indexes[*at])) {
        Some(index) => by_index(table, statement, index, (keys, most)).await,
        None => among_all(table, statement, columns, (keys, most)).await,
    }
}

async fn by_index(
    table: &RowColumns,
    statement: &Statement,
    (index, places): (usize, Vec<usize>),
    (keys, most): (&[ArrayRef], usize),
) -> Result<Vec<(u64, usize)>, Error> {
    let mut found = Vec::new();
    let count = keys.first().map_or(0, |key| key.len());
    for key in 0..count {
        let equal: Vec<ArrayRef> = places.iter().map(|at| keys[*at].slice(key, 1)).collect();
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let (first, last) = table.key_range(index, &equal, low, high)?.into_inner();
        let bounds = (Bound::Included(Bytes::from(first)), Bound::Included(Bytes::from(last)));
        let mut entries = statement.range(&table.rows.indexes[index], bounds, false)?;
        loop {
            let wanted = ENTRIES.min(most);
            let some = entries.next(wanted).await?;
            found.extend(some.iter().map(|row| (*row, key)));
            if found.len() >= most {
                return Ok(found);
            }
            if some.len() < wanted {
                break;
            }
        }
    }
    Ok(found)
}

async fn among_all(
    table: &RowColumns,
    statement: &Statement,
    columns: &[usize],
    (keys, most): (&[ArrayRef], usize),
) -> Result<Vec<(u64, usize)>, Error> {
    let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(|error| from_arrow(&error))?;
    let rows = converter.convert_columns(keys).map_err(|error| from_arrow(&error))?;
    let wanted: HashMap<OwnedRow, usize> =
        rows.iter().enumerate().map(|(at, row)| (row.owned(), at)).collect();
    let mut sorted: Vec<usize> = columns.to_vec();
    sorted.sort_unstable();
    let places: Vec<usize> = columns
        .iter()
        .map(|column| sorted.iter().position(|own| own == column).unwrap_or_default())
        .collect();
    let mut builder = table.builder(&sorted)?;
    let mut scan = statement.shares(&table.rows, 1)?.scan(0);
    let mut found = Vec::new();
    while let Some(rows) = scan.next().await? {
        let mut numbers = Vec::new();
        for (number, row) in rows.iter() {
            table.push(&mut builder, statement, row).await?;
            numbers.push(number);
        }
        let arrays = builder.finish().map_err(|error| row_error(&table.name, &error))?;
        let arrays: Vec<ArrayRef> = places.iter().map(|at| arrays[*at].clone()).collect();
        let own = converter.convert_columns(&arrays).map_err(|error| from_arrow(&error))?;
        for (number, row) in numbers.into_iter().zip(&own) {
            found.extend(wanted.get(&row.owned()).map(|key| (number, *key)));
        }
        if found.len() >= most {
            break;
        }
    }
    Ok(found)
}
