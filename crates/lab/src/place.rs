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

/// The deepest queue that an experiment asks for.
pub const DEPTH_MAX: u32 = 64;

/// A disk that an experiment may use up.
pub struct Disk {
    /// Its name in labels and messages.
    pub path: String,
    /// The disk as a group gets it, with a scheduler in front, as in a server.
    pub device: Arc<dyn Device>,
    /// The disk without scheduler and meter: what it can do, all else left out.
    pub raw: Arc<dyn Device>,
    /// The meter of its reads.
    pub meter: Arc<Meter>,
    /// The kernel's name of the device that it is, or is on.
    pub block: Option<String>,
    /// Goes when the disk goes: a scratch file.
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

impl Disk {
    /// Puts a meter and a scheduler before `device`.
    fn new(
        path: String,
        device: Arc<dyn Device>,
        env: &SharedEnv,
        block: Option<String>,
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> Disk {
        let raw = Arc::clone(&device);
        let meter = Arc::new(Meter::new(device, Arc::clone(env)));
        // Wider than a server's, so that the depths of the experiment decide and nothing else.
        let limits = ScheduleOptions { depth: DEPTH_MAX, scan_depth: DEPTH_MAX };
        let below = Arc::clone(&meter) as Arc<dyn Device>;
        let device = Arc::new(Scheduled::new(below, Arc::clone(env), limits, None));
        Disk { path, device, raw, meter, block, _keep: keep }
    }
}

/// Whether the first two disks of a place are on one device underneath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// As far as can be seen they are not.
    Apart,
    /// Both are on the device of this name.
    Device(String),
}

/// A disk that an experiment needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Its size in bytes, at least.
    pub bytes: u64,
    /// What will be read and written of it.
    pub used: Vec<Range<u64>>,
}

impl Needed {
    /// A disk of at least so many bytes, used from its first on.
    pub fn first(bytes: u64) -> Needed {
        Needed { bytes, used: std::iter::once(0..bytes).collect() }
    }
}

/// The place where an experiment runs.
pub trait Place {
    /// Its clock, chance and tasks.
    fn env(&self) -> SharedEnv;

    /// These disks, what is used of them written once; their content may be lost.
    ///
    /// # Errors
    /// They cannot be had.
    fn disks(&self, needed: &[Needed], control: &Control<'_>) -> Result<Vec<Disk>, LabError>;

    /// Bytes of the smallest of its disks; `None` where they are made as large as they are needed.
    fn size(&self) -> Option<u64> {
        None
    }

    /// Drives a future to its end.
    fn run<F: Future>(&self, future: F) -> F::Output;

    /// Which column of a report it fills.
    fn column(&self) -> Column;

    /// What the disks are, for people; asked when they were made.
    fn words(&self) -> String;

    /// Bytes a second that a disk, or its link, is said to move; 0 if nobody says.
    fn nominal(&self) -> u64;

    /// Whether the first two disks are on one device underneath.
    fn sharing(&self) -> Sharing {
        Sharing::Apart
    }

    /// Requests that the kernel queues for a disk; `None` if nobody says.
    fn queue(&self) -> Option<u32> {
        None
    }

    /// The largest request that the kernel hands to a disk, in bytes.
    fn request_max(&self) -> Option<u64> {
        None
    }

    /// What it is, in a word or two, for settings.
    fn kind(&self) -> &'static str;

    /// Which caches are between the reader and the disks, for people.
    fn caches(&self) -> &'static str;

    /// Before each measurement: caches that are between are dropped.
    fn before(&self) {}
}
