//! The number of distinct values of a column, estimated from the entries of an index that begins with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use cellar_instance::catalog::Index;
use cellar_instance::heap::TableSize;

use super::scope::Scope;
use super::table::RowColumns;
use crate::error::Error;

/// Different values of columns, about, by the number of the column.
pub(crate) type Distinct = BTreeMap<usize, u64>;

/// Places of an index at which it is asked how many entries a value has.
const PLACES: u64 = 8;

/// Rows of a table that is read whole sooner than it is asked about.
const FEW_ROWS: u64 = 1_000;

/// Counts the values of those columns that come out and that an index begins with.
///
/// # Errors
/// The disk reports one.
pub(super) async fn distinct(
    scope: &Scope,
    columns: &RowColumns,
    size: TableSize,
    projection: &[usize],
) -> Result<Distinct, Error> {
    let mut known = Distinct::new();
    if size.rows < FEW_ROWS {
        return Ok(known);
    }
    for (at, index) in columns.rows.indexes.iter().enumerate() {
        let first = index.columns[0].column;
        let is_key = index.is_unique && index.columns.len() == 1;
        let is_asked = projection.contains(&first) && scope.statement.has_whole(index);
        if is_asked && is_key {
            known.insert(first, size.rows);
        } else if is_asked && !known.contains_key(&first) {
            known.extend(values(scope, columns, at, size.rows).await?.map(|count| (first, count)));
        }
    }
    Ok(known)
}

/// About how many values the first column of an index has, of so many rows: as the entries of those values have it
/// that lie at places which divide what is between the least and the greatest evenly.
async fn values(
    scope: &Scope,
    columns: &RowColumns,
    at: usize,
    rows: u64,
) -> Result<Option<u64>, Error> {
    let index = &columns.rows.indexes[at];
    let ends = async |backwards| {
        let key = next_key(scope, index, Bound::Unbounded, backwards).await?;
        Ok::<_, Error>(key.and_then(|key| columns.first_of_key(at, &key)))
    };
    let (Some(least), Some(greatest)) = (ends(false).await?, ends(true).await?) else {
        return Ok(None);
    };
    let (mut asked, mut found) = (BTreeSet::new(), 0);
    for place in places(&least, &greatest) {
        let key = next_key(scope, index, Bound::Included(place.into()), false).await?;
        let Some(value) = key.and_then(|key| columns.first_of_key(at, &key)) else { continue };
        if asked.contains(&value) {
            continue;
        }
        let bound = || Bound::Included(Bytes::copy_from_slice(&value));
        found += scope.statement.expected(index, (bound(), bound())).await?;
        asked.insert(value);
    }
    let each = found.div_ceil(asked.len().max(1) as u64).max(1);
    Ok((!asked.is_empty()).then(|| (rows / each).max(asked.len() as u64)))
}

/// The next entry of an index from there on, or its last.
async fn next_key(
    scope: &Scope,
    index: &Index,
    from: Bound<Bytes>,
    backwards: bool,
) -> Result<Option<Bytes>, Error> {
    let mut entries = scope.statement.range(index, (from, Bound::Unbounded), backwards)?;
    Ok(entries.next_keys(1).await?.pop().map(|(key, _)| key))
}

/// Bytes evenly between two, which differ somewhere.
fn places(least: &[u8], greatest: &[u8]) -> Vec<Vec<u8>> {
    let same = least.iter().zip(greatest).take_while(|(one, other)| one == other).count();
    let number = |bytes: &[u8]| {
        let mut own = [0; 8];
        bytes[same..].iter().zip(&mut own).for_each(|(byte, place)| *place = *byte);
        u64::from_be_bytes(own)
    };
    let (low, high) = (number(least), number(greatest));
    let step = u128::from(high.saturating_sub(low));
    let at = |place: u64| {
        let number = low + (step * u128::from(2 * place + 1) / u128::from(2 * PLACES)) as u64;
        [&least[..same], &number.to_be_bytes()].concat()
    };
    (0..PLACES).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_between_the_ends_in_order() {
        let (least, greatest) = ([1, 128, 0, 0, 1], [1, 128, 0, 100, 0]);
        let places = places(&least, &greatest);
        assert!(places.is_sorted() && places.len() as u64 == PLACES);
        assert!(places.iter().all(|place| place[..] > least[..] && place[..] < greatest[..]));
        // One value: the places begin with all there is of it.
        assert!(super::places(&least, &least).iter().all(|place| place.starts_with(&least)));
    }
}
