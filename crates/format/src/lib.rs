//! Row groups of columnar tables: how columns are encoded, and kernels that filter and aggregate what
//! is encoded.
#![doc = include_str!("../README.md")]

pub mod aggregate;
pub mod bits;
pub mod column;
pub mod dict;
pub mod expr;
pub mod filter;
pub mod from_arrow;
pub mod group;
pub mod header;
pub mod int128;
pub mod ints;
pub mod kernel;
pub mod key_filter;
pub mod like;
pub mod packed;
pub mod predicate;
pub mod segment;
pub mod text;
pub mod to_arrow;
pub mod value;
