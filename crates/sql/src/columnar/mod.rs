//! Columnar tables: written as a whole by a load or a query, scanned by a cell.

pub mod anti_join;
pub mod dynamic_filter;
pub mod exec;
pub mod filter_outcome;
pub mod groups;
pub mod keys;
mod metrics;
pub mod provider;
mod segment;
mod small;
pub mod source;
pub mod table;
pub mod tables;
pub mod translate;
pub mod write;
