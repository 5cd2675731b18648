//! Rows that change under transactions, over a device and a redo log.

mod change;
mod frames;
mod lane;
mod snapshots;

#[doc(hidden)]
pub mod rig;
