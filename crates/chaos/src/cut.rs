//! A power cut: what is left of what was not flushed.

/// How a power cut goes. The same seed leaves the same, if the same was cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Decides about each sector.
    pub seed: u64,
    /// How many of 100 unflushed sectors are kept.
    pub keep_percent: u8,
    /// Whether each 512-byte sector has a fate of its own; otherwise those of an aligned block of
    /// 4096 bytes share theirs.
    pub torn: bool,
}

impl Cut {
    /// Half of the sectors are kept, each 512 bytes apart.
    pub fn new(seed: u64) -> Cut {
        Cut { seed, keep_percent: 50, torn: true }
    }

    /// Nothing unflushed is kept.
    pub fn worst() -> Cut {
        Cut { seed: 0, keep_percent: 0, torn: false }
    }
}

/// The moment of a cut that comes by itself, from now on; 0 is taken as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// With this write or flush: it is under way, and is not acknowledged.
    Requests(u64),
    /// With this flush, before it is done: when there is most to lose.
    Flushes(u64),
}

/// What became of the unflushed sectors in a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Sectors that are durable now, in the newest or an older unflushed version.
    pub kept: u64,
    /// Sectors that are as they were at the last flush.
    pub dropped: u64,
}

impl std::ops::AddAssign for Lost {
    fn add_assign(&mut self, other: Lost) {
        self.kept += other.kept;
        self.dropped += other.dropped;
    }
}
