//! A cell: it scans segments of columnar tables beside the blocks. It prunes row groups by what they
//! say of themselves, reads the columns that are asked for, filters and aggregates them as they are
//! encoded, and keeps what it has read in memory.
//!
//! A scan is a queue of row groups that any number of workers serve: [`Worker::next`] gives the next
//! result to whoever asks, and keeps the disks busy meanwhile.

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
pub use scan::{Item, Live, Output, Request, Residual, Scan};
pub use segment::Segment;
pub use stats::{ScanStats, Totals};
pub use summary::{ColumnSummary, Summary};
pub use work::Worker;
