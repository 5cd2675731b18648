//! Points in time over the whole range of their unit; DataFusion computes in nanoseconds, whose range
//! begins in 1677 and ends in 2262.

pub(crate) mod coalesce;
pub(crate) mod compare;
pub(crate) mod forms;
pub(crate) mod from_text;
pub(crate) mod interval;
pub(crate) mod length;
mod pattern;
mod seconds;
pub(crate) mod to_char;
pub(crate) mod trunc;
pub(crate) mod written;
pub(crate) mod zoned;
