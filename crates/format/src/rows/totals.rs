//! Totals of aggregate functions for groups of rows: counts, sums, least and greatest values.

use arrow_array::ArrayRef;
use cellar_page::row::Type;

use super::buffer::{Buffer, Values};
use super::compute::Program;
use super::error::RowError;
use super::lane::{Lane, Numbers};
use super::layout::RowLayout;
use crate::aggregate::AggregateFunction;
use crate::aggregate::columns::Known;

/// Numbers below this: thousands of them can be summed in 64 bits.
const SUMMED_IN_64: i128 = 1 << 48;
/// Rows of which sums are kept in 64 bits, at most.
const ROWS_IN_64: usize = 1 << 14;
/// Groups that are summed in 64 bits block by block.
const FEW_GROUPS: usize = 64;

/// What is done for a call.
#[derive(Clone, Copy, Debug)]
enum Work {
    Rows,
    Count,
    /// Of an expression, by its number.
    Sum(usize),
    /// Of the column at a place.
    Float(usize),
    Ends {
        column: usize,
        place: usize,
        is_text: bool,
        is_least: bool,
    },
}

/// A block of rows, and the group of each; `None`: all are of the first.
#[derive(Clone, Copy)]
pub(super) struct Block<'b> {
    pub buffers: &'b [Buffer],
    pub lanes: &'b [Lane],
    pub program: &'b Program,
    pub groups: Option<&'b [u32]>,
    pub rows: usize,
}

/// The states of one call, one for each group.
#[derive(Debug)]
pub(super) struct Totals {
    work: Work,
    /// Places of its columns.
    places: Vec<usize>,
    /// Rows of each group that do not count, because one of their columns is NULL.
    missing: Vec<u64>,
    sums: Vec<i128>,
    floats: Vec<f64>,
    /// Whether there was a minimum or maximum yet; the texts, if the values are texts.
    seen: Vec<bool>,
    texts: Vec<Box<[u8]>>,
    /// Rows of the block that do not count.
    gone: Vec<bool>,
}

impl Totals {
    /// The initial states; the places of the columns are given.
    pub fn new(
        call: &AggregateFunction,
        layout: &RowLayout,
        program: &mut Program,
        place: &impl Fn(usize) -> usize,
    ) -> Totals {
        let ends = |column: usize, is_least| {
            let is_text = matches!(layout.types[column], Type::Text | Type::Bytes);
            Work::Ends { column, place: place(column), is_text, is_least }
        };
        let work = match call {
            AggregateFunction::Rows => Work::Rows,
            AggregateFunction::Count(_) => Work::Count,
            AggregateFunction::Sum(expr) => Work::Sum(program.add(expr, place)),
            AggregateFunction::SumFloat(column) => Work::Float(place(*column)),
            AggregateFunction::Least(column) => ends(*column, true),
            AggregateFunction::Greatest(column) => ends(*column, false),
        };
        let mut columns = std::collections::BTreeSet::new();
        call.columns(&mut columns);
        let places = columns.into_iter().map(place).collect();
        let (missing, sums, floats, seen, texts, gone) = Default::default();
        Totals { work, places, missing, sums, floats, seen, texts, gone }
    }

    /// Makes room for so many groups.
    fn grow(&mut self, groups: usize) {
        if self.missing.len() >= groups {
            return;
        }
        let room = groups.max(self.missing.len() * 2);
        self.missing.resize(room, 0);
        match self.work {
            Work::Rows | Work::Count => {}
            Work::Sum(_) => self.sums.resize(room, 0),
            Work::Float(_) => self.floats.resize(room, 0.0),
            Work::Ends { is_text, .. } => {
                self.seen.resize(room, false);
                match is_text {
                    true => self.texts.resize(room, Box::default()),
                    false => self.sums.resize(room, 0),
                }
            }
        }
    }

    /// Notes which rows of a block do not count; whether there are any.
    fn note_missing(&mut self, block: &Block<'_>) -> bool {
        if self.places.iter().all(|place| block.buffers[*place].nulls.is_empty()) {
            return false;
        }
        self.gone.clear();
        self.gone.resize(block.rows, false);
        for row in self.places.iter().flat_map(|place| &block.buffers[*place].nulls) {
            if !std::mem::replace(&mut self.gone[*row], true) {
                self.missing[block.groups.map_or(0, |groups| groups[*row] as usize)] += 1;
            }
        }
        true
    }

    /// Adds the rows of a block, of which there are so many groups by now.
    ///
    /// # Errors
    /// [`RowError::Beyond`].
    pub fn add(&mut self, block: &Block<'_>, groups: usize) -> Result<(), RowError> {
        self.grow(groups);
        let has_gone = self.note_missing(block);
        match self.work {
            Work::Rows | Work::Count => {}
            Work::Sum(at) => self.sum(block, at, groups, has_gone)?,
            Work::Float(place) => self.float(block, place, has_gone),
            Work::Ends { place, is_text: true, is_least, .. } => {
                self.text_ends(block, place, is_least, has_gone);
            }
            Work::Ends { place, is_least, .. } => self.ends(block, place, is_least, has_gone),
        }
        Ok(())
    }

    /// The rows of a block that count, each with its group.
    fn counted<'b>(
        &'b self,
        block: &Block<'b>,
        has_gone: bool,
    ) -> impl Iterator<Item = (usize, usize)> {
        let (groups, gone) = (block.groups, &self.gone);
        let row = move |row: usize| (row, groups.map_or(0, |groups| groups[row] as usize));
        (0..block.rows).filter(move |row| !(has_gone && gone[*row])).map(row)
    }

    fn sum(
        &mut self,
        block: &Block<'_>,
        at: usize,
        groups: usize,
        has_gone: bool,
    ) -> Result<(), RowError> {
        let lane = block.program.out(at, block.lanes);
        let is_small = lane.low > -SUMMED_IN_64 && lane.high < SUMMED_IN_64;
        if let Numbers::Narrow(numbers) = lane.numbers()
            && is_small
            && groups <= FEW_GROUPS
            && block.rows <= ROWS_IN_64
        {
            let numbers = &numbers[..block.rows];
            let mut parts = [0i64; FEW_GROUPS];
            match (block.groups, has_gone) {
                (None, false) => parts[0] = numbers.iter().sum(),
                (Some(of), false) => {
                    for (group, number) in of.iter().zip(numbers) {
                        let part = &mut parts[*group as usize % FEW_GROUPS];
                        *part = part.wrapping_add(*number);
                    }
                }
                _ => {
                    for (row, group) in self.counted(block, true) {
                        parts[group % FEW_GROUPS] += numbers[row];
                    }
                }
            }
            for (sum, part) in self.sums.iter_mut().zip(&parts[..groups]) {
                *sum = sum.wrapping_add((*part).into());
            }
            return Ok(());
        }
        let mut sums = std::mem::take(&mut self.sums);
        let numbers = lane.numbers();
        let beyond = RowError::Beyond { number: None, low: i128::MIN, high: i128::MAX };
        for (row, group) in self.counted(block, has_gone) {
            sums[group] =
                sums[group].checked_add(numbers.get(row)).ok_or_else(|| beyond.clone())?;
        }
        self.sums = sums;
        Ok(())
    }

    fn float(&mut self, block: &Block<'_>, place: usize, has_gone: bool) {
        let mut floats = std::mem::take(&mut self.floats);
        for (row, group) in self.counted(block, has_gone) {
            floats[group] += match &block.buffers[place].values {
                Values::Float4(own) => own[row].into(),
                Values::Float8(own) => own[row],
                _ => 0.0,
            };
        }
        self.floats = floats;
    }

    fn ends(&mut self, block: &Block<'_>, place: usize, is_least: bool, has_gone: bool) {
        let (mut best, mut seen) = (std::mem::take(&mut self.sums), std::mem::take(&mut self.seen));
        let numbers = block.lanes[place].numbers();
        for (row, group) in self.counted(block, has_gone) {
            let number = numbers.get(row);
            let is_better = if is_least { number < best[group] } else { number > best[group] };
            if is_better || !seen[group] {
                (best[group], seen[group]) = (number, true);
            }
        }
        (self.sums, self.seen) = (best, seen);
    }

    fn text_ends(&mut self, block: &Block<'_>, place: usize, is_least: bool, has_gone: bool) {
        let (mut best, mut seen) =
            (std::mem::take(&mut self.texts), std::mem::take(&mut self.seen));
        let buffer = &block.buffers[place];
        for (row, group) in self.counted(block, has_gone) {
            let text = buffer.bytes(row);
            let is_better = if is_least { text < &*best[group] } else { text > &*best[group] };
            if is_better || !seen[group] {
                (best[group], seen[group]) = (text.into(), true);
            }
        }
        (self.texts, self.seen) = (best, seen);
    }

    /// Returns the state of each group, which have this many rows, and resets it.
    ///
    /// # Errors
    /// [`RowError::NotText`], [`RowError::Full`].
    pub fn finish(&mut self, layout: &RowLayout, rows: &[u64]) -> Result<Known, RowError> {
        self.grow(rows.len());
        let missing = std::mem::take(&mut self.missing);
        let counted: Vec<u64> = rows.iter().zip(&missing).map(|(rows, gone)| rows - gone).collect();
        let mut sums = std::mem::take(&mut self.sums);
        let mut floats = std::mem::take(&mut self.floats);
        sums.truncate(rows.len());
        floats.truncate(rows.len());
        Ok(match self.work {
            Work::Rows => Known::Count(rows.to_vec()),
            Work::Count => Known::Count(counted),
            Work::Sum(_) => Known::Sum { sums, rows: counted },
            Work::Float(_) => Known::Float { sums: floats, rows: counted },
            Work::Ends { column, .. } => {
                Known::Ends(self.ends_array(layout, column, &sums, rows.len())?)
            }
        })
    }

    fn ends_array(
        &mut self,
        layout: &RowLayout,
        column: usize,
        numbers: &[i128],
        rows: usize,
    ) -> Result<ArrayRef, RowError> {
        let (seen, texts) = (std::mem::take(&mut self.seen), std::mem::take(&mut self.texts));
        let mut buffer = Buffer::new(layout.types[column]);
        for (row, is_seen) in seen.iter().enumerate().take(rows) {
            match (*is_seen, texts.get(row), numbers.get(row)) {
                (true, Some(text), _) => {
                    let full = |_| RowError::Full { column, max: super::buffer::TEXT_BYTES_MAX };
                    buffer.push(text).map_err(full)?;
                }
                (true, None, Some(number)) => buffer.push_number(*number),
                _ => buffer.push_null(row),
            }
        }
        let array = buffer.into_array(rows, layout.schema.field(column).data_type());
        array.map_err(|row| RowError::NotText { column: layout.name(column), row })
    }
}
