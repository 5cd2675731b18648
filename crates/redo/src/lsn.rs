//! Positions in the log: block numbers and LSNs.

use std::fmt;

/// The distance between the LSNs of neighbouring blocks, whatever the block size.
pub const LSN_PER_BLOCK: u64 = 4096;

/// Absolute log block number: counts blocks from the creation of the log and is never reset.
/// Numbers of blocks that a switch left unused are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Abn(pub u64);

impl Abn {
    /// The LSN of the first byte of the block.
    pub fn lsn(self) -> Lsn {
        Lsn(self.0.saturating_mul(LSN_PER_BLOCK))
    }
}

impl fmt::Display for Abn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Log sequence number: a byte of the log, block number x 4096 + offset in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The block that the byte is in.
    pub fn abn(self) -> Abn {
        Abn(self.0 / LSN_PER_BLOCK)
    }

    /// The offset within the block, in bytes.
    pub fn offset(self) -> u64 {
        self.0 % LSN_PER_BLOCK
    }
}

impl fmt::Display for Lsn {
    /// Block number, dot, offset: what `inspect` shows too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.abn().0, self.offset())
    }
}
