//! Row groups of columnar tables: how columns are encoded, and kernels that filter and aggregate what
//! is encoded.

pub mod bits;
pub mod ints;
pub mod kernel;
