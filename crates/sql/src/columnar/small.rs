//! Small inserts into a columnar table: merged with the small segments at the end of the table.
//!
//! Each segment takes at least one allocation unit, so single rows would soon fill a group. A segment
//! much larger than the new rows stays as it is: a row is rewritten only each time the end of the table
//! has doubled.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::SchemaRef;
use cellar_instance::catalog::Segment;
use datafusion::error::Result as DataFusionResult;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::columnar::segment::segment_rows;
use crate::columnar::write::{Batches, bytes_of, in_column};
use crate::error::Error;
use crate::error::stopped;
use crate::files::csv_format::external;

/// Up to so many rows, and uncompressed bytes, an insert counts as small.
const FEW_ROWS: usize = 8192;
const FEW_BYTES: usize = 1 << 20;
/// A segment of fewer rows and bytes is always rewritten.
const SMALL_ROWS: u64 = 4096;
const SMALL_BYTES: u64 = 256 << 10;

/// The rows that came in.
pub(super) enum Came {
    /// All of them.
    Few(Vec<RecordBatch>),
    /// More will come.
    Many(Batches),
}

impl Came {
    /// Finds out how many there are.
    pub async fn of(mut rows: Batches) -> DataFusionResult<Came> {
        let (mut came, mut count, mut bytes) = (Vec::new(), 0, 0);
        while let Some(batch) = rows.try_next().await? {
            count += batch.num_rows();
            bytes += bytes_of(&batch);
            came.push(batch);
            if count > FEW_ROWS || bytes > FEW_BYTES {
                return Ok(Came::Many(Box::pin(
                    stream::iter(came.into_iter().map(Ok)).chain(rows),
                )));
            }
        }
        Ok(Came::Few(came))
    }

    /// All rows.
    pub fn rows(self) -> Batches {
        match self {
            Came::Few(batches) => Box::pin(stream::iter(batches.into_iter().map(Ok))),
            Came::Many(rows) => rows,
        }
    }
}

/// The segments at the end of a table that are rewritten with the new rows.
pub(super) fn small_end<'a>(segments: &'a [Segment], came: &[RecordBatch]) -> &'a [Segment] {
    let mut rows: u64 = came.iter().map(|batch| batch.num_rows() as u64).sum();
    let mut bytes: u64 = came.iter().map(|batch| bytes_of(batch) as u64).sum();
    if rows == 0 {
        return &[];
    }
    let mut from = segments.len();
    for segment in segments.iter().rev() {
        let small =
            SMALL_ROWS.max(2 * rows) >= segment.rows && SMALL_BYTES.max(2 * bytes) >= segment.bytes;
        if !small {
            break;
        }
        rows += segment.rows;
        bytes += segment.bytes;
        from -= 1;
    }
    &segments[from..]
}

/// The rows of a segment, from its bytes.
///
/// # Errors
/// It is damaged.
pub(super) async fn rows_of(all: Vec<u8>) -> Result<Vec<RecordBatch>, Error> {
    let decode = move || {
        let bytes = all.len() as u64;
        let read = |at: u64, length: usize| {
            let from = usize::try_from(at).unwrap_or(usize::MAX);
            let own = all.get(from..from.saturating_add(length));
            let own = own.ok_or_else(|| Error::new(70124, "XX001", "a segment was cut off"))?;
            let mut words = vec![0u64; length.div_ceil(8)];
            bytemuck::cast_slice_mut(&mut words)[..length].copy_from_slice(own);
            Ok(words)
        };
        let (_, rows) = segment_rows(read, bytes)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(|e| crate::failure::from_arrow(&e))
    };
    tokio::task::spawn_blocking(decode).await.map_err(|_| stopped())?
}

/// Rows of several sources, with the table's schema.
pub(super) fn together(batches: Vec<RecordBatch>, schema: SchemaRef) -> Batches {
    let as_table = move |batch: RecordBatch| as_table(&batch, &schema).map_err(external);
    Box::pin(stream::iter(batches.into_iter().map(as_table)))
}

fn as_table(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    // A value that does not fit is an error, not a null.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let cast = cast_with_options(column, field.data_type(), &options);
        cast.map_err(|e| in_column(&e, field.name()))
    });
    let columns = columns.collect::<Result<Vec<_>, Error>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|e| crate::failure::from_arrow(&e))
}
