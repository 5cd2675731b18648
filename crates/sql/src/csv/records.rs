//! Records of a CSV text, one after the other: the one place that knows where a field ends.

use std::io::{self, Read};

use crate::csv::CsvForm;
use crate::error::{Error, Position};

/// Bytes that are read at once.
const READ: usize = 256 << 10;

/// What a byte means outside and inside of quotes.
const PLAIN: u8 = 0;
const SEPARATES: u8 = 1;
const ENDS_LINE: u8 = 2;
const QUOTES: u8 = 3;
const ESCAPES: u8 = 4;

/// What makes a text unreadable.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A quote that is never closed.
    Open(Position),
    /// Text after the closing quote of a field that opened there.
    Stray { at: Position, opened: Position },
    /// The text cannot be read.
    Io(io::Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        match fault {
            Fault::Open(Position { line, column }) => {
                let text =
                    format!("line {line}, column {column}: a quote opens and is never closed");
                Error::new(29913, "22P04", text)
                    .next("close it; a quote inside quotes is written twice: \"\"")
            }
            Fault::Stray { at, opened } => {
                let more = match opened.line == at.line {
                    true => String::new(),
                    false => format!(" (the quote that opens in line {} ends here)", opened.line),
                };
                let text = format!(
                    "line {}, column {}: text behind the closing quote of a field{more}",
                    at.line, at.column
                );
                Error::new(29913, "22P04", text).next(
                    "close every quote in its own field, and write a quote inside quotes twice: \
                     \"\"",
                )
            }
            Fault::Io(error) => crate::failure::io_error(&error),
        }
    }
}

/// Records that were read together.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The fields, one right after the other, without their quotes.
    data: Vec<u8>,
    /// Where each field ends in them.
    ends: Vec<usize>,
    /// Whether the field was quoted.
    quoted: Vec<bool>,
    /// For each record, its first field and the line in which it begins.
    records: Vec<(usize, u64)>,
}

impl Rows {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Removes all of them, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
        self.quoted.clear();
        self.records.clear();
    }

    /// All bytes of all fields.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data
    }

    fn first(&self, row: usize) -> usize {
        self.records.get(row).map_or(self.ends.len(), |(first, _)| *first)
    }

    /// The number of fields of a record.
    pub(crate) fn width(&self, row: usize) -> usize {
        self.first(row + 1) - self.first(row)
    }

    /// The line in which a record begins.
    pub(crate) fn line(&self, row: usize) -> u64 {
        self.records.get(row).map_or(0, |(_, line)| *line)
    }

    fn start(&self, field: usize) -> usize {
        field.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// The position of a field's bytes, and whether it was quoted; `None`: the record ends before it.
    pub(crate) fn place(&self, row: usize, column: usize) -> Option<(usize, usize, bool)> {
        if column >= self.width(row) {
            return None;
        }
        let field = self.first(row) + column;
        Some((self.start(field), self.ends[field], self.quoted[field]))
    }

    /// A field and whether it was quoted.
    pub(crate) fn field(&self, row: usize, column: usize) -> Option<(&[u8], bool)> {
        let (from, to, quoted) = self.place(row, column)?;
        Some((&self.data[from..to], quoted))
    }

    /// The line in which a field begins: line ends in the fields before it count.
    pub(crate) fn line_of(&self, row: usize, column: usize) -> u64 {
        let first = self.first(row);
        let field = (first + column).min(self.ends.len());
        let before = &self.data[self.start(first)..self.start(field)];
        self.line(row) + line_ends(before)
    }
}

/// Line ends of any kind.
fn line_ends(text: &[u8]) -> u64 {
    let mut count = 0;
    let mut before = 0;
    for &byte in text {
        count += u64::from(byte == b'\r' || (byte == b'\n' && before != b'\r'));
        before = byte;
    }
    count
}

/// What a field ended with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Field,
    Record,
}

/// The records of a text.
pub(crate) struct Records<R> {
    source: R,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// The bytes of the form.
    quote: u8,
    double_quote: bool,
    escape: Option<u8>,
    comment: Option<u8>,
    has_terminator: bool,
    outside: [u8; 256],
    inside: [u8; 256],
    /// The line that the next byte is in, from 1.
    line: u64,
    /// The last line ended with a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// Whether an empty line is a row: it is, of one column.
    pub(crate) blank_is_row: bool,
}

impl<R: Read> Records<R> {
    /// The records of a text in that form.
    pub(crate) fn new(source: R, form: &CsvForm) -> Records<R> {
        let (mut outside, mut inside) = ([PLAIN; 256], [PLAIN; 256]);
        match form.terminator {
            Some(byte) => outside[usize::from(byte)] = ENDS_LINE,
            None => {
                for byte in [b'\n', b'\r'] {
                    outside[usize::from(byte)] = ENDS_LINE;
                }
            }
        }
        for byte in [b'\n', b'\r'] {
            inside[usize::from(byte)] = ENDS_LINE;
        }
        outside[usize::from(form.delimiter)] = SEPARATES;
        if let Some(escape) = form.escape {
            inside[usize::from(escape)] = ESCAPES;
        }
        inside[usize::from(form.quote)] = QUOTES;
        Records {
            source,
            buffer: vec![0; READ],
            at: 0,
            end: 0,
            quote: form.quote,
            double_quote: form.double_quote,
            escape: form.escape,
            comment: form.comment,
            has_terminator: form.terminator.is_some(),
            outside,
            inside,
            line: 1,
            after_return: false,
            blank_is_row: false,
        }
    }

    /// Reads more; returns false at the end of the text. All that was read before must be consumed.
    fn fill(&mut self) -> Result<bool, Fault> {
        loop {
            match self.source.read(&mut self.buffer) {
                Ok(length) => {
                    (self.at, self.end) = (0, length);
                    return Ok(length > 0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Fault::Io(e)),
            }
        }
    }

    fn peek(&mut self) -> Result<Option<u8>, Fault> {
        if self.at == self.end && !self.fill()? {
            return Ok(None);
        }
        Ok(Some(self.buffer[self.at]))
    }

    /// Called after the byte that ends a line.
    fn end_line(&mut self, byte: u8) {
        self.at += 1;
        self.line += 1;
        self.after_return = byte == b'\r' && !self.has_terminator;
    }

    fn skip_line(&mut self) -> Result<(), Fault> {
        while let Some(byte) = self.peek()? {
            if self.outside[usize::from(byte)] == ENDS_LINE {
                self.end_line(byte);
                return Ok(());
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Adds records until there are `most`, or the text ends: then it returns false.
    pub(crate) fn read(&mut self, rows: &mut Rows, most: usize) -> Result<bool, Fault> {
        while rows.len() < most {
            if !self.record(rows)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn record(&mut self, rows: &mut Rows) -> Result<bool, Fault> {
        loop {
            let Some(byte) = self.peek()? else { return Ok(false) };
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                self.at += 1;
            } else if Some(byte) == self.comment {
                self.skip_line()?;
            } else if self.outside[usize::from(byte)] == ENDS_LINE && !self.blank_is_row {
                self.end_line(byte);
            } else {
                break;
            }
        }
        rows.records.push((rows.ends.len(), self.line));
        let mut column = 1;
        loop {
            let quoted = self.peek()? == Some(self.quote);
            let end = if quoted { self.quoted(rows, column)? } else { self.plain(rows)? };
            rows.ends.push(rows.data.len());
            rows.quoted.push(quoted);
            if end == End::Record {
                return Ok(true);
            }
            column += 1;
        }
    }

    /// The rest of an unquoted field, up to what ends it.
    fn plain(&mut self, rows: &mut Rows) -> Result<End, Fault> {
        loop {
            let rest = &self.buffer[self.at..self.end];
            let length = rest.iter().position(|b| self.outside[usize::from(*b)] != PLAIN);
            rows.data.extend_from_slice(&rest[..length.unwrap_or(rest.len())]);
            let Some(length) = length else {
                self.at = self.end;
                if self.fill()? {
                    continue;
                }
                return Ok(End::Record);
            };
            self.at += length;
            let byte = self.buffer[self.at];
            if self.outside[usize::from(byte)] == SEPARATES {
                self.at += 1;
                return Ok(End::Field);
            }
            self.end_line(byte);
            return Ok(End::Record);
        }
    }

    /// A quoted field, and what ends it.
    fn quoted(&mut self, rows: &mut Rows, column: u64) -> Result<End, Fault> {
        let opened = Position { line: self.line, column };
        self.at += 1;
        let mut after_return = false;
        loop {
            let rest = &self.buffer[self.at..self.end];
            let length = rest.iter().position(|b| self.inside[usize::from(*b)] != PLAIN);
            let plain = length.unwrap_or(rest.len());
            rows.data.extend_from_slice(&rest[..plain]);
            after_return &= plain == 0;
            self.at += plain;
            if length.is_none() {
                if self.fill()? {
                    continue;
                }
                return Err(Fault::Open(opened));
            }
            let byte = self.buffer[self.at];
            self.at += 1;
            match self.inside[usize::from(byte)] {
                ENDS_LINE => {
                    self.line += u64::from(byte == b'\r' || !after_return);
                    after_return = byte == b'\r';
                    rows.data.push(byte);
                }
                ESCAPES if self.escape != Some(self.quote) => {
                    after_return = false;
                    let Some(next) = self.peek()? else { return Err(Fault::Open(opened)) };
                    self.line += u64::from(next == b'\n' || next == b'\r');
                    after_return |= next == b'\r';
                    rows.data.push(next);
                    self.at += 1;
                }
                _ => {
                    if !self.double_quote || self.peek()? != Some(self.quote) {
                        return self.behind(rows, opened, column);
                    }
                    after_return = false;
                    rows.data.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// After a closing quote: blanks belong to the value, as in other readers.
    fn behind(&mut self, rows: &mut Rows, opened: Position, column: u64) -> Result<End, Fault> {
        loop {
            let Some(byte) = self.peek()? else { return Ok(End::Record) };
            match self.outside[usize::from(byte)] {
                SEPARATES => {
                    self.at += 1;
                    return Ok(End::Field);
                }
                ENDS_LINE => {
                    self.end_line(byte);
                    return Ok(End::Record);
                }
                _ if byte == b' ' || byte == b'\t' => {
                    rows.data.push(byte);
                    self.at += 1;
                }
                _ => {
                    let at = Position { line: self.line, column };
                    return Err(Fault::Stray { at, opened });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that comes in pieces.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len()).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn read(text: &str, form: &CsvForm, piece: usize) -> Vec<(u64, Vec<String>)> {
        let mut records = Records::new(Pieces(text.as_bytes(), piece), form);
        let mut rows = Rows::default();
        records.read(&mut rows, usize::MAX).unwrap();
        let field = |row, column| {
            let (bytes, quoted) = rows.field(row, column).unwrap();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            if quoted { format!("\"{text}\"") } else { text }
        };
        let record = |row| (0..rows.width(row)).map(|column| field(row, column)).collect();
        (0..rows.len()).map(|row| (rows.line(row), record(row))).collect()
    }

    #[test]
    fn fields_end_where_they_end_however_the_bytes_come() {
        let form = CsvForm::new(b',');
        let text = "a,b\r\n1,\"x,\r\n\"\"y\"\"\"\r\n\r\n\"\",\r3,5\" z\n\"q\" ,\n";
        let wanted = [
            (1, vec!["a", "b"]),
            (2, vec!["1", "\"x,\r\n\"y\"\""]),
            (5, vec!["\"\"", ""]),
            (6, vec!["3", "5\" z"]),
            (7, vec!["\"q \"", ""]),
        ];
        for piece in [1, 2, 3, 1000] {
            let found = read(text, &form, piece);
            assert_eq!(found.len(), wanted.len());
            for ((line, fields), (own, values)) in found.iter().zip(&wanted) {
                assert_eq!((line, fields), (own, &values.iter().map(|v| v.to_string()).collect()));
            }
        }
    }

    #[test]
    fn escapes_comments_and_other_ends_are_known() {
        let form = CsvForm {
            escape: Some(b'\\'),
            comment: Some(b'#'),
            terminator: Some(b'|'),
            ..CsvForm::new(b';')
        };
        let found = read("#x;y|a;\"b\\\"|\"|1;\n2|", &form, 1);
        assert_eq!(found[0].1, ["a", "\"b\"|\""]);
        assert_eq!(found[1].1, ["1", "\n2"]);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_blank_line_is_a_row_of_one_column() {
        let form = CsvForm::new(b',');
        let mut records = Records::new(&b"a\n\n1\r\n\r\n2\n"[..], &form);
        records.blank_is_row = true;
        let mut rows = Rows::default();
        records.read(&mut rows, usize::MAX).unwrap();
        let lines: Vec<u64> = (0..rows.len()).map(|row| rows.line(row)).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5]);
        assert_eq!(rows.field(3, 0), Some((&b""[..], false)));
    }
}
