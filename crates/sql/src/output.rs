//! Results as a table, CSV or JSON.
//!
//! - **table**: fits the given width; numbers right-aligned; where a row does not fit, each row is
//!   shown as a record, one line a column. Ends with the number of rows.
//! - **csv**: a header line, then RFC 4180 quoting with `\n`; NULL is an empty field and an empty
//!   text is `""`. Result sets follow one another, each with its header.
//! - **json**: one line for each result set: an array of objects. Numbers are exact (decimals keep
//!   all their digits), lists are arrays, structs and maps objects, dates and other types texts; NULL is
//!   `null`; NaN and infinities, for which JSON has no numbers, are texts as PostgreSQL's `to_json` gives.

mod json;

use std::io::{self, BufWriter, Write};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions, array_value_to_string};

use crate::arrays::of_text;
use crate::instants::interval;
use crate::instants::zoned::texts_of;

/// The output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For spreadsheets and other programs.
    Csv,
    /// For programs.
    Json,
}

/// Writes one result set, batch by batch.
pub struct Writer<W: Write> {
    out: BufWriter<W>,
    format: Format,
    width_max: usize,
    rows: u64,
    columns: Vec<Column>,
    layout: Option<Layout>,
}

struct Column {
    name: String,
    number: bool,
}

enum Layout {
    /// Width of each column.
    Lines(Vec<usize>),
    /// Width of the longest name.
    Records(usize),
}

/// Bytes that are written at once.
const GATHERED: usize = 64 << 10;

/// Rows by which the columns of a table are measured. Wider cells after them make their line longer.
const MEASURED_ROWS: usize = 1000;

impl<W: Write> Writer<W> {
    /// A result set with `schema` to `out`, in lines of at most `width_max` characters if it is a
    /// table.
    ///
    /// # Errors
    /// Writing to `out` failed.
    pub fn new(out: W, format: Format, schema: &Schema, width_max: usize) -> io::Result<Self> {
        let columns = schema
            .fields()
            .iter()
            .map(|f| Column { name: f.name().clone(), number: is_number(f.data_type()) })
            .collect();
        let out = BufWriter::with_capacity(GATHERED, out);
        let mut writer = Writer { out, format, width_max, rows: 0, columns, layout: None };
        match format {
            Format::Csv => {
                let names = writer.columns.iter().map(|c| csv_field(&c.name));
                let line = names.collect::<Vec<_>>().join(",");
                writeln!(writer.out, "{line}")?;
            }
            Format::Json => write!(writer.out, "[")?,
            Format::Table => {}
        }
        Ok(writer)
    }

    /// Writes the rows of `batch`.
    ///
    /// # Errors
    /// What `out` reports; `InvalidData` for a type that cannot be shown.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let options = options();
        let cells = Cells::of(batch, &options).map_err(invalid)?;
        if self.format == Format::Table && self.layout.is_none() && batch.num_rows() > 0 {
            self.layout = Some(self.measure(&cells)?);
            self.header()?;
        }
        for row in 0..batch.num_rows() {
            match (self.format, &self.layout) {
                (Format::Csv, _) => self.csv_row(&cells, row)?,
                (Format::Json, _) => self.json_row(&cells, row)?,
                (Format::Table, Some(Layout::Records(width))) => {
                    let width = *width;
                    self.record(&cells, row, width)?;
                }
                (Format::Table, _) => self.table_row(&cells, row)?,
            }
            self.rows += 1;
        }
        // A waiting user sees the rows so far, though more may take long.
        self.out.flush()
    }

    /// Ends the result set; returns the number of its rows.
    ///
    /// # Errors
    /// Writing to `out` failed.
    pub fn finish(mut self) -> io::Result<u64> {
        match self.format {
            Format::Json => writeln!(self.out, "]")?,
            Format::Table => {
                if self.layout.is_none() {
                    let widths: Vec<usize> = self.columns.iter().map(|c| width(&c.name)).collect();
                    // Without rows the names are still shown, one below the other if they do not fit a
                    // line.
                    match total(&widths) <= self.width_max {
                        true => {
                            self.layout = Some(Layout::Lines(widths));
                            self.header()?;
                        }
                        false => self.names_below()?,
                    }
                }
                let plural = if self.rows == 1 { "" } else { "s" };
                writeln!(self.out, "({} row{plural})", self.rows)?;
            }
            Format::Csv => {}
        }
        self.out.flush()?;
        Ok(self.rows)
    }

    // --- table ---

    fn measure(&self, cells: &Cells<'_>) -> io::Result<Layout> {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| width(&c.name)).collect();
        for row in 0..cells.batch.num_rows().min(MEASURED_ROWS) {
            for (at, widest) in widths.iter_mut().enumerate() {
                *widest = (*widest).max(width(&cells.text(at, row)?));
            }
        }
        if total(&widths) <= self.width_max {
            return Ok(Layout::Lines(widths));
        }
        let names = self.columns.iter().map(|c| width(&c.name)).max();
        Ok(Layout::Records(names.unwrap_or(0)))
    }

    /// Writes the names of a result without rows that is wider than a line.
    fn names_below(&mut self) -> io::Result<()> {
        let mut line = String::new();
        for column in &self.columns {
            if !line.is_empty() && width(&line) + 2 + width(&column.name) > self.width_max {
                writeln!(self.out, "{line}")?;
                line.clear();
            }
            if !line.is_empty() {
                line.push_str("  ");
            }
            line.push_str(&column.name);
        }
        writeln!(self.out, "{line}")
    }

    fn header(&mut self) -> io::Result<()> {
        let Some(Layout::Lines(widths)) = &self.layout else {
            return Ok(());
        };
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        let line = line(&names, widths, &self.columns);
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        writeln!(self.out, "{line}\n{}", rule.join("  "))
    }

    fn table_row(&mut self, cells: &Cells<'_>, row: usize) -> io::Result<()> {
        let Some(Layout::Lines(widths)) = &self.layout else {
            return Ok(());
        };
        let texts: Vec<String> =
            (0..widths.len()).map(|at| cells.text(at, row)).collect::<io::Result<_>>()?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        writeln!(self.out, "{}", line(&texts, widths, &self.columns))
    }

    fn record(&mut self, cells: &Cells<'_>, row: usize, names: usize) -> io::Result<()> {
        writeln!(self.out, "-- {} --", self.rows + 1)?;
        let room = self.width_max.saturating_sub(names + 2).max(20);
        for (at, column) in self.columns.iter().enumerate() {
            let text = cells.text(at, row)?;
            let chars: Vec<char> = text.chars().collect();
            let mut lines = chars.chunks(room).map(|c| c.iter().collect::<String>());
            let first = lines.next().unwrap_or_default();
            writeln!(self.out, "{}", format!("{:<names$}  {first}", column.name).trim_end())?;
            for more in lines {
                writeln!(self.out, "{:<names$}  {more}", "")?;
            }
        }
        Ok(())
    }

    // --- for programs ---

    fn csv_row(&mut self, cells: &Cells<'_>, row: usize) -> io::Result<()> {
        for at in 0..self.columns.len() {
            if at > 0 {
                self.out.write_all(b",")?;
            }
            if !cells.is_null(at, row) {
                let text = cells.raw(at, row)?;
                self.out.write_all(csv_field(&text).as_bytes())?;
            }
        }
        self.out.write_all(b"\n")
    }

    fn json_row(&mut self, cells: &Cells<'_>, row: usize) -> io::Result<()> {
        if self.rows > 0 {
            self.out.write_all(b",")?;
        }
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        json_object(cells, &names, row, &mut self.out)
    }
}

/// Adds each row of `batch` as a JSON object on a line of its own, with every column.
///
/// # Errors
/// `InvalidData` for a type that cannot be shown.
pub(crate) fn json_lines(batch: &RecordBatch, out: &mut Vec<u8>) -> io::Result<()> {
    let options = options();
    let cells = Cells::of(batch, &options).map_err(invalid)?;
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    for row in 0..batch.num_rows() {
        json_object(&cells, &names, row, out)?;
        out.push(b'\n');
    }
    Ok(())
}

/// A row as a JSON object.
fn json_object(
    cells: &Cells<'_>,
    names: &[&str],
    row: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    for (at, name) in names.iter().enumerate() {
        let before = if at == 0 { "{" } else { "," };
        write!(out, "{before}{}:", json::text(name))?;
        if cells.is_null(at, row) {
            out.write_all(b"null")?;
            continue;
        }
        let array = cells.batch.column(at);
        let text = match json::is_nested(array.data_type()) {
            true => json::value(&**array, row, &options()).map_err(invalid)?,
            false => json::leaf(cells.raw(at, row)?, array.data_type()),
        };
        out.write_all(text.as_bytes())?;
    }
    out.write_all(if names.is_empty() { b"{}" } else { b"}" })
}

struct Cells<'a> {
    batch: &'a RecordBatch,
    formatters: Vec<ArrayFormatter<'a>>,
    nulls: Vec<Option<NullBuffer>>,
}

impl<'a> Cells<'a> {
    fn of(batch: &'a RecordBatch, options: &'a FormatOptions<'a>) -> Result<Self, ArrowError> {
        let shown = |column: &'a ArrayRef| ArrayFormatter::try_new(column.as_ref(), options);
        let formatters = batch.columns().iter().map(shown).collect::<Result<Vec<_>, _>>()?;
        // For a column of type null, or a dictionary, the array's own null mask does not tell all.
        let nulls = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        Ok(Cells { batch, formatters, nulls })
    }

    fn is_null(&self, column: usize, row: usize) -> bool {
        self.nulls[column].as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn raw(&self, column: usize, row: usize) -> io::Result<String> {
        if let DataType::Timestamp(_, Some(_)) = self.batch.column(column).data_type()
            && let Ok(texts) = texts_of(&self.batch.column(column).slice(row, 1))
        {
            return Ok(texts.value(0).to_owned());
        }
        if let DataType::List(_) = self.batch.column(column).data_type()
            && let Ok(texts) = of_text::texts_of(&self.batch.column(column).slice(row, 1))
        {
            return Ok(texts.value(0).to_owned());
        }
        if let DataType::Interval(_) | DataType::Duration(_) = self.batch.column(column).data_type()
            && let Ok(texts) = interval::texts_of(&self.batch.column(column).slice(row, 1))
        {
            return Ok(texts.value(0).to_owned());
        }
        let shown = self.formatters[column].value(row).try_to_string();
        shown.or_else(|error| self.number(column, row).ok_or(error)).map_err(invalid)
    }

    /// A date or timestamp of a year that cannot be written: its number, as stored.
    fn number(&self, column: usize, row: usize) -> Option<String> {
        let one = self.batch.column(column).slice(row, 1);
        let is_instant = matches!(
            one.data_type(),
            DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64
        );
        let plain = is_instant.then(|| cast(&one, &DataType::Int64).ok())??;
        array_value_to_string(&plain, 0).ok()
    }

    /// As a table shows it: on one line, control characters visible.
    fn text(&self, column: usize, row: usize) -> io::Result<String> {
        if self.is_null(column, row) {
            return Ok(String::new());
        }
        let text = self.raw(column, row)?;
        if !text.contains(char::is_control) {
            return Ok(text);
        }
        Ok(text
            .chars()
            .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
            .collect())
    }
}

fn options() -> FormatOptions<'static> {
    FormatOptions::new()
        // Inside lists and structs; a null at the top level is shown as nothing.
        .with_null("null")
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
        .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
}

fn invalid(error: ArrowError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => values.is_numeric(),
        other => other.is_numeric(),
    }
}

/// The width of `text` in a terminal: one column for each character.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// The length of a line of columns with these widths, with two blanks between them.
fn total(widths: &[usize]) -> usize {
    widths.iter().map(|w| w + 2).sum::<usize>().saturating_sub(2)
}

fn line(texts: &[&str], widths: &[usize], columns: &[Column]) -> String {
    let mut line = String::new();
    for ((text, width), column) in texts.iter().zip(widths).zip(columns) {
        if column.number {
            line.push_str(&format!("{text:>width$}  "));
        } else {
            line.push_str(&format!("{text:<width$}  "));
        }
    }
    line.truncate(line.trim_end().len());
    line
}

fn csv_field(text: &str) -> String {
    let plain = !text.is_empty() && !text.contains(['"', ',', '\n', '\r']);
    if plain { text.to_string() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}
