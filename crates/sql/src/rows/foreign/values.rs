//! Values of keys, a column each.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::DataType;

use crate::error::Error;
use crate::failure::from_arrow;
use crate::rows::table::RowColumns;

/// Values converted to a column's type: NULL where the type has no such value.
pub(super) fn as_type(values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Error> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = cast_with_options(values, wanted, &options).map_err(|error| from_arrow(&error))?;
    // A rounded value is not the same value.
    let back = cast_with_options(&cast, values.data_type(), &options);
    let back = back.map_err(|error| from_arrow(&error))?;
    let same = arrow::compute::kernels::cmp::not_distinct(&back, values);
    let same = same.map_err(|error| from_arrow(&error))?;
    let other = arrow::compute::not(&same).map_err(|error| from_arrow(&error))?;
    arrow::compute::nullif(&cast, &other).map_err(|error| from_arrow(&error))
}

/// The rows in which no value is NULL.
pub(super) fn whole(columns: &[ArrayRef]) -> Vec<u32> {
    let count = columns.first().map_or(0, |column| column.len());
    let is_whole = |row: &usize| columns.iter().all(|column| column.is_valid(*row));
    (0..count).filter(is_whole).map(|row| row as u32).collect()
}

pub(super) fn taken(columns: &[ArrayRef], rows: &[u32]) -> Result<Vec<ArrayRef>, Error> {
    let rows = UInt32Array::from(rows.to_vec());
    let one = |column: &ArrayRef| take(column, &rows, None).map_err(|error| from_arrow(&error));
    columns.iter().map(one).collect()
}

/// The names of columns, and the values of a row, for a message.
pub(super) fn words(
    table: &RowColumns,
    places: &[usize],
    values: &[ArrayRef],
    row: usize,
) -> String {
    let names: Vec<&str> =
        places.iter().map(|at| table.schema.field(*at).name().as_str()).collect();
    let text = |array: &ArrayRef| {
        arrow::util::display::array_value_to_string(array, row).unwrap_or_else(|_| "?".to_owned())
    };
    let values: Vec<String> = values.iter().map(text).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}
