//! Helpers shared by the benchmarks of the log.

use std::path::Path;
use std::sync::Mutex;

use cellar_io::IoFuture;
use cellar_redo::Control;

/// Control data in memory: it is not on the measured path.
#[derive(Default)]
pub struct MemoryControl(Mutex<Vec<u8>>);

impl Control for MemoryControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
    }
    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            *self.0.lock().unwrap() = bytes;
            Ok(())
        })
    }
}

/// Writes the file once: a write into a hole measures the file system.
pub fn prepare(file: &Path, size: u64) {
    if file.metadata().is_ok_and(|m| m.len() == size) {
        return;
    }
    let mut out = std::fs::File::create(file).unwrap();
    let chunk = vec![0u8; 1 << 20];
    for _ in 0..size >> 20 {
        std::io::Write::write_all(&mut out, &chunk).unwrap();
    }
    out.sync_all().unwrap();
}

/// The minimum, the median and the maximum.
pub fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

/// The ratios of neighbouring rounds: on a disk whose speed changes from second to second only these
/// are meaningful.
pub fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}
