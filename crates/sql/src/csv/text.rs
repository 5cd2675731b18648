//! The bytes of a file as text: decompressed, and in UTF-8.

use std::io::{self, Chain, Cursor, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};

use crate::csv::{Compression, CsvForm, Place};
use crate::error::Error;
use crate::failure::io_error;

/// Bytes that are decoded at once.
const DECODED: usize = 64 << 10;
/// Bytes that identify the kind of a file.
const TOLD_BY: usize = 6;

/// A text being read.
pub(crate) type Text = Box<dyn Read + Send>;

/// A reader with the bytes that were already read in front of it.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// The first bytes of a reader, and the reader including them.
fn peeked<R: Read>(mut bytes: R) -> io::Result<(Vec<u8>, Whole<R>)> {
    let mut first = Vec::with_capacity(TOLD_BY);
    (&mut bytes).take(TOLD_BY as u64).read_to_end(&mut first)?;
    Ok((first.clone(), Cursor::new(first).chain(bytes)))
}

/// The kind of a file that is not text.
fn other_kind(first: &[u8]) -> Option<&'static str> {
    let kinds: [(&[u8], &str); 7] = [
        (b"PAR1", "a Parquet file"),
        (b"ORC", "an ORC file"),
        (b"Obj\x01", "an Avro file"),
        (b"ARROW1", "an Arrow file"),
        (b"PK\x03\x04", "a ZIP archive, as spreadsheets are: write it as CSV, or unzip it, first"),
        (b"BZh", "compressed by bzip2: bunzip2 it first"),
        (b"\xfd7zXZ\0", "compressed by xz: unxz it first"),
    ];
    kinds.iter().find(|(magic, _)| first.starts_with(magic)).map(|(_, what)| *what)
}

/// The text of a file.
///
/// # Errors
/// Its first bytes cannot be read, or are not those of text.
pub(crate) fn decoded(bytes: impl Read + Send + 'static, form: &CsvForm) -> Result<Text, Error> {
    let (first, bytes) = peeked(bytes).map_err(|e| io_error(&e))?;
    let compression = match (form.compression, first.as_slice()) {
        (Compression::Detected, [0x1f, 0x8b, ..]) => Compression::Gzip,
        (Compression::Detected, [0x28, 0xb5, 0x2f, 0xfd, ..]) => Compression::Zstd,
        (Compression::Detected, _) => Compression::None,
        (named, _) => named,
    };
    let unpacked: Text = match compression {
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        Compression::Zstd => {
            Box::new(zstd::stream::read::Decoder::new(bytes).map_err(|e| io_error(&e))?)
        }
        _ => Box::new(bytes),
    };
    let (first, unpacked) = peeked(unpacked).map_err(|e| packed_badly(compression, &e))?;
    if let Some(what) = other_kind(&first) {
        return Err(Error::new(29913, "22P04", format!("it is no CSV text but {what}")));
    }
    let unpacked = Unpacked { bytes: unpacked, compression };
    let told = match first.as_slice() {
        [0xef, 0xbb, 0xbf, ..] => Some(encoding_rs::UTF_8),
        [0xff, 0xfe, ..] => Some(encoding_rs::UTF_16LE),
        [0xfe, 0xff, ..] => Some(encoding_rs::UTF_16BE),
        // Without a byte order mark: no other text has zeros between its letters.
        [1..=255, 0, 1..=255, 0, ..] if form.encoding.is_none() => Some(encoding_rs::UTF_16LE),
        [0, 1..=255, 0, 1..=255, ..] if form.encoding.is_none() => Some(encoding_rs::UTF_16BE),
        _ => None,
    };
    match (told, form.encoding) {
        (Some(own), _) if own == encoding_rs::UTF_8 => {
            let mut unpacked = unpacked;
            unpacked.read_exact(&mut [0; 3]).map_err(|e| io_error(&e))?;
            Ok(Box::new(unpacked))
        }
        (None, None) => Ok(Box::new(unpacked)),
        (None, Some(own)) if own == encoding_rs::UTF_8 => Ok(Box::new(unpacked)),
        (Some(own), _) | (None, Some(own)) => Ok(Box::new(InUtf8::new(unpacked, own))),
    }
}

fn packed_badly(compression: Compression, error: &io::Error) -> Error {
    let by = match compression {
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
        _ => return io_error(error),
    };
    let text = format!("its bytes are not what {by} makes, or end too early: {error}");
    Error::new(29913, "22P04", text).next("copy the file again, and check its length")
}

/// Bytes whose errors are reported as errors of the compression.
struct Unpacked<R> {
    bytes: R,
    compression: Compression,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer).map_err(|e| match self.compression {
            Compression::Gzip | Compression::Zstd => {
                io::Error::other(packed_badly(self.compression, &e))
            }
            _ => e,
        })
    }
}

/// A text in another encoding.
struct InUtf8<R> {
    bytes: R,
    encoding: &'static Encoding,
    decoder: Decoder,
    raw: Vec<u8>,
    raw_at: usize,
    raw_end: usize,
    /// Bytes of the file before `raw`.
    before: u64,
    text: Vec<u8>,
    at: usize,
    end: usize,
    ended: bool,
}

impl<R: Read> InUtf8<R> {
    fn new(bytes: R, encoding: &'static Encoding) -> InUtf8<R> {
        InUtf8 {
            bytes,
            encoding,
            decoder: encoding.new_decoder_with_bom_removal(),
            raw: vec![0; DECODED],
            raw_at: 0,
            raw_end: 0,
            before: 0,
            // A byte becomes at most three.
            text: vec![0; DECODED],
            at: 0,
            end: 0,
            ended: false,
        }
    }

    fn decode(&mut self) -> io::Result<()> {
        if self.raw_at == self.raw_end && !self.ended {
            self.before += self.raw_end as u64;
            self.raw_at = 0;
            self.raw_end = self.bytes.read(&mut self.raw)?;
            self.ended = self.raw_end == 0;
        }
        let raw = &self.raw[self.raw_at..self.raw_end];
        let decoder = &mut self.decoder;
        let (result, read, written) =
            decoder.decode_to_utf8_without_replacement(raw, &mut self.text, self.ended);
        self.raw_at += read;
        (self.at, self.end) = (0, written);
        match result {
            DecoderResult::InputEmpty | DecoderResult::OutputFull => Ok(()),
            DecoderResult::Malformed(length, behind) => {
                let place = self.before + self.raw_at as u64;
                let place = place.saturating_sub(u64::from(length) + u64::from(behind));
                let text = format!("byte {} is no letter of {}", place + 1, self.encoding.name());
                let error = Error::new(29913, "22021", text).next("name the encoding it has");
                Err(io::Error::other(error))
            }
        }
    }
}

impl<R: Read> Read for InUtf8<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.end {
            if self.ended {
                return Ok(0);
            }
            self.decode()?;
        }
        let length = buffer.len().min(self.end - self.at);
        buffer[..length].copy_from_slice(&self.text[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

/// The error for a value that is not UTF-8.
pub(crate) fn not_utf8(line: u64, column: &str, place: Place) -> Error {
    let text = format!("line {line}, column {column}: its letters are not UTF-8");
    Error::new(29913, "22021", text).next(format!("name the encoding: {}", place.encoding_way()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::csv::form::encoding_of;

    fn text(bytes: &[u8], form: &CsvForm) -> Result<String, String> {
        let mut read = Vec::new();
        let bytes = Cursor::new(bytes.to_vec());
        let mut text = decoded(bytes, form).map_err(|e| e.to_string())?;
        text.read_to_end(&mut read).map_err(|e| io_error(&e).to_string())?;
        Ok(String::from_utf8(read).unwrap())
    }

    #[test]
    fn texts_are_unpacked_and_decoded() {
        let form = CsvForm::new(b',');
        let wanted = "a,b\n1,zwölf\n".repeat(40_000);
        assert_eq!(text(wanted.as_bytes(), &form).unwrap(), wanted);
        let marked = [b"\xef\xbb\xbf", wanted.as_bytes()].concat();
        assert_eq!(text(&marked, &form).unwrap(), wanted);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&marked).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(text(&gzip, &form).unwrap(), wanted);
        // Concatenated members, as some programs write.
        let two = [gzip.clone(), gzip.clone()].concat();
        assert!(text(&two, &form).unwrap().len() > 2 * wanted.len());
        let cut = text(&gzip[..gzip.len() - 9], &form).unwrap_err();
        assert!(cut.contains("gzip") && cut.contains("29913"), "{cut}");
        let zstd = zstd::stream::encode_all(wanted.as_bytes(), 1).unwrap();
        assert_eq!(text(&zstd, &form).unwrap(), wanted);
        let utf16: Vec<u8> =
            format!("\u{feff}{wanted}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(text(&utf16, &form).unwrap(), wanted);
        assert_eq!(text(&utf16[2..], &form).unwrap(), wanted, "without a mark");
        let latin: Vec<u8> = wanted.chars().map(|c| u32::from(c) as u8).collect();
        for name in ["latin1", "ISO-8859-1", "windows-1252", "cp1252"] {
            let encoding = Some(encoding_of(name).unwrap());
            let form = CsvForm { encoding, ..CsvForm::new(b',') };
            assert_eq!(text(&latin, &form).unwrap(), wanted, "{name}");
        }
    }

    #[test]
    fn what_is_no_text_is_told() {
        let form = CsvForm::new(b',');
        assert!(text(b"PAR1 and more", &form).unwrap_err().contains("a Parquet file"));
        assert!(text(b"BZh91AY", &form).unwrap_err().contains("bunzip2"));
        let form = CsvForm { encoding: encoding_of("shift_jis").ok(), ..CsvForm::new(b',') };
        let told = text(b"abc\n\xff\xff", &form).unwrap_err();
        assert!(told.contains("byte 5 is no letter of Shift_JIS"), "{told}");
        assert_eq!(encoding_of("klingon").unwrap_err().number, 70012);
        assert_eq!(text(b"", &form).unwrap(), "");
    }
}
