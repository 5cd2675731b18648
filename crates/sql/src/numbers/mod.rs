//! Numbers as in PostgreSQL: literals, comparisons of two kinds of numbers, and arithmetic that fails
//! rather than wraps.

pub(crate) mod average;
pub(crate) mod checked;
pub(crate) mod common;
pub(crate) mod distinct_sums;
mod divide;
pub(crate) mod extreme;
pub(crate) mod float;
pub(crate) mod from_text;
mod intervals;
pub(crate) mod literal;
pub(crate) mod narrow;
pub(crate) mod overflow;
pub(crate) mod ranks;
pub(crate) mod sliding;
pub(crate) mod sum;
pub(crate) mod whole;
mod whole_average;
