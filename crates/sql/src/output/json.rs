//! Values as JSON: lists are arrays, structs and maps objects, also nested.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Whether a type is nested.
pub(super) fn is_nested(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_nested(values),
        other => other.is_nested(),
    }
}

/// One value of a nested type.
///
/// # Errors
/// It cannot be written as text.
pub(super) fn value(
    array: &dyn Array,
    row: usize,
    options: &FormatOptions<'_>,
) -> Result<String, ArrowError> {
    // The null mask of an array of type null marks none of its values as null.
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok("null".to_owned());
    }
    let list = |values: ArrayRef| {
        let items = (0..values.len()).map(|at| value(&*values, at, options));
        Ok(format!("[{}]", items.collect::<Result<Vec<_>, ArrowError>>()?.join(",")))
    };
    match array.data_type() {
        DataType::List(_) => list(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(_, _) => list(array.as_fixed_size_list().value(row)),
        DataType::ListView(_) => list(array.as_list_view::<i32>().value(row)),
        DataType::LargeListView(_) => list(array.as_list_view::<i64>().value(row)),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter();
            let members = fields.iter().zip(columns).map(|(field, column)| {
                Ok(format!("{}:{}", text(field.name()), value(&**column, row, options)?))
            });
            Ok(format!("{{{}}}", members.collect::<Result<Vec<_>, ArrowError>>()?.join(",")))
        }
        DataType::Map(_, _) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let keys = ArrayFormatter::try_new(&**keys, options)?;
            let members = (0..values.len()).map(|at| {
                let key = keys.value(at).try_to_string()?;
                Ok(format!("{}:{}", text(&key), value(&**values, at, options)?))
            });
            Ok(format!("{{{}}}", members.collect::<Result<Vec<_>, ArrowError>>()?.join(",")))
        }
        DataType::Dictionary(_, _) => {
            let values = array.as_any_dictionary();
            let key = values.normalized_keys()[row];
            value(&**values.values(), key, options)
        }
        other => {
            let shown = ArrayFormatter::try_new(array, options)?.value(row).try_to_string()?;
            Ok(leaf(shown, other))
        }
    }
}

/// A value that is not nested, through its text.
pub(super) fn leaf(shown: String, data_type: &DataType) -> String {
    let is_bare = match data_type {
        DataType::Dictionary(_, values) => values.is_numeric() || **values == DataType::Boolean,
        other => other.is_numeric() || *other == DataType::Boolean,
    };
    match shown.as_str() {
        _ if !is_bare => text(&shown),
        "NaN" => text("NaN"),
        "inf" => text("Infinity"),
        "-inf" => text("-Infinity"),
        _ => shown,
    }
}

/// A quoted text.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
