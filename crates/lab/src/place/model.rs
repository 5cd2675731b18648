//! Simulated disks shaped to a model, in virtual time.

use std::future::Future;
use std::sync::Arc;

use cellar_io::SharedEnv;
use cellar_io::shape::Shaped;
use cellar_io::sim::{Sim, SimDiskOptions};

use super::{Disk, Place};
use crate::error::LabError;
use crate::preset::Preset;
use crate::run::Column;

/// A machine that exists in virtual time only. What runs on it takes as long as the model says and
/// comes out the same every time.
pub struct Model {
    preset: Preset,
    sim: Sim,
}

impl Model {
    /// A machine with disks like `preset`.
    pub fn new(preset: Preset) -> Model {
        // The seed decides the order of ready tasks. Any does; it has to be the same one.
        Model { preset, sim: Sim::new(4) }
    }
}

impl Place for Model {
    fn env(&self) -> SharedEnv {
        self.sim.env()
    }

    fn disks(&self, count: usize, bytes: u64) -> Result<Vec<Disk>, LabError> {
        let env = self.env();
        let disk = |i: usize| {
            let path = format!("/model/{}/{i}", self.preset.name);
            let options = SimDiskOptions {
                size: bytes,
                logical_sector: 4096,
                // The model alone says how long a request takes.
                latency_ns_min: 0,
                latency_ns_max: 0,
                queue: 0,
                volatile_cache: true,
                ..SimDiskOptions::default()
            };
            let disk = self.sim.disk(&path, options);
            let shaped = Arc::new(Shaped::new(disk, Arc::clone(&env), self.preset.shape));
            Disk::new(path, shaped, &env, None)
        };
        Ok((0..count).map(disk).collect())
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.sim.run(future).expect("nobody cuts the power of this machine")
    }

    fn column(&self) -> Column {
        Column::Model
    }

    fn words(&self) -> String {
        format!("{}: {}", self.preset.name, self.preset.words)
    }

    fn nominal(&self) -> u64 {
        self.preset.shape.bytes_per_second
    }
}
