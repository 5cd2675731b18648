//! Counts, sums, minima and maxima of groups of rows: as far as one row group knows them, and merged
//! over several row groups.

pub mod columns;
pub mod dense;
mod hash_agg;
mod keys;
mod prepared;

use std::collections::{BTreeSet, HashMap};

use crate::expr::Expr;
use crate::header::{Bounds, Header, Kind};
use crate::value::Value;

pub use prepared::Prepared;

/// An aggregate function, computed for each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// The number of its rows.
    Rows,
    /// The number of its rows with a value in a column.
    Count(usize),
    /// The sum of an expression over its rows in which each column of it has a value.
    Sum(Expr),
    /// The sum of a column of floating-point numbers.
    SumFloat(usize),
    /// The least value of a column.
    Least(usize),
    /// The greatest.
    Greatest(usize),
}

/// An aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// The columns whose values make a group; none: all rows are one.
    pub keys: Vec<usize>,
    /// The functions to compute for each group.
    pub functions: Vec<AggregateFunction>,
}

/// The state of a call for a group.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Of a count.
    Count(u64),
    /// Of a sum: over no rows it is no value.
    Sum {
        /// The sum so far.
        sum: i128,
        /// The number of rows in it.
        rows: u64,
    },
    /// Of a sum of floating-point numbers.
    Float {
        /// The sum so far.
        sum: f64,
        /// The number of rows in it.
        rows: u64,
    },
    /// The least value, if there is one.
    Least(Option<Value>),
    /// The greatest.
    Greatest(Option<Value>),
}

/// The values that make a group.
pub type Key = Box<[Option<Value>]>;

/// The groups and their states.
pub type Groups = HashMap<Key, Vec<State>>;

impl AggregateFunction {
    /// Adds the columns that it reads to `out`.
    pub fn columns(&self, out: &mut BTreeSet<usize>) {
        match self {
            AggregateFunction::Rows => {}
            AggregateFunction::Sum(expr) => expr.columns(out),
            AggregateFunction::Count(column)
            | AggregateFunction::SumFloat(column)
            | AggregateFunction::Least(column)
            | AggregateFunction::Greatest(column) => {
                out.insert(*column);
            }
        }
    }

    /// The state over no rows.
    pub fn nothing(&self) -> State {
        match self {
            AggregateFunction::Rows | AggregateFunction::Count(_) => State::Count(0),
            AggregateFunction::Sum(_) => State::Sum { sum: 0, rows: 0 },
            AggregateFunction::SumFloat(_) => State::Float { sum: 0.0, rows: 0 },
            AggregateFunction::Least(_) => State::Least(None),
            AggregateFunction::Greatest(_) => State::Greatest(None),
        }
    }

    /// The state over all rows of a row group, from its header; `None`: the header does not tell.
    fn of_header(&self, header: &Header) -> Option<State> {
        let entry = |column: &usize| header.entries.get(*column);
        let end = |column: &usize, least: bool| {
            let entry = entry(column)?;
            match entry.bounds {
                Bounds::None => Some(None),
                Bounds::Numbers { min, max } => {
                    Some(Some(Value::Number(if least { min } else { max })))
                }
                Bounds::Strings { min, max } => {
                    let end = if least { min } else { max };
                    end.is_whole().then(|| Some(Value::Bytes(end.bytes().into())))
                }
            }
        };
        Some(match self {
            AggregateFunction::Rows => State::Count(header.rows.into()),
            AggregateFunction::Count(column) => {
                State::Count((header.rows - entry(column)?.nulls).into())
            }
            AggregateFunction::Sum(Expr::Column(column)) => {
                let entry = entry(column)?;
                let rows = header.rows - entry.nulls;
                let sum = if rows == 0 { Some(0) } else { entry.sum };
                State::Sum { sum: sum.filter(|_| entry.kind == Kind::Number)?, rows: rows.into() }
            }
            AggregateFunction::Sum(_) | AggregateFunction::SumFloat(_) => return None,
            AggregateFunction::Least(column) => State::Least(end(column, true)?),
            AggregateFunction::Greatest(column) => State::Greatest(end(column, false)?),
        })
    }
}

impl State {
    /// The combined state of both.
    pub fn join(&mut self, other: State) {
        match (self, other) {
            (State::Count(own), State::Count(other)) => *own += other,
            (State::Sum { sum, rows }, State::Sum { sum: other, rows: more }) => {
                // Nothing is lost: see `Aggregate::fits`.
                *sum = sum.wrapping_add(other);
                *rows += more;
            }
            (State::Float { sum, rows }, State::Float { sum: other, rows: more }) => {
                *sum += other;
                *rows += more;
            }
            (State::Least(own), State::Least(Some(other))) => {
                if own.as_ref().is_none_or(|own| other < *own) {
                    *own = Some(other);
                }
            }
            (State::Greatest(own), State::Greatest(Some(other))) => {
                if own.as_ref().is_none_or(|own| other > *own) {
                    *own = Some(other);
                }
            }
            (State::Least(_), State::Least(None)) | (State::Greatest(_), State::Greatest(None)) => {
            }
            (own, other) => panic!("{own:?} and {other:?} are of two functions"),
        }
    }
}

/// Merges the state of a group.
pub fn join(groups: &mut Groups, key: Key, states: Vec<State>) {
    match groups.entry(key) {
        std::collections::hash_map::Entry::Vacant(free) => {
            free.insert(states);
        }
        std::collections::hash_map::Entry::Occupied(mut known) => {
            for (own, other) in known.get_mut().iter_mut().zip(states) {
                own.join(other);
            }
        }
    }
}

impl Aggregate {
    /// Adds the columns that it reads to `out`.
    pub fn columns(&self, out: &mut BTreeSet<usize>) {
        out.extend(&self.keys);
        self.functions.iter().for_each(|function| function.columns(out));
    }

    /// Whether all that is computed for it from these row groups fits 128 bits, going by what their
    /// headers say; if not, it cannot be made ready for them.
    pub fn fits<'h>(&self, headers: impl Iterator<Item = &'h Header> + Clone) -> bool {
        self.functions.iter().all(|function| match function {
            AggregateFunction::Sum(expr) => {
                let most = |header: &Header| {
                    let (low, high) = expr.bounds(header)?;
                    low.checked_abs()?.max(high.checked_abs()?).checked_mul(header.rows.into())
                };
                let all = |sum: i128, header| sum.checked_add(most(header)?);
                headers.clone().try_fold(0, all).is_some()
            }
            _ => true,
        })
    }

    /// For each call, the state over all rows of a row group, from its header. `None`: the rows must
    /// be read.
    pub fn of_header(&self, header: &Header) -> Option<Vec<State>> {
        if !self.keys.is_empty() {
            return None;
        }
        self.functions.iter().map(|function| function.of_header(header)).collect()
    }
}
