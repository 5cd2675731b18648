//! The laws, on every device of this crate that needs no real disk.

use std::sync::Arc;

use cellar_io::Device;
use cellar_io::laws::check_device;
use cellar_io::sim::{Sim, SimDiskOptions};

fn sim_disk_options(seed: u64) -> SimDiskOptions {
    SimDiskOptions {
        // Small and odd, one window, more than one window.
        size: [20 * 4096, 16 << 20, 40 << 20][seed as usize % 3],
        logical_sector: if seed.is_multiple_of(2) { 512 } else { 4096 },
        queue: [0, 1, 32][seed as usize % 3],
        volatile_cache: !seed.is_multiple_of(5),
        cache_bytes: if seed.is_multiple_of(7) {
            10_000
        } else {
            64 << 20
        },
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
