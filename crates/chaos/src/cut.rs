//! Power cut: the choice of the unflushed data that survives.

/// How a power cut goes. The same seed keeps the same data if the same was cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Decides about each sector.
    pub seed: u64,
    /// How many of 100 unflushed sectors are kept.
    pub keep_percent: u8,
    /// Whether each 512-byte sector has its own fate; otherwise those of an aligned block of
    /// 4096 bytes share theirs.
    pub torn: bool,
}

impl Cut {
    /// Half of the sectors are kept, each decided separately.
    pub fn new(seed: u64) -> Cut {
        Cut { seed, keep_percent: 50, torn: true }
    }

    /// Nothing unflushed is kept.
    pub fn worst() -> Cut {
        Cut { seed: 0, keep_percent: 0, torn: false }
    }
}

/// The moment of an armed cut, counted from now; 0 counts as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At this write or flush: it is in flight, and is not acknowledged.
    Requests(u64),
    /// At this flush, before it is done: when there is most to lose.
    Flushes(u64),
}

/// The fate of the unflushed sectors in a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Sectors that are durable now, in the newest or an older unflushed version.
    pub kept: u64,
    /// Sectors in their state of the last flush.
    pub dropped: u64,
}

impl std::ops::AddAssign for Lost {
    fn add_assign(&mut self, other: Lost) {
        self.kept += other.kept;
        self.dropped += other.dropped;
    }
}
