//! Rows that change under transactions, over a device and a redo log.

mod change;
mod dirty;
mod doublewrite;
mod error;
mod frames;
mod geometry;
mod index;
mod lane;
mod recovery;
mod rows;
mod snapshots;
mod space;
mod store;
mod writer;

pub use error::Error;
pub use geometry::{EXTENT_PAGES_MAX, Geometry};
pub use index::KEY_BYTES_MAX;
pub use recovery::Replayed;
pub use rows::{ROW_BYTES_MAX, ROW_BYTES_MIN, RowId};
pub use store::{Change, Header, Key, NewStore, OpenStore, Options, Outcome, Store, View, create};
