//! Records of a COPY FROM: the one place that knows where a field ends, in text format and in CSV.

use super::form::{Form, Header};
use super::text::unescaped;
use crate::error::Error;

/// Records that were read together, as a grid of fields.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The fields, unescaped, one right after the other.
    data: Vec<u8>,
    /// Where each field ends in them.
    ends: Vec<usize>,
    /// Whether the field is NULL.
    nulls: Vec<bool>,
    /// The line in which each record begins.
    lines: Vec<u64>,
    width: usize,
}

impl Rows {
    /// An empty grid for records of so many fields.
    pub fn new(width: usize) -> Rows {
        Rows { width, ..Rows::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// All bytes of all fields.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// Removes all of them, and keeps the memory.
    pub fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
        self.nulls.clear();
        self.lines.clear();
    }

    /// The line in which a record begins.
    pub fn line(&self, row: usize) -> u64 {
        self.lines.get(row).copied().unwrap_or(0)
    }

    /// The position of a field among all bytes; `None`: it is NULL.
    pub fn place(&self, row: usize, column: usize) -> Option<(usize, usize)> {
        let field = row * self.width + column;
        if self.nulls[field] {
            return None;
        }
        let from = field.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some((from, self.ends[field]))
    }

    /// A field; `None`: it is NULL.
    pub fn field(&self, row: usize, column: usize) -> Option<&[u8]> {
        let (from, to) = self.place(row, column)?;
        Some(&self.data[from..to])
    }

    /// Adds a field.
    pub fn add_field(&mut self, bytes: Option<&[u8]>) {
        self.data.extend_from_slice(bytes.unwrap_or_default());
        self.end_field(bytes.is_none());
    }

    /// Ends a record whose fields have been added.
    pub fn end_row(&mut self, line: u64) {
        self.lines.push(line);
    }

    /// A mark to which the fields of a record can be rolled back.
    pub fn mark(&self) -> (usize, usize) {
        (self.data.len(), self.ends.len())
    }

    /// Removes the fields after a mark.
    pub fn back_to(&mut self, (data, fields): (usize, usize)) {
        self.data.truncate(data);
        self.ends.truncate(fields);
        self.nulls.truncate(fields);
    }

    fn end_field(&mut self, is_null: bool) {
        self.ends.push(self.data.len());
        self.nulls.push(is_null);
    }
}

/// How lines end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Newline,
    Return,
    Both,
}

/// What is found at a position.
enum Step {
    /// A record, of so many bytes.
    Record(usize),
    /// The end of the data, after so many bytes.
    End,
    /// Less than a record.
    More,
}

/// Bytes of a COPY that become records.
pub(crate) struct Records {
    form: Form,
    /// The columns, by name.
    names: Vec<String>,
    force_not_null: Vec<bool>,
    force_null: Vec<bool>,
    table: String,
    bytes: Vec<u8>,
    /// The bytes read so far.
    at: usize,
    /// With fewer bytes than this after `at` there is no complete record, as found before.
    least: usize,
    /// The line at that position.
    line: u64,
    line_end: Option<LineEnd>,
    header: Header,
    is_over: bool,
}

impl Records {
    /// For columns of a table.
    ///
    /// # Errors
    /// 42703 an option names a column that is not copied.
    pub fn new(form: &Form, table: &str, names: Vec<String>) -> Result<Records, Error> {
        Ok(Records {
            force_not_null: form.force_not_null.among(&names, "FORCE_NOT_NULL")?,
            force_null: form.force_null.among(&names, "FORCE_NULL")?,
            form: form.clone(),
            names,
            table: table.to_owned(),
            bytes: Vec::new(),
            at: 0,
            least: 0,
            line: 1,
            line_end: None,
            header: form.header,
            is_over: false,
        })
    }

    /// The data have ended: what follows is ignored.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Reads records, at most so many in all; `is_last`: there are no more bytes.
    ///
    /// # Errors
    /// 22P04 with the line.
    pub fn read(&mut self, rows: &mut Rows, most: usize, is_last: bool) -> Result<(), Error> {
        while rows.len() < most && !self.is_over {
            let left = self.bytes.len() - self.at;
            if left == 0 || (left < self.least && !is_last) {
                return Ok(());
            }
            let is_header = self.header != Header::No;
            let (data, fields) = (rows.data.len(), rows.ends.len());
            let step = self.record(rows, is_last)?;
            match step {
                Step::Record(length) => {
                    let own = &self.bytes[self.at..self.at + length];
                    if is_header {
                        self.check_header(rows, fields)?;
                    } else {
                        self.check_width(rows.ends.len() - fields)?;
                        rows.lines.push(self.line);
                    }
                    self.line += line_ends(own);
                    self.at += length;
                    self.least = 0;
                }
                Step::More => self.least = left * 2,
                Step::End => self.is_over = true,
            }
            if is_header || !matches!(step, Step::Record(_)) {
                rows.data.truncate(data);
                rows.ends.truncate(fields);
                rows.nulls.truncate(fields);
            }
            match step {
                Step::Record(_) if is_header => self.header = Header::No,
                Step::Record(_) => {}
                Step::More | Step::End => return Ok(()),
            }
        }
        Ok(())
    }

    fn record(&mut self, rows: &mut Rows, is_last: bool) -> Result<Step, Error> {
        let from = self.at;
        // The line that ends the data.
        let rest = &self.bytes[from..];
        if rest.first() == Some(&b'\\') {
            match rest.get(1) {
                None if !is_last => return Ok(Step::More),
                Some(b'.') => match rest.get(2) {
                    None if !is_last => return Ok(Step::More),
                    None | Some(b'\n' | b'\r') => return Ok(Step::End),
                    Some(_) if self.form.is_csv => {}
                    Some(_) => return Err(self.wrong("text behind the end of the data, \\.")),
                },
                _ => {}
            }
        }
        match self.form.is_csv {
            true => self.csv(rows, is_last),
            false => self.text(rows, is_last),
        }
    }

    /// A record in text format.
    fn text(&mut self, rows: &mut Rows, is_last: bool) -> Result<Step, Error> {
        let delimiter = self.form.delimiter;
        let (from, end) = (self.at, self.bytes.len());
        let (mut at, mut start, mut has_escape) = (from, from, false);
        loop {
            let length = self.bytes[at..end]
                .iter()
                .position(|byte| *byte == delimiter || matches!(byte, b'\n' | b'\r' | b'\\'));
            at += length.unwrap_or(end - at);
            if at >= end {
                if !is_last {
                    return Ok(Step::More);
                }
                self.text_field(rows, start..at, has_escape);
                return Ok(Step::Record(at - from));
            }
            match self.bytes[at] {
                b'\\' => {
                    has_escape = true;
                    // Whatever follows it belongs to the field, even a line end.
                    match self.bytes.get(at + 1) {
                        None if !is_last => return Ok(Step::More),
                        None => at += 1,
                        Some(_) => at += 2,
                    }
                }
                byte if byte == delimiter => {
                    self.text_field(rows, start..at, has_escape);
                    at += 1;
                    (start, has_escape) = (at, false);
                }
                _ => {
                    let Some(length) = self.line_end_at(at, is_last)? else {
                        return Ok(Step::More);
                    };
                    self.text_field(rows, start..at, has_escape);
                    return Ok(Step::Record(at + length - from));
                }
            }
        }
    }

    fn text_field(&self, rows: &mut Rows, place: std::ops::Range<usize>, has_escape: bool) {
        let raw = &self.bytes[place];
        let is_null = raw == self.form.null;
        match (is_null, has_escape) {
            (true, _) => {}
            (false, false) => rows.data.extend_from_slice(raw),
            (false, true) => unescaped(raw, &mut rows.data),
        }
        rows.end_field(is_null);
    }

    /// A record of CSV. A quote may open and close anywhere in a field, as in PostgreSQL.
    fn csv(&mut self, rows: &mut Rows, is_last: bool) -> Result<Step, Error> {
        let Form { delimiter, quote, escape, .. } = self.form;
        let (from, end) = (self.at, self.bytes.len());
        let (mut at, mut is_quoted, mut was_quoted) = (from, false, false);
        let mut start = rows.data.len();
        while at < end {
            let byte = self.bytes[at];
            if is_quoted {
                let next = self.bytes.get(at + 1).copied();
                if byte == escape && next.is_none() && !is_last {
                    return Ok(Step::More);
                }
                if byte == escape && next.is_some_and(|next| next == quote || next == escape) {
                    rows.data.extend(next);
                    at += 2;
                } else if byte == quote {
                    is_quoted = false;
                    at += 1;
                } else {
                    let own = &self.bytes[at + 1..end];
                    let length = own.iter().position(|byte| *byte == quote || *byte == escape);
                    let length = 1 + length.unwrap_or(own.len());
                    rows.data.extend_from_slice(&self.bytes[at..at + length]);
                    at += length;
                }
                continue;
            }
            if byte == quote {
                (is_quoted, was_quoted) = (true, true);
                at += 1;
            } else if byte == delimiter {
                self.csv_field(rows, start, was_quoted);
                (start, was_quoted) = (rows.data.len(), false);
                at += 1;
            } else if matches!(byte, b'\n' | b'\r') {
                let Some(length) = self.line_end_at(at, is_last)? else { return Ok(Step::More) };
                self.csv_field(rows, start, was_quoted);
                return Ok(Step::Record(at + length - from));
            } else {
                let own = &self.bytes[at + 1..end];
                let ends = |byte: &u8| {
                    *byte == delimiter || *byte == quote || matches!(byte, b'\n' | b'\r')
                };
                let length = 1 + own.iter().position(ends).unwrap_or(own.len());
                rows.data.extend_from_slice(&self.bytes[at..at + length]);
                at += length;
            }
        }
        match (is_last, is_quoted) {
            (false, _) => Ok(Step::More),
            (true, true) => Err(self
                .wrong("a quote opens and is never closed")
                .next("close it; a quote inside quotes is written twice: \"\"")),
            (true, false) => {
                self.csv_field(rows, start, was_quoted);
                Ok(Step::Record(at - from))
            }
        }
    }

    fn csv_field(&self, rows: &mut Rows, start: usize, was_quoted: bool) {
        let column = rows.ends.len() % self.names.len().max(1);
        let is_null_text = rows.data[start..] == self.form.null[..];
        let is_null = is_null_text
            && match was_quoted {
                true => self.force_null[column],
                false => !self.force_not_null[column],
            };
        if is_null {
            rows.data.truncate(start);
        }
        rows.end_field(is_null);
    }

    /// The bytes of the line end at a position; `None`: not known yet.
    fn line_end_at(&mut self, at: usize, is_last: bool) -> Result<Option<usize>, Error> {
        let next = self.bytes.get(at + 1);
        let found = match (self.bytes[at], next) {
            (b'\n', _) => LineEnd::Newline,
            (_, Some(b'\n')) => LineEnd::Both,
            (_, None) if !is_last => return Ok(None),
            _ => LineEnd::Return,
        };
        let known = *self.line_end.get_or_insert(found);
        if known != found {
            let what = if found == LineEnd::Newline { "newline" } else { "carriage return" };
            let letter = if found == LineEnd::Newline { "\\n" } else { "\\r" };
            return Err(match self.form.is_csv {
                true => self
                    .wrong(&format!("a {what} outside quotes, which ends no line before"))
                    .next("put the field in quotes"),
                false => self
                    .wrong(&format!("a {what}, which ends no line before"))
                    .next(format!("write it as {letter}")),
            });
        }
        Ok(Some(if found == LineEnd::Both { 2 } else { 1 }))
    }

    fn check_width(&self, fields: usize) -> Result<(), Error> {
        let width = self.names.len();
        if fields > width {
            return Err(self.wrong(&format!("more fields than the {width} columns")).next(
                "name the columns that the file has: COPY t (a, b) FROM ..; the delimiter is said with DELIMITER",
            ));
        }
        match self.names.get(fields) {
            None => Ok(()),
            Some(missing) => {
                let what = format!("no field for column \"{missing}\"");
                Err(self.wrong(&what).next(
                    "name the columns that the file has: COPY t (a, b) FROM ..; the delimiter is said with \
                     DELIMITER",
                ))
            }
        }
    }

    fn check_header(&self, rows: &Rows, first: usize) -> Result<(), Error> {
        if self.header != Header::Match {
            return Ok(());
        }
        let count = rows.ends.len() - first;
        if count != self.names.len() {
            let what = format!(
                "the header has {count} names, and {} columns are copied",
                self.names.len()
            );
            return Err(self.wrong(&what));
        }
        for (at, name) in self.names.iter().enumerate() {
            let field = first + at;
            let from = field.checked_sub(1).map_or(0, |before| rows.ends[before]);
            let own = String::from_utf8_lossy(&rows.data[from..rows.ends[field]]);
            if rows.nulls[field] || own != *name {
                let what =
                    format!("field {} of the header is \"{own}\", the column \"{name}\"", at + 1);
                return Err(self.wrong(&what).next("HEADER takes any names"));
            }
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> Error {
        let text = format!("COPY {}, line {}: {what}", self.table, self.line);
        Error::new(29913, "22P04", text)
    }
}

/// Line ends of any kind.
fn line_ends(text: &[u8]) -> u64 {
    let (mut count, mut before) = (0, 0);
    for &byte in text {
        count += u64::from(byte == b'\r' || (byte == b'\n' && before != b'\r'));
        before = byte;
    }
    count
}
