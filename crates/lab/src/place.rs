//! The place where an experiment runs: its clock and its disks.

#[cfg(feature = "real")]
pub mod given;
mod model;
pub(crate) mod part;
#[cfg(feature = "real")]
mod real;
#[cfg(feature = "real")]
pub(crate) mod scratch;
mod thin;

use std::any::Any;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::{Device, SharedEnv};

pub use self::model::Model;
#[cfg(feature = "real")]
pub use self::real::Here;
use crate::column::Column;
use crate::control::Control;
use crate::error::LabError;
use crate::meter::Meter;

/// The deepest queue that an experiment requests.
pub const DEPTH_MAX: u32 = 64;

/// A disk that an experiment may overwrite.
pub struct Disk {
    /// Its name in labels and messages.
    pub path: String,
    /// The disk as a group gets it, with a scheduler in front, as in a server.
    pub device: Arc<dyn Device>,
    /// The disk without scheduler and meter: its raw performance.
    pub raw: Arc<dyn Device>,
    /// The meter of its reads.
    pub meter: Arc<Meter>,
    /// The kernel's name for its device, or for the one that contains it.
    pub block: Option<String>,
    /// Removed when the disk is dropped: a scratch file.
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

impl Disk {
    /// Puts a meter and a scheduler in front of `device`.
    fn new(
        path: String,
        device: Arc<dyn Device>,
        env: &SharedEnv,
        block: Option<String>,
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> Disk {
        let raw = Arc::clone(&device);
        let meter = Arc::new(Meter::new(device, Arc::clone(env)));
        // Deeper than a server's, so that only the depths of the experiment matter.
        let limits = ScheduleOptions { depth: DEPTH_MAX, scan_depth: DEPTH_MAX };
        let below = Arc::clone(&meter) as Arc<dyn Device>;
        let device = Arc::new(Scheduled::new(below, Arc::clone(env), limits, None));
        Disk { path, device, raw, meter, block, _keep: keep }
    }
}

/// Whether the first two disks of a place share an underlying device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// As far as can be seen they do not.
    Apart,
    /// Both are on the device of this name.
    Device(String),
}

/// A disk requirement of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Its size in bytes, at least.
    pub bytes: u64,
    /// The parts of it that will be read and written.
    pub used: Vec<Range<u64>>,
}

impl Needed {
    /// A disk of at least this many bytes, used from its first on.
    pub fn first(bytes: u64) -> Needed {
        Needed { bytes, used: std::iter::once(0..bytes).collect() }
    }
}

/// The place where an experiment runs.
pub trait Place {
    /// Its clock, random numbers and tasks.
    fn env(&self) -> SharedEnv;

    /// The requested disks, with the parts to be used pre-written; their contents may be lost.
    ///
    /// # Errors
    /// They are unavailable.
    fn disks(&self, needed: &[Needed], control: &Control<'_>) -> Result<Vec<Disk>, LabError>;

    /// Bytes of the smallest of its disks; `None` if they are made as large as needed.
    fn size(&self) -> Option<u64> {
        None
    }

    /// Drives a future to its end.
    fn run<F: Future>(&self, future: F) -> F::Output;

    /// The report column it fills.
    fn column(&self) -> Column;

    /// A description of the disks, available once they were made.
    fn words(&self) -> String;

    /// The nominal bandwidth of a disk, or its link, in bytes a second; 0 if unknown.
    fn nominal(&self) -> u64;

    /// Whether the first two disks share an underlying device.
    fn sharing(&self) -> Sharing {
        Sharing::Apart
    }

    /// The kernel's queue depth for a disk; `None` if unknown.
    fn queue(&self) -> Option<u32> {
        None
    }

    /// The largest request that the kernel sends to a disk, in bytes.
    fn request_max(&self) -> Option<u64> {
        None
    }

    /// A short description, for settings.
    fn kind(&self) -> &'static str;

    /// The caches between the reader and the disks, for people.
    fn caches(&self) -> &'static str;

    /// Drops the caches in between, before each measurement.
    fn before(&self) {}
}
