//! Moves of extents between disks: the rebalance, how fast it goes, and disks that become smaller.

mod meter;
pub(crate) mod progress;
pub(crate) mod rebalance;
pub(crate) mod shrink;
pub(crate) mod throttle;
