//! Scratch files on this machine, by direct I/O.

use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_io::SharedEnv;
use cellar_io::real::{Access, OpenOptions, Runtime, open_disk};
use cellar_io::shape::{ShapeOptions, Shaped};

use super::{Disk, Place};
use crate::error::LabError;
use crate::load::noise;
use crate::run::Column;

/// Scratch files of this process in one directory, each used as a disk and removed afterwards.
/// They are on one device, as a rule: such a run is about the software and that device.
pub struct Here<'a> {
    runtime: &'a Runtime,
    dir: PathBuf,
    shape: Option<ShapeOptions>,
}

/// A file that goes with its handle.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may be gone already; nobody is left to be told.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Scratch {
    /// Makes a file of `bytes` that were all written: a hole would measure nothing.
    pub(crate) fn written(path: PathBuf, bytes: u64) -> Result<Scratch, LabError> {
        let scratch = Scratch(path);
        let fault = |source| LabError::Scratch { path: scratch.0.clone(), source };
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&scratch.0);
        let mut file = file.map_err(fault)?;
        let noise = noise(1 << 20);
        for _ in 0..bytes.div_ceil(noise.len() as u64) {
            file.write_all(&noise).map_err(fault)?;
        }
        file.sync_all().map_err(fault)?;
        Ok(scratch)
    }
}

impl<'a> Here<'a> {
    /// Scratch files below `dir`. With `shape`, a model is put before each: it decides where it is
    /// the slower of the two.
    pub fn files(runtime: &'a Runtime, dir: &Path, shape: Option<ShapeOptions>) -> Here<'a> {
        Here { runtime, dir: dir.to_owned(), shape }
    }
}

impl Place for Here<'_> {
    fn env(&self) -> SharedEnv {
        self.runtime.env()
    }

    fn disks(&self, count: usize, bytes: u64) -> Result<Vec<Disk>, LabError> {
        let env = self.env();
        let disk = |i: usize| {
            let name = format!("cellar-lab-{}-{count}-{i}", std::process::id());
            let scratch = Scratch::written(self.dir.join(name), bytes)?;
            let options = OpenOptions { access: Access::Direct, ..OpenOptions::default() };
            // Groups of the lab are of 4096-byte sectors; a file takes that on any disk.
            let options = OpenOptions { sector: Some(4096), ..options };
            let disk = open_disk(self.runtime.real_env(), &scratch.0, &options)?;
            let path = scratch.0.display().to_string();
            let keep: Option<Box<dyn std::any::Any + Send + Sync>> = Some(Box::new(scratch));
            Ok(match self.shape {
                None => Disk::new(path, disk, &env, keep),
                Some(shape) => {
                    let shaped = Arc::new(Shaped::new(disk, Arc::clone(&env), shape));
                    Disk::new(path, shaped, &env, keep)
                }
            })
        };
        (0..count).map(disk).collect()
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn column(&self) -> Column {
        Column::Here
    }

    fn words(&self) -> String {
        let model = if self.shape.is_some() { ", slowed to a model" } else { "" };
        format!("scratch files in {}, on what is below it; direct I/O{model}", self.dir.display())
    }

    fn nominal(&self) -> u64 {
        self.shape.map_or(0, |s| s.bytes_per_second)
    }
}
