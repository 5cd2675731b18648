//! A column of a row group: which rows have a value, and the values as they are encoded.
//!
//! Where some rows have a value and some have none, a bit for each row comes first, one where it has a
//! value, the first row in the lowest bit, filled up to whole blocks of 1,024 rows (128 bytes each).
//! Then come the encoded values.

use crate::bits::BLOCK;
use crate::dict::{self, Dict};
use crate::header::{Bounds, Encoding, Entry, Kind, Order, Prefix};
use crate::int128::{self, Int128};
use crate::ints::{self, Damage, Ints, cut};
use crate::kernel::Mask;
use crate::text::{self, Text};

/// The most plain bytes of the strings of a column, except where few of them differ: a reader
/// allocates that much.
pub const PLAIN_MAX: usize = 1 << 26;

/// The values of a column before they are encoded.
#[derive(Clone, Debug)]
pub enum Values<'v> {
    /// Numbers of 64 bits.
    Ints(Vec<i64>),
    /// Numbers of 128 bits.
    Int128(Vec<i128>),
    /// Strings.
    Strings(Vec<&'v [u8]>),
}

/// A column before it is encoded.
#[derive(Clone, Debug)]
pub struct Input<'v> {
    /// What its values are.
    pub kind: Kind,
    /// Decimal places.
    pub scale: i8,
    /// One for each row; the values of rows without a value are ignored.
    pub values: Values<'v>,
    /// A bit for each row, one where it has a value; `None`: all have one.
    pub valid: Option<Vec<u8>>,
}

/// Bytes of the bits of so many rows.
fn valid_bytes(rows: usize) -> usize {
    rows.div_ceil(BLOCK) * (BLOCK / 8)
}

fn is_set(bits: &[u8], row: usize) -> bool {
    bits[row / 8] >> (row % 8) & 1 == 1
}

/// Replaces absent values by a suitable one that occurs anyway.
fn fill<T: Clone>(values: &mut [T], valid: Option<&[u8]>) {
    let Some(valid) = valid else { return };
    let Some(first) = (0..values.len()).find(|row| is_set(valid, *row)) else { return };
    let mut last = values[first].clone();
    for (row, value) in values.iter_mut().enumerate() {
        match is_set(valid, row) {
            true => last = value.clone(),
            false => *value = last.clone(),
        }
    }
}

fn ends<T: Copy + Ord + Into<i128>>(values: &[T]) -> Bounds {
    match (values.iter().min(), values.iter().max()) {
        (Some(min), Some(max)) => Bounds::Numbers { min: (*min).into(), max: (*max).into() },
        _ => Bounds::None,
    }
}

impl Input<'_> {
    fn rows(&self) -> usize {
        match &self.values {
            Values::Ints(values) => values.len(),
            Values::Int128(values) => values.len(),
            Values::Strings(values) => values.len(),
        }
    }

    fn nulls(&self) -> usize {
        let rows = self.rows();
        let valid = self.valid.as_deref();
        valid.map_or(0, |valid| (0..rows).filter(|row| !is_set(valid, *row)).count())
    }

    fn sum(&self) -> Option<i128> {
        fn of<T: Copy + Into<i128>>(values: &[T], valid: Option<&[u8]>) -> Option<i128> {
            let counts = |row: &usize| valid.is_none_or(|valid| is_set(valid, *row));
            let rows = (0..values.len()).filter(counts);
            rows.map(|row| values[row].into()).try_fold(0i128, i128::checked_add)
        }
        match (&self.values, self.kind) {
            // All numbers of 64 bits fit in 128.
            (Values::Ints(values), Kind::Number) if self.valid.is_none() => {
                Some(values.iter().map(|value| i128::from(*value)).fold(0, i128::wrapping_add))
            }
            (Values::Ints(values), Kind::Number) => of(values, self.valid.as_deref()),
            (Values::Int128(values), Kind::Number) => of(values, self.valid.as_deref()),
            _ => None,
        }
    }

    fn order(&self) -> Order {
        match &self.values {
            Values::Ints(values) => Order::of(values),
            Values::Int128(values) => Order::of(values),
            Values::Strings(values) => Order::of(values),
        }
    }

    /// Encodes the column; returns its header entry, without the place, and its bytes.
    ///
    /// # Errors
    /// Its strings have this many plain bytes, more than [`PLAIN_MAX`].
    pub fn encode(mut self) -> Result<(Entry, Vec<u8>), usize> {
        let (rows, nulls) = (self.rows(), self.nulls());
        let mut entry = Entry {
            encoding: Encoding::Nulls,
            kind: self.kind,
            scale: self.scale,
            nulls: nulls as u32,
            distinct: 0,
            crc: 0,
            offset: 0,
            length: 0,
            bounds: Bounds::None,
            sum: None,
            order: if nulls == 0 { self.order() } else { Order::Any },
        };
        let mut out = Vec::new();
        if nulls == rows {
            return Ok((entry, out));
        }
        entry.sum = self.sum();
        let valid = if nulls > 0 { self.valid.take() } else { None };
        if let Some(valid) = &valid {
            out.extend_from_slice(&valid[..rows.div_ceil(8)]);
            if !rows.is_multiple_of(8) {
                // Bits behind the last row are zeros, whatever was given.
                *out.last_mut().expect("there are rows") &= (1 << (rows % 8)) - 1;
            }
            out.resize(valid_bytes(rows), 0);
        }
        match &mut self.values {
            Values::Ints(values) => {
                fill(values, valid.as_deref());
                let ranges = ints::ranges_of(values);
                let (is_patched, bytes) = ints::encode_best(values, &ranges);
                entry.encoding = if is_patched { Encoding::PatchedDelta } else { Encoding::Ints };
                let all: Vec<i64> = ranges.iter().flat_map(|(low, high)| [*low, *high]).collect();
                entry.bounds = ends(&all);
                out.extend_from_slice(&bytes);
            }
            Values::Int128(values) => {
                fill(values, valid.as_deref());
                entry.encoding = Encoding::Int128;
                entry.bounds = ends(values);
                out.extend_from_slice(&int128::encode(values));
            }
            Values::Strings(values) => {
                fill(values, valid.as_deref());
                encode_strings(values, &mut entry, &mut out)?;
            }
        }
        entry.crc = crc32c::crc32c(&out);
        entry.length = out.len() as u32;
        Ok((entry, out))
    }
}

fn encode_strings(values: &[&[u8]], entry: &mut Entry, out: &mut Vec<u8>) -> Result<(), usize> {
    let (min, max) = (values.iter().min(), values.iter().max());
    if let (Some(min), Some(max)) = (min, max) {
        entry.bounds = Bounds::Strings { min: Prefix::of(min), max: Prefix::of(max) };
    }
    // A dictionary of strings that hardly repeat is larger than the strings, and slow to build.
    if let Some(dict) = dict::encode_few(values) {
        entry.encoding = Encoding::Dict;
        entry.distinct = dict.count as u32;
        out.extend_from_slice(&dict.bytes);
        return Ok(());
    }
    let plain = values.iter().map(|value| value.len()).sum();
    if plain > PLAIN_MAX {
        return Err(plain);
    }
    entry.encoding = Encoding::Text;
    out.extend_from_slice(&text::encode(values, None));
    Ok(())
}

/// The values of a column as they are encoded.
#[derive(Clone, Debug)]
pub enum Data<'a> {
    /// There are none.
    Nulls,
    /// Numbers of 64 bits.
    Ints(Ints<'a>),
    /// Numbers of 128 bits.
    Int128(Int128<'a>),
    /// Strings of which few differ.
    Dict(Dict<'a>),
    /// Strings of which many differ.
    Text(Text<'a>),
}

/// A column as it is encoded.
#[derive(Clone, Debug)]
pub struct Column<'a> {
    kind: Kind,
    rows: usize,
    valid: Option<&'a [u8]>,
    data: Data<'a>,
}

impl<'a> Column<'a> {
    /// Opens a column of `rows` rows: `bytes` are those that its entry describes. Whoever read them
    /// checks the CRC: [`Entry::is_whole`].
    ///
    /// # Errors
    /// The bytes are no such column.
    pub fn new(entry: &Entry, rows: usize, bytes: &'a [u8]) -> Result<Column<'a>, Damage> {
        let expected = entry.length as usize;
        if bytes.len() != expected {
            return Err(Damage::Length { expected, found: bytes.len() });
        }
        let has_bits = entry.nulls > 0 && entry.encoding != Encoding::Nulls;
        let at = if has_bits { valid_bytes(rows) } else { 0 };
        let valid = if has_bits { Some(cut(bytes, 0, at)?) } else { None };
        let values = cut(bytes, at, bytes.len().saturating_sub(at))?;
        let data = match entry.encoding {
            Encoding::Nulls => Data::Nulls,
            Encoding::Ints => Data::Ints(Ints::new(values)?),
            Encoding::PatchedDelta => Data::Ints(Ints::patched_delta(values)?),
            Encoding::Int128 => Data::Int128(Int128::new(values)?),
            Encoding::Dict => Data::Dict(Dict::new(values)?),
            Encoding::Text => Data::Text(Text::new(values)?),
        };
        let found = match &data {
            Data::Nulls => rows,
            Data::Ints(data) => data.rows(),
            Data::Int128(data) => data.rows(),
            Data::Dict(data) => data.codes().rows(),
            Data::Text(data) => data.rows(),
        };
        if found != rows {
            return Err(Damage::Field { name: "rows of a column", value: found as u64 });
        }
        Ok(Column { kind: entry.kind, rows, valid, data })
    }

    /// What its values are.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Its values.
    pub fn data(&self) -> &Data<'a> {
        &self.data
    }

    /// Whether some rows have a value and others have none.
    pub fn has_bits(&self) -> bool {
        self.valid.is_some()
    }

    /// The bits of the rows of a block that have a value; `None`: all have one, or none has.
    pub fn bits(&self, block: usize) -> Option<&'a [u8]> {
        self.valid.map(|valid| &valid[block * (BLOCK / 8)..][..BLOCK / 8])
    }

    /// Whether a row has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        match self.data {
            Data::Nulls => false,
            _ => self.valid.is_none_or(|valid| is_set(valid, row)),
        }
    }

    /// Clears in `mask` the rows of a block without a value.
    pub fn keep_valid(&self, block: usize, mask: &mut Mask) {
        match (&self.data, self.bits(block)) {
            (Data::Nulls, _) => mask.fill(0),
            (_, None) => {}
            (_, Some(bits)) => crate::kernel::keep_bits(bits, mask),
        }
    }

    /// Clears in `mask` the rows of a block with a value.
    pub fn keep_nulls(&self, block: usize, mask: &mut Mask) {
        match (&self.data, self.bits(block)) {
            (Data::Nulls, _) => {}
            (_, None) => mask.fill(0),
            (_, Some(bits)) => {
                let mut turned = [0; BLOCK / 8];
                turned.iter_mut().zip(bits).for_each(|(turned, bits)| *turned = !bits);
                crate::kernel::keep_bits(&turned, mask);
            }
        }
    }
}

impl std::fmt::Debug for text::Reader<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl Entry {
    /// Whether the bytes of a column are those that were written.
    pub fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.length as usize && crc32c::crc32c(bytes) == self.crc
    }
}
