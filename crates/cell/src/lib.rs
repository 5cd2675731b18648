//! A cell: it scans segments of columnar tables beside the blocks.
#![doc = include_str!("../README.md")]

mod cache;
mod error;
mod groups;
mod order;
mod queue;
mod scan;
mod segment;
mod stats;
mod summary;
mod work;

pub use cache::Cache;
pub use error::Error;
pub use order::order_of;
pub use scan::{DynamicFilter, Item, Output, Request, Residual, Scan};
pub use segment::Segment;
pub use stats::{ScanStats, Totals};
pub use summary::{ColumnSummary, Summary};
pub use work::Worker;
