//! Sizes as people type them, for those who know no storage.

pub use cellar_storage::size::{exact, parse};
