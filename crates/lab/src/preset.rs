//! Disk models based on others' measurements.

use std::time::Duration;

use cellar_io::shape::{Late, Page, ReadAhead, ShapeOptions};

/// A disk model with its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The disk.
    pub shape: ShapeOptions,
    /// Its size in bytes; 0: as large as needed.
    pub bytes: u64,
    /// Its logical sector in bytes: 512 or 4096.
    pub sector: u32,
    /// A description, for people.
    pub words: &'static str,
    /// What it omits, for people.
    pub limits: &'static str,
}

/// A LUN of 2006: a RAID-5 array of 14 disks behind its own 2 Gbit fibre channel link, which
/// reads ahead for a reader that returns at once and forgets one that does not.
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
            // Shorter than one read of the other LUN: a reader that alternates is forgotten.
            window: Duration::from_millis(2),
        }),
        inner_bytes_per_second: 0,
        seek: Duration::ZERO,
        page: None,
        late: None,
    },
    bytes: 0,
    sector: 4096,
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
        page: None,
        late: None,
    },
    bytes: 600_127_266_816,
    sector: 4096,
    words: "600 GB that turn: 204 MB/s on the outer tracks, 122 MB/s on the inner ones, 5.4 ms \
            before a request that does not go on where the last one ended",
    limits: "it answers in the order it was asked, and has no cache",
};

/// A disk without moving parts, slow enough for a real disk to be slowed down to it.
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
        page: None,
        late: None,
    },
    bytes: 0,
    sector: 4096,
    words: "200 MB/s, the same everywhere, and nothing before a request",
    limits: "it has no latency of its own",
};

/// No overhead before a request, no limit: the basis of the models of redo media.
const PLAIN: ShapeOptions = ShapeOptions {
    bytes_per_second: 0,
    iops: 0,
    latency: Duration::ZERO,
    queue_depth: 0,
    read_ahead: None,
    inner_bytes_per_second: 0,
    seek: Duration::ZERO,
    page: None,
    late: None,
};

/// Twelve SAS disks of a storage cell of 2011 behind a controller with a battery: a write is done
/// when the controller has it. Only ratios were published: they depend on its 0.4 ms, which is a guess.
pub const SAS_CACHED_2011: Preset = Preset {
    name: "sas-cached-2011",
    shape: ShapeOptions {
        bytes_per_second: 1_800_000_000,
        latency: Duration::from_micros(400),
        late: Some(Late { per_million: 1000, by: Duration::from_millis(15) }),
        ..PLAIN
    },
    bytes: 0,
    sector: 512,
    words: "0.40 ms a write, into a cache with a battery, 1800 MB/s, one write of 1000 later by \
            15 ms",
    limits: "its 0.40 ms and its late writes are guesses: only ratios were published",
};

/// Flash modules of a storage cell of 2011 that take sectors of 512 bytes and work in pages of 4 KB.
/// They take 1.3 times as long as [`SAS_CACHED_2011`] for whole pages, and four times as long for a
/// 1 KB commit in blocks of 512: both published; the cost of rewriting a page follows.
pub const FLASH_4K_2011: Preset = Preset {
    name: "flash-4k-2011",
    shape: ShapeOptions {
        bytes_per_second: 500_000_000,
        latency: Duration::from_micros(500),
        page: Some(Page { bytes: 4096, rewrite: Duration::from_micros(900) }),
        late: Some(Late { per_million: 1000, by: Duration::from_millis(30) }),
        ..PLAIN
    },
    bytes: 0,
    sector: 512,
    words: "0.50 ms a write, 500 MB/s, 0.90 ms more for each page of 4 KB that is written in part, \
            one write of 1000 later by 30 ms",
    limits: "its late writes are guesses; it does not wear out, and has no cache that fills up",
};

/// An NVMe disk of 2016 formatted to sectors of 512 bytes, assuming that it works in pages of 4 KB whatever the
/// format: then the block size matters.
pub const NVME_512_PAGE: Preset = Preset {
    name: "nvme-512-page",
    shape: ShapeOptions {
        bytes_per_second: NVME_RATE,
        latency: NVME_LATENCY,
        page: Some(Page { bytes: 4096, rewrite: Duration::from_micros(620) }),
        ..PLAIN
    },
    bytes: 0,
    sector: 512,
    words: "sectors of 512, 1400 MB/s and 0.02 ms, 0.62 ms more for each page of 4 KB that is \
            written in part",
    limits: "the rewrite is what explains 3.57 ms, and is long for such a disk",
};

/// The disk of [`NVME_512_PAGE`], assuming that sectors of 512 bytes cost it bandwidth however they are written:
/// then the format matters.
pub const NVME_512_FORMAT: Preset = Preset {
    name: "nvme-512-format",
    shape: ShapeOptions { bytes_per_second: 480_000_000, latency: NVME_LATENCY, ..PLAIN },
    bytes: 0,
    sector: 512,
    words: "sectors of 512, 480 MB/s and 0.02 ms",
    limits: "the rate is what explains 3.57 ms, and is low for such a disk",
};

/// The disk of [`NVME_512_PAGE`], formatted to sectors of 4096 bytes.
pub const NVME_4096: Preset = Preset {
    name: "nvme-4096",
    shape: ShapeOptions { bytes_per_second: NVME_RATE, latency: NVME_LATENCY, ..PLAIN },
    bytes: 0,
    sector: 4096,
    words: "sectors of 4096, 1400 MB/s and 0.02 ms",
    limits: "the rate is what explains 0.89 ms",
};

const NVME_RATE: u64 = 1_400_000_000;
const NVME_LATENCY: Duration = Duration::from_micros(20);

/// All presets.
pub const ALL: &[Preset] = &[
    FC_LUN_2006,
    SAS_15K_2012,
    FLAT_200,
    SAS_CACHED_2011,
    FLASH_4K_2011,
    NVME_512_PAGE,
    NVME_512_FORMAT,
    NVME_4096,
];
