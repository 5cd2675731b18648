//! Rows of a segment that is read as a whole: a file that is being loaded, or small segments that are
//! being merged.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use cellar_format::group;
use cellar_format::header::{PAGE, REGION};
use cellar_format::segment::offset_of;
use cellar_format::{Damage, Header, Rows, Tail, array_of};

use crate::columnar::table::schema_of_text;
use crate::error::Error;
use crate::failure::from_arrow;

/// Reads so many bytes from an offset.
pub(super) trait Read: Fn(u64, usize) -> Result<Vec<u64>, Error> + Send {}

impl<T: Fn(u64, usize) -> Result<Vec<u64>, Error> + Send> Read for T {}

fn damaged(what: &str, damage: Damage) -> Error {
    Error::new(70124, "XX001", format!("{what} of the segment is damaged: {damage:?}"))
}

/// The columns of a segment of `length` bytes, and its rows. `read` returns so many bytes from an
/// offset, aligned as columns are.
///
/// # Errors
/// It is not a segment, or is damaged; what reading it reports.
pub(super) fn segment_rows(
    read: impl Read,
    length: u64,
) -> Result<(SchemaRef, impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send), Error> {
    // A copy may have been padded at its end.
    let length = length / PAGE as u64 * PAGE as u64;
    let last = read(length.saturating_sub(PAGE as u64), PAGE)?;
    let tail = Tail::decode(bytemuck::cast_slice(&last)).map_err(|e| damaged("the end", e))?;
    let bytes = tail.directory_bytes();
    let at = (length - PAGE as u64).checked_sub(bytes);
    let short = Damage::Length { expected: bytes as usize, found: length as usize };
    let at = at.ok_or_else(|| damaged("the directory", short))?;
    let words = read(at, bytes as usize)?;
    let directory = tail.read(&bytemuck::cast_slice(&words)[..bytes as usize]);
    let (headers, schema) = directory.map_err(|e| damaged("the directory", e))?;
    let schema = schema_of_text(&String::from_utf8_lossy(schema))?;
    if schema.fields().len() != usize::from(tail.columns) {
        return Err(Error::new(70124, "XX001", "the segment has other columns than it says"));
    }
    let own = Arc::clone(&schema);
    let batches = headers.into_iter().map(move |header| {
        row_group(&read, &header, &own).map_err(|e| ArrowError::ExternalError(Box::new(e)))
    });
    Ok((schema, batches))
}

fn row_group(read: &impl Read, header: &Header, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let used = (header.used as usize).min(REGION);
    let words = read(offset_of(header.position), used)?;
    let bytes = &bytemuck::cast_slice(&words)[..used];
    let array = |at: usize| {
        let entry = &header.entries[at];
        let own = &bytes[entry.offset as usize..][..entry.length as usize];
        let column = group::column(header, at, own, true)?;
        array_of(&column, &Rows::All(header.rows as usize), schema.field(at).data_type())
    };
    let arrays: Result<Vec<ArrayRef>, Damage> = (0..schema.fields().len()).map(array).collect();
    let arrays = arrays.map_err(|e| damaged(&format!("row group {}", header.position), e))?;
    RecordBatch::try_new(Arc::clone(schema), arrays).map_err(|e| from_arrow(&e))
}
