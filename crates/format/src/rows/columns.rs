//! The columns of rows: stored rows are read straight into buffers, which become arrays.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use cellar_page::row::{BadRow, Held, Reader, Type};

use super::buffer::{Buffer, TEXT_BYTES_MAX, Unread};
use super::error::RowError;
use super::layout::{DefaultValue, RowLayout, is_list};
use super::source::Source;
use super::write::LongValue;

/// The most text bytes that are reserved for a column in advance.
const RESERVED_MAX: usize = 1 << 20;

/// The step for a column of a row.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: Type,
    /// The buffer that takes it.
    buffer: Option<usize>,
}

/// The step for a row that has all columns and no NULL.
#[derive(Clone, Copy, Debug)]
enum RowStep {
    /// Skips this many bytes; the last of their columns.
    Pass(usize, usize),
    /// Skips a text; its column.
    PassText(usize),
    /// The next value goes to a buffer.
    Take(usize),
}

/// Reads rows into columns.
#[derive(Debug)]
pub struct RowColumns {
    layout: RowLayout,
    schema: SchemaRef,
    /// The columns that are read, rising, each with its buffer.
    columns: Vec<usize>,
    buffers: Vec<Buffer>,
    /// The buffer of each column of the result.
    outputs: Vec<usize>,
    /// For each column up to the last that is read.
    steps: Vec<Step>,
    /// The same, for rows that lack nothing.
    moves: Vec<RowStep>,
    rows: usize,
    /// The number of rows in the last result, and text bytes of each of its columns: a guess for the next one.
    last: (usize, Vec<usize>),
}

impl RowColumns {
    /// Reads these columns of a layout, and gives them out in this order. One may be named twice; if there
    /// are none, rows are counted.
    ///
    /// # Errors
    /// [`RowError::NoColumn`].
    pub fn new(layout: &RowLayout, projection: &[usize]) -> Result<RowColumns, RowError> {
        projection.iter().try_for_each(|column| layout.check(*column))?;
        let mut columns = projection.to_vec();
        columns.sort_unstable();
        columns.dedup();
        let buffer_of = |column: &usize| columns.binary_search(column).ok();
        let outputs = projection.iter().filter_map(buffer_of).collect();
        let fields = projection.iter().map(|column| layout.schema.fields()[*column].clone());
        let fields: Vec<_> = fields.collect();
        let schema = Schema::new_with_metadata(fields, layout.schema.metadata().clone());
        let steps = columns.last().map_or(0, |last| last + 1);
        let kinds = layout.types[..steps].iter().enumerate();
        let steps = kinds.map(|(column, kind)| Step { kind: *kind, buffer: buffer_of(&column) });
        let steps: Vec<Step> = steps.collect();
        Ok(RowColumns {
            layout: layout.clone(),
            schema: Arc::new(schema),
            buffers: columns.iter().map(|column| Buffer::new(layout.types[*column])).collect(),
            outputs,
            moves: moves(&steps),
            steps,
            columns,
            rows: 0,
            last: (0, Vec::new()),
        })
    }

    /// The schema of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows were pushed since the last result.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the texts that these rows have in the columns that are read.
    pub fn text_bytes(&self) -> usize {
        self.buffers.iter().map(Buffer::text).sum()
    }

    /// The columns that are read, rising, of these rows.
    pub(super) fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Drops these rows.
    pub(super) fn clear(&mut self) {
        self.rows = 0;
        self.buffers.iter_mut().for_each(|buffer| buffer.truncate(0));
    }

    /// The values of a row that are in pages of their own, of the columns that are read, in the order of
    /// columns.
    ///
    /// # Errors
    /// [`RowError::Damaged`].
    pub fn long_values(&self, row: &[u8]) -> Result<Vec<LongValue>, RowError> {
        let mut long = Vec::new();
        let mut reader = Reader::new(row)?;
        let count = reader.columns();
        for (column, step) in self.steps.iter().enumerate().take(count) {
            if reader.is_null(column) {
                continue;
            }
            let bad = BadRow { column };
            if step.kind.width().is_some() || step.buffer.is_none() {
                reader.skip(step.kind).ok_or(bad)?;
            } else if let Held::Elsewhere { page, length } = reader.held().ok_or(bad)? {
                long.push(LongValue { column, page, length });
            }
        }
        Ok(long)
    }

    /// Adds a row. `long` has the bytes of [`RowColumns::long_values`], each with its column. Most rows have
    /// none: whoever scans pushes rows without any, and reads them where [`RowError::LongMissing`] is told.
    ///
    /// # Errors
    /// [`RowError::Damaged`], [`RowError::LongMissing`], [`RowError::LongLength`]; [`RowError::Full`] where the
    /// rows so far are to be taken first. Nothing is added then.
    pub fn push(&mut self, row: &[u8], long: &[(usize, Bytes)]) -> Result<(), RowError> {
        if self.rows == 0 {
            let (rows, text) = &self.last;
            let buffers = self.buffers.iter_mut().zip(text);
            buffers.for_each(|(buffer, text)| buffer.reserve(*rows, *text));
        }
        let reader = Reader::new(row)?;
        let is_whole = reader.columns() >= self.steps.len() && !reader.has_nulls();
        let read = match is_whole {
            true => self.read_whole(reader, long),
            false => self.read(reader, long),
        };
        match read {
            Ok(()) => self.rows += 1,
            Err(_) => self.buffers.iter_mut().for_each(|buffer| buffer.truncate(self.rows)),
        }
        read
    }

    fn read_whole(
        &mut self,
        mut reader: Reader<'_>,
        long: &[(usize, Bytes)],
    ) -> Result<(), RowError> {
        for at in 0..self.moves.len() {
            match self.moves[at] {
                RowStep::Pass(bytes, column) => {
                    reader.take(bytes).ok_or(BadRow { column })?;
                }
                RowStep::PassText(column) => {
                    reader.held().ok_or(BadRow { column })?;
                }
                RowStep::Take(buffer) => {
                    if let Err(unread) = self.buffers[buffer].read(&mut reader) {
                        self.unread(buffer, unread, long)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, mut reader: Reader<'_>, long: &[(usize, Bytes)]) -> Result<(), RowError> {
        let written = reader.columns().min(self.steps.len());
        for column in 0..written {
            let Step { kind, buffer } = self.steps[column];
            let is_null = reader.is_null(column);
            match buffer {
                Some(buffer) if is_null => self.buffers[buffer].push_null(self.rows),
                Some(buffer) => {
                    if let Err(unread) = self.buffers[buffer].read(&mut reader) {
                        self.unread(buffer, unread, long)?;
                    }
                }
                None if is_null => {}
                None => reader.skip(kind).ok_or(BadRow { column })?,
            }
        }
        let later = self.columns.partition_point(|column| *column < written);
        (later..self.columns.len()).try_for_each(|buffer| self.add_default(buffer))
    }

    /// Goes on where a buffer has not taken a value.
    #[cold]
    fn unread(
        &mut self,
        buffer: usize,
        unread: Unread,
        long: &[(usize, Bytes)],
    ) -> Result<(), RowError> {
        let column = self.columns[buffer];
        let length = match unread {
            Unread::Damaged => return Err(BadRow { column }.into()),
            Unread::Full => return Err(RowError::Full { column, max: TEXT_BYTES_MAX }),
            Unread::Elsewhere { length } => length as usize,
        };
        let given = long.iter().find(|(own, _)| *own == column);
        let (_, bytes) = given.ok_or(RowError::LongMissing { column })?;
        if bytes.len() != length {
            return Err(RowError::LongLength { column, expected: length, found: bytes.len() });
        }
        self.buffers[buffer].push(bytes).map_err(|unread| unread_default(column, unread))
    }

    /// Adds the default of a column for rows that lack it.
    fn add_default(&mut self, buffer: usize) -> Result<(), RowError> {
        let (column, rows) = (self.columns[buffer], self.rows);
        let own = &mut self.buffers[buffer];
        let added = match &self.layout.defaults[column] {
            DefaultValue::Null => {
                own.push_null(rows);
                Ok(())
            }
            DefaultValue::Row(row) => own.read(&mut Reader::new(row)?),
            DefaultValue::Long(value) => {
                let source = Source::of(&self.layout, column, value)?;
                own.push(source.bytes(0).unwrap_or_default())
            }
        };
        added.map_err(|unread| unread_default(column, unread))
    }

    /// The columns of the rows that were pushed since the last result, in the order of the projection.
    ///
    /// # Errors
    /// [`RowError::NotText`]: these rows are given up.
    pub fn finish(&mut self) -> Result<Vec<ArrayRef>, RowError> {
        let rows = std::mem::take(&mut self.rows);
        let text = self.buffers.iter().map(|buffer| buffer.text().min(RESERVED_MAX));
        self.last = (rows, text.collect());
        let mut arrays = Vec::with_capacity(self.buffers.len());
        let mut bad = None;
        for (column, buffer) in self.columns.iter().zip(&mut self.buffers) {
            let full = std::mem::replace(buffer, Buffer::new(self.layout.types[*column]));
            match full.into_array(rows, self.layout.schema.field(*column).data_type()) {
                Ok(array) => match &self.layout.labels[*column] {
                    None => arrays.push(array),
                    Some(labels) => match labels.texts(&array) {
                        Ok(array) => arrays.push(array),
                        // A code that no label has.
                        Err(_) => return Err(BadRow { column: *column }.into()),
                    },
                },
                Err(row) => bad = bad.or(Some((*column, row))),
            }
        }
        match bad {
            Some((column, _)) if is_list(self.layout.schema.field(column).data_type()) => {
                Err(BadRow { column }.into())
            }
            Some((column, row)) => Err(RowError::NotText { column: self.layout.name(column), row }),
            None => Ok(self.outputs.iter().map(|buffer| arrays[*buffer].clone()).collect()),
        }
    }

    /// As [`RowColumns::finish`], as a batch, which knows its rows if it has no columns too.
    ///
    /// # Errors
    /// As of it; [`RowError::Null`] where the schema says that there are none.
    pub fn finish_batch(&mut self) -> Result<RecordBatch, RowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let arrays = self.finish()?;
        let fields = self.schema.fields().iter().zip(&arrays);
        let mut with_nulls =
            fields.filter(|(field, array)| !field.is_nullable() && array.null_count() > 0);
        if let Some((field, _)) = with_nulls.next() {
            return Err(RowError::Null { column: field.name().clone() });
        }
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        Ok(batch.expect("arrays of the types of the schema, equally long"))
    }
}

/// The error of bytes that a buffer has not taken.
fn unread_default(column: usize, unread: Unread) -> RowError {
    match unread {
        Unread::Full => RowError::Full { column, max: TEXT_BYTES_MAX },
        _ => BadRow { column }.into(),
    }
}

/// Steps without NULL: adjacent unread columns of fixed width are merged into one.
fn moves(steps: &[Step]) -> Vec<RowStep> {
    let mut moves = Vec::new();
    for (column, step) in steps.iter().enumerate() {
        let pass = match (step.buffer, step.kind.width()) {
            (Some(buffer), _) => RowStep::Take(buffer),
            (None, None) => RowStep::PassText(column),
            (None, Some(width)) => match moves.last_mut() {
                Some(RowStep::Pass(bytes, last)) => {
                    (*bytes, *last) = (*bytes + width, column);
                    continue;
                }
                _ => RowStep::Pass(width, column),
            },
        };
        moves.push(pass);
    }
    moves
}
