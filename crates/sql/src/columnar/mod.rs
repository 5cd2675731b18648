//! Columnar tables: written whole by a load or a query, scanned by a cell.

pub mod exec;
pub mod groups;
pub mod keys;
pub mod live;
mod metrics;
pub mod nulls;
pub mod provider;
pub mod rule;
mod segment;
mod small;
pub mod source;
pub mod table;
pub mod tables;
pub mod told;
pub mod translate;
pub mod write;
