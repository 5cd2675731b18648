//! The redo log: opaque records become durable on several media, and come back after a crash.
#![doc = include_str!("../README.md")]

mod archive;
pub mod block_size;
mod breakdown;
mod create;
mod error;
pub mod inspect;
mod lsn;
pub mod on_disk;
mod options;
mod recovery;
mod stats;
mod writer;

pub use archive::{ArchiveFile, ArchiveReader, ArchiveStore, Archived, archive_name};
pub use breakdown::Breakdown;
pub use create::{CreateLog, NewGroup, create};
pub use error::Error;
pub use lsn::{Abn, LSN_PER_BLOCK, Lsn};
pub use on_disk::header::Quorum;
pub use options::{Control, Medium, Options, Successor};
pub use recovery::{OpenLog, Record, Recovery, Report};
pub use stats::{GroupReport, GroupStatus, MediumReport, MediumStats, Skips, Stats};
pub use writer::{Appended, Committed, Log, Queued, Reservation, Wait};
