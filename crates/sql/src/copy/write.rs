//! Rows as the bytes of a COPY TO.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::Schema;
use arrow::util::display::FormatOptions;

use super::binary;
use super::form::{Columns, Form, Header};
use super::text::escape;
use crate::arrays::shown::Shown;
use crate::binary::PgType;
use crate::error::Error;
use crate::failure::from_arrow;

/// Writes rows.
pub(crate) struct Writer {
    form: Form,
    force_quote: Vec<bool>,
    /// Of the binary format.
    types: Vec<PgType>,
    /// Bytes that require quotes around a value in CSV.
    special: [bool; 256],
}

impl Writer {
    /// For rows of these columns.
    ///
    /// # Errors
    /// 42703 an option names a column that is not copied.
    pub fn new(form: &Form, schema: &Schema) -> Result<Writer, Error> {
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let mut special = [false; 256];
        for byte in [form.delimiter, form.quote, b'\n', b'\r'] {
            special[usize::from(byte)] = true;
        }
        let force_quote = form.force_quote.among(&names, "FORCE_QUOTE")?;
        let types = binary::types_of(schema);
        Ok(Writer { form: form.clone(), force_quote, types, special })
    }

    /// What comes before the rows, if anything.
    pub fn header(&self, schema: &Schema) -> Vec<u8> {
        let mut out = Vec::new();
        if self.form.is_binary {
            return binary::header();
        }
        if self.form.header == Header::No {
            return out;
        }
        for (at, field) in schema.fields().iter().enumerate() {
            if at > 0 {
                out.push(self.form.delimiter);
            }
            let is_all = self.form.force_quote == Columns::All;
            self.value(&mut out, field.name().as_bytes(), is_all, schema.fields().len() == 1);
        }
        out.push(b'\n');
        out
    }

    /// What comes after the rows.
    pub fn trailer(&self) -> Vec<u8> {
        if self.form.is_binary { binary::trailer() } else { Vec::new() }
    }

    /// Rows.
    ///
    /// # Errors
    /// A value cannot be shown; 22P05 a character does not exist in the encoding.
    pub fn rows(&self, batch: &RecordBatch) -> Result<Vec<u8>, Error> {
        if self.form.is_binary {
            return binary::rows(batch, &self.types);
        }
        let options = FormatOptions::new().with_display_error(false);
        let columns = batch.columns().iter();
        let shown =
            columns.map(|column| Shown::of(column, &options)).collect::<Result<Vec<_>, _>>();
        let shown = shown.map_err(|error| from_arrow(&error))?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut out = Vec::with_capacity(batch.num_rows() * batch.num_columns() * 8);
        let mut text = Vec::new();
        let is_single = batch.num_columns() == 1;
        for row in 0..batch.num_rows() {
            for (at, column) in shown.iter().enumerate() {
                if at > 0 {
                    out.push(self.form.delimiter);
                }
                if nulls[at].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    out.extend_from_slice(&self.form.null);
                    continue;
                }
                text.clear();
                column.write(row, &mut text).map_err(|error| from_arrow(&error))?;
                self.value(&mut out, &text, self.force_quote[at], is_single);
            }
            out.push(b'\n');
        }
        self.encoded(out)
    }

    fn value(&self, out: &mut Vec<u8>, value: &[u8], is_forced: bool, is_single: bool) {
        if !self.form.is_csv {
            escape(value, self.form.delimiter, out);
            return;
        }
        // The line that would end the data.
        let is_end = is_single && value == b"\\.";
        let has_special = value.iter().any(|byte| self.special[usize::from(*byte)]);
        if !is_forced && !is_end && !has_special && value != self.form.null {
            out.extend_from_slice(value);
            return;
        }
        out.push(self.form.quote);
        for &byte in value {
            if byte == self.form.quote || byte == self.form.escape {
                out.push(self.form.escape);
            }
            out.push(byte);
        }
        out.push(self.form.quote);
    }

    fn encoded(&self, out: Vec<u8>) -> Result<Vec<u8>, Error> {
        let Some(encoding) = self.form.encoding.filter(|own| *own != encoding_rs::UTF_8) else {
            return Ok(out);
        };
        let text = String::from_utf8_lossy(&out);
        let (bytes, _, is_lossy) = encoding.encode(&text);
        if is_lossy {
            let text = format!("some letters cannot be written in {}", encoding.name());
            return Err(
                Error::new(70013, "22P05", text).next("write UTF-8: leave the encoding out")
            );
        }
        Ok(bytes.into_owned())
    }
}
