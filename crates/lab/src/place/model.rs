//! Disks in memory shaped to a model, in the virtual time of a simulated machine.

use std::future::Future;
use std::sync::Arc;

use cellar_io::SharedEnv;
use cellar_io::shape::Shaped;
use cellar_io::sim::Sim;

use super::thin::Thin;
use super::{Disk, Place};
use crate::control::Control;
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

    fn disks(&self, bytes: &[u64], _control: &Control<'_>) -> Result<Vec<Disk>, LabError> {
        let env = self.env();
        let disk = |(i, bytes): (usize, &u64)| {
            let path = format!("/model/{}/{i}", self.preset.name);
            // The model alone says how long a request takes.
            let disk = Arc::new(Thin::new(&path, *bytes));
            let shaped = Arc::new(Shaped::new(disk, Arc::clone(&env), self.preset.shape));
            Disk::new(path, shaped, &env, None, None)
        };
        Ok(bytes.iter().enumerate().map(disk).collect())
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

    fn kind(&self) -> &'static str {
        self.preset.name
    }

    fn caches(&self) -> &'static str {
        "none: a model"
    }
}
