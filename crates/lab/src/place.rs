//! Where an experiment runs: its clock, its disks.

mod model;
#[cfg(feature = "real")]
mod real;
mod thin;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::{Device, SharedEnv};

pub use self::model::Model;
#[cfg(feature = "real")]
pub use self::real::Here;
#[cfg(feature = "real")]
pub(crate) use self::real::Scratch;
use crate::error::LabError;
use crate::meter::Meter;
use crate::run::Column;

/// The deepest queue that an experiment asks for.
pub const DEPTH_MAX: u32 = 64;

/// A disk that an experiment may use up.
pub struct Disk {
    /// What it is called in labels and messages.
    pub path: String,
    /// The disk as a group gets it: behind a scheduler, as in a server.
    pub device: Arc<dyn Device>,
    /// What is asked of it.
    pub meter: Arc<Meter>,
    /// Goes when the disk goes: a scratch file.
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

impl Disk {
    /// Puts a meter and a scheduler before `device`.
    fn new(
        path: String,
        device: Arc<dyn Device>,
        env: &SharedEnv,
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> Disk {
        let meter = Arc::new(Meter::new(device, Arc::clone(env)));
        // Wider than a server's, so that the depths of the experiment decide and nothing else.
        let limits = ScheduleOptions { depth: DEPTH_MAX, scan_depth: DEPTH_MAX };
        let below = Arc::clone(&meter) as Arc<dyn Device>;
        let device = Arc::new(Scheduled::new(below, Arc::clone(env), limits, None));
        Disk { path, device, meter, _keep: keep }
    }
}

/// Where an experiment runs.
pub trait Place {
    /// Its clock, chance and tasks.
    fn env(&self) -> SharedEnv;

    /// `count` disks of at least `bytes`, whose content may be lost.
    ///
    /// # Errors
    /// They cannot be had.
    fn disks(&self, count: usize, bytes: u64) -> Result<Vec<Disk>, LabError>;

    /// Drives a future to its end.
    fn run<F: Future>(&self, future: F) -> F::Output;

    /// Which column of a report it fills.
    fn column(&self) -> Column;

    /// What the disks are, for people.
    fn words(&self) -> String;

    /// Bytes a second that a disk is said to move; 0 if nobody says.
    fn nominal(&self) -> u64;
}
