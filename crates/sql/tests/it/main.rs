//! What users of the crate see: statements run, files load, results print.

mod engine;
mod load;
mod output;
mod statement;
