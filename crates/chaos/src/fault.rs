//! Faults of one file, switched on and off while it is used.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

/// The kinds of requests that faults distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A read.
    Read,
    /// A write, durable or not; `fallocate`.
    Write,
    /// `fsync`, `fdatasync`.
    Flush,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 3] = [Op::Read, Op::Write, Op::Flush];
}

impl std::str::FromStr for Op {
    type Err = ();

    fn from_str(word: &str) -> Result<Op, ()> {
        match word {
            "read" => Ok(Op::Read),
            "write" => Ok(Op::Write),
            "flush" => Ok(Op::Flush),
            _ => Err(()),
        }
    }
}

/// The faults in force.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) delays: [Duration; 3],
    pub(crate) hanging: BTreeSet<Op>,
    pub(crate) failing: Vec<(Op, Range<u64>)>,
    pub(crate) lying: bool,
    pub(crate) tear_next: bool,
}

impl Faults {
    /// Whether a request fails. A flush has no position: it fails with any range.
    pub(crate) fn fails(&self, op: Op, range: &Range<u64>) -> bool {
        self.failing.iter().any(|(failing, bad)| {
            *failing == op && (op == Op::Flush || bad.start < range.end && range.start < bad.end)
        })
    }

    pub(crate) fn delay(&self, op: Op) -> Duration {
        self.delays[op as usize]
    }
}
