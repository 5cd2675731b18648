//! Laws that row groups keep: what is encoded is given out again, filters and aggregates on encoded
//! data say what a naive look at every row says, and bytes that are not as they were written are
//! refused or do no harm.

mod aggregates;
mod damage;
mod filters;
mod golden;
mod naive;
mod questions;
mod round_trip;
mod segments;
mod table;
