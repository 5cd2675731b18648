//! Row groups of columnar tables: how columns are encoded, and kernels that filter and aggregate what
//! is encoded.

pub mod bits;
pub mod dict;
pub mod ints;
pub mod kernel;
