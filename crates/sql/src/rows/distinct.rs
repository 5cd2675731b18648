//! The number of distinct values of a column, estimated from the entries of an index that begins with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use bytes::Bytes;
use cellar_instance::catalog::Index;
use cellar_instance::heap::TableSize;

use super::scope::Scope;
use super::table::RowColumns;
use crate::error::Error;

/// Estimated numbers of distinct values, by column number.
pub(crate) type Distinct = BTreeMap<usize, u64>;

/// Places in an index where the entries of a value are counted.
const PLACES: u64 = 8;

/// A table of fewer rows is read whole faster than it is estimated.
const FEW_ROWS: u64 = 1_000;

/// Estimates the distinct values of projected columns that an index begins with.
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
        let is_asked = projection.contains(&first) && scope.statement.is_complete_index(index);
        if is_asked && is_key {
            known.insert(first, size.rows);
        } else if is_asked && !known.contains_key(&first) {
            known.extend(values(scope, columns, at, size.rows).await?.map(|count| (first, count)));
        }
    }
    Ok(known)
}

/// About how many distinct values the first column of an index has in a table of `rows`: extrapolated from the
/// entries per value at places spread evenly between the least and the greatest value.
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

/// The key of an index's next entry from `from` on, or of its last.
async fn next_key(
    scope: &Scope,
    index: &Index,
    from: Bound<Bytes>,
    backwards: bool,
) -> Result<Option<Bytes>, Error> {
    let mut entries = scope.statement.range(index, (from, Bound::Unbounded), backwards)?;
    Ok(entries.next_keys(1).await?.pop().map(|(key, _)| key))
}

/// Byte strings spread evenly between two.
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
