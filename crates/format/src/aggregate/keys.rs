//! Group numbers: for each row of a block, the number of its group within the row group.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::aggregate::Key;
use crate::aggregate::hash_agg::HashAgg;
use crate::bits::{BLOCK, Lane};
use crate::column::{Column, Data};
use crate::header::{Bounds, Header};
use crate::ints::{Codes, Damage, Ints, each_lane};
use crate::kernel;
use crate::value::Value;

/// Combinations up to which each has a place from the beginning: so few groups are summed one after the
/// other.
const DIRECT_MAX: u128 = 16;
/// Combinations up to which a table finds the group; beyond that they are hashed.
const TABLE_MAX: u128 = 1 << 18;

/// A column whose values, counted from its minimum, are places.
#[derive(Debug)]
pub(super) struct Counted<'c, 'a> {
    column: &'c Column<'a>,
    ints: Option<&'c Ints<'a>>,
    low: i64,
    /// The number of places; the last one is for rows without a value, if there are any.
    span: u128,
    stride: u128,
}

/// How rows are grouped. If possible, each combination of values is a number.
#[derive(Debug)]
enum How<'c, 'a> {
    /// That number is the group.
    Direct(Vec<Counted<'c, 'a>>, usize),
    /// Groups are numbered as they appear; the table holds the group plus one. A row group usually
    /// contains only a small part of the possible combinations, and only that part is summed.
    Table(Vec<Counted<'c, 'a>>, Vec<u32>, Vec<u128>),
    /// As with the table.
    Hashed(Vec<Counted<'c, 'a>>, HashMap<u128, u32, Mixed>, Vec<u128>),
    /// Groups are numbered as the values themselves appear.
    Values(Box<HashAgg<'c, 'a>>),
}

/// The groups of a row group.
#[derive(Debug)]
pub(super) struct Keys<'c, 'a> {
    how: How<'c, 'a>,
    /// If groups are numbered as they appear, the first row of each.
    pub firsts: Vec<u32>,
}

/// Hashes numbers by multiplying with a secret: whoever chooses keys cannot choose hashes.
#[derive(Clone, Debug)]
struct Mixed(u64);

/// The hash of a number, once it has been written.
struct Mixer(u64);

impl Mixed {
    fn new() -> Mixed {
        Mixed(RandomState::new().hash_one(0) | 1)
    }
}

impl BuildHasher for Mixed {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u128((*byte).into()));
    }

    fn write_u128(&mut self, number: u128) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let half = (number as u64) ^ ((number >> 64) as u64).wrapping_mul(ODD);
        let wide = u128::from(half ^ ODD) * u128::from(self.0);
        let mixed = u128::from(wide as u64 ^ (wide >> 64) as u64) * u128::from(ODD);
        self.0 = mixed as u64 ^ (mixed >> 64) as u64;
    }
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
        let span: u128 = values + nulls;
        // Places are counted in 64 bits; and a column with rows has values unless it is damaged.
        let fits = (1..=1 << 64).contains(&span);
        fits.then_some(Counted { column, ints, low, span, stride: 0 })
    }

    /// A column of whole numbers whose places are known in advance: the last one is for rows without a
    /// value, if there may be any. `None`: it holds something else.
    pub fn with(
        column: &'c Column<'a>,
        low: i64,
        span: u128,
        stride: u128,
    ) -> Option<Counted<'c, 'a>> {
        let ints = match column.data() {
            Data::Nulls => None,
            Data::Ints(ints) => Some(ints),
            _ => return None,
        };
        Some(Counted { column, ints, low, span, stride })
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

    /// As [`Counted::add`], where all places fit a byte.
    fn add_direct(&self, block: usize, out: &mut [u8; BLOCK]) {
        let (last, stride) = ((self.span - 1) as u64, self.stride as u8);
        let Some(ints) = self.ints else {
            return out.iter_mut().for_each(|out| *out += last as u8 * stride);
        };
        let mut codes = ints.codes();
        let base = ints.unpack_codes(block, &mut codes).wrapping_sub(self.low) as u64;
        let Some(bits) = self.column.bits(block) else {
            return each_lane!(&codes, codes => kernel::place(codes, base, last, stride, out));
        };
        let mut own = [0; BLOCK];
        each_lane!(&codes, codes => kernel::place(codes, base, last, stride, &mut own));
        for (row, (out, own)) in out.iter_mut().zip(own).enumerate() {
            let is_valid = bits[row / 8] >> (row % 8) & 1 == 1;
            *out += if is_valid { own } else { last as u8 * stride };
        }
    }

    /// Adds this column's part to the place of each row. A value outside the header's bounds gets the
    /// last place: the column is damaged.
    pub fn add<T: Place>(&self, block: usize, out: &mut [T; BLOCK]) {
        let Some(ints) = self.ints else {
            let last = T::of(self.span - 1);
            return out.iter_mut().for_each(|out| *out = out.plus(last, T::of(self.stride)));
        };
        let mut codes: Codes = ints.codes();
        let base = ints.unpack_codes(block, &mut codes).wrapping_sub(self.low) as u64;
        let (stride, last) = (T::of(self.stride), (self.span - 1) as u64);
        each_lane!(&codes, codes => {
            for (out, code) in out.iter_mut().zip(codes.iter()) {
                *out = out.plus(T::of(base.wrapping_add(code.wide()).min(last).into()), stride);
            }
        });
        if let Some(bits) = self.column.bits(block) {
            // Rows without a value hold some other value: they get the last place.
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
pub(super) trait Place: Copy {
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
        let mut counted: Option<Vec<_>> = counted.collect();
        let mut places = Some(1u128);
        for one in counted.iter_mut().flatten() {
            one.stride = places.unwrap_or(0);
            places = places.and_then(|places| places.checked_mul(one.span));
        }
        let how = match counted.zip(places) {
            None => How::Values(Box::new(HashAgg::new(&columns))),
            Some((counted, places)) if places <= DIRECT_MAX => {
                How::Direct(counted, places as usize)
            }
            Some((counted, places)) if places <= TABLE_MAX => {
                How::Table(counted, vec![0; places as usize], Vec::new())
            }
            Some((counted, _)) => {
                How::Hashed(counted, HashMap::with_hasher(Mixed::new()), Vec::new())
            }
        };
        Ok(Keys { how, firsts: Vec::new() })
    }

    /// The number of groups so far.
    pub fn count(&self) -> usize {
        match &self.how {
            How::Direct(_, count) => *count,
            How::Table(_, _, known) | How::Hashed(_, _, known) => known.len(),
            How::Values(by_value) => by_value.known.len(),
        }
    }

    /// The group of every row of a block, where each combination has one from the beginning; how many
    /// there are.
    pub fn direct(&self, block: usize, out: &mut [u8; BLOCK]) -> Option<usize> {
        let How::Direct(counted, count) = &self.how else { return None };
        out.fill(0);
        counted.iter().for_each(|one| one.add_direct(block, out));
        Some(*count)
    }

    /// The group of each of these rows of a block.
    pub fn of(&mut self, block: usize, rows: &[u16], out: &mut [u32; BLOCK]) -> Result<(), Damage> {
        match &mut self.how {
            How::Direct(counted, _) => {
                out.fill(0);
                counted.iter().for_each(|one| one.add(block, out));
            }
            How::Table(counted, table, known) => {
                out.fill(0);
                counted.iter().for_each(|one| one.add(block, out));
                for row in rows {
                    let own = &mut out[usize::from(*row)];
                    let group = &mut table[*own as usize];
                    if *group == 0 {
                        self.firsts.push((block * BLOCK) as u32 + u32::from(*row));
                        known.push((*own).into());
                        *group = known.len() as u32;
                    }
                    *own = *group - 1;
                }
            }
            How::Hashed(counted, places, known) => {
                let mut wide = [0u128; BLOCK];
                counted.iter().for_each(|one| one.add(block, &mut wide));
                for row in rows {
                    let key = wide[usize::from(*row)];
                    let next = known.len() as u32;
                    let place = *places.entry(key).or_insert(next);
                    if place == next {
                        self.firsts.push((block * BLOCK) as u32 + u32::from(*row));
                        known.push(key);
                    }
                    out[usize::from(*row)] = place;
                }
            }
            How::Values(by_value) => by_value.of(block, rows, out, &mut self.firsts)?,
        }
        Ok(())
    }

    /// The values of a group.
    pub fn key(&self, group: usize) -> Key {
        let of = |counted: &[Counted<'_, '_>], place| {
            counted.iter().map(|one| one.value(place)).collect()
        };
        match &self.how {
            How::Direct(counted, _) => of(counted, group as u128),
            How::Table(counted, _, known) | How::Hashed(counted, _, known) => {
                of(counted, known[group])
            }
            How::Values(by_value) => by_value.known[group].clone(),
        }
    }
}
