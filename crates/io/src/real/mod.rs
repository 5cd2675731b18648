//! Real disks, real time and real tasks.
//!
//! [`open_disk`] opens a file or block device as a [`Device`](crate::Device) in the environment of
//! a [`Runtime`]. How it reaches the kernel is [`RealDisk::effective`].

mod alone;
mod cache;
mod clock;
mod disk;
mod effective;
pub(crate) mod engine;
mod errno;
mod limits;
mod open;
mod probe;
mod raw;
mod runtime;
mod sysfs;
mod timer;
mod watch;

pub use cache::{CachedPages, cached_pages, drop_cached_pages};
pub use clock::Clock;
pub use disk::RealDisk;
pub use effective::{EffectiveAccess, EngineChoice};
pub use open::{Access, FilesystemIo, OpenOptions, io_mode, open_disk};
pub use probe::{DiskFacts, DiskKind, Mark, in_memory, list_disks, probe};
pub use runtime::{RealEnv, Runtime, RuntimeOptions};
pub use watch::Identity;
