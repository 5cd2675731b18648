//! Groups whose keys are whole numbers close to each other: every combination that a table can have
//! gets a place, the same for all its row groups, so that nothing is looked up or merged.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Schema};

use crate::aggregate::columns::{Columns, Known};
use crate::aggregate::keys::Counted;
use crate::aggregate::{Aggregate, AggregateFunction};
use crate::bits::BLOCK;
use crate::column::{Column, Data};
use crate::expr::Program;
use crate::header::{Bounds, Header, Kind};
use crate::ints::{Damage, Ints};
use crate::kernel::Mask;
use crate::to_arrow::numbers_array;
use crate::value::{f32_of_key, f64_of_key};

/// Places, at most, and the bytes that all of them may take.
const PLACES_MAX: u128 = 1 << 22;
const BYTES_MAX: u128 = 48 << 20;
/// This few groups are summed faster one after the other.
const PLACES_MIN: u128 = 17;
/// If each row group covers less than one part in this many of the places, row groups group by
/// themselves first.
const CLUSTERED: u128 = 8;

/// A key: its places are counted from the least value that the table has.
#[derive(Clone, Debug)]
struct Key {
    column: usize,
    low: i64,
    span: u128,
    stride: u128,
    has_nulls: bool,
}

/// How a table's rows are summed at their places.
#[derive(Clone, Debug)]
pub struct Plan {
    keys: Vec<Key>,
    functions: Vec<AggregateFunction>,
    /// Of each call, whether rows without a value must be told apart.
    nullable: Vec<bool>,
    places: usize,
    is_worth_it: bool,
}

/// The state of each place.
#[derive(Debug)]
pub struct Dense {
    plan: Arc<Plan>,
    rows: Vec<u32>,
    functions: Vec<Sums>,
    /// The next place to be returned.
    next: usize,
}

/// The state of a call at each place.
#[derive(Debug, Default)]
struct Sums {
    /// Rows with a value; empty where every row has one.
    rows: Vec<u32>,
    numbers: Vec<i64>,
    floats: Vec<f64>,
}

/// The smallest and largest of a column over all row groups, and whether it has rows without a value.
/// The last is `None` where there are no values.
fn range(headers: &[&Header], column: usize) -> Option<(i64, i64, bool)> {
    let (mut ends, mut has_nulls) = (None::<(i64, i64)>, false);
    for header in headers {
        let entry = header.entries.get(column)?;
        has_nulls |= entry.nulls > 0;
        if entry.kind != Kind::Number {
            return None;
        }
        match entry.bounds {
            Bounds::None => {}
            Bounds::Numbers { min, max } => {
                let (min, max) = (i64::try_from(min).ok()?, i64::try_from(max).ok()?);
                ends = Some(ends.map_or((min, max), |(low, high)| (low.min(min), high.max(max))));
            }
            Bounds::Strings { .. } => return None,
        }
    }
    let (low, high) = ends.unwrap_or((0, 0));
    Some((low, high, has_nulls))
}

/// The average over the row groups of the part of a key's values that each has.
fn own_span(headers: &[&Header], column: usize) -> u128 {
    let span = |header: &&Header| match header.entries[column].bounds {
        Bounds::Numbers { min, max } => max.abs_diff(min) + 1,
        _ => 1,
    };
    headers.iter().map(span).sum::<u128>() / headers.len().max(1) as u128
}

/// Whether a call can be summed in 64 bits whatever the order, and if so whether rows without a value
/// must be told apart.
fn summed(function: &AggregateFunction, headers: &[&Header]) -> Option<bool> {
    let has_nulls = |column: usize| {
        headers.iter().any(|header| header.entries.get(column).is_none_or(|own| own.nulls > 0))
    };
    Some(match function {
        AggregateFunction::Rows => false,
        AggregateFunction::Count(column) | AggregateFunction::SumFloat(column) => {
            has_nulls(*column)
        }
        AggregateFunction::Least(column) | AggregateFunction::Greatest(column) => {
            range(headers, *column)?.2
        }
        AggregateFunction::Sum(expr) => {
            let mut sum = 0u128;
            for header in headers {
                let (low, high) = expr.bounds(header)?;
                let most = low.unsigned_abs().max(high.unsigned_abs());
                sum = sum.checked_add(most.checked_mul(header.rows.into())?)?;
            }
            if sum > i64::MAX as u128 {
                return None;
            }
            let mut columns = std::collections::BTreeSet::new();
            expr.columns(&mut columns);
            columns.into_iter().any(has_nulls)
        }
    })
}

impl Plan {
    /// Plans it for the row groups with these headers. `None`: this aggregation is not suited.
    pub fn new(aggregate: &Aggregate, headers: &[&Header]) -> Option<Plan> {
        let rows: u64 = headers.iter().map(|header| u64::from(header.rows)).sum();
        if aggregate.keys.is_empty() || headers.is_empty() || u32::try_from(rows).is_err() {
            return None;
        }
        let (mut keys, mut places, mut own) = (Vec::new(), 1u128, 1u128);
        for column in &aggregate.keys {
            let (low, high, has_nulls) = range(headers, *column)?;
            let span = u128::from(high.abs_diff(low)) + 1 + u128::from(has_nulls);
            keys.push(Key { column: *column, low, span, stride: places, has_nulls });
            places = places.checked_mul(span)?;
            own = own.saturating_mul(own_span(headers, *column));
        }
        let nullable: Option<Vec<bool>> =
            aggregate.functions.iter().map(|function| summed(function, headers)).collect();
        let nullable = nullable?;
        let bytes = places.min(PLACES_MAX + 1)
            * (4 + nullable.iter().map(|own| 8 + u128::from(*own) * 4).sum::<u128>());
        let is_sparse = places > 2 * u128::from(rows);
        let is_clustered = own.saturating_mul(CLUSTERED) < places;
        let is_worth_it = places >= PLACES_MIN && !is_sparse && !is_clustered;
        let fits = places <= PLACES_MAX && bytes <= BYTES_MAX;
        let (functions, places) = (aggregate.functions.clone(), places as usize);
        fits.then_some(Plan { keys, functions, nullable, places, is_worth_it })
    }

    /// Whether it is faster than grouping each row group by itself: there are many places, most of them
    /// are in use, and each row group has rows for most of them.
    pub fn is_worth_it(&self) -> bool {
        self.is_worth_it
    }
}

impl Dense {
    /// Initial states.
    pub fn new(plan: Arc<Plan>) -> Dense {
        let places = plan.places;
        let sums = |(function, nullable): (&AggregateFunction, &bool)| {
            let rows = if *nullable { vec![0; places] } else { Vec::new() };
            let (mut numbers, mut floats) = (Vec::new(), Vec::new());
            match function {
                AggregateFunction::Rows | AggregateFunction::Count(_) => {}
                AggregateFunction::SumFloat(_) => floats = vec![0.0; places],
                AggregateFunction::Sum(_) => numbers = vec![0; places],
                AggregateFunction::Least(_) => numbers = vec![i64::MAX; places],
                AggregateFunction::Greatest(_) => numbers = vec![i64::MIN; places],
            }
            Sums { rows, numbers, floats }
        };
        let functions = plan.functions.iter().zip(&plan.nullable).map(sums).collect();
        Dense { rows: vec![0; places], functions, next: 0, plan }
    }

    /// Merges the states of another one.
    pub fn join(&mut self, other: Dense) {
        self.rows.iter_mut().zip(&other.rows).for_each(|(own, other)| *own += other);
        let plan = Arc::clone(&self.plan);
        for ((own, other), function) in
            self.functions.iter_mut().zip(other.functions).zip(&plan.functions)
        {
            own.rows.iter_mut().zip(other.rows).for_each(|(own, other)| *own += other);
            own.floats.iter_mut().zip(other.floats).for_each(|(own, other)| *own += other);
            let numbers = own.numbers.iter_mut().zip(other.numbers);
            match function {
                AggregateFunction::Least(_) => {
                    numbers.for_each(|(own, other)| *own = other.min(*own))
                }
                AggregateFunction::Greatest(_) => {
                    numbers.for_each(|(own, other)| *own = other.max(*own))
                }
                _ => numbers.for_each(|(own, other)| *own = own.wrapping_add(other)),
            }
        }
    }

    /// The next groups, about `most` of them, as columns of a table with that schema; `None`: there are
    /// no more.
    ///
    /// # Errors
    /// The schema is of another table.
    pub fn next_part(&mut self, schema: &Schema, most: usize) -> Result<Option<Columns>, Damage> {
        let mut places = Vec::with_capacity(most);
        while self.next < self.rows.len() && places.len() < most {
            if self.rows[self.next] > 0 {
                places.push(self.next);
            }
            self.next += 1;
        }
        if places.is_empty() {
            return Ok(None);
        }
        let keys = self.plan.keys.iter().map(|key| key.array(schema, &places));
        let keys = keys.collect::<Result<_, _>>()?;
        let functions = self.plan.functions.iter().zip(&self.functions);
        let functions =
            functions.map(|(function, sums)| self.known(function, sums, schema, &places));
        let functions = functions.collect::<Result<_, _>>()?;
        Ok(Some(Columns { keys, functions, rows: places.len() }))
    }

    fn known(
        &self,
        function: &AggregateFunction,
        sums: &Sums,
        schema: &Schema,
        places: &[usize],
    ) -> Result<Known, Damage> {
        let counts = if sums.rows.is_empty() { &self.rows } else { &sums.rows };
        let rows = || places.iter().map(|place| counts[*place].into()).collect::<Vec<u64>>();
        Ok(match function {
            AggregateFunction::Rows | AggregateFunction::Count(_) => Known::Count(rows()),
            AggregateFunction::Sum(_) => {
                let sums = places.iter().map(|place| sums.numbers[*place].into()).collect();
                Known::Sum { sums, rows: rows() }
            }
            AggregateFunction::SumFloat(_) => {
                let sums = places.iter().map(|place| sums.floats[*place]).collect();
                Known::Float { sums, rows: rows() }
            }
            AggregateFunction::Least(column) | AggregateFunction::Greatest(column) => {
                let has = |at: usize| counts[places[at]] > 0;
                let nulls = NullBuffer::new(BooleanBuffer::collect_bool(places.len(), has));
                let number = |place: &usize| {
                    if counts[*place] > 0 { sums.numbers[*place].into() } else { 0 }
                };
                let numbers = places.iter().map(number).collect();
                Known::Ends(numbers_array(numbers, Some(nulls), type_of(schema, *column)?)?)
            }
        })
    }
}

fn type_of(schema: &Schema, column: usize) -> Result<&DataType, Damage> {
    let unknown = Damage::Field { name: "column of a table", value: column as u64 };
    schema.fields().get(column).map(|field| field.data_type()).ok_or(unknown)
}

impl Key {
    fn array(&self, schema: &Schema, places: &[usize]) -> Result<ArrayRef, Damage> {
        let at = |place: &usize| (*place as u128 / self.stride % self.span) as u64;
        let is_null = |at: u64| self.has_nulls && u128::from(at) == self.span - 1;
        let nulls = self.has_nulls.then(|| {
            let valid = BooleanBuffer::collect_bool(places.len(), |one| !is_null(at(&places[one])));
            NullBuffer::new(valid)
        });
        let number = |place: &usize| match at(place) {
            null if is_null(null) => 0,
            at => self.low.wrapping_add(at as i64).into(),
        };
        numbers_array(places.iter().map(number).collect(), nulls, type_of(schema, self.column)?)
    }
}

/// A call prepared for a row group.
#[derive(Debug)]
enum Work<'c, 'a> {
    /// Counts, and rows that all have no value.
    Nothing,
    Sum(usize),
    Float(&'c Ints<'a>, bool),
    Ends(&'c Ints<'a>, bool),
}

/// An aggregation prepared for a row group.
#[derive(Debug)]
pub struct Prepared<'c, 'a> {
    program: Program<'c, 'a>,
    keys: Vec<Counted<'c, 'a>>,
    functions: Vec<(Work<'c, 'a>, Vec<&'c Column<'a>>)>,
}

impl<'c, 'a> Prepared<'c, 'a> {
    /// Makes it ready.
    ///
    /// # Errors
    /// A column of it has not been read, or is not as it was written.
    pub fn new(
        plan: &Plan,
        header: &Header,
        columns: &'c [Option<Column<'a>>],
    ) -> Result<Prepared<'c, 'a>, Damage> {
        let column = |at: usize| {
            let unread = Damage::Field { name: "column not read", value: at as u64 };
            columns.get(at).and_then(Option::as_ref).ok_or(unread)
        };
        let mut program = Program::default();
        let key = |key: &Key| {
            let other = Damage::Field { name: "kind of a column", value: key.column as u64 };
            let column = column(key.column)?;
            Counted::with(column, key.low, key.span, key.stride).ok_or(other)
        };
        let keys = plan.keys.iter().map(key).collect::<Result<_, _>>()?;
        let mut functions = Vec::new();
        for function in &plan.functions {
            let mut asked = std::collections::BTreeSet::new();
            function.columns(&mut asked);
            let asked = asked.into_iter().map(column).collect::<Result<Vec<_>, _>>()?;
            let work = match function {
                AggregateFunction::Rows | AggregateFunction::Count(_) => Work::Nothing,
                _ if asked.iter().any(|column| matches!(column.data(), Data::Nulls)) => {
                    Work::Nothing
                }
                AggregateFunction::Sum(expr) => Work::Sum(program.add(expr, header, columns)?),
                AggregateFunction::SumFloat(at) => {
                    let is_64 = column(*at)?.kind() == Kind::Float64;
                    Work::Float(ints_of(column(*at)?)?, is_64)
                }
                AggregateFunction::Least(at) => Work::Ends(ints_of(column(*at)?)?, true),
                AggregateFunction::Greatest(at) => Work::Ends(ints_of(column(*at)?)?, false),
            };
            functions.push((work, asked));
        }
        Ok(Prepared { program, keys, functions })
    }

    /// Adds those rows of a block that `mask` has, `count` of them.
    pub fn block(&mut self, block: usize, mask: &Mask, count: usize, dense: &mut Dense) {
        if count == 0 {
            return;
        }
        self.program.run(block);
        let mut places = [0u32; BLOCK];
        self.keys.iter().for_each(|key| key.add(block, &mut places));
        let (mut list, mut at) = ([0u16; BLOCK], 0);
        for (row, mask) in mask.iter().enumerate() {
            list[at] = row as u16;
            at += usize::from(mask & 1);
        }
        let list = &list[..at];
        list.iter().for_each(|row| dense.rows[places[usize::from(*row)] as usize] += 1);
        for ((work, asked), sums) in self.functions.iter().zip(&mut dense.functions) {
            if sums.rows.is_empty() {
                work.add(block, list, &places, &self.program, sums);
                continue;
            }
            let valid = |row: &u16| {
                let row = block * BLOCK + usize::from(*row);
                asked.iter().all(|column| column.is_valid(row))
            };
            let own: Vec<u16> = list.iter().copied().filter(valid).collect();
            own.iter().for_each(|row| sums.rows[places[usize::from(*row)] as usize] += 1);
            work.add(block, &own, &places, &self.program, sums);
        }
    }
}

fn ints_of<'c, 'a>(column: &'c Column<'a>) -> Result<&'c Ints<'a>, Damage> {
    match column.data() {
        Data::Ints(ints) => Ok(ints),
        _ => Err(Damage::Field { name: "kind of a column", value: 0 }),
    }
}

impl Work<'_, '_> {
    fn add(
        &self,
        block: usize,
        list: &[u16],
        places: &[u32; BLOCK],
        program: &Program<'_, '_>,
        sums: &mut Sums,
    ) {
        let pairs = list.iter().map(|row| (usize::from(*row), places[usize::from(*row)] as usize));
        let mut room = [0i64; BLOCK];
        match self {
            Work::Nothing => {}
            Work::Sum(at) => {
                let out = program.out(*at).as_i64(&mut room);
                // The bounds in the headers have shown that none overflows.
                pairs.for_each(|(row, place)| {
                    let sum = &mut sums.numbers[place];
                    *sum = sum.wrapping_add(out[row]);
                });
            }
            Work::Float(ints, is_64) => {
                ints.decode(block, &mut room);
                pairs.for_each(|(row, place)| {
                    sums.floats[place] += match is_64 {
                        true => f64_of_key(room[row]),
                        false => f32_of_key(room[row]).into(),
                    };
                });
            }
            Work::Ends(ints, true) => {
                ints.decode(block, &mut room);
                pairs.for_each(|(row, place)| {
                    sums.numbers[place] = sums.numbers[place].min(room[row]);
                });
            }
            Work::Ends(ints, false) => {
                ints.decode(block, &mut room);
                pairs.for_each(|(row, place)| {
                    sums.numbers[place] = sums.numbers[place].max(room[row]);
                });
            }
        }
    }
}
