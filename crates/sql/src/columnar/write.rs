//! The writer of segments: rows are cut into row groups, encoded in parallel, and written in order.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, StringArray};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use cellar_diskgroup::File;
use cellar_format::from_arrow::{column_type, is_taken};
use cellar_format::group::encode_all;
use cellar_format::header::{PAGE, REGION, ROWS_MAX};
use cellar_format::packed::{is_packed, pack};
use cellar_format::segment::{directory, offset_of};
use cellar_format::{Header, Owner, Refused};
use cellar_instance::tables::{SegmentFigures, SegmentFile};
use datafusion::error::DataFusionError;
use futures_util::{Stream, TryStreamExt, stream};

use crate::columnar::table::{form_of, length_of, schema_text};
use crate::error::{Error, NextStep};
use crate::json::form::Form;
use crate::numbers::narrow::casted;

/// The most bytes that are gathered before they are cut and encoded, not counting the batch that exceeds
/// them.
const GATHERED_MAX: usize = 64 << 20;
/// Rows of the first row group that is tried.
const FIRST_ROWS: usize = 32 * 1024;

/// A stream of batches of rows.
pub type Batches = Pin<Box<dyn Stream<Item = Result<RecordBatch, DataFusionError>> + Send>>;

/// A callback, called with the rows and bytes written so far.
pub type OnProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How a segment is written.
#[derive(Clone)]
pub struct Writing {
    /// The table's number.
    pub table: u64,
    /// The segment's number.
    pub segment: u64,
    /// The table's columns.
    pub schema: SchemaRef,
    /// The number of row groups encoded in parallel.
    pub threads: usize,
    /// The progress callback.
    pub tell: Option<OnProgress>,
}

impl std::fmt::Debug for Writing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writing({:x}, {} threads)", self.table, self.threads)
    }
}

/// Batches, concatenated until they have as many rows as a row group takes.
struct Cutter {
    batches: Batches,
    waiting: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    ended: bool,
    target: Arc<AtomicUsize>,
}

impl Cutter {
    async fn next(&mut self) -> Result<Option<Vec<RecordBatch>>, DataFusionError> {
        let target = self.target.load(Ordering::Relaxed);
        while self.rows < target && self.bytes < GATHERED_MAX && !self.ended {
            match self.batches.try_next().await? {
                Some(batch) if batch.num_rows() > 0 => {
                    self.rows += batch.num_rows();
                    self.bytes += bytes_of(&batch);
                    self.waiting.push(batch);
                }
                Some(_) => {}
                None => self.ended = true,
            }
        }
        let mut wanted = target.min(self.rows);
        if wanted == 0 {
            return Ok(None);
        }
        // In proportion to the rows that go: the size is known for all rows only.
        self.bytes -= (self.bytes as u128 * wanted as u128 / self.rows as u128) as usize;
        self.rows -= wanted;
        let mut out = Vec::new();
        while wanted > 0 {
            let batch = self.waiting.remove(0);
            if batch.num_rows() > wanted {
                self.waiting.insert(0, batch.slice(wanted, batch.num_rows() - wanted));
                out.push(batch.slice(0, wanted));
                break;
            }
            wanted -= batch.num_rows();
            out.push(batch);
        }
        Ok(Some(out))
    }
}

/// The bytes that the rows of a batch take: only their part of buffers that they share.
pub(crate) fn bytes_of(batch: &RecordBatch) -> usize {
    let own = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|length| length as usize).sum(),
        DataType::BinaryView => {
            array.as_binary_view().lengths().map(|length| length as usize).sum()
        }
        _ => array.to_data().get_slice_memory_size().unwrap_or(0),
    };
    batch.columns().iter().map(own).sum()
}

/// An array with the type of a column.
///
/// # Errors
/// A value does not fit its type, or is longer than the column allows.
pub(crate) fn column_of(array: ArrayRef, field: &Field) -> Result<ArrayRef, Error> {
    let own = field.data_type();
    // Strings come in three layouts; all of them are accepted as they are.
    let as_it_is =
        is_taken(array.data_type()) && column_type(array.data_type()).as_ref() == Some(own);
    let mut array = match as_it_is {
        true => array,
        false => {
            // A value that does not fit is an error, not a null.
            let options = CastOptions { safe: false, ..CastOptions::default() };
            match own {
                DataType::List(_) => casted(&array, own).map_err(|e| {
                    let mut told = crate::failure::from_datafusion(&e);
                    told.message = format!("column \"{}\": {}", field.name(), told.message);
                    told
                })?,
                _ => {
                    let cast = cast_with_options(&array, own, &options);
                    cast.map_err(|e| in_column(&e, field.name()))?
                }
            }
        }
    };
    if let DataType::List(item) = own
        && (length_of(field).is_some() || form_of(field).is_some())
    {
        // What applies to texts applies to items.
        let inner = Field::new(field.name(), item.data_type().clone(), true);
        let inner = inner.with_metadata(field.metadata().clone());
        let lists = array.as_list::<i32>();
        let items = column_of(Arc::clone(lists.values()), &inner)?;
        let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
        let made = ListArray::try_new(Arc::clone(item), offsets, items, nulls);
        return Ok(Arc::new(made.map_err(|e| in_column(&e, field.name()))?));
    }
    if let Some(most) = length_of(field) {
        let cut = check_lengths(&array, most, field.name())?;
        array = cut.unwrap_or(array);
    }
    match form_of(field) {
        Some(form) => in_form(&array, form, field),
        None => Ok(array),
    }
}

fn columns_of(batches: &[RecordBatch], schema: &SchemaRef) -> Result<Vec<ArrayRef>, Error> {
    let column = |at: usize| {
        let field = schema.field(at);
        let parts: Vec<&dyn Array> = batches.iter().map(|b| b.column(at).as_ref()).collect();
        let array = concat(&parts).map_err(|e| crate::failure::from_arrow(&e))?;
        let array = column_of(array, field)?;
        if !is_packed(field.data_type()) {
            return Ok(array);
        }
        let packed = pack(array.as_ref()).ok_or_else(|| {
            let text = format!("column \"{}\": a value cannot be kept", field.name());
            Error::new(902, "0A000", text)
        })?;
        Ok(Arc::new(packed) as ArrayRef)
    };
    (0..schema.fields().len()).map(column).collect()
}

/// Texts in the form in which values of another type are stored.
fn in_form(array: &ArrayRef, form: Form, field: &Field) -> Result<ArrayRef, Error> {
    let texts = cast_with_options(array, &DataType::Utf8View, &CastOptions::default());
    let texts = texts.map_err(|e| in_column(&e, field.name()))?;
    let texts = texts.as_string_view();
    let mut kept: Vec<Option<String>> = Vec::with_capacity(texts.len());
    for text in texts {
        kept.push(match text {
            Some(text) => {
                let own = form.kept(text).map_err(|mut error| {
                    error.message = format!("column \"{}\": {}", field.name(), error.message);
                    error
                })?;
                Some(own.unwrap_or_else(|| text.to_owned()))
            }
            None => None,
        });
    }
    let kept: ArrayRef = Arc::new(StringArray::from(kept));
    let kept = cast_with_options(&kept, field.data_type(), &CastOptions::default());
    kept.map_err(|e| in_column(&e, field.name()))
}

/// Refuses a text of more characters than its column takes. Excess blanks at its end are cut off, as in
/// PostgreSQL: the result is then another array.
fn check_lengths(array: &ArrayRef, most: usize, name: &str) -> Result<Option<ArrayRef>, Error> {
    let texts = cast_with_options(array, &DataType::Utf8View, &CastOptions::default());
    let texts = texts.map_err(|e| in_column(&e, name))?;
    let texts = texts.as_string_view();
    // With fewer bytes than `most`, none can have more characters.
    let end = |text: &str| match text.len() > most {
        true => text.char_indices().nth(most).map(|(at, _)| at),
        false => None,
    };
    let mut cuts = false;
    for text in texts.iter().flatten() {
        let Some(at) = end(text) else { continue };
        cuts = true;
        if text[at..].bytes().any(|byte| byte != b' ') {
            let count = text.chars().count();
            let text =
                format!("column \"{name}\": a value has {count} characters, at most {most} fit");
            return Err(Error::new(12899, "22001", text)
                .next(format!("make the column longer, or cut it: substr({name}, 1, {most})")));
        }
    }
    if !cuts {
        return Ok(None);
    }
    let cut = texts.iter().map(|text| text.map(|text| &text[..end(text).unwrap_or(text.len())]));
    let cut: ArrayRef = Arc::new(cut.collect::<StringArray>());
    let cut = cast_with_options(&cut, array.data_type(), &CastOptions::default());
    cut.map(Some).map_err(|e| in_column(&e, name))
}

/// The error for a value that is not of its column's type.
pub(super) fn in_column(error: &ArrowError, name: &str) -> Error {
    let mut told = crate::failure::from_arrow(error);
    told.message = format!("column \"{name}\": {}", told.message);
    told
}

/// The error of the statement for rows that cannot be encoded.
fn not_encoded(refused: Refused) -> Error {
    match refused {
        Refused::TooLarge { bytes, most } => {
            let text = format!("a row takes {bytes} bytes, and a row group has room for {most}");
            Error::new(1461, "54000", text).next(
                NextStep::from("keep such values in files beside the table: ")
                    .cellar("asm", "cp FILE +DATA/FILE"),
            )
        }
        Refused::Type { column } => {
            Error::new(902, "0A000", format!("column {column} has a type without a column"))
        }
    }
}

/// Writes all rows of `batches` into a file of a group, durably; returns what was written.
///
/// # Errors
/// What the batches report, a value that the column does not take, no room.
pub async fn write_segment(
    mut out: SegmentFile,
    batches: Batches,
    writing: &Writing,
) -> Result<(File, SegmentFigures), Error> {
    let target = Arc::new(AtomicUsize::new(FIRST_ROWS.min(ROWS_MAX)));
    let cutter = Cutter {
        batches,
        waiting: Vec::new(),
        rows: 0,
        bytes: 0,
        ended: false,
        target: Arc::clone(&target),
    };
    let owner = Owner { table: writing.table, segment: writing.segment };
    let pieces = stream::try_unfold(cutter, |mut cutter| async move {
        let piece = cutter.next().await.map_err(|e| crate::failure::from_datafusion(&e))?;
        Ok::<_, Error>(piece.map(|piece| (piece, cutter)))
    });
    let encoded = pieces
        .map_ok(|piece| {
            let (schema, target) = (Arc::clone(&writing.schema), Arc::clone(&target));
            async move {
                let work = move || {
                    let mut out = Vec::new();
                    let arrays = columns_of(&piece, &schema)?;
                    encode_all(&arrays, owner, &target, &mut out).map_err(not_encoded)?;
                    Ok(out)
                };
                match tokio::task::spawn_blocking(work).await {
                    Ok(done) => done,
                    Err(_) => Err(Error::new(1013, "57014", "the load was stopped")),
                }
            }
        })
        .try_buffered(writing.threads.max(1));
    let mut encoded = std::pin::pin!(encoded);
    let mut headers: Vec<Header> = Vec::new();
    let (mut rows, mut end) = (0, 0);
    while let Some(groups) = encoded.try_next().await? {
        for group in groups {
            let at = offset_of(headers.len() as u64);
            let (header, bytes) = group.place(headers.len() as u64, rows);
            rows += u64::from(header.rows);
            end = at + bytes.len().next_multiple_of(PAGE) as u64;
            headers.push(header);
            out.write(at, bytes).await?;
        }
        if let Some(tell) = &writing.tell {
            tell(rows, end);
        }
    }
    let schema = schema_text(&writing.schema);
    let mut last = directory(&headers, writing.table, writing.segment, schema.as_bytes());
    let bytes = end + last.len() as u64;
    while !last.is_empty() {
        let rest = last.split_off(last.len().min(REGION));
        let piece = std::mem::replace(&mut last, rest);
        let length = piece.len() as u64;
        out.write(end, piece).await?;
        end += length;
    }
    let file = out.finish().await?;
    Ok((file, SegmentFigures { rows, row_groups: headers.len() as u32, bytes }))
}
