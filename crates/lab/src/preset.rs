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
    /// Its size in bytes; 0: as large as it has to be.
    pub bytes: u64,
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
        inner_bytes_per_second: 0,
        seek: Duration::ZERO,
    },
    bytes: 0,
    words: "196 MB/s a link, a link for each disk; 4.0 ms before a read that follows the last \
            one on that link, 7.3 ms before any other",
    limits: "it has no spindles: many small reads at once cost it nothing",
};

/// A disk of a storage cell of 2012: the Seagate Cheetah 15K.7 of 600 GB that the cell of the post
/// names (ST360057SSUN600G), by its manual: 204 MB/s on the outer tracks, 122 on the inner ones,
/// half a turn 2.0 ms, a seek 3.4 ms.
pub const SAS_15K_2012: Preset = Preset {
    name: "sas-15k-2012",
    shape: ShapeOptions {
        bytes_per_second: 204_000_000,
        iops: 0,
        latency: Duration::ZERO,
        queue_depth: 0,
        read_ahead: None,
        inner_bytes_per_second: 122_000_000,
        seek: Duration::from_micros(5400),
    },
    bytes: 600_127_266_816,
    words: "600 GB that turn: 204 MB/s on the outer tracks, 122 MB/s on the inner ones, 5.4 ms \
            before a request that does not go on where the last one ended",
    limits: "it answers in the order it was asked, and has no cache",
};

/// A disk without moving parts, slow enough for a disk here to be slowed to it.
pub const FLAT_200: Preset = Preset {
    name: "flat-200",
    shape: ShapeOptions {
        bytes_per_second: 200_000_000,
        iops: 0,
        latency: Duration::ZERO,
        queue_depth: 0,
        read_ahead: None,
        inner_bytes_per_second: 0,
        seek: Duration::ZERO,
    },
    bytes: 0,
    words: "200 MB/s, the same everywhere, and nothing before a request",
    limits: "it has no latency of its own",
};

/// Every preset.
pub const ALL: &[Preset] = &[FC_LUN_2006, SAS_15K_2012, FLAT_200];
