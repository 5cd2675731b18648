//! Rows of a COPY FROM, as its bytes come.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use futures_util::StreamExt;

use super::CopyInput;
use super::binary::{Column, Tuples};
use super::form::Form;
use super::records::{Records, Rows};
use super::values::Fields;
use crate::error::Error;

/// Rows of a batch.
const ROWS: usize = 8192;

/// Bytes of the fields of a batch, after which it takes no more rows.
const BYTES: usize = 4 << 20;

/// Rows that are parsed at once.
const STEP: usize = 256;

/// The parser of the bytes.
enum Source {
    /// Of the text format and of CSV.
    Records(Box<Records>),
    /// Of the binary format.
    Tuples(Tuples),
}

impl Source {
    fn push(&mut self, bytes: &[u8]) {
        match self {
            Source::Records(own) => own.push(bytes),
            Source::Tuples(own) => own.push(bytes),
        }
    }

    fn read(&mut self, rows: &mut Rows, most: usize, is_last: bool) -> Result<(), Error> {
        match self {
            Source::Records(own) => own.read(rows, most, is_last),
            Source::Tuples(own) => own.read(rows, most, is_last),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Source::Records(own) => own.is_over(),
            Source::Tuples(own) => own.is_over(),
        }
    }
}

/// Rows of a COPY FROM.
pub(crate) struct Reader {
    input: CopyInput,
    decoder: Option<encoding_rs::Decoder>,
    source: Source,
    rows: Rows,
    /// All columns of the table.
    schema: SchemaRef,
    /// The columns that the fields are for.
    places: Vec<usize>,
    table: String,
    has_ended: bool,
}

impl Reader {
    /// For columns of a table, all of which are in `schema`; `places`: those that are copied, in the
    /// order of the fields.
    ///
    /// # Errors
    /// 42703 an option names a column that is not copied.
    pub fn new(
        input: CopyInput,
        form: &Form,
        table: &str,
        schema: SchemaRef,
        places: Vec<usize>,
    ) -> Result<Reader, Error> {
        let names = places.iter().map(|at| schema.field(*at).name().clone()).collect();
        let source = match form.is_binary {
            true => Source::Tuples(Tuples::new(table, places.len())),
            false => Source::Records(Box::new(Records::new(form, table, names)?)),
        };
        let other = form.encoding.filter(|encoding| *encoding != encoding_rs::UTF_8);
        Ok(Reader {
            input,
            decoder: other.map(|encoding| encoding.new_decoder_with_bom_removal()),
            source,
            rows: Rows::new(places.len()),
            schema,
            places,
            table: table.to_owned(),
            has_ended: false,
        })
    }

    /// The next rows, with all columns of the table: those that are not copied are NULL. `None`: there
    /// are no more.
    ///
    /// # Errors
    /// Those of the input; 22P04, 22P02 .. with the line.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.rows.clear();
        loop {
            while self.rows.len() < ROWS && self.rows.bytes().len() < BYTES {
                let before = self.rows.len();
                self.source.read(&mut self.rows, before + STEP, self.has_ended)?;
                if self.rows.len() == before {
                    break;
                }
            }
            let is_full = self.rows.len() >= ROWS || self.rows.bytes().len() >= BYTES;
            if is_full || self.source.is_over() || self.has_ended {
                break;
            }
            match self.input.next().await {
                None => {
                    self.has_ended = true;
                    self.decode(&[], true)?;
                }
                Some(bytes) => self.decode(&bytes?, false)?,
            }
        }
        if self.rows.len() > 0 {
            return self.batch().map(Some);
        }
        // If the client sends more, it is read to the end: the next statement begins after it.
        while !self.has_ended {
            self.has_ended = match self.input.next().await {
                None => true,
                Some(bytes) => bytes.map(|_| false)?,
            };
        }
        Ok(None)
    }

    fn decode(&mut self, bytes: &[u8], is_last: bool) -> Result<(), Error> {
        let Some(decoder) = &mut self.decoder else {
            self.source.push(bytes);
            return Ok(());
        };
        let room = decoder.max_utf8_buffer_length_without_replacement(bytes.len()).unwrap_or(0);
        let mut text = String::with_capacity(room);
        let (result, _) = decoder.decode_to_string_without_replacement(bytes, &mut text, is_last);
        if matches!(result, encoding_rs::DecoderResult::Malformed(..)) {
            let text = format!("COPY {}: bytes that are no letters of the encoding", self.table);
            return Err(Error::new(29913, "22021", text).next("name another: WITH (ENCODING '..')"));
        }
        self.source.push(text.as_bytes());
        Ok(())
    }

    fn batch(&self) -> Result<RecordBatch, Error> {
        let count = self.rows.len();
        let fields = self.schema.fields();
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; fields.len()];
        for (column, at) in self.places.iter().enumerate() {
            let fields =
                Fields { rows: &self.rows, column, field: &fields[*at], table: &self.table };
            arrays[*at] = Some(match self.source {
                Source::Records(_) => fields.array()?,
                Source::Tuples(_) => Column(fields).array()?,
            });
        }
        let null = |(at, array): (usize, Option<ArrayRef>)| {
            array.unwrap_or_else(|| new_null_array(fields[at].data_type(), count))
        };
        let arrays: Vec<ArrayRef> = arrays.into_iter().enumerate().map(null).collect();
        // Texts and bytes come in several layouts, and columns take all of them.
        let plain = fields.iter().zip(&arrays).map(|(field, array)| {
            let data_type = array.data_type().clone();
            field.as_ref().clone().with_nullable(true).with_data_type(data_type)
        });
        let schema = Arc::new(Schema::new(plain.collect::<Vec<_>>()));
        RecordBatch::try_new(schema, arrays).map_err(|error| crate::failure::from_arrow(&error))
    }
}
