//! The form of a CSV text: separators, quotes, the text for no value, encoding, compression.

use encoding_rs::Encoding;

use crate::error::Error;

/// How the bytes of a file are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// Detected from its first bytes.
    #[default]
    Detected,
    /// Not at all.
    None,
    /// As gzip does.
    Gzip,
    /// As zstd does.
    Zstd,
}

impl Compression {
    /// The compression of that name.
    ///
    /// # Errors
    /// 70012 with the allowed names.
    pub fn of(name: &str) -> Result<Compression, Error> {
        match name.to_ascii_lowercase().as_str() {
            "" | "uncompressed" | "none" => Ok(Compression::None),
            "auto" => Ok(Compression::Detected),
            "gzip" | "gz" => Ok(Compression::Gzip),
            "zstd" | "zst" => Ok(Compression::Zstd),
            _ => {
                Err(Error::new(70012, "22023", format!("there is no compression \"{name}\" here"))
                    .next("gzip, zstd or uncompressed"))
            }
        }
    }

    /// The compression that a file name implies, for a file to be written.
    pub fn of_name(name: &str) -> Compression {
        let name = name.to_ascii_lowercase();
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// The reader, for the next step that an error offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Place {
    /// `cellar load`.
    #[default]
    Load,
    /// `cellar load --append`: the types are the table's.
    Append,
    /// A table that is read in place.
    Table,
}

impl Place {
    /// How to say whether the first line is a header.
    pub(crate) fn header_way(self) -> &'static str {
        match self {
            Place::Load | Place::Append => "--no-header takes line 1 as a row, --header as names",
            Place::Table => {
                "options ('format.has_header' 'false') takes line 1 as a row, 'true' as names"
            }
        }
    }

    /// How to handle values that are not of their column's type.
    pub(crate) fn type_way(self, column: &str) -> String {
        match self {
            Place::Load => format!(
                "--type {column}=varchar takes the column as text; --reject FILE keeps such rows \
                 in a file and loads the others"
            ),
            Place::Append => {
                "--reject FILE keeps such rows in a file and loads the others; into another table \
                 they go without --append"
                    .to_owned()
            }
            Place::Table => format!(
                "create or replace external table .. options ('format.types' '{column}=varchar') \
                 takes the column as text"
            ),
        }
    }

    /// How to name an encoding.
    pub(crate) fn encoding_way(self) -> &'static str {
        match self {
            Place::Load | Place::Append => {
                "--encoding NAME, such as latin1, windows-1252, utf-16, shift_jis, gbk"
            }
            Place::Table => {
                "options ('format.encoding' 'NAME'), such as latin1, windows-1252, utf-16, gbk"
            }
        }
    }
}

/// The form of a CSV text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvForm {
    /// The separator.
    pub delimiter: u8,
    /// The quote.
    pub quote: u8,
    /// Whether a quote inside quotes is written twice.
    pub double_quote: bool,
    /// The byte that escapes the one after it inside quotes, if not a doubled quote.
    pub escape: Option<u8>,
    /// The byte that starts a comment line.
    pub comment: Option<u8>,
    /// The row terminator, if not a line end.
    pub terminator: Option<u8>,
    /// Whether the first line names the columns.
    pub has_header: bool,
    /// Whether the user said so: then it does, whatever it looks like.
    pub header_is_sure: bool,
    /// Whether the columns have other names, and those of the first line are ignored.
    pub named: bool,
    /// Whether a row may end early; its last columns then have no value.
    pub truncated_rows: bool,
    /// The unquoted field that stands for NULL.
    pub null: String,
    /// The encoding, if it is neither UTF-8 nor detected from the first bytes.
    pub encoding: Option<&'static Encoding>,
    /// The compression.
    pub compression: Compression,
    /// Types that columns are to have: the name, and the type as in SQL.
    pub types: Vec<(String, String)>,
    /// The reader.
    pub place: Place,
}

impl CsvForm {
    /// Quotes as in RFC 4180, with a header.
    pub fn new(delimiter: u8) -> CsvForm {
        CsvForm {
            delimiter,
            quote: b'"',
            double_quote: true,
            escape: None,
            comment: None,
            terminator: None,
            has_header: true,
            header_is_sure: false,
            named: false,
            truncated_rows: false,
            null: String::new(),
            encoding: None,
            compression: Compression::Detected,
            types: Vec::new(),
            place: Place::Load,
        }
    }

    /// Whether a field stands for NULL.
    pub(crate) fn is_null(&self, value: &[u8], quoted: bool) -> bool {
        !quoted && value == self.null.as_bytes()
    }
}

/// The encoding of that name, as in the WHATWG standard; `latin1` is one of its names for windows-1252,
/// which agrees with it in all printable characters.
///
/// # Errors
/// 70012 if there is none of that name.
pub fn encoding_of(name: &str) -> Result<&'static Encoding, Error> {
    let found = match name.to_ascii_lowercase().as_str() {
        "utf16" => Some(encoding_rs::UTF_16LE),
        "latin9" => Some(encoding_rs::ISO_8859_15),
        "cp850" | "cp437" => None,
        other => Encoding::for_label(other.trim().as_bytes()).or_else(|| {
            let plain = other.replace('_', "-").replace("cp", "windows-");
            Encoding::for_label(plain.as_bytes())
        }),
    };
    found.ok_or_else(|| {
        Error::new(70012, "22023", format!("there is no encoding \"{name}\" here")).next(
            "names are those of the web, such as utf-8, utf-16, latin1, latin2, windows-1252, \
             koi8-r, shift_jis, euc-kr, gbk, big5; else iconv -f NAME -t utf-8",
        )
    })
}
