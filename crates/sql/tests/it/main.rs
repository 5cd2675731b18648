//! Integration tests of the crate as its users see it: statements run, files load, results print.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod engine;
mod load;
mod output;
mod statement;
