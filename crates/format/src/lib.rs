//! Row groups of columnar tables: how columns are encoded, and kernels that filter and aggregate what
//! is encoded.
#![doc = include_str!("../README.md")]

pub mod aggregate;
pub mod bits;
pub mod column;
pub mod dict;
pub mod expr;
pub mod filter;
pub mod give_out;
pub mod group;
pub mod header;
pub mod ints;
pub mod kernel;
pub mod like;
pub mod members;
pub mod packed;
pub mod predicate;
pub mod segment;
pub mod take_in;
pub mod text;
pub mod value;
pub mod wide;
