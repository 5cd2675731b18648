//! The writer of rows: rows of some arrays as bytes, apart from texts that are too long for them.

use arrow_array::{Array, ArrayRef, RecordBatch};
use cellar_page::CELL_BYTES_MAX;
use cellar_page::row::{INLINE_BYTES_MAX, ROW_BYTES_MIN, Value, Writer};

use super::error::RowError;
use super::layout::RowLayout;
use super::source::Source;

/// The longest row that a page takes, in bytes: there is room left for its old place after a move.
pub const ROW_BYTES_MAX: usize = CELL_BYTES_MAX - ROW_BYTES_MIN;

/// In a row, the length field before a text or bytes, in bytes.
const LENGTH: usize = 2;

/// In a row, the size of a reference to a text or bytes in pages of their own: page and length.
const ELSEWHERE: usize = 10;

/// A text or bytes that are in pages of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongValue {
    /// The number of the column.
    pub column: usize,
    /// The first page.
    pub page: u32,
    /// Length in bytes.
    pub length: u32,
}

/// Writes rows of arrays.
#[derive(Debug)]
pub struct RowWriter<'a> {
    layout: &'a RowLayout,
    sources: Vec<Source<'a>>,
    rows: usize,
    /// Bytes of a row but for its texts.
    fixed: usize,
    /// Whether a row may have a text that is to be in pages of its own.
    may_be_long: bool,
}

impl<'a> RowWriter<'a> {
    /// A writer of rows of these arrays, one for each column of the layout. A column of texts takes texts
    /// and views of texts, whichever of them the layout says.
    ///
    /// # Errors
    /// [`RowError::Count`], [`RowError::OtherType`]; [`RowError::Null`] where the schema says that there are
    /// none.
    pub fn new(layout: &'a RowLayout, arrays: &'a [ArrayRef]) -> Result<RowWriter<'a>, RowError> {
        RowWriter::with_rows(layout, arrays, arrays.first().map_or(0, Array::len))
    }

    /// A writer of the rows of a batch, which may have no columns.
    ///
    /// # Errors
    /// As of [`RowWriter::new`].
    pub fn of(layout: &'a RowLayout, batch: &'a RecordBatch) -> Result<RowWriter<'a>, RowError> {
        RowWriter::with_rows(layout, batch.columns(), batch.num_rows())
    }

    fn with_rows(
        layout: &'a RowLayout,
        arrays: &'a [ArrayRef],
        rows: usize,
    ) -> Result<RowWriter<'a>, RowError> {
        if arrays.len() != layout.columns() {
            let (expected, found) = (layout.columns(), arrays.len());
            return Err(RowError::Count { what: "arrays", expected, found });
        }
        let mut sources = Vec::with_capacity(arrays.len());
        for (column, array) in arrays.iter().enumerate() {
            if array.len() != rows {
                return Err(RowError::Count { what: "rows", expected: rows, found: array.len() });
            }
            if array.null_count() > 0 && !layout.schema.field(column).is_nullable() {
                return Err(RowError::Null { column: layout.name(column) });
            }
            sources.push(Source::of(layout, column, array)?);
        }
        let widths = layout.types.iter().map(|kind| kind.width().unwrap_or(LENGTH));
        let fixed = 2 + arrays.len().div_ceil(8) + widths.sum::<usize>();
        let longest = sources.iter().filter_map(Source::longest);
        let (most, longest) =
            longest.fold((fixed, 0), |(sum, most), one| (sum + one, most.max(one)));
        let may_be_long = longest > INLINE_BYTES_MAX || most > ROW_BYTES_MAX;
        Ok(RowWriter { layout, sources, rows, fixed, may_be_long })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The texts and bytes of a row that are to be in pages of their own, each with its column, in the order
    /// of columns: those longer than [`INLINE_BYTES_MAX`], and, until the row fits a page, the longest of the
    /// others. Most batches have none, which is known without a look at the row.
    ///
    /// # Panics
    /// There is no such row.
    pub fn long_values(&self, row: usize) -> Vec<(usize, &'a [u8])> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        if !self.may_be_long {
            return Vec::new();
        }
        let texts = self.sources.iter().map(|source| source.bytes(row)).enumerate();
        let texts = texts.filter_map(|(column, bytes)| Some((column, bytes?)));
        let (mut long, mut rest): (Vec<_>, Vec<(usize, &[u8])>) =
            texts.partition(|(_, bytes)| bytes.len() > INLINE_BYTES_MAX);
        let mut bytes = self.fixed + rest.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        bytes += long.len() * (ELSEWHERE - LENGTH);
        rest.sort_by_key(|(_, bytes)| bytes.len());
        while bytes > ROW_BYTES_MAX {
            match rest.pop() {
                Some(longest) if longest.1.len() > ELSEWHERE - LENGTH => {
                    bytes -= longest.1.len() - (ELSEWHERE - LENGTH);
                    long.push(longest);
                }
                _ => break,
            }
        }
        long.sort_by_key(|(column, _)| *column);
        long
    }

    /// Adds the bytes of a row to `out`, as [`cellar_page::row::encode`] makes them. `long` says where those
    /// of [`RowWriter::long_values`] were put; it may name any other text of the row too.
    ///
    /// # Errors
    /// [`RowError::LongMissing`], [`RowError::Nanoseconds`]: `out` is as it was.
    ///
    /// # Panics
    /// There is no such row.
    pub fn write(&self, row: usize, long: &[LongValue], out: &mut Vec<u8>) -> Result<(), RowError> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let from = out.len();
        out.reserve(self.fixed);
        let mut writer = Writer::new(out, self.sources.len());
        for (column, source) in self.sources.iter().enumerate() {
            match self.value(column, source, row, long) {
                Ok(value) => writer.push(&value),
                Err(error) => {
                    out.truncate(from);
                    return Err(error);
                }
            }
        }
        writer.finish();
        Ok(())
    }

    #[inline]
    fn value(
        &self,
        column: usize,
        source: &Source<'a>,
        row: usize,
        long: &[LongValue],
    ) -> Result<Value<'a>, RowError> {
        let value = source.value(row).map_err(|nanos| self.layout.nanoseconds(column, nanos))?;
        let bytes = match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => return Ok(value),
        };
        match long.iter().find(|own| own.column == column) {
            Some(own) => Ok(Value::Overflow { page: own.page, length: own.length }),
            None if bytes > INLINE_BYTES_MAX => Err(RowError::LongMissing { column }),
            None => Ok(value),
        }
    }
}
