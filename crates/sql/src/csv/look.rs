//! The check of a CSV text before it is read, which also infers the types of its columns. It reports
//! what a reader would silently accept: an unclosed quote swallows the rows after it; of two columns
//! with the same name only one can be queried; `007` read as a number is 7; a first row taken for column
//! names is lost as a row.

use std::io::Read;

use arrow::datatypes::DataType;

use crate::csv::CsvForm;
use crate::csv::header::{self, Class};
use crate::csv::records::{Fault, Records, Rows};
use crate::csv::types::ColumnSeen;
use crate::error::Error;

/// Records that are checked together.
const TOGETHER: usize = 1024;

/// Characters of a line that a message shows.
const LINE_SHOWN: usize = 60;

/// What the check of texts found.
#[derive(Clone, Debug, Default)]
pub struct CsvSeen {
    /// The names of the columns in the first line; `column_1` and so on if it is not a header.
    pub names: Vec<String>,
    /// Records, the header not counted.
    pub rows: u64,
    columns: Vec<ColumnSeen>,
}

impl CsvSeen {
    /// The columns with the type that keeps their values.
    pub fn types(&self) -> Vec<(String, DataType)> {
        let types = self.columns.iter().map(ColumnSeen::data_type);
        self.names.iter().cloned().zip(types).collect()
    }

    /// What the user should know about columns whose types were inferred.
    pub fn notices(&self, is_found: impl Fn(&str) -> bool) -> Vec<String> {
        let all = self.names.iter().zip(&self.columns);
        all.filter(|(name, _)| is_found(name)).filter_map(|(n, c)| c.notice(n)).collect()
    }

    /// Integer columns with leading zeros.
    pub fn padded(&self) -> Vec<&str> {
        let all = self.names.iter().zip(&self.columns);
        all.filter(|(_, c)| c.is_padded()).map(|(name, _)| name.as_str()).collect()
    }
}

/// The check of one text.
struct Look<'a> {
    form: &'a CsvForm,
    /// The reader sets aside rows with another number of fields.
    rejects: bool,
    names: Vec<String>,
    seen: &'a mut CsvSeen,
    /// The kinds of the values of each column, below the header.
    classes: Vec<Option<Class>>,
    width: usize,
}

/// Checks a whole text, and adds its findings to those of others of its kind.
///
/// # Errors
/// 29913 with line and column of an unclosed quote, of text after a closing quote, of a row with too
/// many or too few fields, the columns that share a name, or a first line that looks like a row; what
/// the text itself reports.
pub fn look(
    text: impl Read,
    form: &CsvForm,
    rejects: bool,
    seen: &mut CsvSeen,
) -> Result<Vec<String>, Error> {
    let mut records = Records::new(text, form);
    let mut look = Look { form, rejects, names: Vec::new(), seen, classes: Vec::new(), width: 0 };
    let mut rows = Rows::default();
    let mut is_first = true;
    loop {
        rows.clear();
        let most = if is_first { 1 } else { TOGETHER };
        let more = records.read(&mut rows, most);
        // What was read before an error may tell more: that the first line is not a header.
        if is_first && rows.len() > 0 && !matches!(more, Err(Fault::Io(_))) {
            look.first(&rows)?;
            records.blank_is_row = look.width == 1;
            is_first = false;
            if form.has_header && more.is_ok() {
                continue;
            }
        } else if more.is_ok() {
            look.rows(&rows)?;
        }
        if !more? {
            break;
        }
    }
    look.end()
}

fn shown(fields: &[String], form: &CsvForm) -> String {
    let line = fields.join(&char::from(form.delimiter).to_string());
    let mut shown: String = line.chars().take(LINE_SHOWN).collect();
    if shown.len() < line.len() {
        shown.push_str("...");
    }
    shown
}

/// The error for a row whose number of fields is not the number of columns.
pub(crate) fn other_width(rows: &Rows, row: usize, width: usize, form: &CsvForm) -> Error {
    let fields = |count: usize| format!("{count} field{}", if count == 1 { "" } else { "s" });
    let text = format!(
        "line {}: {}, and the first line has {}",
        rows.line(row),
        fields(rows.width(row)),
        fields(width)
    );
    let set_aside = match form.place {
        crate::csv::Place::Load | crate::csv::Place::Append => {
            "; --reject FILE keeps such rows in a file, and loads the others"
        }
        crate::csv::Place::Table if rows.width(row) < width => {
            "; OPTIONS ('format.truncated_rows' 'true') takes what is missing as null"
        }
        crate::csv::Place::Table => "",
    };
    Error::new(29913, "22P04", text).next(format!(
        "give every row the same fields, and put those with a '{}' or a line end into quotes\
         {set_aside}",
        char::from(form.delimiter)
    ))
}

impl Look<'_> {
    /// The first record: names, or a row.
    fn first(&mut self, rows: &Rows) -> Result<(), Error> {
        self.width = rows.width(0);
        self.seen.columns.resize(self.width.max(self.seen.columns.len()), ColumnSeen::default());
        self.classes.resize(self.width, None);
        if !self.form.has_header {
            self.names = (1..=self.width).map(|number| format!("column_{number}")).collect();
            return self.rows(rows);
        }
        let fields = (0..self.width).filter_map(|column| rows.field(0, column));
        self.names = fields.map(|(bytes, _)| String::from_utf8_lossy(bytes).into_owned()).collect();
        let repeated = repeated(&self.names).filter(|_| !self.form.named);
        repeated.map_or(Ok(()), |mut error| {
            error.message.insert_str(0, "line 1: ");
            let next = error.next_step.take().unwrap_or_default();
            let way = self.form.place.header_way();
            Err(error.next(next.then(format!(". If line 1 is a row: {way}"))))
        })
    }

    fn rows(&mut self, rows: &Rows) -> Result<(), Error> {
        let unsure = self.form.has_header && !self.form.header_is_sure;
        for row in 0..rows.len() {
            let width = rows.width(row);
            if width > self.width || (width < self.width && !self.form.truncated_rows) {
                if self.rejects {
                    continue;
                }
                if let Some(error) = self.other_separator().filter(|_| unsure) {
                    return Err(error);
                }
                return Err(other_width(rows, row, self.width, self.form));
            }
            self.seen.rows += 1;
            for column in 0..width {
                let Some((value, quoted)) = rows.field(row, column) else { continue };
                if !self.form.is_null(value, quoted) {
                    self.seen.columns[column].add(value);
                }
                if unsure && self.classes[column] != Some(Class::Text) {
                    let class = header::class_of(value);
                    self.classes[column] = header::with(self.classes[column], class);
                }
            }
        }
        Ok(())
    }

    fn end(self) -> Result<Vec<String>, Error> {
        if self.form.has_header && !self.form.header_is_sure {
            if header::is_row(&self.names, &self.classes) {
                return Err(self.row_for_names());
            }
            if let Some(error) = self.other_separator() {
                return Err(error);
            }
        }
        if self.seen.names.is_empty() {
            self.seen.names.clone_from(&self.names);
        }
        Ok(self.names)
    }

    /// The first line looks like what follows it.
    fn row_for_names(&self) -> Error {
        let shown = shown(&self.names, self.form);
        let text = format!("line 1 looks like a row, not like the names of columns: {shown}");
        Error::new(29913, "22P04", text).next(self.form.place.header_way())
    }

    /// One column, whose name contains the separator of other files: each row would become one text.
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
}

/// The error for the first duplicate name.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::text::decoded;

    /// A text that comes in pieces.
    struct Pieces(Vec<u8>, usize);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = self.1.min(self.0.len()).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0.drain(..length);
            Ok(length)
        }
    }

    fn told(text: &str, piece: usize, form: &CsvForm) -> Result<CsvSeen, Error> {
        let mut seen = CsvSeen::default();
        let text = decoded(Pieces(text.as_bytes().to_vec(), piece.max(1)), form)?;
        look(text, form, false, &mut seen).map(|_| seen)
    }

    fn verdict(text: &str) -> String {
        let whole = check(text, text.len());
        assert_eq!(whole, check(text, 1), "in single bytes: {text:?}");
        whole
    }

    fn check(text: &str, piece: usize) -> String {
        told(text, piece, &CsvForm::new(b',')).map_or_else(|e| e.message, |_| "fine".into())
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
        let said = verdict("1;2;3\n4;5;6\n");
        assert!(said.starts_with("its fields seem to be separated by ';'"), "{said}");
        let said = verdict("a\tb\n4\t5\n");
        assert!(said.starts_with("its fields seem to be separated by 'tab'"), "{said}");
        for text in ["a;b,c\n1,2\n", "\"a,b\"\nx\n", "name\nx;y\n"] {
            assert_eq!(verdict(text), "fine", "{text:?}");
        }
        let sure = CsvForm { header_is_sure: true, ..CsvForm::new(b',') };
        assert!(
            told("a;b\nx;y\n", 99, &sure).is_ok(),
            "who says that it names the column is believed"
        );
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
            assert!(told("1,ann\n2,bob\n", 99, &form).is_ok());
        }
        // Names from elsewhere do not make a row a header.
        let form = CsvForm { named: true, ..CsvForm::new(b',') };
        assert!(told("1,1\n2,2\n", 9, &form).unwrap_err().message.starts_with(row));
    }

    #[test]
    fn an_escape_is_honoured() {
        let form = CsvForm { escape: Some(b'\\'), ..CsvForm::new(b';') };
        assert!(told("a;b\n1;\"x\\\"y\"\n", 99, &form).is_ok());
    }

    #[test]
    fn numbers_padded_with_zeros_are_seen() {
        let text = "a,b,c,d\n007,0,0.5,\"01\"\n08,10,00x,1";
        let seen = told(text, 9, &CsvForm::new(b',')).unwrap();
        assert_eq!(seen.padded(), ["a", "d"]);
        let header = "007,b,c,d\n7,0,0.5,\"01\"\n08,10,00x,1";
        assert_eq!(told(header, 9, &CsvForm::new(b',')).unwrap().padded(), ["007", "d"]);
    }
}
