//! Disk groups: named, striped, mirrored files out of many devices.
#![doc = include_str!("../README.md")]

mod base;
pub mod codec;
mod data;
mod disk;
mod error;
mod group;
mod inspect;
mod latency;
mod meta;
mod moves;
pub mod names;
pub mod on_disk;
mod refused;
pub mod rescue;
mod returning;
mod scrub;
pub mod space;
pub mod state;
#[cfg(feature = "object-store")]
pub mod store;

pub use data::scrub::{DiskFaults, Scrubbed};
pub use data::validate::{BadPlace, Copies, FileVerdict, Findings};
pub use error::Error;
pub use group::{
    AlterDisks, Copied, DiskInfo, DropDisk, File, FileInfo, FileSpec, Group, GroupInfo, Listed,
    Loss, OfflineDisk, OlderFiles, OnlineHow, ProbeSpec, ProbeTarget, Protection, PublishIf, Rates,
    ResizeDisk, Resync, STOPPED, Template, TemplateChange, TemplateWords, Work, aus_of, is_proven,
};
pub use inspect::{Inspection, inspect};
pub use meta::attributes::{parse_interval, parse_repair_time};
pub use meta::create::{CreateGroup, NewDisk, create};
pub use meta::found::FoundDisk;
pub use meta::labels::{LabelScan, label_offsets, read_labels};
pub use meta::options::MountOptions;
pub use meta::rules;
pub use moves::progress::{Operation, Pass, PassProgress};
pub use moves::rebalance::{POWER_DEFAULT, POWER_MAX};
pub use moves::throttle::POWER_FULL;
pub use on_disk::label::{Label, LabelStatus, Redundancy};
pub use refused::Refused;
pub use returning::{DiskReturn, RESYNC_POWER_DEFAULT};
pub use scrub::{ScrubPower, ScrubResult, ScrubScope, ScrubSpec, Scrubbing, fault_words};
pub use state::DiskStatus;
#[cfg(feature = "object-store")]
pub use store::GroupStore;
