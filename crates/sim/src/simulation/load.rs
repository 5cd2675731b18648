//! The load between crashes: the number of operations, and the sizes of the requests.

use super::*;

/// The amount of work in one mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// A few dozen operations, every fourth of several megabytes: half the time goes into mounting
    /// and reading everything back.
    Usual,
    /// Hundreds of operations, most of them small: a million of them fit in a minute.
    Dense,
}

impl Load {
    /// Both.
    pub const ALL: [Load; 2] = [Load::Usual, Load::Dense];

    /// The name of the load on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Load::Usual => "usual",
            Load::Dense => "dense",
        }
    }

    /// The maximum number of sectors of a write; it varies.
    pub fn write_max(self, w: &World, sector: u32) -> u32 {
        let large = 6144 * 512 / sector;
        match self {
            Load::Usual => match w.below(4) {
                0 => 1,
                1 => 16,
                2 => 256,
                _ => large,
            },
            Load::Dense => match w.below(512) {
                0 => large,
                1..16 => 256 * 512 / sector,
                16..128 => 32,
                _ => 4,
            },
        }
    }

    /// The maximum number of sectors of a read.
    pub fn read_max(self, w: &World) -> u32 {
        match self {
            Load::Usual => 512,
            Load::Dense => [512, 64, 8, 8][w.below(4) as usize],
        }
    }

    /// The maximum number of bytes of a file.
    pub fn file_max(self) -> u64 {
        match self {
            Load::Usual => 12 << 20,
            Load::Dense => 5 << 20,
        }
    }

    /// The number of rounds of work in a mount.
    pub fn rounds(self, w: &World) -> u64 {
        match self {
            Load::Usual => 4 + w.below(24),
            Load::Dense => 200 + w.below(1600),
        }
    }

    /// The maximum number of I/O events before the power fails.
    pub fn crash_within(self, w: &World) -> u64 {
        match self {
            Load::Usual => [12, 150, 800, 4000][w.below(4) as usize],
            Load::Dense => [150, 8000, 40_000, 80_000][w.below(4) as usize],
        }
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
