//! Errors as users see them: stacks of Oracle's numbers, as storage has them.

pub use cellar_storage::error::{Entry, Error, INTERNAL, NextStep, Remedy, Result};
