//! Aggregation of rows as they are stored: a block of rows is turned into columns and summed up before the
//! next.

use std::collections::BTreeSet;

use cellar_page::row::Type;

use super::columns::RowColumns;
use super::compute::Program;
use super::error::RowError;
use super::groups::RowGroups;
use super::lane::Lane;
use super::layout::RowLayout;
use super::totals::{Block, Totals};
use crate::aggregate::columns::Columns;
use crate::aggregate::{Aggregate, AggregateFunction};
use crate::expr::Expr;

/// Rows of a block.
const BLOCK: usize = 1024;

/// The text bytes after which a block ends.
const TEXT_BYTES: usize = 8 << 20;

/// The rows after which it is decided whether grouping them pays.
const TRIED: u64 = 1 << 16;

/// Sums up rows.
#[derive(Debug)]
pub struct RowAggregate {
    layout: RowLayout,
    /// The columns that are read, of the rows since the last block.
    columns: RowColumns,
    lanes: Vec<Lane>,
    /// Columns whose numbers are looked at, by their places.
    numbers: Vec<usize>,
    program: Program,
    functions: Vec<Totals>,
    /// `None`: all rows are one group.
    groups: Option<RowGroups>,
    /// How many rows each group has.
    rows: Vec<u64>,
    of_rows: Vec<u32>,
    /// Rows, and the groups that they made, of what was given out before.
    seen: (u64, u64),
}

fn is_number(kind: Type) -> bool {
    !matches!(kind, Type::Text | Type::Bytes | Type::Interval)
}

fn is_whole(kind: Type) -> bool {
    is_number(kind) && !matches!(kind, Type::Float4 | Type::Float8)
}

impl RowAggregate {
    /// Whether rows of a layout can be summed up so.
    pub fn knows(layout: &RowLayout, aggregate: &Aggregate) -> bool {
        let kind = |column: &usize| layout.types.get(*column).copied();
        // Rows have codes of labels.
        let has_labels = |column: &usize| layout.labels.get(*column).is_some_and(Option::is_some);
        let is_key = |column: &usize| {
            kind(column).is_some_and(|kind| kind != Type::Interval) && !has_labels(column)
        };
        let is_function = |function: &AggregateFunction| match function {
            AggregateFunction::Rows => true,
            AggregateFunction::Count(column) => kind(column).is_some(),
            AggregateFunction::Sum(expr) => {
                let mut columns = BTreeSet::new();
                expr.columns(&mut columns);
                columns.iter().all(|column| kind(column).is_some_and(is_whole))
            }
            AggregateFunction::SumFloat(column) => {
                matches!(kind(column), Some(Type::Float4 | Type::Float8))
            }
            AggregateFunction::Least(column) | AggregateFunction::Greatest(column) => {
                is_key(column)
            }
        };
        aggregate.keys.iter().all(is_key) && aggregate.functions.iter().all(is_function)
    }

    /// An aggregation over no rows yet; [`RowAggregate::knows`] must have accepted it.
    ///
    /// # Errors
    /// [`RowError::NoColumn`].
    pub fn new(layout: &RowLayout, aggregate: &Aggregate) -> Result<RowAggregate, RowError> {
        let mut read = BTreeSet::new();
        aggregate.columns(&mut read);
        let read: Vec<usize> = read.into_iter().collect();
        let columns = RowColumns::new(layout, &read)?;
        let place = |column: usize| read.binary_search(&column).unwrap_or_default();
        let mut program = Program::default();
        let function = |function| Totals::new(function, layout, &mut program, &place);
        let functions = aggregate.functions.iter().map(function).collect();
        let keys: Vec<_> = aggregate.keys.iter().map(|key| (*key, place(*key))).collect();
        let mut numbers: BTreeSet<usize> = aggregate.keys.iter().copied().collect();
        for function in &aggregate.functions {
            match function {
                AggregateFunction::Sum(expr) => Expr::columns(expr, &mut numbers),
                AggregateFunction::Least(column) | AggregateFunction::Greatest(column) => {
                    numbers.insert(*column);
                }
                AggregateFunction::Rows
                | AggregateFunction::Count(_)
                | AggregateFunction::SumFloat(_) => {}
            }
        }
        let numbers = numbers.into_iter().filter(|column| is_number(layout.types[*column]));
        Ok(RowAggregate {
            layout: layout.clone(),
            columns,
            lanes: vec![Lane::default(); read.len()],
            numbers: numbers.map(place).collect(),
            program,
            functions,
            groups: (!keys.is_empty()).then(|| RowGroups::new(layout, &keys)),
            rows: Vec::new(),
            of_rows: Vec::new(),
            seen: (0, 0),
        })
    }

    /// The buffer that takes rows: [`RowAggregate::settle`] sums them up.
    pub fn columns(&mut self) -> &mut RowColumns {
        &mut self.columns
    }

    /// Sums up the rows that were taken, once they are a block.
    ///
    /// # Errors
    /// [`RowError::Beyond`].
    pub fn settle(&mut self) -> Result<(), RowError> {
        match self.columns.rows() >= BLOCK || self.columns.text_bytes() >= TEXT_BYTES {
            true => self.block(),
            false => Ok(()),
        }
    }

    fn block(&mut self) -> Result<(), RowError> {
        let RowAggregate { columns, lanes, numbers, program, functions, groups, .. } = self;
        let rows = columns.rows();
        if rows == 0 {
            return Ok(());
        }
        let buffers = columns.buffers();
        numbers.iter().for_each(|place| lanes[*place].read(&buffers[*place]));
        let (seen, made) = self.seen;
        if let Some(groups) = groups {
            let apart = seen >= TRIED && made > seen / 2;
            groups.of((buffers, lanes), rows, apart, &mut self.of_rows)?;
        }
        let count = groups.as_ref().map_or(1, RowGroups::count);
        self.rows.resize(count.max(self.rows.len()), 0);
        match groups {
            Some(_) => self.of_rows.iter().for_each(|group| self.rows[*group as usize] += 1),
            None => self.rows[0] += rows as u64,
        }
        program.run(lanes, rows)?;
        let of_rows = groups.as_ref().map(|_| &self.of_rows[..]);
        let block = Block { buffers, lanes, program, groups: of_rows, rows };
        functions.iter_mut().try_for_each(|function| function.add(&block, count))?;
        self.seen.0 += rows as u64;
        columns.clear();
        Ok(())
    }

    /// How many groups there are so far.
    pub fn groups(&self) -> usize {
        self.groups.as_ref().map_or(1, RowGroups::count)
    }

    /// Bytes of the texts that are their keys.
    pub fn text_bytes(&self) -> usize {
        self.groups.as_ref().map_or(0, RowGroups::text_bytes)
    }

    /// Returns the states over all rows so far, and resets them; `None`: there were none.
    ///
    /// # Errors
    /// [`RowError::Beyond`], [`RowError::NotText`].
    pub fn finish(&mut self) -> Result<Option<Columns>, RowError> {
        self.block()?;
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(None);
        }
        self.seen.1 += rows.len() as u64;
        let keys = match &mut self.groups {
            Some(groups) => groups.finish(&self.layout)?,
            None => Vec::new(),
        };
        let functions =
            self.functions.iter_mut().map(|function| function.finish(&self.layout, &rows));
        Ok(Some(Columns {
            keys,
            functions: functions.collect::<Result<_, _>>()?,
            rows: rows.len(),
        }))
    }
}
