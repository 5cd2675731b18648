//! Casts between texts and arrays, and of the items of arrays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StringBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use arrow::util::display::FormatOptions;
use datafusion::common::Result;
use datafusion::error::DataFusionError;

use super::items_of;
use super::shown::Shown;
use crate::error::Error;

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether a cast is from a text to an array.
pub(crate) fn is_from_text(from: &DataType, to: &DataType) -> bool {
    is_text(from) && matches!(to, DataType::List(_))
}

/// Whether a cast is from an array to a text.
pub(crate) fn is_to_text(from: &DataType, to: &DataType) -> bool {
    matches!(from, DataType::List(_)) && is_text(to)
}

/// Arrays from their texts; `read` makes items from theirs. With `is_try`, texts that are not arrays
/// become null.
///
/// # Errors
/// 22P02; those of the items.
pub(crate) fn arrays_of(
    texts: &ArrayRef,
    item: &FieldRef,
    is_try: bool,
    read: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>();
    let (mut items, mut lengths) = (StringBuilder::new(), Vec::with_capacity(texts.len()));
    let mut there = Vec::with_capacity(texts.len());
    for text in texts {
        let own = match text.map(items_of) {
            Some(Ok(own)) => Some(own),
            Some(Err(error)) if !is_try => return Err(failed(error)),
            _ => None,
        };
        there.push(own.is_some());
        let own = own.unwrap_or_default();
        lengths.push(own.len());
        own.into_iter().for_each(|item| items.append_option(item));
    }
    let items: ArrayRef = Arc::new(items.finish());
    let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), NullBuffer::from(there));
    let made = ListArray::try_new(Arc::clone(item), offsets, read(&items)?, Some(nulls))?;
    Ok(Arc::new(made))
}

/// Arrays with other items.
///
/// # Errors
/// Those of the items.
pub(crate) fn with_items(
    lists: &ArrayRef,
    item: &FieldRef,
    change: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let lists = lists.as_list::<i32>();
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    let made = ListArray::try_new(Arc::clone(item), offsets, change(lists.values())?, nulls)?;
    Ok(Arc::new(made))
}

/// The texts of arrays.
///
/// # Errors
/// An item has no text.
pub(crate) fn texts_of(lists: &ArrayRef) -> Result<StringArray, arrow::error::ArrowError> {
    let options = FormatOptions::new().with_display_error(false);
    let shown = Shown::of(lists, &options)?;
    let mut out = StringBuilder::new();
    let mut text = Vec::new();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            out.append_null();
            continue;
        }
        text.clear();
        shown.write(row, &mut text)?;
        out.append_value(String::from_utf8_lossy(&text));
    }
    Ok(out.finish())
}

fn failed(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
