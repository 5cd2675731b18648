//! Which group each row of a block belongs to, as a number within its row group.

use std::collections::HashMap;

use crate::aggregate::Key;
use crate::bits::BLOCK;
use crate::column::{Column, Data};
use crate::header::{Bounds, Header};
use crate::ints::{Codes, Damage, Ints, each_lane};
use crate::text::Strings;
use crate::value::Value;

/// Groups that have a place of their own from the beginning.
const DIRECT_MAX: u128 = 1 << 16;

/// A column whose values, counted from its least, are places.
#[derive(Debug)]
struct Counted<'c, 'a> {
    column: &'c Column<'a>,
    ints: Option<&'c Ints<'a>>,
    low: i64,
    /// How many places there are; the last is for rows without a value, if there are any.
    span: u128,
    stride: u128,
}

/// How rows are told apart.
#[derive(Debug)]
enum How<'c, 'a> {
    /// Each combination has a place of its own.
    Direct(Vec<Counted<'c, 'a>>),
    /// Each combination is a number, of which those that come get places as they come.
    Hashed(Vec<Counted<'c, 'a>>, HashMap<u128, u32>, Vec<u128>),
    /// The values themselves get places as they come.
    Values(HashMap<Key, u32>, Vec<Key>),
}

/// The groups of a row group.
#[derive(Debug)]
pub(super) struct Keys<'c, 'a> {
    columns: Vec<&'c Column<'a>>,
    how: How<'c, 'a>,
}

impl<'c, 'a> Counted<'c, 'a> {
    fn new(column: &'c Column<'a>, bounds: &Bounds) -> Option<Counted<'c, 'a>> {
        let (ints, low, values) = match (column.data(), bounds) {
            (Data::Nulls, _) => (None, 0, 0),
            (Data::Ints(ints), Bounds::Numbers { min, max }) => {
                let low = i64::try_from(*min).ok()?;
                (Some(ints), low, max.checked_sub(*min)?.checked_add(1)?.try_into().ok()?)
            }
            (Data::Dict(dict), _) => (Some(dict.codes()), 0, dict.count() as u128),
            _ => return None,
        };
        let nulls = u128::from(ints.is_none() || column.has_bits());
        Some(Counted { column, ints, low, span: values + nulls, stride: 0 })
    }

    fn value(&self, place: u128) -> Option<Value> {
        let at = place / self.stride % self.span;
        let no_value = self.ints.is_none() || (self.column.has_bits() && at == self.span - 1);
        if no_value {
            return None;
        }
        match self.column.data() {
            Data::Dict(dict) => dict.string(at as usize).map(|string| Value::Bytes(string.into())),
            _ => Some(Value::Number(i128::from(self.low) + at as i128)),
        }
    }

    /// Adds this column's part to the place of each row. A value beyond the bounds that the header
    /// tells has the last place: such a column is not as it was written.
    fn add<T: Place>(&self, block: usize, out: &mut [T; BLOCK]) {
        let Some(ints) = self.ints else { return };
        let mut codes: Codes = ints.codes();
        let base = ints.unpack_codes(block, &mut codes).wrapping_sub(self.low) as u64;
        let (stride, last) = (T::of(self.stride), self.span - 1);
        let last = u64::try_from(last).unwrap_or(u64::MAX);
        each_lane!(&codes, codes => {
            for (out, code) in out.iter_mut().zip(codes.iter()) {
                *out = out.plus(T::of(base.wrapping_add((*code).into()).min(last).into()), stride);
            }
        });
        if let Some(bits) = self.column.bits(block) {
            // Rows without a value hold another's: theirs is the last place.
            for (row, out) in out.iter_mut().enumerate() {
                if bits[row / 8] >> (row % 8) & 1 == 0 {
                    let own = match &codes {
                        Codes::U8(codes) => codes[row].into(),
                        Codes::U16(codes) => codes[row].into(),
                        Codes::U32(codes) => codes[row].into(),
                        Codes::U64(codes) => codes[row],
                    };
                    let own = base.wrapping_add(own).min(last);
                    *out = out.plus(T::of((last - own).into()), stride);
                }
            }
        }
    }
}

/// A number of a place.
trait Place: Copy {
    fn of(wide: u128) -> Self;
    fn plus(self, code: Self, stride: Self) -> Self;
}

impl Place for u32 {
    fn of(wide: u128) -> u32 {
        wide as u32
    }

    fn plus(self, code: u32, stride: u32) -> u32 {
        self.wrapping_add(code.wrapping_mul(stride))
    }
}

impl Place for u128 {
    fn of(wide: u128) -> u128 {
        wide
    }

    fn plus(self, code: u128, stride: u128) -> u128 {
        self.wrapping_add(code.wrapping_mul(stride))
    }
}

impl<'c, 'a> Keys<'c, 'a> {
    pub fn new(
        keys: &[usize],
        header: &Header,
        columns: &'c [Option<Column<'a>>],
    ) -> Result<Keys<'c, 'a>, Damage> {
        let column = |at: &usize| {
            let unread = Damage::Field { name: "column not read", value: *at as u64 };
            columns.get(*at).and_then(Option::as_ref).ok_or(unread)
        };
        let columns: Vec<&Column<'a>> = keys.iter().map(column).collect::<Result<_, _>>()?;
        let counted = columns.iter().zip(keys).map(|(column, at)| {
            let bounds = &header.entries.get(*at)?.bounds;
            Counted::new(column, bounds)
        });
        let how = match counted.collect::<Option<Vec<_>>>() {
            None => How::Values(HashMap::new(), Vec::new()),
            Some(mut counted) => {
                let mut places = Some(1u128);
                for one in &mut counted {
                    one.stride = places.unwrap_or(0);
                    places = places.and_then(|places| places.checked_mul(one.span));
                }
                match places {
                    Some(places) if places <= DIRECT_MAX => How::Direct(counted),
                    Some(_) => How::Hashed(counted, HashMap::new(), Vec::new()),
                    None => How::Values(HashMap::new(), Vec::new()),
                }
            }
        };
        Ok(Keys { columns, how })
    }

    /// How many groups there are so far.
    pub fn count(&self) -> usize {
        match &self.how {
            How::Direct(counted) => counted.iter().map(|one| one.span).product::<u128>() as usize,
            How::Hashed(_, _, known) => known.len(),
            How::Values(_, known) => known.len(),
        }
    }

    /// The group of each of these rows of a block.
    pub fn of(&mut self, block: usize, rows: &[u16], out: &mut [u32; BLOCK]) -> Result<(), Damage> {
        match &mut self.how {
            How::Direct(counted) => {
                out.fill(0);
                counted.iter().for_each(|one| one.add(block, out));
            }
            How::Hashed(counted, places, known) => {
                let mut wide = [0u128; BLOCK];
                counted.iter().for_each(|one| one.add(block, &mut wide));
                for row in rows {
                    let key = wide[usize::from(*row)];
                    let next = known.len() as u32;
                    let place = *places.entry(key).or_insert(next);
                    if place == next {
                        known.push(key);
                    }
                    out[usize::from(*row)] = place;
                }
            }
            How::Values(places, known) => {
                let values = Values::new(&self.columns, block, rows)?;
                for row in rows {
                    let key = values.key(&self.columns, block, usize::from(*row));
                    let next = known.len() as u32;
                    let place = *places.entry(key.clone()).or_insert(next);
                    if place == next {
                        known.push(key);
                    }
                    out[usize::from(*row)] = place;
                }
            }
        }
        Ok(())
    }

    /// The values of a group.
    pub fn key(&self, group: usize) -> Key {
        let of = |counted: &[Counted<'_, '_>], place| {
            counted.iter().map(|one| one.value(place)).collect()
        };
        match &self.how {
            How::Direct(counted) => of(counted, group as u128),
            How::Hashed(counted, _, known) => of(counted, known[group]),
            How::Values(_, known) => known[group].clone(),
        }
    }
}

/// The values of a block of columns.
struct Values(Vec<Decoded>);

enum Decoded {
    Numbers(Box<[i128; BLOCK]>),
    Strings(Strings),
}

impl Values {
    fn new(columns: &[&Column<'_>], block: usize, rows: &[u16]) -> Result<Values, Damage> {
        let decoded = columns.iter().map(|column| {
            Ok(match column.data() {
                Data::Nulls => Decoded::Strings(Strings::default()),
                Data::Ints(ints) => {
                    let (mut narrow, mut wide) = ([0; BLOCK], Box::new([0; BLOCK]));
                    ints.decode(block, &mut narrow);
                    wide.iter_mut().zip(narrow).for_each(|(wide, narrow)| *wide = narrow.into());
                    Decoded::Numbers(wide)
                }
                Data::Wide(numbers) => {
                    let mut wide = Box::new([0; BLOCK]);
                    numbers.decode(block, &mut wide);
                    Decoded::Numbers(wide)
                }
                Data::Dict(dict) => {
                    let (mut codes, mut strings) = ([0; BLOCK], Strings::default());
                    dict.codes().decode(block, &mut codes);
                    for code in codes {
                        strings.push(dict.string(code as usize).unwrap_or_default());
                    }
                    Decoded::Strings(strings)
                }
                Data::Text(text) => {
                    let mut mask = [0; BLOCK];
                    rows.iter().for_each(|row| mask[usize::from(*row)] = 0xff);
                    let mut strings = Strings::default();
                    text.decode_some(block, &mask, &mut strings)?;
                    Decoded::Strings(strings)
                }
            })
        });
        Ok(Values(decoded.collect::<Result<_, _>>()?))
    }

    fn key(&self, columns: &[&Column<'_>], block: usize, row: usize) -> Key {
        let value = |(column, decoded): (&&Column<'_>, &Decoded)| {
            column.is_valid(block * BLOCK + row).then(|| match decoded {
                Decoded::Numbers(numbers) => Value::Number(numbers[row]),
                Decoded::Strings(strings) => Value::Bytes(strings.get(row).into()),
            })
        };
        columns.iter().zip(&self.0).map(value).collect()
    }
}
