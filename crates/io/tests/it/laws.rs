//! The laws, on every device of this crate that needs no real disk.

use std::sync::Arc;

use cellar_io::Device;
use cellar_io::laws::check_device;
use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::shape::{Shaped, parse};
use cellar_io::sim::{Sim, SimDiskOptions};

fn sim_disk_options(seed: u64) -> SimDiskOptions {
    SimDiskOptions {
        // Small and odd, one window, more than one window.
        size: [20 * 4096, 16 << 20, 40 << 20][seed as usize % 3],
        logical_sector: if seed.is_multiple_of(2) { 512 } else { 4096 },
        queue: [0, 1, 32][seed as usize % 3],
        volatile_cache: !seed.is_multiple_of(5),
        cache_bytes: if seed.is_multiple_of(7) { 10_000 } else { 64 << 20 },
        ..SimDiskOptions::default()
    }
}

#[test]
fn a_simulated_disk_keeps_the_laws() {
    for seed in 0..24 {
        let sim = Sim::new(seed);
        let disk: Arc<dyn Device> = sim.disk("d", sim_disk_options(seed));
        sim.run(check_device(&sim.env(), disk, seed, 12)).unwrap();
    }
}

#[test]
fn a_scheduled_disk_keeps_the_laws() {
    for (seed, depth) in [(0, 1), (1, 2), (2, 64)] {
        let sim = Sim::new(seed);
        let disk = sim.disk("d", sim_disk_options(seed));
        let options = ScheduleOptions { depth, scan_depth: 1 };
        let scheduled = Scheduled::new(disk, sim.env(), options, None);
        sim.run(check_device(&sim.env(), Arc::new(scheduled), seed, 12)).unwrap();
    }
}

#[test]
fn a_shaped_disk_keeps_the_laws() {
    let models = ["200MB/s", "5us,qd1", "1GB/s,90000iops,1us,qd8,ra:1us/9us/3us"];
    for (seed, model) in (0..).zip(models) {
        let sim = Sim::new(seed);
        let disk = sim.disk("d", sim_disk_options(seed));
        let shaped = Shaped::new(disk, sim.env(), parse(model).unwrap());
        sim.run(check_device(&sim.env(), Arc::new(shaped), seed, 12)).unwrap();
    }
}
