//! Segments: the row groups that one load has written, followed by all of their headers, so that a scan
//! reads one piece to know them all. `docs/format/row-group.md` has the bytes.

use crate::header::{COLUMNS_MAX, Header, PAGE, REGION, header_bytes};
use crate::ints::{Damage, cut};

const MAGIC: &[u8; 8] = b"CELLARSG";
/// The version of the format that is written; others are refused.
pub const VERSION: u16 = 1;
/// Bytes of the description of the columns, at most.
pub const SCHEMA_MAX: usize = 1 << 20;

/// The last page of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The table's number.
    pub table: u64,
    /// The segment's number.
    pub segment: u64,
    /// Row groups.
    pub row_groups: u32,
    /// Rows of all of them.
    pub rows: u64,
    /// Columns of the table.
    pub columns: u16,
    /// Bytes of the description of the columns, which stands behind the headers.
    pub schema: u32,
    /// crc32c of the headers and the description, as they stand.
    crc: u32,
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length was asked for")
}

/// The part after the row groups: from the end of the last one, padded to whole pages. `schema` describes
/// the columns in the words of whoever reads them.
pub fn directory(headers: &[Header], table: u64, segment: u64, schema: &[u8]) -> Vec<u8> {
    assert!(schema.len() <= SCHEMA_MAX, "the names of columns are shorter");
    let mut out = Vec::new();
    for header in headers {
        out.extend_from_slice(&header.encode());
    }
    out.extend_from_slice(schema);
    out.resize(out.len().next_multiple_of(PAGE), 0);
    let crc = crc32c::crc32c(&out);
    let rows: u64 = headers.iter().map(|header| u64::from(header.rows)).sum();
    let columns = headers.first().map_or(0, |header| header.entries.len()) as u16;
    let mut tail = vec![0; PAGE];
    put(&mut tail, 0, MAGIC);
    put(&mut tail, 8, &VERSION.to_le_bytes());
    put(&mut tail, 10, &columns.to_le_bytes());
    put(&mut tail, 16, &table.to_le_bytes());
    put(&mut tail, 24, &segment.to_le_bytes());
    put(&mut tail, 32, &rows.to_le_bytes());
    put(&mut tail, 40, &(headers.len() as u32).to_le_bytes());
    put(&mut tail, 44, &(schema.len() as u32).to_le_bytes());
    put(&mut tail, 48, &crc.to_le_bytes());
    let own = crc32c::crc32c(&tail);
    put(&mut tail, 12, &own.to_le_bytes());
    out.extend_from_slice(&tail);
    out
}

/// Where the row group at `position` begins in its segment.
pub fn offset_of(position: u64) -> u64 {
    position * REGION as u64
}

impl Tail {
    /// Reads the last page of a segment.
    ///
    /// # Errors
    /// It is none, or not as it was written.
    pub fn decode(page: &[u8]) -> Result<Tail, Damage> {
        let page = cut(page, 0, PAGE)?;
        if page[..8] != MAGIC[..] {
            let value = u64::from_le_bytes(array(page, 0));
            return Err(Damage::Field { name: "magic number of a segment", value });
        }
        let short = |at| u16::from_le_bytes(array(page, at));
        let number = |at| u32::from_le_bytes(array(page, at));
        let long = |at| u64::from_le_bytes(array(page, at));
        if short(8) != VERSION {
            return Err(Damage::Field { name: "version of a segment", value: short(8).into() });
        }
        let mut without = page.to_vec();
        without[12..16].fill(0);
        if crc32c::crc32c(&without) != number(12) {
            return Err(Damage::Field { name: "crc of a segment", value: number(12).into() });
        }
        if number(52) != 0 {
            return Err(Damage::Field { name: "features of a segment", value: number(52).into() });
        }
        let tail = Tail {
            table: long(16),
            segment: long(24),
            rows: long(32),
            row_groups: number(40),
            columns: short(10),
            schema: number(44),
            crc: number(48),
        };
        if tail.schema as usize > SCHEMA_MAX || usize::from(tail.columns) > COLUMNS_MAX {
            return Err(Damage::Field { name: "columns of a segment", value: tail.schema.into() });
        }
        Ok(tail)
    }

    /// Bytes of the headers and the description, which end where the last page begins.
    pub fn directory_bytes(&self) -> u64 {
        let headers = u64::from(self.row_groups) * header_bytes(self.columns.into()) as u64;
        (headers + u64::from(self.schema)).next_multiple_of(PAGE as u64)
    }

    /// The headers and the description of the columns, of the bytes that
    /// [`directory_bytes`](Tail::directory_bytes) counts.
    ///
    /// # Errors
    /// They are not as they were written.
    pub fn read<'a>(&self, bytes: &'a [u8]) -> Result<(Vec<Header>, &'a [u8]), Damage> {
        let expected = usize::try_from(self.directory_bytes()).unwrap_or(usize::MAX);
        if bytes.len() != expected {
            return Err(Damage::Length { expected, found: bytes.len() });
        }
        if crc32c::crc32c(bytes) != self.crc {
            return Err(Damage::Field { name: "crc of a directory", value: self.crc.into() });
        }
        let each = header_bytes(self.columns.into());
        let headers = bytes.chunks_exact(each).take(self.row_groups as usize);
        let headers: Vec<Header> = headers.map(Header::decode).collect::<Result<_, _>>()?;
        for (position, header) in headers.iter().enumerate() {
            self.check(header, position as u64)?;
        }
        let rows: u64 = headers.iter().map(|header| u64::from(header.rows)).sum();
        if rows != self.rows {
            return Err(Damage::Field { name: "rows of a segment", value: self.rows });
        }
        Ok((headers, cut(bytes, each * self.row_groups as usize, self.schema as usize)?))
    }

    /// Whether a header is that of the row group at `position` of this segment.
    ///
    /// # Errors
    /// It is another's.
    pub fn check(&self, header: &Header, position: u64) -> Result<(), Damage> {
        let own = header.table == self.table
            && header.segment == self.segment
            && header.position == position
            && header.entries.len() == usize::from(self.columns);
        match own {
            true => Ok(()),
            false => Err(Damage::Field { name: "place of a row group", value: header.position }),
        }
    }
}
