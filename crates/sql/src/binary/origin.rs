//! The table column from which a result column comes, as a row description names it.

use arrow::datatypes::Field;

/// The metadata key for this in a field.
const ORIGIN: &str = "origin";

/// A field that is a column of a table: the table's oid, and the column's number, from 1.
pub(crate) fn with_origin(field: Field, (oid, number): (u32, i16)) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(ORIGIN.to_owned(), format!("{oid}.{number}"));
    field.with_metadata(metadata)
}

/// The table's oid, and the column's number; 0, 0: it is not a column of a table.
pub fn origin_of(field: &Field) -> (u32, i16) {
    let found = field.metadata().get(ORIGIN).and_then(|said| said.split_once('.'));
    let found = found.and_then(|(oid, number)| Some((oid.parse().ok()?, number.parse().ok()?)));
    found.unwrap_or_default()
}
