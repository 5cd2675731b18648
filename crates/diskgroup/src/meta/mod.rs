//! Metadata of a group on its disks: the set of member disks, the log, the checkpoints, and mounting
//! from what is left of them.

pub(crate) mod areas;
pub mod attributes;
pub mod chain;
pub mod checkpoint;
pub mod commit;
pub mod create;
mod departures;
pub(crate) mod found;
pub mod labels;
pub(crate) mod lineage;
pub mod mount;
pub mod mount_history;
pub mod options;
pub(crate) mod proof;
pub(crate) mod ring;
pub mod rules;
pub(crate) mod scrub;
pub(crate) mod usable;
