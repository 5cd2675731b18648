//! Batches of rows from a CSV text.

use std::io::Read;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::csv::CsvForm;
use crate::csv::look::other_width;
use crate::csv::records::{Records, Rows};
use crate::csv::reject::Rejects;
use crate::csv::values::{Bad, Fields};
use crate::error::Error;
use crate::failure::from_arrow;

/// What is wanted from a text.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Its form.
    pub form: Arc<CsvForm>,
    /// All its columns.
    pub schema: SchemaRef,
    /// Those that are wanted, in this order.
    pub columns: Vec<usize>,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Where invalid rows go; without it they are an error.
    pub rejects: Option<Rejects>,
}

/// The rows of a text.
pub(crate) struct Batches<R> {
    records: Records<R>,
    rows: Rows,
    wanted: Wanted,
    schema: SchemaRef,
    header_is_next: bool,
    is_over: bool,
}

impl<R: Read> Batches<R> {
    /// The rows of a text, from its first byte.
    pub(crate) fn new(text: R, wanted: Wanted) -> Batches<R> {
        let mut records = Records::new(text, &wanted.form);
        let is_one = wanted.schema.fields().len() == 1;
        records.blank_is_row = is_one && !wanted.form.has_header;
        let fields = wanted.columns.iter().map(|at| wanted.schema.field(*at).clone());
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let header_is_next = wanted.form.has_header;
        Batches { records, rows: Rows::default(), wanted, schema, header_is_next, is_over: false }
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, Error> {
        if std::mem::take(&mut self.header_is_next) {
            self.rows.clear();
            self.is_over = !self.records.read(&mut self.rows, 1)?;
            self.check_names()?;
            self.records.blank_is_row = self.wanted.schema.fields().len() == 1;
        }
        loop {
            self.rows.clear();
            if self.is_over {
                return Ok(None);
            }
            self.is_over = !self.records.read(&mut self.rows, self.wanted.batch_rows)?;
            if self.rows.len() == 0 {
                return Ok(None);
            }
            let batch = self.batch()?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    /// Refuses a text whose first line has other names than when the types were inferred.
    fn check_names(&self) -> Result<(), Error> {
        if self.wanted.form.named || self.rows.len() == 0 {
            return Ok(());
        }
        let fields = (0..self.rows.width(0)).filter_map(|column| self.rows.field(0, column));
        let names: Vec<_> = fields.map(|(name, _)| String::from_utf8_lossy(name)).collect();
        let own: Vec<&str> =
            self.wanted.schema.fields().iter().map(|field| field.name().as_str()).collect();
        if names == own {
            return Ok(());
        }
        let text = format!(
            "line 1: its columns are {}, those of the table are {}",
            names.join(","),
            own.join(",")
        );
        Err(Error::new(29913, "22P04", text)
            .next("create or replace the table, if the file has changed for good"))
    }

    fn batch(&self) -> Result<RecordBatch, Error> {
        let (rows, form) = (&self.rows, &self.wanted.form);
        let width = self.wanted.schema.fields().len();
        let mut bad = Bad::new();
        for row in 0..rows.len() {
            let own = rows.width(row);
            if own > width || (own < width && !form.truncated_rows) {
                bad.insert(row, other_width(rows, row, width, form));
            }
        }
        let all = std::str::from_utf8(rows.bytes()).ok();
        let column = |at: &usize, bad: &mut Bad| {
            let field = self.wanted.schema.field(*at);
            let fields = Fields { rows, column: *at, name: field.name(), form };
            fields.array(field.data_type(), all, bad)
        };
        let arrays = self.wanted.columns.iter().map(|at| column(at, &mut bad)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| from_arrow(&e))?;
        if bad.is_empty() {
            return Ok(batch);
        }
        let Some(rejects) = &self.wanted.rejects else {
            // The first wrong row.
            return bad.pop_first().map_or(Ok(batch), |(_, error)| Err(error));
        };
        for (row, why) in &bad {
            rejects.add(rows, *row, why, form)?;
        }
        let kept: BooleanArray = (0..rows.len()).map(|row| Some(!bad.contains_key(&row))).collect();
        filter_record_batch(&batch, &kept).map_err(|e| from_arrow(&e))
    }
}

impl<R: Read> Iterator for Batches<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read() {
            Ok(batch) => batch.map(Ok),
            Err(error) => {
                self.is_over = true;
                self.header_is_next = false;
                Some(Err(ArrowError::ExternalError(Box::new(error))))
            }
        }
    }
}

/// The columns of a text, with the types given for them, those of a table, or else those inferred from
/// the text.
///
/// # Errors
/// 00904 a type is given for a column that does not exist.
pub(crate) fn schema_of(
    found: Vec<(String, DataType)>,
    form: &CsvForm,
    table: Option<&Schema>,
) -> Result<SchemaRef, Error> {
    let mut fields = Vec::with_capacity(found.len());
    for (name, data_type) in &form.types {
        if !found.iter().any(|(own, _)| own == name) {
            let names: Vec<&str> = found.iter().map(|(own, _)| own.as_str()).collect();
            let text = format!("there is no column \"{name}\" to be {data_type}");
            let next = format!("the columns are {}", names.join(", "));
            return Err(Error::new(904, "42703", text).next(next));
        }
    }
    for (name, data_type) in found {
        let said = form.types.iter().find(|(own, _)| *own == name);
        let own = table.and_then(|table| table.field_with_name(&name).ok());
        let data_type = match (said, own) {
            (Some((_, text)), _) => super::types::type_of_name(text)?,
            (None, Some(own)) => own.data_type().clone(),
            (None, None) => data_type,
        };
        fields.push(arrow::datatypes::Field::new(name, data_type, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}
