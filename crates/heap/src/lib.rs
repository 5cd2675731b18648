//! Tables whose rows change, over a device and a redo log.
#![doc = include_str!("../README.md")]

mod bundle;
mod change;
mod counters;
#[cfg(test)]
mod cycles;
mod dirty;
mod doublewrite;
mod error;
mod frames;
mod geometry;
mod header;
mod index;
mod inspect;
mod lane;
pub mod locks;
mod long;
mod pace;
mod recovery;
mod row_id;
mod rows;
mod snapshots;
mod sorter;
mod space;
mod spilled;
mod statistics;
mod store;
mod sync;
mod transaction;
mod verify;
mod writer;

pub use counters::{COUNTERS, Steps};
pub use error::{Error, TooMuch};
pub use geometry::{EXTENT_PAGES_MAX, Geometry};
pub use index::KEY_BYTES_MAX;
pub use inspect::{Inspection, inspect, inspect_page};
pub use long::LONG_BYTES_MAX;
pub use pace::RecoveryEstimate;
pub use recovery::Replayed;
pub use row_id::{RowId, RowRef};
pub use rows::{ROW_BYTES_MAX, ROW_BYTES_MIN};
pub use spilled::{SpillError, SpillFile};
pub use statistics::{CacheStatistics, ObjectStatistics};
pub use store::{
    BuildIndex, Change, Growth, GrowthError, Header, Key, KeyOf, Load, LoadIndex, MayRepeat,
    MayShare, NewStore, ObjectKind, OpenStore, OpenWithoutLog, Opened, Options, Outcome, Reader,
    Sample, Store, StoredObject, TableSize, View, create,
};
pub use transaction::{
    Isolation, LockedRow, LocksOf, RangeScan, RowBatch, RowKey, Savepoint, StatementView,
    TableScan, TableShares, Transaction,
};
pub use verify::{Finding, KeysOf, Known, LongValue, LongsOf, Report, TableOf};
