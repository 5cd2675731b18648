//! A simulated machine with disks and a group on them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cellar_diskgroup::{
    CreateGroup, Error, FoundDisk, Group, MountOptions, NewDisk, Redundancy, create,
};
use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, EnvExt, SharedEnv};
use cellar_wait::{Kind, Waits};

/// A machine with `disks`.
pub struct Rig {
    /// The machine.
    pub sim: Sim,
    /// Its disks.
    pub disks: Vec<Arc<SimDisk>>,
    /// Requests in flight per disk; more wait, as in production.
    pub depth: Option<u32>,
}

/// The shape of the group.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The number of disks.
    pub disks: usize,
    /// Size of each.
    pub disk_bytes: u64,
    /// The default number of copies.
    pub redundancy: Redundancy,
    /// Size of an AU.
    pub au_size: u64,
    /// Logical sector of the disks and of the group.
    pub sector: u32,
    /// Failure group of each disk; if empty, each has its own.
    pub failgroups: Vec<&'static str>,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            disks: 4,
            disk_bytes: 40 << 20,
            redundancy: Redundancy::Normal,
            au_size: 1 << 20,
            sector: 512,
            failgroups: vec![],
        }
    }
}

impl Rig {
    /// A machine with disks of that shape, full of zeros.
    pub fn new(seed: u64, shape: &Shape) -> Rig {
        let sim = Sim::new(seed);
        let disks = (0..shape.disks)
            .map(|i| {
                let options = SimDiskOptions {
                    size: shape.disk_bytes,
                    logical_sector: shape.sector,
                    physical_sector: shape.sector,
                    ..SimDiskOptions::default()
                };
                sim.disk(&format!("disk{i}"), options)
            })
            .collect();
        Rig { sim, disks, depth: None }
    }

    /// Its clock, random numbers and tasks.
    pub fn env(&self) -> SharedEnv {
        self.sim.env()
    }

    /// Runs a future to its end, but not for more than an hour of virtual time.
    pub fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        self.run_for(1, future)
    }

    /// Runs a future to its end, but not for more than this many hours of virtual time.
    pub fn run_for<F: Future>(&self, hours: u64, future: F) -> Option<F::Output> {
        let env = self.env();
        self.sim.run(async move {
            let limit = env.sleep(Duration::from_secs(hours * 3600));
            match futures_util::future::select(Box::pin(future), limit).await {
                futures_util::future::Either::Left((output, _)) => output,
                futures_util::future::Either::Right(_) => panic!("hung: {hours} hours went by"),
            }
        })
    }

    /// The group on all of its disks.
    pub fn spec(&self, shape: &Shape) -> CreateGroup {
        let disks = self.disks.iter().enumerate().map(|(i, disk)| NewDisk {
            device: Arc::clone(disk) as Arc<dyn Device>,
            path: format!("/sim/disk{i}"),
            name: None,
            failgroup: shape.failgroups.get(i).map(|f| (*f).to_owned()),
            size: None,
            force: false,
        });
        CreateGroup {
            name: "DATA".to_owned(),
            redundancy: shape.redundancy,
            au_size: shape.au_size,
            sector_size: Some(shape.sector),
            attributes: Default::default(),
            holds_catalog: false,
            disks: disks.collect(),
        }
    }

    /// Creates that group.
    ///
    /// # Errors
    /// As [`create`].
    pub async fn create(&self, shape: &Shape) -> Result<(), Error> {
        create(&self.env(), self.spec(shape)).await
    }

    /// All of its disks, as a discovery finds them.
    pub fn found(&self) -> Vec<FoundDisk> {
        self.found_of(&(0..self.disks.len()).collect::<Vec<_>>())
    }

    /// Some of its disks.
    pub fn found_of(&self, which: &[usize]) -> Vec<FoundDisk> {
        which
            .iter()
            .map(|i| FoundDisk { device: self.device(*i), path: format!("/sim/disk{i}") })
            .collect()
    }

    fn device(&self, i: usize) -> Arc<dyn Device> {
        let disk = Arc::clone(&self.disks[i]) as Arc<dyn Device>;
        match self.depth {
            Some(depth) => {
                let options = ScheduleOptions { depth, scan_depth: depth };
                Arc::new(Scheduled::new(disk, self.env(), options, None))
            }
            None => disk,
        }
    }

    /// Mounts the group from all disks.
    ///
    /// # Errors
    /// As [`Group::mount`].
    pub async fn mount(&self) -> Result<Group, Error> {
        self.mount_with(self.found(), MountOptions::default()).await
    }

    /// Mounts the group from these disks.
    ///
    /// # Errors
    /// As [`Group::mount`].
    pub async fn mount_with(
        &self,
        found: Vec<FoundDisk>,
        options: MountOptions,
    ) -> Result<Group, Error> {
        let session = Waits::new().session("group DATA", Kind::Background);
        Group::mount(&self.env(), session, "DATA", found, options).await
    }
}
