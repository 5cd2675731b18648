//! Disks in memory shaped to a model, in the virtual time of a simulated machine.

use std::future::Future;
use std::sync::Arc;

use cellar_io::SharedEnv;
use cellar_io::shape::Shaped;
use cellar_io::sim::Sim;

use super::thin::Thin;
use super::{Disk, Needed, Place};
use crate::column::Column;
use crate::control::Control;
use crate::error::LabError;
use crate::preset::Preset;

/// A machine that exists only in virtual time. Work on it takes as long as the model says and
/// gives the same result every time.
pub struct Model {
    /// The models of its disks, in order; further disks are like the last.
    presets: Vec<Preset>,
    sim: Sim,
}

impl Model {
    /// A machine with disks like `preset`.
    pub fn new(preset: Preset) -> Model {
        Model::seeded(preset, 4)
    }

    /// A machine with disks like `preset`, whose order of ready tasks comes from `seed`. Any seed will do, as
    /// long as it stays the same.
    pub fn seeded(preset: Preset, seed: u64) -> Model {
        Model::mixed(vec![preset], seed)
    }

    /// A machine whose first disk is like the first preset and so on; further disks are like the last.
    ///
    /// # Panics
    /// If there is no preset.
    pub fn mixed(presets: Vec<Preset>, seed: u64) -> Model {
        assert!(!presets.is_empty(), "a disk is like something");
        Model { presets, sim: Sim::new(seed) }
    }

    fn preset(&self, disk: usize) -> Preset {
        self.presets[disk.min(self.presets.len() - 1)]
    }
}

impl Place for Model {
    fn env(&self) -> SharedEnv {
        self.sim.env()
    }

    fn size(&self) -> Option<u64> {
        let sizes = self.presets.iter().map(|preset| preset.bytes - preset.bytes % 4096);
        sizes.filter(|bytes| *bytes > 0).min()
    }

    fn disks(&self, needed: &[Needed], _control: &Control<'_>) -> Result<Vec<Disk>, LabError> {
        let env = self.env();
        let disk = |(i, needed): (usize, &Needed)| {
            let preset = self.preset(i);
            let bytes = self.size().unwrap_or(0).max(needed.bytes);
            let path = format!("/model/{}/{i}", preset.name);
            // The model alone says how long a request takes.
            let disk = Arc::new(Thin::new(&path, bytes, preset.sector));
            let shaped = Arc::new(Shaped::new(disk, Arc::clone(&env), preset.shape));
            Disk::new(path, shaped, &env, None, None)
        };
        Ok(needed.iter().enumerate().map(disk).collect())
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.sim.run(future).expect("nobody cuts the power of this machine")
    }

    fn column(&self) -> Column {
        Column::Model
    }

    fn words(&self) -> String {
        let said = |preset: &Preset| format!("{}: {}", preset.name, preset.words);
        self.presets.iter().map(said).collect::<Vec<_>>().join(". ")
    }

    fn nominal(&self) -> u64 {
        self.preset(0).shape.bytes_per_second
    }

    fn kind(&self) -> &'static str {
        match &self.presets[..] {
            [one] => one.name,
            _ => "models",
        }
    }

    fn caches(&self) -> &'static str {
        "none: a model"
    }
}
