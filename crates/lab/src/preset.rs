//! Models of disks that others measured.

use std::time::Duration;

use cellar_io::shape::{ReadAhead, ShapeOptions};

/// A disk model with its story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// The disk.
    pub shape: ShapeOptions,
    /// What it says, for people.
    pub words: &'static str,
    /// What it leaves out, for people.
    pub limits: &'static str,
}

/// A LUN of 2006: a RAID-5 array of 14 disks behind a 2 Gbit fibre channel link of its own, which
/// reads ahead for a reader who comes back at once and forgets one who does not.
pub const FC_LUN_2006: Preset = Preset {
    name: "fc-lun-2006",
    shape: ShapeOptions {
        bytes_per_second: 196_000_000,
        iops: 0,
        latency: Duration::ZERO,
        queue_depth: 0,
        read_ahead: Some(ReadAhead {
            hit_latency: Duration::from_micros(4000),
            miss_latency: Duration::from_micros(7300),
            // Shorter than one read of the other LUN: who alternates is forgotten.
            window: Duration::from_millis(2),
        }),
    },
    words: "196 MB/s a link, a link for each disk; 4.0 ms before a read that follows the last \
            one on that link, 7.3 ms before any other",
    limits: "it has no spindles: many small reads at once cost it nothing",
};

/// Every preset.
pub const ALL: &[Preset] = &[FC_LUN_2006];
