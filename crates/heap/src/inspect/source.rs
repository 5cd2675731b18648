//! The file of a store as it is read here: its pages, and both copies of its header.

use cellar_io::{Buffer, Device, Io};
use cellar_page::{PAGE_BYTES, Raw};

use super::tree::Inspection;
use crate::geometry::HEADER_PAGES;
use crate::store::Header;

/// Fields of the header: name, place, bytes, and whether digits are hexadecimal.
const FIELDS: [(&str, usize, usize, bool); 13] = [
    ("checksum", 4, 4, true),
    ("format version", 8, 2, false),
    ("feature bits", 16, 8, true),
    ("generation", 24, 8, false),
    ("store", 32, 8, true),
    ("database", 40, 16, true),
    ("pages of an extent", 56, 4, false),
    ("slots of the ring", 60, 4, false),
    ("pages of a batch", 64, 4, false),
    ("extents in the extent map", 68, 4, false),
    ("checkpoint", 72, 8, false),
    ("redo per second in recovery", 80, 8, false),
    ("pages per second in recovery", 88, 8, false),
];

/// A copy of the header: its bytes, and what they say.
struct HeaderCopy {
    raw: Result<Box<Raw>, String>,
    header: Result<Header, String>,
}

/// A file that is inspected.
pub(super) struct Source<'a> {
    device: &'a dyn Device,
    copies: Vec<HeaderCopy>,
}

impl<'a> Source<'a> {
    /// Reads the header.
    pub async fn open(device: &'a dyn Device) -> Source<'a> {
        let mut source = Source { device, copies: Vec::new() };
        for page in 0..HEADER_PAGES {
            let raw = source.read(page).await;
            let header = match &raw {
                Ok(raw) => Header::decode(&raw[..]),
                Err(why) => Err(why.clone()),
            };
            source.copies.push(HeaderCopy { raw, header });
        }
        source
    }

    /// The newer whole copy of the header.
    pub fn header(&self) -> Option<&Header> {
        let whole = self.copies.iter().filter_map(|copy| copy.header.as_ref().ok());
        whole.max_by_key(|header| header.generation)
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.device.geometry().size
    }

    /// Whole pages of the file.
    pub fn pages(&self) -> u64 {
        self.bytes() / PAGE_BYTES as u64
    }

    /// A page, or why it cannot be read.
    pub async fn read(&self, page: u32) -> Result<Box<Raw>, String> {
        let mut pages = self.read_all(page, 1).await?;
        pages.pop().ok_or_else(|| "nothing was read".to_owned())
    }

    /// Pages that follow each other.
    pub async fn read_all(&self, first: u32, count: usize) -> Result<Vec<Box<Raw>>, String> {
        let pages = self.pages();
        if u64::from(first) + count as u64 > pages {
            return Err(format!("it is behind the end of the file, which has {pages} pages"));
        }
        let offset = u64::from(first) * PAGE_BYTES as u64;
        let buffers = (0..count).map(|_| Buffer::new(PAGE_BYTES)).collect();
        let read = self.device.read(Io::FOREGROUND, offset, buffers).await;
        let read = read.map_err(|error| error.to_string())?;
        let boxed = |buffer: Buffer| Box::<Raw>::try_from(buffer.to_vec());
        let whole: Result<Vec<Box<Raw>>, Vec<u8>> = read.into_iter().map(boxed).collect();
        whole.map_err(|_| "less than a page was read".to_owned())
    }

    /// Describes a copy of the header.
    pub fn header_copy(&self, name: String, copy: u32) -> Inspection {
        let Some(HeaderCopy { raw, header }) = self.copies.get(copy as usize) else {
            return Inspection::damage(name, "there are two copies of the header");
        };
        let shown = match header {
            Ok(header) => {
                let newest = self.header().map_or(0, |newest| newest.generation);
                let is_older = header.generation < newest;
                let older = if is_older { ", the other one is newer" } else { "" };
                Inspection::leaf(name, format!("generation {}{older}", header.generation))
            }
            Err(why) => Inspection::damage(name, why),
        };
        let parts = match raw {
            Ok(raw) if raw.starts_with(b"CLHS") => FIELDS.map(|of| field(raw, of)).to_vec(),
            _ => Vec::new(),
        };
        shown.with(parts)
    }
}

fn field(raw: &Raw, (name, at, length, is_hex): (&str, usize, usize, bool)) -> Inspection {
    let mut bytes = [0; 16];
    bytes[..length].copy_from_slice(&raw[at..at + length]);
    let value = u128::from_le_bytes(bytes);
    let digits = length * 2;
    match is_hex {
        true => Inspection::leaf(name, format!("{value:0digits$x}")),
        false => Inspection::leaf(name, value),
    }
}
