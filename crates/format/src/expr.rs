//! Sums, differences and products of columns and constants, a block at a time, in the narrowest
//! integers that hold every possible result.
//!
//! The headers tell the possible results: the smallest and largest value of each column bound each
//! result, so no result is checked row by row. Rows without a value compute with whatever value is
//! there; whoever uses the result leaves them out.

use std::collections::BTreeSet;

use crate::bits::BLOCK;
use crate::column::{Column, Data};
use crate::header::{Bounds, Header, Kind};
use crate::int128::Int128;
use crate::ints::{Codes, Damage, Ints, each_lane};
use crate::kernel;

/// An expression over the whole numbers of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A column of the table.
    Column(usize),
    /// A constant.
    Constant(i128),
    /// A sum.
    Add(Box<Expr>, Box<Expr>),
    /// A difference.
    Sub(Box<Expr>, Box<Expr>),
    /// A product.
    Mul(Box<Expr>, Box<Expr>),
    /// A result that must lie between two numbers: if a row group might have others, the expression is
    /// not computed here.
    Within(Box<Expr>, i128, i128),
}

impl Expr {
    /// Adds its columns to `out`.
    pub fn columns(&self, out: &mut BTreeSet<usize>) {
        match self {
            Expr::Column(column) => {
                out.insert(*column);
            }
            Expr::Constant(_) => {}
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => {
                a.columns(out);
                b.columns(out);
            }
            Expr::Within(inner, _, _) => inner.columns(out),
        }
    }

    /// The smallest and largest possible result over the rows of a row group; `None`: more than 128
    /// bits, a result outside its limits, or a column that is not of whole numbers.
    pub fn bounds(&self, header: &Header) -> Option<(i128, i128)> {
        match self {
            Expr::Constant(number) => Some((*number, *number)),
            Expr::Column(column) => {
                let entry = header.entries.get(*column)?;
                match entry.bounds {
                    Bounds::Numbers { min, max } if entry.kind == Kind::Number => Some((min, max)),
                    Bounds::None => Some((0, 0)),
                    _ => None,
                }
            }
            Expr::Within(inner, low, high) => {
                inner.bounds(header).filter(|bounds| bounds.0 >= *low && bounds.1 <= *high)
            }
            Expr::Add(a, b) => {
                let (a, b) = (a.bounds(header)?, b.bounds(header)?);
                Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?))
            }
            Expr::Sub(a, b) => {
                let (a, b) = (a.bounds(header)?, b.bounds(header)?);
                Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?))
            }
            Expr::Mul(a, b) => {
                let (a, b) = (a.bounds(header)?, b.bounds(header)?);
                let mut ends = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)]
                    .into_iter()
                    .map(|(a, b)| a.checked_mul(b));
                let first = ends.next()??;
                ends.try_fold((first, first), |(low, high), end| {
                    let end = end?;
                    Some((low.min(end), high.max(end)))
                })
            }
        }
    }
}

const BEYOND: Damage =
    Damage::Field { name: "result of an expression beyond its limits", value: 0 };

/// The results of an expression for a block.
#[derive(Clone, Debug)]
pub enum Out {
    /// In the form of a column: codes, and what to add to each.
    Codes(Codes, i64),
    /// In 32 bits.
    U32(Box<[u32; BLOCK]>),
    /// In 64 bits.
    I64(Box<[i64; BLOCK]>),
    /// In 128 bits.
    Int128(Box<[i128; BLOCK]>),
}

#[derive(Clone, Copy, Debug)]
enum Sign {
    Plus,
    Minus,
    Times,
}

#[derive(Debug)]
enum Op<'c, 'a> {
    Ints(&'c Ints<'a>),
    Int128(&'c Int128<'a>),
    Constant,
    Both(Sign, usize, usize),
}

#[derive(Debug)]
struct Node<'c, 'a> {
    op: Op<'c, 'a>,
    out: Out,
    /// Whether every result is from 0 to the largest of 32 bits.
    is_narrow: bool,
}

/// Expressions prepared for a row group. Common subexpressions are computed once.
#[derive(Debug, Default)]
pub struct Program<'c, 'a> {
    known: Vec<Expr>,
    nodes: Vec<Node<'c, 'a>>,
}

impl<'c, 'a> Program<'c, 'a> {
    /// Adds an expression; the number of its results.
    ///
    /// # Errors
    /// A column in it is none of whole numbers or has not been read, or more than 128 bits can come
    /// out.
    pub fn add(
        &mut self,
        expr: &Expr,
        header: &Header,
        columns: &'c [Option<Column<'a>>],
    ) -> Result<usize, Damage> {
        if let Some(at) = self.known.iter().position(|known| known == expr) {
            return Ok(at);
        }
        if let Expr::Within(inner, _, _) = expr {
            expr.bounds(header).ok_or(BEYOND)?;
            return self.add(inner, header, columns);
        }
        let (low, high) = expr.bounds(header).ok_or(BEYOND)?;
        let is_narrow = u32::try_from(low).is_ok() && u32::try_from(high).is_ok();
        let room = || match is_narrow {
            true => Out::U32(Box::new([0; BLOCK])),
            _ if i64::try_from(low).is_ok() && i64::try_from(high).is_ok() => {
                Out::I64(Box::new([0; BLOCK]))
            }
            _ => Out::Int128(Box::new([0; BLOCK])),
        };
        let (op, out) = match expr {
            Expr::Constant(number) => (Op::Constant, filled(room(), *number)),
            Expr::Column(column) => {
                let unread = Damage::Field { name: "column not read", value: *column as u64 };
                match columns.get(*column).and_then(Option::as_ref).ok_or(unread)?.data() {
                    Data::Ints(ints) => (Op::Ints(ints), Out::Codes(ints.codes(), 0)),
                    Data::Int128(wide) => (Op::Int128(wide), Out::Int128(Box::new([0; BLOCK]))),
                    Data::Nulls => (Op::Constant, filled(room(), 0)),
                    _ => return Err(Damage::Field { name: "kind of a column", value: 0 }),
                }
            }
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => {
                let sign = match expr {
                    Expr::Add(..) => Sign::Plus,
                    Expr::Sub(..) => Sign::Minus,
                    _ => Sign::Times,
                };
                let (a, b) = (self.add(a, header, columns)?, self.add(b, header, columns)?);
                (Op::Both(sign, a, b), room())
            }
            Expr::Within(..) => return Err(BEYOND),
        };
        self.known.push(expr.clone());
        self.nodes.push(Node { op, out, is_narrow });
        Ok(self.nodes.len() - 1)
    }

    /// Computes all of it for a block.
    pub fn run(&mut self, block: usize) {
        for at in 0..self.nodes.len() {
            let (before, rest) = self.nodes.split_at_mut(at);
            let node = &mut rest[0];
            match (&node.op, &mut node.out) {
                (Op::Ints(ints), Out::Codes(codes, base)) => {
                    *base = ints.unpack_codes(block, codes)
                }
                (Op::Int128(wide), Out::Int128(out)) => wide.decode(block, out),
                (Op::Both(sign, a, b), out) => {
                    combine(*sign, &before[*a], &before[*b], out);
                }
                _ => {}
            }
        }
    }

    /// The results of expression `at` for the block that was computed last.
    pub fn out(&self, at: usize) -> &Out {
        &self.nodes[at].out
    }
}

fn filled(mut out: Out, number: i128) -> Out {
    match &mut out {
        Out::U32(out) => out.fill(number as u32),
        Out::I64(out) => out.fill(number as i64),
        Out::Int128(out) => out.fill(number),
        Out::Codes(..) => {}
    }
    out
}

impl Out {
    /// The results as codes of some lanes, and what is to be added to each; `None`: they have 128 bits.
    fn codes(&self) -> Option<(Lanes<'_>, i64)> {
        Some(match self {
            Out::Codes(Codes::U8(codes), base) => (Lanes::U8(codes), *base),
            Out::Codes(Codes::U16(codes), base) => (Lanes::U16(codes), *base),
            Out::Codes(Codes::U32(codes), base) => (Lanes::U32(codes), *base),
            Out::Codes(Codes::U64(codes), base) => (Lanes::U64(codes), *base),
            Out::U32(out) => (Lanes::U32(out), 0),
            Out::I64(out) => (Lanes::U64(bytemuck::cast_ref(&**out)), 0),
            Out::Int128(_) => return None,
        })
    }

    /// The results in 64 bits; larger ones lose their upper bits.
    pub fn as_i64<'o>(&'o self, room: &'o mut [i64; BLOCK]) -> &'o [i64; BLOCK] {
        match self {
            Out::I64(out) => return out,
            Out::U32(out) => kernel::widen(out, 0, room),
            Out::Codes(codes, base) => each_lane!(codes, own => kernel::widen(own, *base, room)),
            Out::Int128(out) => {
                room.iter_mut().zip(&**out).for_each(|(room, out)| *room = *out as i64);
            }
        }
        room
    }

    /// The results in 128 bits.
    pub fn as_wide<'o>(&'o self, room: &'o mut [i128; BLOCK]) -> &'o [i128; BLOCK] {
        if let Out::Int128(out) = self {
            return out;
        }
        let mut narrow = [0; BLOCK];
        let narrow = self.as_i64(&mut narrow);
        room.iter_mut().zip(narrow).for_each(|(room, narrow)| *room = (*narrow).into());
        room
    }
}

/// A block of numbers as wide as their lanes.
#[derive(Clone, Copy)]
enum Lanes<'o> {
    U8(&'o [u8; BLOCK]),
    U16(&'o [u16; BLOCK]),
    U32(&'o [u32; BLOCK]),
    U64(&'o [u64; BLOCK]),
}

/// Matches on two blocks of numbers and does the same for every width.
macro_rules! both_lanes {
    ($a:expr, $b:expr, $one:ident, $other:ident => $body:expr) => {
        both_lanes!(@ $a, $one => both_lanes!(@ $b, $other => $body))
    };
    (@ $lanes:expr, $own:ident => $body:expr) => {
        match $lanes {
            Lanes::U8($own) => $body,
            Lanes::U16($own) => $body,
            Lanes::U32($own) => $body,
            Lanes::U64($own) => $body,
        }
    };
}

fn combine(sign: Sign, a: &Node<'_, '_>, b: &Node<'_, '_>, out: &mut Out) {
    let are_narrow = a.is_narrow && b.is_narrow;
    let (Some((a_codes, a_base)), Some((b_codes, b_base))) = (a.out.codes(), b.out.codes()) else {
        return combine_wide(sign, &a.out, &b.out, out);
    };
    match out {
        // The result fits 32 bits, so it is right even if the operands lose bits above them.
        Out::U32(out) => {
            let (a_base, b_base) = (a_base as u32, b_base as u32);
            both_lanes!(a_codes, b_codes, a, b => match sign {
                Sign::Plus => kernel::add_u32(a, b, a_base.wrapping_add(b_base), out),
                Sign::Minus => kernel::subtract_u32(a, b, a_base.wrapping_sub(b_base), out),
                Sign::Times => kernel::multiply_u32(a, a_base, b, b_base, out),
            });
        }
        Out::I64(out) => both_lanes!(a_codes, b_codes, a, b => match sign {
            Sign::Plus => kernel::add_i64(a, a_base, b, b_base, out),
            Sign::Minus => kernel::subtract_i64(a, a_base, b, b_base, out),
            Sign::Times if are_narrow => {
                kernel::multiply_to_i64(a, a_base as u32, b, b_base as u32, out);
            }
            Sign::Times => kernel::multiply_i64(a, a_base, b, b_base, out),
        }),
        out => combine_wide(sign, &a.out, &b.out, out),
    }
}

/// As [`combine`], where something has 128 bits.
fn combine_wide(sign: Sign, a: &Out, b: &Out, out: &mut Out) {
    let (mut room_a, mut room_b) = ([0; BLOCK], [0; BLOCK]);
    let (a, b) = (a.as_wide(&mut room_a), b.as_wide(&mut room_b));
    let result = |(a, b): (&i128, &i128)| match sign {
        Sign::Plus => a.wrapping_add(*b),
        Sign::Minus => a.wrapping_sub(*b),
        Sign::Times => a.wrapping_mul(*b),
    };
    let results = a.iter().zip(b).map(result);
    match out {
        Out::U32(out) => out.iter_mut().zip(results).for_each(|(out, own)| *out = own as u32),
        Out::I64(out) => out.iter_mut().zip(results).for_each(|(out, own)| *out = own as i64),
        Out::Int128(out) => out.iter_mut().zip(results).for_each(|(out, own)| *out = own),
        Out::Codes(..) => {}
    }
}
