//! A partition of a heap scan in progress: stored rows are tested, and then turned into columns or
//! aggregated.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::SchemaRef;
use cellar_format::kernel::prefetch;
use cellar_format::rows::{RowAggregate, RowColumns as Builder, RowError, RowFilter};
use cellar_instance::heap::{Entries, Scan, Statement};

use super::scan_filters::ScanFilters;
use super::table::{RowColumns, row_error};
use crate::columnar::exec::Partial;
use crate::columnar::groups::columns_to_batch;
use crate::error::Error;

/// Rows of a batch.
const ROWS: usize = 8192;

/// Bytes of texts in a batch, beyond which it ends with the page.
const TEXT_BYTES: usize = 8 << 20;

/// The number of groups beyond which those so far are emitted.
const GROUPS: usize = 16 << 10;

/// Entries of an index that are read together, at first and at most.
const ENTRIES_FIRST: usize = 16;
const ENTRIES: usize = 256;

/// A row is prefetched from memory while this many before it are processed.
const AHEAD: usize = 4;

/// Where rows come from.
pub(super) enum Source {
    Pages(Scan),
    /// Ranges of an index, read from the last to the first; `keys`: the index, if its keys hold all columns needed.
    Index {
        ranges: Vec<Entries>,
        keys: Option<usize>,
    },
}

/// What a scan produces.
#[derive(Clone)]
pub(super) struct Shape {
    pub columns: Arc<RowColumns>,
    pub statement: Statement,
    /// The columns produced; the number after the table's last means the row number.
    pub projection: Vec<usize>,
    pub schema: SchemaRef,
}

/// A partition's scan in progress.
pub(super) struct Reading {
    shape: Shape,
    source: Source,
    filters: ScanFilters,
    /// How many rows are still wanted.
    left: usize,
    is_over: bool,
    /// How many entries to read next: few at first, as no more may be wanted.
    entries: usize,
    /// For a scan that produces groups.
    groups: Option<(RowAggregate, Arc<Partial>)>,
}

/// Columns that are being made.
struct RowsInProgress<'b> {
    builder: &'b mut Builder,
    /// The numbers of the rows, if they are wanted.
    ids: Option<Vec<u64>>,
}

impl RowsInProgress<'_> {
    /// Processes a row; `false`: it has long values that must be read first.
    fn take(&mut self, columns: &RowColumns, id: u64, row: &[u8]) -> Result<bool, Error> {
        match self.builder.push(row, &[]) {
            Ok(()) => {
                self.count(id);
                Ok(true)
            }
            Err(RowError::LongMissing { .. }) => Ok(false),
            Err(error) => Err(row_error(&columns.name, &error)),
        }
    }

    fn count(&mut self, id: u64) {
        if let Some(ids) = &mut self.ids {
            ids.push(id);
        }
    }
}

impl Shape {
    /// Takes the rows that pass, at most so many.
    async fn take_all<'r>(
        &self,
        made: &mut RowsInProgress<'_>,
        filter: Option<&'r RowFilter>,
        rows: impl Iterator<Item = (u64, &'r [u8])>,
        most: usize,
    ) -> Result<(), Error> {
        let columns = &*self.columns;
        let mut filter_run = filter.map(RowFilter::ask);
        let rows: Vec<(u64, &'r [u8])> = rows.collect();
        for (at, (id, row)) in rows.iter().copied().enumerate() {
            if made.builder.rows() >= most {
                break;
            }
            if let Some((_, later)) = rows.get(at + AHEAD) {
                prefetch(later);
            }
            if let (Some(filter_run), Some(filter)) = (&mut filter_run, filter) {
                let passes = match filter_run.passes(row, &[]) {
                    Err(RowError::LongMissing { .. }) => {
                        columns.passes_long(filter, &self.statement, row).await?
                    }
                    known => known.map_err(|error| row_error(&columns.name, &error))?,
                };
                if !passes {
                    continue;
                }
            }
            if !made.take(columns, id, row)? {
                columns.push(made.builder, &self.statement, row).await?;
                made.count(id);
            }
        }
        Ok(())
    }
}

impl Reading {
    /// Of a source, before its first row; at most so many are wanted.
    pub fn new(
        shape: Shape,
        source: Source,
        filters: ScanFilters,
        fetch: Option<usize>,
    ) -> Reading {
        let left = fetch.unwrap_or(usize::MAX);
        let (is_over, entries, groups) = (false, ENTRIES_FIRST, None);
        Reading { shape, source, filters, left, is_over, entries, groups }
    }

    /// The same, with groups of rows as the result.
    pub fn of_groups(
        shape: Shape,
        source: Source,
        filters: ScanFilters,
        partial: Arc<Partial>,
    ) -> Result<Reading, Error> {
        let groups = RowAggregate::new(shape.columns.layout(), &partial.aggregate);
        let groups = groups.map_err(|error| row_error(&shape.columns.name, &error))?;
        Ok(Reading {
            groups: Some((groups, partial)),
            ..Reading::new(shape, source, filters, None)
        })
    }

    /// Adds the next rows to columns.
    async fn more(&mut self, made: &mut RowsInProgress<'_>) -> Result<(), Error> {
        let Reading { shape, source, filters, left, is_over, entries, .. } = self;
        let filter = filters.filter(&shape.columns)?;
        match source {
            Source::Pages(scan) => match scan.next().await? {
                None => *is_over = true,
                Some(rows) => shape.take_all(made, filter, rows.iter(), *left).await?,
            },
            Source::Index { ranges, keys } => {
                let Some(range) = ranges.last_mut() else {
                    *is_over = true;
                    return Ok(());
                };
                let wanted = *entries;
                let found = match keys {
                    Some(index) => {
                        let found = range.next_keys(wanted).await?;
                        let rows = shape.columns.rows_of_keys(*index, &found)?;
                        let rows = rows.iter().map(|(id, row)| (*id, &row[..]));
                        shape.take_all(made, filter, rows, *left).await?;
                        found.len()
                    }
                    None => {
                        let found = range.next(wanted).await?;
                        let rows = shape.statement.rows(&shape.columns.rows, &found).await?;
                        let pairs = found.iter().zip(&rows);
                        let rows = pairs.filter_map(|(id, row)| Some((*id, &row.as_ref()?[..])));
                        shape.take_all(made, filter, rows, *left).await?;
                        found.len()
                    }
                };
                if found < wanted {
                    ranges.pop();
                }
                *entries = (wanted * 4).min(ENTRIES);
            }
        }
        Ok(())
    }

    /// The next groups; `None` after the last.
    async fn next_groups(
        &mut self,
        groups: &mut RowAggregate,
        partial: &Partial,
    ) -> Result<Option<RecordBatch>, Error> {
        while !self.is_over && groups.groups() < GROUPS && groups.text_bytes() < TEXT_BYTES {
            self.more(&mut RowsInProgress { builder: groups.columns(), ids: None }).await?;
            groups.settle().map_err(|error| self.failed(&error))?;
        }
        let known = groups.finish().map_err(|error| self.failed(&error))?;
        let batch = known.map(|known| columns_to_batch(known, partial)).transpose();
        batch.map_err(|error| crate::failure::from_datafusion(&error))
    }

    fn failed(&self, error: &RowError) -> Error {
        row_error(&self.shape.columns.name, error)
    }

    /// The next rows, or groups of them; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        if let Some((mut groups, partial)) = self.groups.take() {
            let batch = self.next_groups(&mut groups, &partial).await;
            self.groups = Some((groups, partial));
            return batch;
        }
        let row_id = self.shape.columns.schema.fields().len();
        let (own, ids): (Vec<usize>, Vec<usize>) =
            self.shape.projection.iter().partition(|at| **at < row_id);
        let mut builder = self.shape.columns.builder(&own)?;
        let ids = (!ids.is_empty()).then(Vec::new);
        let mut made = RowsInProgress { builder: &mut builder, ids };
        while !self.is_over
            && made.builder.rows() < ROWS.min(self.left)
            && made.builder.text_bytes() < TEXT_BYTES
        {
            self.more(&mut made).await?;
        }
        let count = made.builder.rows();
        if count == 0 {
            return Ok(None);
        }
        self.left -= count.min(self.left);
        let Shape { columns, projection, schema, .. } = &self.shape;
        let arrays = made.builder.finish().map_err(|error| row_error(&columns.name, &error))?;
        let mut arrays = arrays.into_iter();
        let ids = Arc::new(UInt64Array::from(made.ids.unwrap_or_default())) as ArrayRef;
        let arrays: Vec<ArrayRef> = projection
            .iter()
            .filter_map(|at| if *at == row_id { Some(Arc::clone(&ids)) } else { arrays.next() })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options);
        batch.map(Some).map_err(|error| crate::failure::from_arrow(&error))
    }
}
