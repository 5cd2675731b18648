//! The form of the bytes of a COPY.

use encoding_rs::Encoding;

use crate::error::Error;

/// The kind of the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A row.
    No,
    /// Names of columns, which are ignored.
    Yes,
    /// The names of the columns, which must match.
    Match,
}

/// The columns that an option lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    None,
    All,
    Named(Vec<String>),
}

impl Columns {
    /// The listed columns among these.
    ///
    /// # Errors
    /// 42703 one of its columns is not copied.
    pub fn among(&self, names: &[String], option: &str) -> Result<Vec<bool>, Error> {
        let wanted = match self {
            Columns::None => return Ok(vec![false; names.len()]),
            Columns::All => return Ok(vec![true; names.len()]),
            Columns::Named(wanted) => wanted,
        };
        if let Some(unknown) = wanted.iter().find(|name| !names.contains(name)) {
            let text = format!("column \"{unknown}\" of {option} is not copied");
            return Err(
                Error::new(904, "42703", text).next(format!("those are {}", names.join(", ")))
            );
        }
        Ok(names.iter().map(|name| wanted.contains(name)).collect())
    }
}

/// The form of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// PostgreSQL's binary format: nothing else is set then.
    pub is_binary: bool,
    /// CSV, not PostgreSQL's text format.
    pub is_csv: bool,
    pub delimiter: u8,
    /// The text for NULL.
    pub null: Vec<u8>,
    pub header: Header,
    pub quote: u8,
    pub escape: u8,
    pub force_quote: Columns,
    pub force_not_null: Columns,
    pub force_null: Columns,
    /// The encoding, if it is not UTF-8.
    pub encoding: Option<&'static Encoding>,
}

impl Form {
    /// PostgreSQL's text format.
    pub fn text() -> Form {
        Form {
            is_binary: false,
            is_csv: false,
            delimiter: b'\t',
            null: b"\\N".to_vec(),
            header: Header::No,
            quote: b'"',
            escape: b'"',
            force_quote: Columns::None,
            force_not_null: Columns::None,
            force_null: Columns::None,
            encoding: None,
        }
    }

    /// CSV.
    pub fn csv() -> Form {
        Form { is_csv: true, delimiter: b',', null: Vec::new(), ..Form::text() }
    }

    /// Refuses options that would make the text ambiguous.
    ///
    /// # Errors
    /// 22023, as PostgreSQL does.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::new(70012, "22023", text));
        let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        if is_line_end(&self.delimiter) {
            return wrong("the COPY delimiter is a line end".into());
        }
        if self.null.iter().any(is_line_end) {
            return wrong("the COPY text for NULL has a line end".into());
        }
        // What may follow a backslash, or occur in a value.
        let taken = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
        if !self.is_csv && taken.contains(&self.delimiter) {
            let text = format!("the COPY delimiter cannot be {:?}", char::from(self.delimiter));
            return wrong(text);
        }
        if self.null.contains(&self.delimiter) {
            return wrong("the COPY delimiter is in the text for NULL".into());
        }
        if self.is_csv && self.delimiter == self.quote {
            return wrong("the COPY delimiter and quote are the same".into());
        }
        if self.is_csv && (is_line_end(&self.quote) || is_line_end(&self.escape)) {
            return wrong("the COPY quote is a line end".into());
        }
        if self.is_csv && self.null.contains(&self.quote) {
            return wrong("the COPY quote is in the text for NULL".into());
        }
        Ok(())
    }
}
