//! Sums, differences and products of columns of a block of rows, in 64 bits where the block's own bounds say that
//! they suffice.

use super::error::RowError;
use super::lane::{Lane, Numbers};
use crate::expr::Expr;

#[derive(Clone, Copy, Debug)]
enum Sign {
    Plus,
    Minus,
    Times,
}

impl Sign {
    fn of(self, a: i128, b: i128) -> Option<i128> {
        match self {
            Sign::Plus => a.checked_add(b),
            Sign::Minus => a.checked_sub(b),
            Sign::Times => a.checked_mul(b),
        }
    }

    /// The least and the greatest that can come out; `None`: more than 128 bits.
    fn bounds(self, a: &Lane, b: &Lane) -> Option<(i128, i128)> {
        match self {
            Sign::Plus => Some((a.low.checked_add(b.low)?, a.high.checked_add(b.high)?)),
            Sign::Minus => Some((a.low.checked_sub(b.high)?, a.high.checked_sub(b.low)?)),
            Sign::Times => {
                let ends = [(a.low, b.low), (a.low, b.high), (a.high, b.low), (a.high, b.high)];
                let mut all = (i128::MAX, i128::MIN);
                for (a, b) in ends {
                    let end = a.checked_mul(b)?;
                    all = (all.0.min(end), all.1.max(end));
                }
                Some(all)
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The column at a place.
    Column(usize),
    Constant(i128),
    Both(Sign, usize, usize),
    /// What another one is, if it lies between these.
    Within(usize, i128, i128),
}

#[derive(Clone, Debug)]
struct Node {
    op: Op,
    out: Lane,
}

/// Expressions over columns. What is in several of them is computed once.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    known: Vec<Expr>,
    nodes: Vec<Node>,
}

impl Program {
    /// Adds an expression over the columns at places that are told; the number of its results.
    pub fn add(&mut self, expr: &Expr, place: &impl Fn(usize) -> usize) -> usize {
        if let Some(at) = self.known.iter().position(|known| known == expr) {
            return at;
        }
        let mut both = |sign, a: &Expr, b: &Expr| {
            let a = self.add(a, place);
            Op::Both(sign, a, self.add(b, place))
        };
        let op = match expr {
            Expr::Column(column) => Op::Column(place(*column)),
            Expr::Constant(number) => Op::Constant(*number),
            Expr::Add(a, b) => both(Sign::Plus, a, b),
            Expr::Sub(a, b) => both(Sign::Minus, a, b),
            Expr::Mul(a, b) => both(Sign::Times, a, b),
            Expr::Within(inner, low, high) => Op::Within(self.add(inner, place), *low, *high),
        };
        self.known.push(expr.clone());
        self.nodes.push(Node { op, out: Lane::default() });
        self.nodes.len() - 1
    }

    /// Computes all of it for so many rows.
    ///
    /// # Errors
    /// [`RowError::Beyond`].
    pub fn run(&mut self, lanes: &[Lane], rows: usize) -> Result<(), RowError> {
        for at in 0..self.nodes.len() {
            let (before, rest) = self.nodes.split_at_mut(at);
            let Node { op, out } = &mut rest[0];
            match *op {
                Op::Column(_) => {}
                Op::Constant(number) => out.constant(number, rows),
                Op::Both(sign, a, b) => {
                    combine(sign, lane(before, a, lanes), lane(before, b, lanes), out)?;
                }
                Op::Within(inner, low, high) => within(lane(before, inner, lanes), low, high)?,
            }
        }
        Ok(())
    }

    /// The results of expression `at` for the rows that were computed last.
    pub fn out<'p>(&'p self, at: usize, lanes: &'p [Lane]) -> &'p Lane {
        lane(&self.nodes, at, lanes)
    }
}

fn lane<'p>(nodes: &'p [Node], at: usize, lanes: &'p [Lane]) -> &'p Lane {
    match nodes[at].op {
        Op::Column(place) => &lanes[place],
        Op::Within(inner, _, _) => lane(nodes, inner, lanes),
        _ => &nodes[at].out,
    }
}

fn within(lane: &Lane, low: i128, high: i128) -> Result<(), RowError> {
    if lane.low >= low && lane.high <= high {
        return Ok(());
    }
    // The bounds of a result may be wider than the results.
    let is_beyond = |number: &i128| *number < low || *number > high;
    let beyond = match lane.numbers() {
        Numbers::Narrow(own) => own.iter().map(|own| i128::from(*own)).find(is_beyond),
        Numbers::Wide(own) => own.iter().copied().find(is_beyond),
    };
    match beyond {
        Some(number) => Err(RowError::Beyond { number: Some(number), low, high }),
        None => Ok(()),
    }
}

fn combine(sign: Sign, a: &Lane, b: &Lane, out: &mut Lane) -> Result<(), RowError> {
    let bounds = sign.bounds(a, b);
    let is_narrow =
        bounds.is_some_and(|(low, high)| i64::try_from(low).is_ok() && i64::try_from(high).is_ok());
    let (one, other) = (a.numbers(), b.numbers());
    if let (Some(bounds), true, Numbers::Narrow(a), Numbers::Narrow(b)) =
        (bounds, is_narrow, one, other)
    {
        let both = a.iter().zip(b);
        match sign {
            Sign::Plus => out.set_narrow(bounds, both.map(|(a, b)| a.wrapping_add(*b))),
            Sign::Minus => out.set_narrow(bounds, both.map(|(a, b)| a.wrapping_sub(*b))),
            Sign::Times => out.set_narrow(bounds, both.map(|(a, b)| a.wrapping_mul(*b))),
        }
        return Ok(());
    }
    let beyond = RowError::Beyond { number: None, low: i128::MIN, high: i128::MAX };
    let result = |(a, b): (i128, i128)| sign.of(a, b).ok_or_else(|| beyond.clone());
    match (one, other) {
        (Numbers::Narrow(a), Numbers::Narrow(b)) => {
            let both = a.iter().zip(b).map(|(a, b)| (i128::from(*a), i128::from(*b)));
            out.set_wide(both.map(result))
        }
        (Numbers::Narrow(a), Numbers::Wide(b)) => {
            out.set_wide(a.iter().zip(b).map(|(a, b)| (i128::from(*a), *b)).map(result))
        }
        (Numbers::Wide(a), Numbers::Narrow(b)) => {
            out.set_wide(a.iter().zip(b).map(|(a, b)| (*a, i128::from(*b))).map(result))
        }
        (Numbers::Wide(a), Numbers::Wide(b)) => {
            out.set_wide(a.iter().zip(b).map(|(a, b)| (*a, *b)).map(result))
        }
    }
}
