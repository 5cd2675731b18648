//! An aggregation prepared for a row group.
//!
//! Few groups are summed one after the other, each with a mask of its rows, by the same kernels that sum
//! without groups. If there are many, each row is added to the place of its group.

use std::collections::BTreeSet;

use arrow_array::{ArrayRef, new_null_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Schema};

use crate::aggregate::columns::{Columns, Known};
use crate::aggregate::keys::Keys;
use crate::aggregate::{Aggregate, AggregateFunction, Groups, State, join};
use crate::bits::{BLOCK, Lane};
use crate::column::{Column, Data};
use crate::expr::{Out, Program};
use crate::header::{Header, Kind};
use crate::int128::Int128;
use crate::ints::{Codes, Damage, Ints, each_lane};
use crate::kernel::{self, Mask, Views};
use crate::text::{Reader, Strings};
use crate::to_arrow::{Rows, array_of, numbers_array, views_of};
use crate::value::{Value, f32_of_key, f64_of_key};

/// Groups that are summed one after the other.
const MASKED_MAX: usize = 16;
/// The limit of numbers of which 1,024 can be summed in 64 bits.
const SUMMED_IN_64: i128 = 1 << 53;

/// The source of a minimum or maximum.
#[derive(Debug)]
enum Ends<'c, 'a> {
    Ints(&'c Ints<'a>, Codes),
    Int128(&'c Int128<'a>),
    Text(Reader<'c, 'a>),
    /// There are no values.
    Nulls,
}

/// A call made ready.
#[derive(Debug)]
enum Work<'c, 'a> {
    Rows,
    Count,
    /// Result `at` of the program; whether a block is summed in 64 bits.
    Sum {
        at: usize,
        narrow: bool,
    },
    Float {
        ints: Option<&'c Ints<'a>>,
        is_64: bool,
    },
    Ends {
        ends: Ends<'c, 'a>,
        is_least: bool,
    },
}

#[derive(Debug)]
struct One<'c, 'a> {
    work: Work<'c, 'a>,
    /// Its columns that have rows without a value; a column without any value is `never`.
    nullable: Vec<&'c Column<'a>>,
    never: bool,
    /// For each group: the number of rows that counted, and their sum, or the minimum or maximum so far.
    rows: Vec<u64>,
    sums: Vec<i128>,
    floats: Vec<f64>,
    texts: Vec<Option<Box<[u8]>>>,
}

/// An aggregation ready for a row group.
#[derive(Debug)]
pub struct Prepared<'c, 'a> {
    program: Program<'c, 'a>,
    functions: Vec<One<'c, 'a>>,
    keys: Option<Keys<'c, 'a>>,
    rows: Vec<u64>,
    columns: &'c [Option<Column<'a>>],
    strings: Strings,
}

impl<'c, 'a> Prepared<'c, 'a> {
    /// Makes an aggregation ready.
    ///
    /// # Errors
    /// A column of it has not been read, is not as it was written, or is of a type that the call is
    /// not for.
    pub fn new(
        aggregate: &Aggregate,
        header: &Header,
        columns: &'c [Option<Column<'a>>],
    ) -> Result<Prepared<'c, 'a>, Damage> {
        let mut program = Program::default();
        let functions =
            aggregate.functions.iter().map(|function| one(function, header, columns, &mut program));
        let functions: Vec<One<'c, 'a>> = functions.collect::<Result<_, _>>()?;
        let keys = match &aggregate.keys[..] {
            [] => None,
            keys => Some(Keys::new(keys, header, columns)?),
        };
        let mut ready = Prepared {
            program,
            functions,
            keys,
            rows: Vec::new(),
            columns,
            strings: Strings::default(),
        };
        ready.grow();
        Ok(ready)
    }

    /// Makes room for the present number of groups.
    fn grow(&mut self) {
        let groups = self.keys.as_ref().map_or(1, Keys::count);
        if groups <= self.rows.len() {
            return;
        }
        // Groups numbered as they appear arrive by the thousand.
        let room = groups.max(self.rows.len() * 2);
        self.rows.resize(room, 0);
        for one in &mut self.functions {
            one.rows.resize(room, 0);
            match one.work {
                Work::Rows | Work::Count => {}
                Work::Float { .. } => one.floats.resize(room, 0.0),
                Work::Ends { ends: Ends::Text(_), .. } => one.texts.resize(room, None),
                Work::Sum { .. } | Work::Ends { .. } => one.sums.resize(room, 0),
            }
        }
    }

    /// Adds those rows of a block that `mask` has, `count` of them.
    ///
    /// # Errors
    /// A column is not as it was written.
    pub fn block(&mut self, block: usize, mask: &Mask, count: usize) -> Result<(), Damage> {
        if count == 0 {
            return Ok(());
        }
        self.program.run(block);
        let Some(keys) = &mut self.keys else {
            self.rows[0] += count as u64;
            return self.masked(block, 0, mask, count);
        };
        let mut own = [0; BLOCK];
        if let Some(groups) = keys.direct(block, &mut own) {
            let places = own;
            for group in 0..groups {
                kernel::of_group(&places, group as u8, mask, &mut own);
                let count = kernel::count(&own);
                self.rows[group] += count as u64;
                if count > 0 {
                    self.masked(block, group, &own, count)?;
                }
            }
            return Ok(());
        }
        let mut rows = [0u16; BLOCK];
        let mut at = 0;
        for (row, mask) in mask.iter().enumerate() {
            rows[at] = row as u16;
            at += usize::from(mask & 1);
        }
        let rows = &rows[..at];
        let mut groups = [0u32; BLOCK];
        keys.of(block, rows, &mut groups)?;
        self.grow();
        let groups_now = self.keys.as_ref().map_or(1, Keys::count);
        if groups_now > MASKED_MAX {
            rows.iter().for_each(|row| self.rows[groups[usize::from(*row)] as usize] += 1);
            return self.scattered(block, rows, &groups);
        }
        let mut narrow = [0u8; BLOCK];
        narrow.iter_mut().zip(&groups).for_each(|(narrow, group)| *narrow = *group as u8);
        for group in 0..groups_now {
            let mut own = [0; BLOCK];
            kernel::of_group(&narrow, group as u8, mask, &mut own);
            let count = kernel::count(&own);
            self.rows[group] += count as u64;
            if count > 0 {
                self.masked(block, group, &own, count)?;
            }
        }
        Ok(())
    }

    /// Adds the rows of one group.
    fn masked(
        &mut self,
        block: usize,
        group: usize,
        mask: &Mask,
        count: usize,
    ) -> Result<(), Damage> {
        for one in &mut self.functions {
            if one.never {
                continue;
            }
            if one.nullable.is_empty() {
                one.masked(block, group, mask, count, &self.program, &mut self.strings)?;
                continue;
            }
            let mut own = *mask;
            one.nullable.iter().for_each(|column| column.keep_valid(block, &mut own));
            let count = kernel::count(&own);
            if count > 0 {
                one.masked(block, group, &own, count, &self.program, &mut self.strings)?;
            }
        }
        Ok(())
    }

    /// Adds each row to its group.
    fn scattered(
        &mut self,
        block: usize,
        rows: &[u16],
        groups: &[u32; BLOCK],
    ) -> Result<(), Damage> {
        for one in &mut self.functions {
            if one.never {
                continue;
            }
            if one.nullable.is_empty() {
                one.scattered(block, rows, groups, &self.program, &mut self.strings)?;
                continue;
            }
            let valid = |row: &u16| {
                let row = block * BLOCK + usize::from(*row);
                one.nullable.iter().all(|column| column.is_valid(row))
            };
            let own: Vec<u16> = rows.iter().copied().filter(valid).collect();
            one.scattered(block, &own, groups, &self.program, &mut self.strings)?;
        }
        Ok(())
    }

    /// Merges the states of the row group's groups into `groups`.
    pub fn finish(self, aggregate: &Aggregate, groups: &mut Groups) {
        let Some(keys) = &self.keys else {
            let states = self.states(aggregate, 0);
            return join(groups, Box::default(), states);
        };
        for group in 0..keys.count() {
            if self.rows[group] > 0 {
                join(groups, keys.key(group), self.states(aggregate, group));
            }
        }
    }

    /// The number of groups so far that are numbered as they appear: only those can become columns.
    pub fn groups(&self) -> usize {
        self.keys.as_ref().map_or(0, |keys| keys.firsts.len())
    }

    /// The states of the row group's groups, as columns of a table with that schema.
    ///
    /// # Errors
    /// A column is not as it was written, or the schema is of another table.
    pub fn finish_columns(self, aggregate: &Aggregate, schema: &Schema) -> Result<Columns, Damage> {
        let firsts = self.keys.as_ref().map_or(&[][..], |keys| &keys.firsts).to_vec();
        let count = firsts.len();
        let firsts = Rows::Some(firsts);
        let column = |at: usize| {
            let unread = Damage::Field { name: "column not read", value: at as u64 };
            let column = self.columns.get(at).and_then(Option::as_ref).ok_or(unread)?;
            Ok((column, schema.fields().get(at).ok_or(unread)?.data_type()))
        };
        let key = |at: &usize| {
            let (column, data_type) = column(*at)?;
            array_of(column, &firsts, data_type)
        };
        let keys = aggregate.keys.iter().map(key).collect::<Result<_, _>>()?;
        let known = |(one, function): (&One<'_, '_>, &AggregateFunction)| {
            let rows = || one.rows[..count].to_vec();
            Ok(match (&one.work, function) {
                (Work::Rows, _) => Known::Count(self.rows[..count].to_vec()),
                (Work::Count, _) => Known::Count(rows()),
                (Work::Sum { .. }, _) => {
                    Known::Sum { sums: one.sums[..count].to_vec(), rows: rows() }
                }
                (Work::Float { .. }, _) => {
                    Known::Float { sums: one.floats[..count].to_vec(), rows: rows() }
                }
                (
                    Work::Ends { ends, .. },
                    AggregateFunction::Least(at) | AggregateFunction::Greatest(at),
                ) => {
                    let (column, data_type) = column(*at)?;
                    Known::Ends(one.ends_array(ends, column, count, data_type)?)
                }
                (Work::Ends { .. }, _) => {
                    return Err(Damage::Field { name: "call of a least value", value: 0 });
                }
            })
        };
        let functions = self.functions.iter().zip(&aggregate.functions).map(known);
        Ok(Columns { keys, functions: functions.collect::<Result<_, _>>()?, rows: count })
    }

    fn states(&self, aggregate: &Aggregate, group: usize) -> Vec<State> {
        let state = |(one, function): (&One<'_, '_>, &AggregateFunction)| {
            let rows = one.rows[group];
            match (&one.work, function) {
                (Work::Rows, _) => State::Count(self.rows[group]),
                (Work::Count, _) => State::Count(rows),
                (Work::Sum { .. }, _) => State::Sum { sum: one.sums[group], rows },
                (Work::Float { .. }, _) => State::Float { sum: one.floats[group], rows },
                (
                    Work::Ends { is_least, .. },
                    AggregateFunction::Least(column) | AggregateFunction::Greatest(column),
                ) => {
                    let value = if rows == 0 { None } else { self.end(one, *column, group) };
                    if *is_least { State::Least(value) } else { State::Greatest(value) }
                }
                (Work::Ends { .. }, _) => function.nothing(),
            }
        };
        self.functions.iter().zip(&aggregate.functions).map(state).collect()
    }

    fn end(&self, one: &One<'_, '_>, column: usize, group: usize) -> Option<Value> {
        match &one.work {
            Work::Ends { ends: Ends::Text(_), .. } => one.texts[group].clone().map(Value::Bytes),
            _ => match self.columns.get(column)?.as_ref()?.data() {
                Data::Dict(dict) => dict
                    .string(usize::try_from(one.sums[group]).ok()?)
                    .map(|string| Value::Bytes(string.into())),
                _ => Some(Value::Number(one.sums[group])),
            },
        }
    }
}

fn one<'c, 'a>(
    function: &AggregateFunction,
    header: &Header,
    columns: &'c [Option<Column<'a>>],
    program: &mut Program<'c, 'a>,
) -> Result<One<'c, 'a>, Damage> {
    let column = |at: usize| {
        let unread = Damage::Field { name: "column not read", value: at as u64 };
        columns.get(at).and_then(Option::as_ref).ok_or(unread)
    };
    let other = Damage::Field { name: "kind of a column", value: 0 };
    let work = match function {
        AggregateFunction::Rows => Work::Rows,
        AggregateFunction::Count(_) => Work::Count,
        AggregateFunction::Sum(expr) => {
            let at = program.add(expr, header, columns)?;
            let small = |(low, high): (i128, i128)| low > -SUMMED_IN_64 && high < SUMMED_IN_64;
            Work::Sum { at, narrow: expr.bounds(header).is_some_and(small) }
        }
        AggregateFunction::SumFloat(at) => {
            let is_64 = match header.entries.get(*at).map(|entry| entry.kind) {
                Some(Kind::Float64) => true,
                Some(Kind::Float32) => false,
                _ => return Err(other),
            };
            match column(*at)?.data() {
                Data::Ints(ints) => Work::Float { ints: Some(ints), is_64 },
                _ => Work::Float { ints: None, is_64 },
            }
        }
        AggregateFunction::Least(at) | AggregateFunction::Greatest(at) => {
            let ends = match column(*at)?.data() {
                Data::Nulls => Ends::Nulls,
                Data::Ints(ints) => Ends::Ints(ints, ints.codes()),
                Data::Dict(dict) => Ends::Ints(dict.codes(), dict.codes().codes()),
                Data::Int128(wide) => Ends::Int128(wide),
                Data::Text(text) => Ends::Text(text.reader()),
            };
            Work::Ends { ends, is_least: matches!(function, AggregateFunction::Least(_)) }
        }
    };
    let mut asked = BTreeSet::new();
    function.columns(&mut asked);
    let asked: Vec<&Column<'a>> = asked.into_iter().map(column).collect::<Result<_, _>>()?;
    let never = asked.iter().any(|column| matches!(column.data(), Data::Nulls));
    let nullable = asked.into_iter().filter(|column| column.has_bits()).collect();
    let (rows, sums, floats, texts) = Default::default();
    Ok(One { work, nullable, never, rows, sums, floats, texts })
}

impl One<'_, '_> {
    /// The least or greatest of each of `count` groups.
    fn ends_array(
        &self,
        ends: &Ends<'_, '_>,
        column: &Column<'_>,
        count: usize,
        data_type: &DataType,
    ) -> Result<ArrayRef, Damage> {
        let has = |group: usize| self.rows[group] > 0;
        let nulls = Some(NullBuffer::new(BooleanBuffer::collect_bool(count, has)));
        let is_text = *data_type == DataType::Utf8View;
        let no_text = Damage::Field { name: "text that is not UTF-8", value: 0 };
        match (ends, column.data()) {
            (Ends::Nulls, _) => Ok(new_null_array(data_type, count)),
            (Ends::Text(_), _) => {
                let mut strings = Strings::default();
                let texts = self.texts[..count].iter();
                texts.for_each(|text| strings.push(text.as_deref().unwrap_or_default()));
                let views = Views::new(strings.bytes, &strings.ends, is_text).ok_or(no_text)?;
                Ok(views.into_array(nulls))
            }
            (_, Data::Dict(dict)) => {
                let codes = self.sums[..count].iter().enumerate();
                let codes = codes.map(|(group, code)| if has(group) { *code as i64 } else { 0 });
                let unknown = Damage::Field { name: "code of a string", value: 0 };
                views_of(dict, is_text)?.take(codes, nulls).ok_or(unknown)
            }
            _ => numbers_array(self.sums[..count].to_vec(), nulls, data_type),
        }
    }

    fn masked(
        &mut self,
        block: usize,
        group: usize,
        mask: &Mask,
        count: usize,
        program: &Program<'_, '_>,
        strings: &mut Strings,
    ) -> Result<(), Damage> {
        let first = self.rows[group] == 0;
        self.rows[group] += count as u64;
        match &mut self.work {
            Work::Rows | Work::Count => {}
            Work::Sum { at, narrow: true } => {
                let sum: i128 = match program.out(*at) {
                    Out::Codes(codes, base) => {
                        let sum: u64 = each_lane!(codes, own => kernel::sum(own, mask));
                        i128::from(sum) + i128::from(*base) * count as i128
                    }
                    Out::U32(out) => kernel::sum(out, mask).into(),
                    Out::I64(out) => kernel::sum_i64(out, mask).into(),
                    out => {
                        let mut room = [0; BLOCK];
                        kernel::sum_i64(out.as_i64(&mut room), mask).into()
                    }
                };
                self.sums[group] += sum;
            }
            Work::Sum { at, narrow: false } => {
                let mut room = [0; BLOCK];
                let out = program.out(*at).as_wide(&mut room);
                let rows = out.iter().zip(mask).filter(|(_, mask)| **mask != 0);
                let sum = rows.fold(0i128, |sum, (number, _)| sum.wrapping_add(*number));
                self.sums[group] = self.sums[group].wrapping_add(sum);
            }
            Work::Ends { ends: Ends::Ints(ints, codes), is_least } => {
                let base = i128::from(ints.unpack_codes(block, codes));
                let end: u64 = each_lane!(codes, own => match is_least {
                    true => kernel::least(own, mask).wide(),
                    false => kernel::greatest(own, mask).wide(),
                });
                better(&mut self.sums[group], base + i128::from(end), first, *is_least);
            }
            _ => {
                let mut rows = Vec::with_capacity(count);
                let all = mask.iter().enumerate().filter(|(_, mask)| **mask != 0);
                rows.extend(all.map(|(row, _)| row as u16));
                self.rows[group] -= count as u64;
                let groups = [group as u32; BLOCK];
                return self.scattered(block, &rows, &groups, program, strings);
            }
        }
        Ok(())
    }

    fn scattered(
        &mut self,
        block: usize,
        rows: &[u16],
        groups: &[u32; BLOCK],
        program: &Program<'_, '_>,
        strings: &mut Strings,
    ) -> Result<(), Damage> {
        let places = rows.iter().map(|row| (usize::from(*row), groups[usize::from(*row)] as usize));
        match &mut self.work {
            Work::Rows | Work::Count => {}
            Work::Sum { at, narrow: true } => {
                let mut room = [0; BLOCK];
                let out = program.out(*at).as_i64(&mut room);
                places.clone().for_each(|(row, group)| self.sums[group] += i128::from(out[row]));
            }
            Work::Sum { at, narrow: false } => {
                let mut room = [0; BLOCK];
                let out = program.out(*at).as_wide(&mut room);
                for (row, group) in places.clone() {
                    self.sums[group] = self.sums[group].wrapping_add(out[row]);
                }
            }
            Work::Float { ints: Some(ints), is_64 } => {
                let mut keys = [0; BLOCK];
                ints.decode(block, &mut keys);
                for (row, group) in places.clone() {
                    self.floats[group] += match is_64 {
                        true => f64_of_key(keys[row]),
                        false => f32_of_key(keys[row]).into(),
                    };
                }
            }
            Work::Ends { ends: Ends::Ints(ints, _), is_least } => {
                let mut numbers = [0; BLOCK];
                ints.decode(block, &mut numbers);
                let is_least = *is_least;
                return self.ends(places, |row| numbers[row].into(), is_least);
            }
            Work::Ends { ends: Ends::Int128(wide), is_least } => {
                let mut numbers = [0; BLOCK];
                wide.decode(block, &mut numbers);
                let is_least = *is_least;
                return self.ends(places, |row| numbers[row], is_least);
            }
            Work::Ends { ends: Ends::Text(reader), is_least } => {
                let mut mask = [0; BLOCK];
                rows.iter().for_each(|row| mask[usize::from(*row)] = 0xff);
                strings.clear();
                reader.decode_some(block, &mask, strings)?;
                for (row, group) in places.clone() {
                    let (string, best) = (strings.get(row), &mut self.texts[group]);
                    let is_better = best.as_ref().is_none_or(|best| match is_least {
                        true => string < &**best,
                        false => string > &**best,
                    });
                    if is_better {
                        *best = Some(string.into());
                    }
                }
            }
            Work::Ends { ends: Ends::Nulls, .. } | Work::Float { ints: None, .. } => {}
        }
        places.for_each(|(_, group)| self.rows[group] += 1);
        Ok(())
    }

    fn ends(
        &mut self,
        places: impl Iterator<Item = (usize, usize)>,
        number: impl Fn(usize) -> i128,
        is_least: bool,
    ) -> Result<(), Damage> {
        for (row, group) in places {
            better(&mut self.sums[group], number(row), self.rows[group] == 0, is_least);
            self.rows[group] += 1;
        }
        Ok(())
    }
}

/// Keeps the better of two values; the first one is kept as it is.
fn better(best: &mut i128, number: i128, first: bool, is_least: bool) {
    if first || (if is_least { number < *best } else { number > *best }) {
        *best = number;
    }
}
