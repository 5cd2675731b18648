//! Row groups of columnar tables: how columns are encoded, and kernels that filter and aggregate what
//! is encoded.
#![doc = include_str!("../README.md")]

pub mod aggregate;
pub mod column;
pub mod expr;
pub mod filter;
pub mod from_arrow;
pub mod group;
pub mod header;
pub mod key_filter;
pub mod like;
pub mod packed;
pub mod predicate;
pub mod rows;
pub mod segment;
pub mod to_arrow;
pub mod value;

// Encodings and kernels: public for the golden bytes and the benches of this crate alone.
#[doc(hidden)]
pub mod bits;
#[doc(hidden)]
pub mod dict;
#[doc(hidden)]
pub mod int128;
#[doc(hidden)]
pub mod ints;
#[doc(hidden)]
pub mod kernel;
#[doc(hidden)]
pub mod text;

pub use aggregate::{Aggregate, AggregateFunction, Groups, Key, Prepared, State};
pub use column::Column;
pub use expr::Expr;
pub use filter::{Filter, Found};
pub use group::{Encoded, Owner, Refused};
pub use header::{Header, Kind};
pub use ints::Damage;
pub use key_filter::KeyFilter;
pub use like::Like;
pub use predicate::{Predicate, Relation, Test, Verdict};
pub use segment::Tail;
pub use to_arrow::{Rows, array_of};
pub use value::Value;
