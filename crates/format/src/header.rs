//! The header of a row group: its owner and position, and for each column the encoding, the place and
//! the statistics. `docs/format/row-group.md` has the bytes.

use crate::ints::{ALIGN, Damage, cut};

/// A row group with its header fits a storage region.
pub const REGION: usize = 1 << 20;
/// A header is one or more of these.
pub const PAGE: usize = 4096;
/// Rows of a row group, at most.
pub const ROWS_MAX: usize = 1 << 17;
/// Columns of a table, at most.
pub const COLUMNS_MAX: usize = 1600;
/// The version of the format that is written; others are refused.
pub const VERSION: u16 = 1;

const MAGIC: &[u8; 8] = b"CELLARRG";
const FIXED: usize = 128;
const ENTRY: usize = 128;
/// The length of the prefix that is kept of the smallest and the largest string.
pub const PREFIX: usize = 24;

/// The interpretation of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Whole numbers: also dates, times, booleans and decimals.
    Number = 1,
    /// Floating-point numbers of 32 bits, as whole numbers in their order.
    Float32 = 2,
    /// Floating-point numbers of 64 bits, as whole numbers in their order.
    Float64 = 3,
    /// Text in UTF-8.
    Text = 4,
    /// Strings of bytes.
    Binary = 5,
}

/// How a column is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// No row has a value: there are no bytes.
    Nulls = 0,
    /// Numbers of 64 bits ([`ints`](crate::ints)).
    Ints = 1,
    /// Numbers of 128 bits ([`int128`](crate::int128)).
    Int128 = 2,
    /// Strings of which few differ ([`dict`](crate::dict)).
    Dict = 3,
    /// Strings of which many differ ([`text`](crate::text)).
    Text = 4,
    /// Numbers of 64 bits of which more is known ([`patched_delta`](crate::ints::patched_delta)).
    PatchedDelta = 5,
}

/// Features that a reader must know to read a row group with such a column; older readers refuse it.
const PATCHED_DELTA: u32 = 1;

/// The first bytes of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    bytes: [u8; PREFIX],
    length: u8,
    /// Whether that is the whole string.
    whole: bool,
}

impl Prefix {
    /// The beginning of a string.
    pub fn of(string: &[u8]) -> Prefix {
        let length = string.len().min(PREFIX);
        let mut bytes = [0; PREFIX];
        bytes[..length].copy_from_slice(&string[..length]);
        Prefix { bytes, length: length as u8, whole: length == string.len() }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Whether they are all of the string.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether every string with this prefix sorts before `other`.
    pub fn is_before(&self, other: &[u8]) -> bool {
        match self.whole {
            true => self.bytes() < other,
            // A longer string may begin so, and that is after all that is shorter.
            false => self.bytes() < other && !other.starts_with(self.bytes()),
        }
    }
}

/// The order of a column's values, from row to row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Order {
    /// Unordered or unknown; also if a row has no value.
    Any = 0,
    /// None is below the one before it.
    Ascending = 1,
    /// Each is above the one before it.
    Strict = 2,
}

impl Order {
    /// That of values.
    pub fn of<T: Ord>(values: &[T]) -> Order {
        // Few columns are in order, and the others show it soon.
        match values.is_sorted() {
            true if values.is_sorted_by(|a, b| a < b) => Order::Strict,
            true => Order::Ascending,
            false => Order::Any,
        }
    }
}

/// The smallest and the largest value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// No row has a value.
    None,
    /// Of numbers.
    Numbers {
        /// The smallest.
        min: i128,
        /// The largest.
        max: i128,
    },
    /// Of strings: how they begin.
    Strings {
        /// The smallest.
        min: Prefix,
        /// The largest.
        max: Prefix,
    },
}

impl Bounds {
    /// Whether a writer could have written them.
    fn are_in_order(&self, encoding: Encoding) -> bool {
        match self {
            Bounds::None => true,
            Bounds::Numbers { min, max } => {
                let narrow = |number: &i128| i64::try_from(*number).is_ok();
                min <= max && (encoding == Encoding::Int128 || (narrow(min) && narrow(max)))
            }
            Bounds::Strings { min, max } => {
                let cut = |end: &Prefix| end.whole || usize::from(end.length) == PREFIX;
                min.bytes() <= max.bytes() && cut(min) && cut(max)
            }
        }
    }
}

/// What a header says of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// How it is encoded.
    pub encoding: Encoding,
    /// What its values are.
    pub kind: Kind,
    /// Decimal places, for whoever inspects the bytes.
    pub scale: i8,
    /// Rows without a value.
    pub nulls: u32,
    /// The number of distinct values; 0: not counted.
    pub distinct: u32,
    /// crc32c of its bytes.
    pub crc: u32,
    /// Where its bytes begin, from the beginning of the row group.
    pub offset: u32,
    /// How many they are.
    pub length: u32,
    /// Its smallest and largest value.
    pub bounds: Bounds,
    /// The sum of its values, if they are whole numbers and it fits 128 bits.
    pub sum: Option<i128>,
    /// In which order they are.
    pub order: Order,
}

/// The header of a row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The table's number.
    pub table: u64,
    /// The segment's number.
    pub segment: u64,
    /// Which row group of the segment it is, from 0; it begins that many MiB into the segment.
    pub position: u64,
    /// When it was made, by the redo log; 0 before there is one.
    pub lsn: u64,
    /// How many rows of the segment come before its first.
    pub first_row: u64,
    /// Rows.
    pub rows: u32,
    /// Bytes of the row group with its header.
    pub used: u32,
    /// Of each column of the table, in the table's order.
    pub entries: Vec<Entry>,
}

/// Bytes of a header for so many columns.
pub fn header_bytes(columns: usize) -> usize {
    (FIXED + columns * ENTRY).next_multiple_of(PAGE)
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length was asked for")
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn crc_of(bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[16..])
}

impl Entry {
    fn encode(&self, out: &mut [u8]) {
        out[0] = self.encoding as u8;
        out[1] = self.kind as u8;
        out[2] = self.scale as u8;
        put(out, 4, &self.nulls.to_le_bytes());
        put(out, 8, &self.distinct.to_le_bytes());
        put(out, 12, &self.crc.to_le_bytes());
        put(out, 16, &self.offset.to_le_bytes());
        put(out, 20, &self.length.to_le_bytes());
        match &self.bounds {
            Bounds::None => {}
            Bounds::Numbers { min, max } => {
                out[3] |= 1;
                put(out, 32, &min.to_le_bytes());
                put(out, 56, &max.to_le_bytes());
            }
            Bounds::Strings { min, max } => {
                out[3] |= 2 | u8::from(min.whole) << 2 | u8::from(max.whole) << 3;
                (out[24], out[25]) = (min.length, max.length);
                put(out, 32, &min.bytes);
                put(out, 56, &max.bytes);
            }
        }
        if let Some(sum) = self.sum {
            out[3] |= 16;
            put(out, 80, &sum.to_le_bytes());
        }
        out[96] = self.order as u8;
    }

    fn decode(bytes: &[u8]) -> Result<Entry, Damage> {
        let wrong = |name, value: u8| Damage::Field { name, value: value.into() };
        let encoding = match bytes[0] {
            0 => Encoding::Nulls,
            1 => Encoding::Ints,
            2 => Encoding::Int128,
            3 => Encoding::Dict,
            4 => Encoding::Text,
            5 => Encoding::PatchedDelta,
            other => return Err(wrong("encoding", other)),
        };
        let kind = match bytes[1] {
            1 => Kind::Number,
            2 => Kind::Float32,
            3 => Kind::Float64,
            4 => Kind::Text,
            5 => Kind::Binary,
            other => return Err(wrong("kind", other)),
        };
        let is_text = matches!(kind, Kind::Text | Kind::Binary);
        let bounds = match bytes[3] & 3 {
            0 => Bounds::None,
            1 if !is_text => Bounds::Numbers {
                min: i128::from_le_bytes(array(bytes, 32)),
                max: i128::from_le_bytes(array(bytes, 56)),
            },
            2 if is_text && usize::from(bytes[24].max(bytes[25])) <= PREFIX => {
                let prefix = |at, length, whole| Prefix { bytes: array(bytes, at), length, whole };
                Bounds::Strings {
                    min: prefix(32, bytes[24], bytes[3] & 4 != 0),
                    max: prefix(56, bytes[25], bytes[3] & 8 != 0),
                }
            }
            _ => return Err(wrong("flags", bytes[3])),
        };
        let fits = match encoding {
            Encoding::Nulls => bounds == Bounds::None,
            Encoding::Ints | Encoding::PatchedDelta => matches!(bounds, Bounds::Numbers { .. }),
            Encoding::Int128 => matches!(bounds, Bounds::Numbers { .. }) && kind == Kind::Number,
            Encoding::Dict | Encoding::Text => matches!(bounds, Bounds::Strings { .. }),
        };
        if !fits {
            return Err(wrong("encoding", bytes[0]));
        }
        if !bounds.are_in_order(encoding) {
            return Err(wrong("smallest and largest value", bytes[0]));
        }
        let sum = (bytes[3] & 16 != 0).then(|| i128::from_le_bytes(array(bytes, 80)));
        if bytes[3] > 31 || (sum.is_some() && kind != Kind::Number) {
            return Err(wrong("flags", bytes[3]));
        }
        Ok(Entry {
            encoding,
            kind,
            scale: bytes[2] as i8,
            nulls: number(bytes, 4),
            distinct: number(bytes, 8),
            crc: number(bytes, 12),
            offset: number(bytes, 16),
            length: number(bytes, 20),
            bounds,
            sum,
            // What is no order that is known is none.
            order: match bytes[96] {
                1 => Order::Ascending,
                2 => Order::Strict,
                _ => Order::Any,
            },
        })
    }

    fn check(&self, header: usize, rows: u32, used: u32) -> Result<(), Damage> {
        let end = u64::from(self.offset) + u64::from(self.length);
        let aligned = (self.offset as usize).is_multiple_of(ALIGN);
        if !aligned || (self.offset as usize) < header || end > used.into() {
            return Err(Damage::Field { name: "offset of a column", value: self.offset.into() });
        }
        if self.encoding == Encoding::Nulls && self.length != 0 {
            return Err(Damage::Field { name: "bytes of no values", value: self.length.into() });
        }
        if self.nulls > rows || (self.nulls == rows) != (self.encoding == Encoding::Nulls) {
            return Err(Damage::Field { name: "rows without a value", value: self.nulls.into() });
        }
        Ok(())
    }
}

/// What a reader must know.
fn features_of(entries: &[Entry]) -> u32 {
    let is_patched = |entry: &Entry| entry.encoding == Encoding::PatchedDelta;
    if entries.iter().any(is_patched) { PATCHED_DELTA } else { 0 }
}

impl Header {
    /// The bytes of the header, as many as [`header_bytes`] says.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= COLUMNS_MAX, "a table has fewer columns");
        let mut out = vec![0; header_bytes(self.entries.len())];
        let pages = (out.len() / PAGE) as u16;
        put(&mut out, 0, MAGIC);
        put(&mut out, 8, &VERSION.to_le_bytes());
        put(&mut out, 10, &pages.to_le_bytes());
        put(&mut out, 16, &self.table.to_le_bytes());
        put(&mut out, 24, &self.segment.to_le_bytes());
        put(&mut out, 32, &self.position.to_le_bytes());
        put(&mut out, 40, &self.lsn.to_le_bytes());
        put(&mut out, 48, &self.rows.to_le_bytes());
        put(&mut out, 52, &self.used.to_le_bytes());
        put(&mut out, 56, &(self.entries.len() as u16).to_le_bytes());
        put(&mut out, 60, &features_of(&self.entries).to_le_bytes());
        put(&mut out, 72, &self.first_row.to_le_bytes());
        for (entry, out) in self.entries.iter().zip(out[FIXED..].chunks_exact_mut(ENTRY)) {
            entry.encode(out);
        }
        let crc = crc_of(&out);
        put(&mut out, 12, &crc.to_le_bytes());
        out
    }

    /// Reads a header: `bytes` is as long as [`header_bytes`] says for the table, or longer.
    ///
    /// # Errors
    /// It is none, or not as it was written.
    pub fn decode(bytes: &[u8]) -> Result<Header, Damage> {
        let first = cut(bytes, 0, FIXED)?;
        if first[..8] != MAGIC[..] {
            let value = u64::from_le_bytes(array(first, 0));
            return Err(Damage::Field { name: "magic number of a row group", value });
        }
        let short = |at| u16::from_le_bytes(array(first, at));
        if short(8) != VERSION {
            return Err(Damage::Field { name: "version of a row group", value: short(8).into() });
        }
        let columns = usize::from(short(56));
        let length = usize::from(short(10)) * PAGE;
        if columns > COLUMNS_MAX || length != header_bytes(columns) {
            return Err(Damage::Field { name: "pages of a header", value: short(10).into() });
        }
        let all = cut(bytes, 0, length)?;
        if crc_of(all) != number(all, 12) {
            return Err(Damage::Field { name: "crc of a header", value: number(all, 12).into() });
        }
        // Features that a reader must know; it can do without those from bit 64 on.
        let features = number(all, 60);
        let unknown = Damage::Field { name: "features of a row group", value: features.into() };
        if features & !PATCHED_DELTA != 0 {
            return Err(unknown);
        }
        let (rows, used) = (number(all, 48), number(all, 52));
        if rows == 0 || rows as usize > ROWS_MAX {
            return Err(Damage::Field { name: "rows of a row group", value: rows.into() });
        }
        if (used as usize) < length || used as usize > REGION {
            return Err(Damage::Field { name: "bytes of a row group", value: used.into() });
        }
        let entries = all[FIXED..].chunks_exact(ENTRY).take(columns).map(Entry::decode);
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        if features != features_of(&entries) {
            return Err(unknown);
        }
        entries.iter().try_for_each(|entry| entry.check(length, rows, used))?;
        let long = |at| u64::from_le_bytes(array(all, at));
        Ok(Header {
            table: long(16),
            segment: long(24),
            position: long(32),
            lsn: long(40),
            first_row: long(72),
            rows,
            used,
            entries,
        })
    }

    /// Blocks of 1,024 rows.
    pub fn blocks(&self) -> usize {
        (self.rows as usize).div_ceil(crate::bits::BLOCK)
    }
}
