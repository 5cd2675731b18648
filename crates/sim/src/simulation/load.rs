//! The load between crashes: how much is done, and how large the requests are.

use super::*;

/// How much is done in one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// A few dozen operations, every fourth of them of megabytes: half of the time is mounting and
    /// reading everything back.
    Usual,
    /// Hundreds of operations, most of them small: a million of them fit in a minute.
    Dense,
}

impl Load {
    /// Both.
    pub const ALL: [Load; 2] = [Load::Usual, Load::Dense];

    /// What it is called on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Load::Usual => "usual",
            Load::Dense => "dense",
        }
    }

    /// How many sectors a write may have at most; another time another many.
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

    /// How many sectors a read may have at most.
    pub fn read_max(self, w: &World) -> u32 {
        match self {
            Load::Usual => 512,
            Load::Dense => [512, 64, 8, 8][w.below(4) as usize],
        }
    }

    /// How many bytes a file may have at most.
    pub fn file_max(self) -> u64 {
        match self {
            Load::Usual => 12 << 20,
            Load::Dense => 5 << 20,
        }
    }

    /// How many rounds of work a life has.
    pub fn rounds(self, w: &World) -> u64 {
        match self {
            Load::Usual => 4 + w.below(24),
            Load::Dense => 200 + w.below(1600),
        }
    }

    /// After how many I/O events the power goes at the latest.
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
