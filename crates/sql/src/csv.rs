//! What is wrong with a CSV text that a reader would take in silence: a quote that is never closed
//! swallows the rows behind it, of two columns with one name only one can be asked for, `007` read as
//! a number is 7, and a first row taken for the names of the columns is no row any more.

use std::collections::BTreeSet;
use std::io::Read;

use crate::csv_header::{self, Class, VALUE_MAX};
use crate::error::{Error, Position};

/// A header beyond this many bytes is not looked at further.
const HEADER_MAX: usize = 1 << 20;

/// Characters of a line that a message shows.
const LINE_SHOWN: usize = 60;

/// How a CSV text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvForm {
    /// The separator.
    pub delimiter: u8,
    /// The quote.
    pub quote: u8,
    /// What takes the meaning of the byte behind it inside quotes, if anything but a second quote.
    pub escape: Option<u8>,
    /// Whether the first line names the columns.
    pub has_header: bool,
    /// Whether somebody said so: then it does, whatever it looks like.
    pub header_is_sure: bool,
    /// Whether the columns have other names, and those of the first line do not count.
    pub named: bool,
    /// How to say whether the first line names the columns, for an error's next step.
    pub way_out: &'static str,
}

impl CsvForm {
    /// Quotes as RFC 4180 has them, with a header.
    pub fn new(delimiter: u8) -> CsvForm {
        CsvForm {
            delimiter,
            quote: b'"',
            escape: None,
            has_header: true,
            header_is_sure: false,
            named: false,
            way_out: "--no-header takes line 1 as a row, --header as names",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the first byte of a field.
    Start,
    /// In a field without quotes.
    Plain,
    /// Inside quotes.
    Quoted,
    /// Behind an escape inside quotes.
    Escaped,
    /// Behind a quote inside quotes: it ends the field, or a second one follows.
    Closed,
    /// In blanks behind a field in quotes.
    Trailing,
}

/// What a field looks like so far, to find numbers that begin with a zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Empty,
    Zero,
    /// A zero and more digits.
    Padded,
    Other,
}

/// What a text without faults showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvSeen {
    /// Columns, from 0, with a whole number written with zeros in front: a code, not a number.
    pub padded: BTreeSet<usize>,
    /// What the first line calls the columns; empty if it is no header.
    pub names: Vec<String>,
}

/// Looks at a CSV text as it goes by, in pieces of any length.
pub struct CsvCheck {
    form: CsvForm,
    state: State,
    /// Bytes of a byte order mark that may still come.
    mark: &'static [u8],
    line: u64,
    /// The field in its record, from 1.
    column: u64,
    /// The last byte was a carriage return.
    after_return: bool,
    /// Where the quote opened that is open now.
    opened: Position,
    shape: Shape,
    seen: CsvSeen,
    header: Vec<u8>,
    names: Vec<String>,
    in_header: bool,
    /// The value of the field so far, no more of it than tells what it looks like.
    value: Vec<u8>,
    /// What the values of each column look like, below the header.
    columns: Vec<Option<Class>>,
    fault: Option<Error>,
}

impl CsvCheck {
    /// A check of a text from its first byte on.
    pub fn new(form: CsvForm) -> CsvCheck {
        CsvCheck {
            form,
            state: State::Start,
            mark: b"\xef\xbb\xbf",
            line: 1,
            column: 1,
            after_return: false,
            opened: Position { line: 1, column: 1 },
            shape: Shape::Empty,
            seen: CsvSeen::default(),
            header: Vec::new(),
            names: Vec::new(),
            in_header: form.has_header,
            value: Vec::new(),
            columns: Vec::new(),
            fault: None,
        }
    }

    /// Looks at the next piece.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((&expected, later)) = self.mark.split_first() {
            match rest.split_first() {
                Some((&byte, after)) if byte == expected => (self.mark, rest) = (later, after),
                Some(_) => self.mark = &[],
                None => return,
            }
        }
        for &byte in rest {
            if self.fault.is_some() {
                return;
            }
            self.byte(byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
        let ends_line = byte == b'\r' || (byte == b'\n' && !after_return);
        match self.state {
            State::Quoted | State::Escaped => {
                self.line += u64::from(ends_line);
                self.inside(byte);
            }
            State::Closed if byte == self.form.quote => {
                self.keep(byte);
                self.state = State::Quoted;
            }
            _ if byte == self.form.delimiter => self.end_field(),
            _ if byte == b'\n' || byte == b'\r' => {
                if ends_line {
                    self.end_record();
                    self.line += 1;
                }
            }
            State::Start if byte == self.form.quote => {
                self.opened = Position { line: self.line, column: self.column };
                self.state = State::Quoted;
            }
            State::Closed | State::Trailing if byte == b' ' || byte == b'\t' => {
                self.keep(byte);
                self.state = State::Trailing;
            }
            State::Closed | State::Trailing => self.fault = Some(self.stray()),
            State::Start | State::Plain => {
                self.keep(byte);
                self.state = State::Plain;
            }
        }
    }

    fn inside(&mut self, byte: u8) {
        if self.state == State::Quoted && Some(byte) == self.form.escape {
            self.state = State::Escaped;
        } else if self.state == State::Quoted && byte == self.form.quote {
            self.state = State::Closed;
        } else {
            self.keep(byte);
            self.state = State::Quoted;
        }
    }

    /// A byte of the value of a field.
    fn keep(&mut self, byte: u8) {
        self.shape = match (self.shape, byte) {
            (Shape::Empty, b'0') => Shape::Zero,
            (Shape::Zero | Shape::Padded, b'0'..=b'9') => Shape::Padded,
            _ => Shape::Other,
        };
        if self.in_header && self.header.len() < HEADER_MAX {
            self.header.push(byte);
        }
        if !self.in_header && self.value.len() <= VALUE_MAX {
            self.value.push(byte);
        }
    }

    /// What the value of a field that ends looks like goes to its column.
    fn weigh(&mut self) {
        let at = usize::try_from(self.column - 1).unwrap_or(usize::MAX);
        // Columns that the first line does not have are refused elsewhere.
        if at < self.names.len() {
            self.columns.resize(self.names.len(), None);
            if self.columns[at] != Some(Class::Text) {
                let class = csv_header::class_of(&self.value);
                self.columns[at] = csv_header::with(self.columns[at], class);
            }
        }
        self.value.clear();
    }

    fn end_field(&mut self) {
        if self.in_header {
            let name = std::mem::take(&mut self.header);
            self.names.push(String::from_utf8_lossy(&name).into_owned());
        } else {
            if self.shape == Shape::Padded {
                self.seen.padded.insert(usize::try_from(self.column - 1).unwrap_or(usize::MAX));
            }
            self.weigh();
        }
        self.shape = Shape::Empty;
        self.state = State::Start;
        self.column += 1;
    }

    fn end_record(&mut self) {
        // A line without a byte is no record.
        let empty = self.column == 1 && self.state == State::Start;
        self.end_field();
        if empty && self.in_header {
            self.names.clear();
        } else if self.in_header {
            self.in_header = false;
            let repeated = repeated(&self.names).filter(|_| !self.form.named);
            self.fault = repeated.map(|mut error| {
                error.message.insert_str(0, "line 1: ");
                let next = error.next_step.take().unwrap_or_default();
                error.next(format!("{next}. If line 1 is a row: {}", self.form.way_out))
            });
        }
        self.column = 1;
    }

    /// Something behind the end of a quoted field.
    fn stray(&self) -> Error {
        let Position { line, column } = self.opened;
        let more = match line == self.line {
            true => String::new(),
            false => format!(" (the quote that opens in line {line} ends here)"),
        };
        Error::new(
            29913,
            "22P04",
            format!(
                "line {}, column {column}: text behind the closing quote of a field{more}",
                self.line
            ),
        )
        .next("close every quote in its own field, and write a quote inside quotes twice: \"\"")
    }

    /// The first line looks like what follows it.
    fn row_for_names(&self) -> Error {
        let line = self.names.join(&char::from(self.form.delimiter).to_string());
        let mut shown: String = line.chars().take(LINE_SHOWN).collect();
        if shown.len() < line.len() {
            shown.push_str("...");
        }
        let text = format!("line 1 looks like a row, not like the names of columns: {shown}");
        Error::new(29913, "22P04", text).next(self.form.way_out)
    }

    /// One column, whose name has in it what separates the fields of other files: each row would
    /// become one text.
    fn other_separator(&self) -> Option<Error> {
        let [name] = self.names.as_slice() else { return None };
        let own = char::from(self.form.delimiter);
        let by = [';', '\t', '|', ','].into_iter().find(|by| *by != own && name.contains(*by))?;
        let shown = |tab: &str| if by == '\t' { tab.to_owned() } else { by.to_string() };
        let (by, option) = (shown("tab"), shown("\\t"));
        let text =
            format!("its fields seem to be separated by '{by}': line 1 is one name, {name:?}");
        Some(Error::new(29913, "22P04", text).next(format!(
            "load it with --delimiter '{by}', or create the table with OPTIONS ('format.delimiter' \
             '{option}'); if it is one column: --header, or 'format.has_header' 'true'"
        )))
    }

    /// What is wrong, once the whole text went by.
    ///
    /// # Errors
    /// 29913 with line and column of a quote that stays open, of text behind a closing quote,
    /// the columns that have one name, or a first line that looks like a row.
    pub fn finish(mut self) -> Result<CsvSeen, Error> {
        if self.fault.is_none() && matches!(self.state, State::Quoted | State::Escaped) {
            let Position { line, column } = self.opened;
            let text = format!("line {line}, column {column}: a quote opens and is never closed");
            self.fault = Some(
                Error::new(29913, "22P04", text)
                    .next("close it; a quote inside quotes is written twice: \"\""),
            );
        }
        if self.fault.is_none() {
            self.end_record();
        }
        let unsure = self.form.has_header && !self.form.header_is_sure;
        if self.fault.is_none() && unsure {
            self.fault = match csv_header::is_row(&self.names, &self.columns) {
                true => Some(self.row_for_names()),
                false => self.other_separator(),
            };
        }
        let names = if self.form.named { Vec::new() } else { self.names };
        let seen = CsvSeen { names, ..self.seen };
        self.fault.map_or(Ok(seen), Err)
    }
}

/// The error for the first name that stands more than once.
pub(crate) fn repeated(names: &[String]) -> Option<Error> {
    let (second, name) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name))?;
    let first = names.iter().position(|other| other == name)?;
    let shown = if name.is_empty() { "no name".to_owned() } else { format!("the name \"{name}\"") };
    let text = format!("columns {} and {} both have {shown}", first + 1, second + 1);
    Some(
        Error::new(29913, "42701", text).next(
            "give every column its own name: of two with one name only one could be asked for",
        ),
    )
}

/// A reader whose bytes are looked at on their way.
pub struct Checked<R> {
    reader: R,
    check: CsvCheck,
}

impl<R: Read> Checked<R> {
    /// `reader`, at the start of a text of this form.
    pub fn new(reader: R, form: CsvForm) -> Checked<R> {
        Checked { reader, check: CsvCheck::new(form) }
    }

    /// Reads what nobody has read yet, and tells what is wrong.
    ///
    /// # Errors
    /// As [`CsvCheck::finish`]; an error of the reader is left to who reads next.
    pub fn finish(mut self) -> Result<CsvSeen, Error> {
        let mut rest = vec![0; 1 << 20];
        while let Ok(1..) = self.read(&mut rest) {}
        self.check.finish()
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.check.feed(&buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> String {
        let whole = check(text, text.len());
        assert_eq!(whole, check(text, 1), "in single bytes: {text:?}");
        whole
    }

    fn check(text: &str, piece: usize) -> String {
        let mut check = CsvCheck::new(CsvForm::new(b','));
        text.as_bytes().chunks(piece.max(1)).for_each(|bytes| check.feed(bytes));
        check.finish().map_or_else(|e| e.message, |_| "fine".into())
    }

    #[test]
    fn what_rfc_4180_allows_is_fine() {
        for text in [
            "a,b\n1,x\n2,\n",
            "a,b\r\n1,\"x\r\ny\"\r\n",
            "\u{feff}\"a\",b\n\"1\",\"say \"\"hi\"\"\"\n",
            "a,b\n1,5\" pipe\n",
            "a,b\n1,\"\"",
            "a,b\n\"x\" ,1\n",
            "\n\na\n1",
            "",
        ] {
            assert_eq!(verdict(text), "fine", "{text:?}");
        }
    }

    #[test]
    fn a_file_of_another_separator_is_told() {
        let told = verdict("1;2;3\n4;5;6\n");
        assert!(told.starts_with("its fields seem to be separated by ';'"), "{told}");
        let told = verdict("a\tb\n4\t5\n");
        assert!(told.starts_with("its fields seem to be separated by 'tab'"), "{told}");
        for text in ["a;b,c\n1,2\n", "\"a,b\"\nx\n", "name\nx;y\n"] {
            assert_eq!(verdict(text), "fine", "{text:?}");
        }
        let sure = CsvForm { header_is_sure: true, ..CsvForm::new(b',') };
        let mut check = CsvCheck::new(sure);
        check.feed(b"a;b\nx;y\n");
        assert!(check.finish().is_ok(), "who says that it names the column is believed");
    }

    #[test]
    fn a_quote_that_swallows_rows_is_told_with_its_place() {
        let open = "line 3, column 2: a quote opens and is never closed";
        assert_eq!(verdict("a,b\n1,x\n2,\"y\n3,z\n"), open);
        assert_eq!(verdict("a,b\r\n1,x\r\n2,\"y\r\n3,z\r\n"), open);
        assert_eq!(
            verdict("a,b\n1,\"x\n2,y\n3,\"z\"\n"),
            "line 4, column 2: text behind the \
            closing quote of a field (the quote that opens in line 2 ends here)"
        );
        assert_eq!(
            verdict("a,b\n\"x\"y,1\n"),
            "line 2, column 1: text behind the closing quote of a field"
        );
    }

    #[test]
    fn two_columns_of_one_name_are_told() {
        let both = "line 1: columns 1 and 3 both have the name \"a\"";
        assert_eq!(verdict("a,b,a\n1,2,3\n"), both);
        assert_eq!(verdict("a,b,\"a\""), both);
        assert_eq!(verdict("a,,b,\n1,2,3,4\n"), "line 1: columns 2 and 4 both have no name");
        assert_eq!(verdict("a,A\n1,2\n"), "fine");
    }

    #[test]
    fn a_row_taken_for_names_is_told() {
        let row = "line 1 looks like a row, not like the names of columns: ";
        assert_eq!(verdict("1,ann\n2,bob\n"), format!("{row}1,ann"));
        assert_eq!(verdict("\"1\",ann\r\n,bob\r\n3,\n"), format!("{row}1,ann"));
        assert_eq!(verdict("1,ann\nx,bob\n"), "fine");
        assert_eq!(verdict("1,ann"), "fine");
        let twice = check("1,1\n2,2\n", 9);
        assert_eq!(twice, "line 1: columns 1 and 2 both have the name \"1\"");
        for form in [
            CsvForm { header_is_sure: true, ..CsvForm::new(b',') },
            CsvForm { has_header: false, ..CsvForm::new(b',') },
        ] {
            let mut check = CsvCheck::new(form);
            check.feed(b"1,ann\n2,bob\n");
            assert!(check.finish().is_ok());
        }
        // Names from elsewhere do not make a row a header.
        let mut check = CsvCheck::new(CsvForm { named: true, ..CsvForm::new(b',') });
        check.feed(b"1,1\n2,2\n");
        assert!(check.finish().unwrap_err().message.starts_with(row));
    }

    #[test]
    fn an_escape_is_honoured() {
        let form = CsvForm { escape: Some(b'\\'), ..CsvForm::new(b';') };
        let mut check = CsvCheck::new(form);
        check.feed(b"a;b\n1;\"x\\\"y\"\n");
        assert!(check.finish().is_ok());
    }

    #[test]
    fn numbers_padded_with_zeros_are_seen() {
        let mut check = CsvCheck::new(CsvForm::new(b','));
        check.feed(b"007,b,c,d\n7,0,0.5,\"01\"\n08,10,00x,1");
        assert_eq!(check.finish().unwrap().padded, BTreeSet::from([0, 3]));
    }
}
