//! Conversion of columns to Arrow arrays: the selected rows of a row group, in their order.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, PrimitiveArray,
    new_null_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::bits::BLOCK;
use crate::column::{Column, Data};
use crate::dict::Dict;
use crate::from_arrow::kind_of;
use crate::ints::{Damage, Ints};
use crate::kernel::{Mask, Views};
use crate::packed::{is_packed, unpack};
use crate::text::{Strings, Text};
use crate::value::{f32_of_key, f64_of_key};

/// Rows of a row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All of so many.
    All(usize),
    /// Those of some blocks, from this one on and not from the other on, where all rows are so many.
    Blocks(usize, usize, usize),
    /// These, in ascending order.
    Some(Vec<u32>),
}

impl Rows {
    /// None of them.
    pub fn none() -> Rows {
        Rows::Some(Vec::new())
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        match self {
            Rows::All(rows) => *rows,
            Rows::Blocks(from, to, rows) => (to * BLOCK).min(*rows).saturating_sub(from * BLOCK),
            Rows::Some(rows) => rows.len(),
        }
    }

    /// The row that comes behind so many of them.
    ///
    /// # Panics
    /// There is no such row.
    pub fn row(&self, at: usize) -> u32 {
        match self {
            Rows::All(_) => at as u32,
            Rows::Blocks(from, ..) => (from * BLOCK + at) as u32,
            Rows::Some(rows) => rows[at],
        }
    }

    /// The next rows after the first `before` of them: whole blocks if all rows of some are selected, and
    /// at most as many rows as that many `blocks` have.
    pub fn part(&self, before: usize, blocks: usize) -> Rows {
        match self {
            Rows::All(rows) => Rows::Blocks(0, rows.div_ceil(BLOCK), *rows).part(before, blocks),
            Rows::Blocks(from, to, rows) => {
                let first = (from + before.div_ceil(BLOCK)).min(*to);
                Rows::Blocks(first, first.saturating_add(blocks).min(*to), *rows)
            }
            Rows::Some(rows) => {
                let rows = rows.get(before..).unwrap_or_default();
                Rows::Some(rows[..rows.len().min(blocks.saturating_mul(BLOCK))].to_vec())
            }
        }
    }

    /// Their first and last row, if all rows in between are selected.
    pub(crate) fn range(&self) -> Option<(usize, usize)> {
        match self {
            Rows::All(rows) => Some((0, *rows)),
            Rows::Blocks(from, to, rows) => Some((from * BLOCK, (to * BLOCK).min(*rows))),
            Rows::Some(_) => None,
        }
    }

    /// Adds those rows of a block that `mask` has.
    pub fn add(&mut self, block: usize, mask: &Mask) {
        let Rows::Some(rows) = self else { return };
        let first = (block * BLOCK) as u32;
        for (eight, word) in mask.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight"));
            if word == 0 {
                continue;
            }
            let mut left = word & 0x8080_8080_8080_8080;
            while left != 0 {
                rows.push(first + eight as u32 * 8 + left.trailing_zeros() / 8);
                left &= left - 1;
            }
        }
    }

    /// Sets `mask` to the selected rows of a block; returns how many.
    pub fn mask(&self, block: usize, mask: &mut Mask) -> usize {
        let first = block * BLOCK;
        match self {
            Rows::All(_) | Rows::Blocks(..) => {
                let (from, to) = self.range().unwrap_or_default();
                let to = if first < from { first } else { to };
                let count = to.saturating_sub(first).min(BLOCK);
                mask[..count].fill(0xff);
                mask[count..].fill(0);
                count
            }
            Rows::Some(rows) => {
                mask.fill(0);
                let from = rows.partition_point(|row| (*row as usize) < first);
                let to = rows.partition_point(|row| (*row as usize) < first + BLOCK);
                rows[from..to].iter().for_each(|row| mask[*row as usize - first] = 0xff);
                to - from
            }
        }
    }

    /// For each block of which some rows are wanted: the block, and where in it they are (`None`: all).
    fn blocks(
        &self,
        mut each: impl FnMut(usize, Option<&[u32]>) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        match self {
            Rows::All(_) | Rows::Blocks(..) => {
                let (from, to) = self.range().unwrap_or_default();
                (from / BLOCK..to.div_ceil(BLOCK)).try_for_each(|block| each(block, None))
            }
            Rows::Some(rows) => {
                let same = |a: &u32, b: &u32| *a as usize / BLOCK == *b as usize / BLOCK;
                rows.chunk_by(same).try_for_each(|rows| each(rows[0] as usize / BLOCK, Some(rows)))
            }
        }
    }
}

/// Rows of a block, of `rows` in all.
fn length_of(block: usize, rows: usize) -> usize {
    (rows - block * BLOCK).min(BLOCK)
}

fn nulls_of(column: &Column<'_>, rows: &Rows) -> Option<NullBuffer> {
    if !column.has_bits() {
        return None;
    }
    let bits = match rows {
        Rows::All(_) | Rows::Blocks(..) => {
            let (from, to) = rows.range().unwrap_or_default();
            BooleanBuffer::collect_bool(to - from, |row| column.is_valid(from + row))
        }
        Rows::Some(rows) => {
            BooleanBuffer::collect_bool(rows.len(), |at| column.is_valid(rows[at] as usize))
        }
    };
    Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
}

/// The numbers of the rows, each made a `T`.
fn numbers<T>(column: &Column<'_>, rows: &Rows, of: impl Fn(i64) -> T) -> Result<Vec<T>, Damage> {
    let Data::Ints(ints) = column.data() else { return Err(other_type()) };
    Ok(ints_of(ints, column.rows(), rows, of))
}

/// The numbers of some of `all` rows, each made a `T`.
pub(crate) fn ints_of<T>(
    ints: &Ints<'_>,
    all: usize,
    rows: &Rows,
    of: impl Fn(i64) -> T,
) -> Vec<T> {
    let mut out = Vec::with_capacity(rows.count());
    let mut block = [0; BLOCK];
    let mut each = |at, wanted: Option<&[u32]>| {
        match wanted {
            None => {
                ints.decode(at, &mut block);
                out.extend(block[..length_of(at, all)].iter().map(|number| of(*number)));
            }
            Some(rows) => {
                let rows = rows.iter().map(|row| *row as usize % BLOCK);
                ints.some(at, rows, |number| out.push(of(number)));
            }
        }
        Ok(())
    };
    rows.blocks(&mut each).expect("numbers are decoded whatever they are");
    out
}

/// The numbers of the rows, of 128 bits.
fn wide_numbers(column: &Column<'_>, rows: &Rows) -> Result<Vec<i128>, Damage> {
    let Data::Int128(wide) = column.data() else {
        return numbers(column, rows, i128::from);
    };
    let mut out = Vec::with_capacity(rows.count());
    let mut block = [0; BLOCK];
    rows.blocks(|at, wanted| {
        wide.decode(at, &mut block);
        match wanted {
            None => out.extend_from_slice(&block[..length_of(at, column.rows())]),
            Some(rows) => out.extend(rows.iter().map(|row| block[*row as usize % BLOCK])),
        }
        Ok(())
    })?;
    Ok(out)
}

/// The different strings of a dictionary.
pub(crate) fn views_of(dict: &Dict<'_>, is_text: bool) -> Result<Views, Damage> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(dict.count()));
    for code in 0..dict.count() {
        bytes.extend_from_slice(dict.string(code).unwrap_or_default());
        ends.push(bytes.len() as u32);
    }
    Views::new(bytes, &ends, is_text).ok_or(NO_TEXT)
}

const NO_TEXT: Damage = Damage::Field { name: "text that is not UTF-8", value: 0 };

fn strings(
    column: &Column<'_>,
    rows: &Rows,
    nulls: Option<NullBuffer>,
    is_text: bool,
) -> Result<ArrayRef, Damage> {
    match column.data() {
        Data::Dict(dict) if rows.count() < dict.count() => {
            // From a large dictionary only the strings needed, each once: one may be long.
            let mut wanted = Strings::default();
            let codes = ints_of(dict.codes(), column.rows(), rows, |code| code);
            let mut differ = codes.clone();
            differ.sort_unstable();
            differ.dedup();
            for code in &differ {
                let unknown = Damage::Field { name: "code of a string", value: *code as u64 };
                let string = usize::try_from(*code).ok().and_then(|code| dict.string(code));
                wanted.push(string.ok_or(unknown)?);
            }
            let views = Views::new(wanted.bytes, &wanted.ends, is_text).ok_or(NO_TEXT)?;
            let numbers = codes.iter().map(|code| differ.partition_point(|own| own < code) as i64);
            views.take(numbers, nulls).ok_or(NO_TEXT)
        }
        Data::Dict(dict) => {
            let views = views_of(dict, is_text)?;
            let codes = ints_of(dict.codes(), column.rows(), rows, |code| code);
            let unknown = Damage::Field { name: "code of a string", value: views.len() as u64 };
            views.take(codes.into_iter(), nulls).ok_or(unknown)
        }
        Data::Text(text) => {
            let strings = text_of(text, rows)?;
            let views = Views::new(strings.bytes, &strings.ends, is_text).ok_or(NO_TEXT)?;
            Ok(views.into_array(nulls))
        }
        _ => Err(other_type()),
    }
}

/// The strings of the rows, and no others.
fn text_of(text: &Text<'_>, rows: &Rows) -> Result<Strings, Damage> {
    let (mut out, mut block) = (Strings::default(), Strings::default());
    let mut reader = text.reader();
    rows.blocks(|at, wanted| {
        let Some(wanted) = wanted else { return reader.decode(at, &mut out) };
        let mut mask = [0; BLOCK];
        wanted.iter().for_each(|row| mask[*row as usize % BLOCK] = 0xff);
        block.clear();
        reader.decode_some(at, &mask, &mut block)?;
        wanted.iter().for_each(|row| out.push(block.get(*row as usize % BLOCK)));
        Ok(())
    })?;
    Ok(out)
}

/// A column holds something that its table's type does not allow.
fn other_type() -> Damage {
    Damage::Field { name: "kind of a column", value: 0 }
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    let array = PrimitiveArray::<T>::new(values.into(), nulls);
    Arc::new(array.with_data_type(data_type.clone()))
}

/// The rows of a column as an array of `data_type`, which is one that
/// [`column_type`](crate::from_arrow::column_type) gave for it.
///
/// # Errors
/// The column is not as it was written, or of another type.
pub fn array_of(
    column: &Column<'_>,
    rows: &Rows,
    data_type: &DataType,
) -> Result<ArrayRef, Damage> {
    if matches!(column.data(), Data::Nulls) {
        return Ok(new_null_array(data_type, rows.count()));
    }
    if kind_of(data_type) != Some(column.kind()) {
        return Err(other_type());
    }
    let nulls = nulls_of(column, rows);
    match data_type {
        DataType::Utf8View => strings(column, rows, nulls, true),
        DataType::BinaryView => strings(column, rows, nulls, false),
        packed if is_packed(packed) => {
            let bytes = strings(column, rows, nulls, false)?;
            let bytes = bytes.as_any().downcast_ref::<BinaryViewArray>().ok_or_else(other_type)?;
            unpack(bytes, packed)
        }
        _ => typed(&(column, rows), nulls, data_type),
    }
}

/// Numbers, as columns order them, as an array of `data_type`.
///
/// # Errors
/// The type is not one of numbers.
pub(crate) fn numbers_array(
    values: Vec<i128>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, Damage> {
    typed(&values, nulls, data_type)
}

/// Where the numbers of an array come from.
trait Numbers {
    /// Each of them made a `T`.
    fn each<T>(&self, of: impl Fn(i64) -> T) -> Result<Vec<T>, Damage>;

    /// In 128 bits.
    fn wide(&self) -> Result<Vec<i128>, Damage>;
}

impl Numbers for (&Column<'_>, &Rows) {
    fn each<T>(&self, of: impl Fn(i64) -> T) -> Result<Vec<T>, Damage> {
        numbers(self.0, self.1, of)
    }

    fn wide(&self) -> Result<Vec<i128>, Damage> {
        wide_numbers(self.0, self.1)
    }
}

impl Numbers for Vec<i128> {
    fn each<T>(&self, of: impl Fn(i64) -> T) -> Result<Vec<T>, Damage> {
        Ok(self.iter().map(|number| of(*number as i64)).collect())
    }

    fn wide(&self) -> Result<Vec<i128>, Damage> {
        Ok(self.clone())
    }
}

fn typed(
    from: &impl Numbers,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, Damage> {
    use DataType as D;
    macro_rules! ints {
        ($t:ty) => {
            primitive::<$t>(from.each(|number| number as _)?, nulls, data_type)
        };
    }
    Ok(match data_type {
        D::Boolean => {
            let values = from.each(|number| number != 0)?;
            Arc::new(BooleanArray::new(values.into(), nulls))
        }
        D::Int8 => ints!(Int8Type),
        D::Int16 => ints!(Int16Type),
        D::Int32 => ints!(Int32Type),
        D::Int64 => ints!(Int64Type),
        D::UInt8 => ints!(UInt8Type),
        D::UInt16 => ints!(UInt16Type),
        D::UInt32 => ints!(UInt32Type),
        D::UInt64 => {
            let values = from.wide()?.iter().map(|value| *value as u64).collect();
            primitive::<UInt64Type>(values, nulls, data_type)
        }
        D::Decimal128(_, _) => primitive::<Decimal128Type>(from.wide()?, nulls, data_type),
        D::Float32 => primitive::<Float32Type>(from.each(f32_of_key)?, nulls, data_type),
        D::Float64 => primitive::<Float64Type>(from.each(f64_of_key)?, nulls, data_type),
        D::Date32 => ints!(Date32Type),
        D::Date64 => ints!(Date64Type),
        D::Time32(TimeUnit::Second) => ints!(Time32SecondType),
        D::Time32(_) => ints!(Time32MillisecondType),
        D::Time64(TimeUnit::Microsecond) => ints!(Time64MicrosecondType),
        D::Time64(_) => ints!(Time64NanosecondType),
        D::Timestamp(TimeUnit::Second, _) => ints!(TimestampSecondType),
        D::Timestamp(TimeUnit::Millisecond, _) => ints!(TimestampMillisecondType),
        D::Timestamp(TimeUnit::Microsecond, _) => ints!(TimestampMicrosecondType),
        D::Timestamp(TimeUnit::Nanosecond, _) => ints!(TimestampNanosecondType),
        _ => return Err(other_type()),
    })
}
