//! The state behind the lock of the log: the queue, the units in flight, groups and media.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::{Device, Instant, IoError};

use crate::breakdown::UnitTimes;
use crate::on_disk::control::ControlData;
use crate::stats::{MediumStats, Stats};
use crate::writer::ahead::Formed;
use crate::writer::reserve::Reserved;
use crate::writer::unit::{OpenUnit, Shared};

/// A unit that was formed: on its way, or acknowledged but not yet on every medium.
pub(crate) struct Tracked {
    pub group: usize,
    pub first: u64,
    /// Where the log goes on behind it.
    pub end: u64,
    pub bytes: u64,
    pub last_crc: u32,
    /// A bit for each medium that has it.
    pub copies: u32,
    /// When the last of these had it.
    pub last: u64,
    /// Enough media had it by the rule at that time.
    pub quorum: bool,
    pub is_heartbeat: bool,
    pub times: UnitTimes,
    pub shared: Arc<Shared>,
}

/// A write that waits until its medium has answered earlier ones.
pub(crate) struct Pending {
    pub unit: u64,
    pub group: usize,
    pub first: u64,
    pub bytes: Bytes,
}

/// The health of a medium.
#[derive(Clone, Debug)]
pub(crate) enum Health {
    Active,
    /// It gets new units and is copied older blocks, and does not count. `ready`: it has everything.
    CatchingUp {
        ready: bool,
    },
    /// It has everything, and control data that says so is being written.
    Joining,
    /// It gets no more units, and its failure becomes durable as soon as that is safe.
    Failing {
        since: u64,
    },
    Failed,
}

/// A medium of the open log.
pub(crate) struct MediumAt {
    /// Empty: it was dropped.
    pub name: String,
    /// Its name before that.
    pub was: String,
    pub health: Health,
    /// When each write that it has not answered was submitted.
    pub outstanding: BTreeMap<u64, u64>,
    /// When each header write that it has not answered was submitted: no reason to hold blocks back.
    pub headers: BTreeMap<u64, u64>,
    /// When it last answered anything.
    pub answered: u64,
    /// Since when commits have waited for it alone.
    pub held_up_since: Option<u64>,
    pub pending: VecDeque<Pending>,
    /// The first unit that it got since it joined.
    pub fed_from: u64,
    /// Bytes of acknowledged units that it lacks.
    pub exposed: u64,
    pub error: Option<IoError>,
    pub stats: MediumStats,
}

impl MediumAt {
    /// A medium that was given nothing yet.
    pub fn new(name: String, health: Health) -> MediumAt {
        MediumAt {
            name,
            was: String::new(),
            health,
            outstanding: BTreeMap::new(),
            headers: BTreeMap::new(),
            answered: 0,
            held_up_since: None,
            pending: VecDeque::new(),
            fed_from: 0,
            exposed: 0,
            error: None,
            stats: MediumStats::default(),
        }
    }

    pub fn is_active(&self) -> bool {
        matches!(self.health, Health::Active)
    }

    /// Whether it gets units, and owes answers.
    pub fn is_fed(&self) -> bool {
        matches!(self.health, Health::Active | Health::CatchingUp { .. } | Health::Joining)
    }

    /// When the oldest write that it has not answered was submitted.
    pub fn oldest_write(&self) -> Option<u64> {
        self.outstanding.values().chain(self.headers.values()).min().copied()
    }

    /// Whether no request that it was ever given can still take effect.
    pub fn is_answered(&self) -> bool {
        self.outstanding.is_empty() && self.headers.is_empty()
    }
}

/// A log group of the open log.
pub(crate) struct GroupAt {
    /// By medium; absent where the medium is.
    pub files: Vec<Option<Arc<dyn Device>>>,
    pub size: u64,
    pub capacity: u64,
    /// 0: never written.
    pub sequence: u64,
    pub first: u64,
    /// The number behind its last block, once it is finished.
    pub used: Option<u64>,
    /// Headers on the media say so.
    pub has_headers: bool,
    /// A bit for each medium whose second header was damaged at the opening.
    pub bad_second: u32,
    /// Control data and headers say so, durably: blocks may be written.
    pub prepared: bool,
    /// It is gone; its place is kept, since others are known by theirs.
    pub dropped: bool,
}

impl GroupAt {
    /// Where the log goes on behind it.
    pub fn end(&self) -> u64 {
        self.first + self.capacity
    }
}

/// Why a committer must wait before its record is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MustWait {
    Buffer,
    Checkpoint,
    Archive,
}

/// Everything that changes.
pub(crate) struct State {
    // The queue.
    pub open: Option<OpenUnit>,
    pub full: VecDeque<OpenUnit>,
    pub queued_bytes: usize,
    /// Kept free for those who reserved it.
    pub reserved: Reserved,
    /// Committers that wait for room, in order.
    pub line: VecDeque<u64>,
    pub next_in_line: u64,
    /// Committers that are delayed now.
    pub paused: usize,

    // Where the log is.
    /// The first block behind all units, the open one included once it is closed.
    pub at: u64,
    /// The group of `at`, by place.
    pub current: usize,
    /// Groups that follow it, by place.
    pub next: VecDeque<usize>,
    pub chain: u32,

    // Units on their way.
    /// Somebody forms a unit now: where the log goes on behind it, and who waits for it.
    pub forming: Option<(u64, Arc<Shared>)>,
    /// Units that wait for a slot.
    pub formed: VecDeque<Formed>,
    pub tracked: VecDeque<Tracked>,
    /// Number of the first tracked unit.
    pub base: u64,
    /// The first unit that is not acknowledged.
    pub unacked: u64,
    pub durable: u64,
    pub durable_crc: u32,
    /// Since when all slots are busy, and how long they were before.
    pub busy_since: Option<u64>,
    pub busy_total: u64,
    pub next_write: u64,
    /// Units in a row that were the only thing on its way.
    pub alone: u32,

    pub groups: Vec<GroupAt>,
    pub media: Vec<MediumAt>,

    // What the control writer sees to.
    /// What is to become durable next.
    pub control: ControlData,
    /// Checkpoint and archived-to that are durable.
    pub checkpoint: u64,
    pub archived: u64,
    /// Generation that is durable.
    pub stored: u64,
    pub control_dirty: bool,
    /// A bit for each medium whose failure is being recorded: a crash may leave the failure recorded
    /// or not.
    pub recording: u32,
    /// A bit for each medium that is being recorded as counting: a crash may leave either.
    pub enlisting: u32,
    /// A medium that was catching up was given up: the caller that made it join is to be notified.
    pub has_left: bool,
    /// A medium joins.
    pub joins: bool,
    /// Groups that are being added.
    pub adding: u32,
    /// Blocks from here on are still to be copied to it: their groups are not reused.
    pub pin: Option<u64>,
    pub control_writer: bool,
    /// When the newest archive was begun.
    pub archive_began: Option<Instant>,
    /// A finished group is being archived.
    pub archiver: bool,
    /// Its archive is getting its name.
    pub publishing: Option<u64>,
    /// Somebody waits for a finished group.
    pub archiver_waits: bool,
    pub idle_timer: bool,
    pub last_ack: u64,
    pub last_was_heartbeat: bool,
    /// When something was last written.
    pub last_launch: u64,

    pub closing: bool,
    pub poisoned: Option<Arc<str>>,
    pub stats: Stats,
}

impl State {
    /// The number that the next formed unit gets.
    pub fn next_unit(&self) -> u64 {
        self.base + self.tracked.len() as u64
    }

    pub fn in_flight(&self) -> u64 {
        // A log that has stopped has forgotten its units.
        self.next_unit().saturating_sub(self.unacked)
    }

    /// For how long all slots were busy until `now`.
    pub fn busy_until(&self, now: u64) -> u64 {
        self.busy_total + self.busy_since.map_or(0, |since| now.saturating_sub(since))
    }

    /// Counts slots that have become busy or free.
    pub fn note_slots(&mut self, slots: usize, now: u64) {
        let busy = self.in_flight() >= slots as u64;
        match (busy, self.busy_since) {
            (true, None) => self.busy_since = Some(now),
            (false, Some(since)) => {
                self.busy_total += now.saturating_sub(since);
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// A bit for each medium that counts.
    pub fn active(&self) -> u32 {
        self.mask(|health| matches!(health, Health::Active))
    }

    /// A bit for each medium whose failure is not durable.
    pub fn enrolled(&self) -> u32 {
        self.mask(|health| matches!(health, Health::Active | Health::Failing { .. }))
    }

    /// A bit for each medium that gets units.
    pub fn fed(&self) -> u32 {
        self.mask_of(MediumAt::is_fed)
    }

    pub fn mask(&self, which: impl Fn(&Health) -> bool) -> u32 {
        self.mask_of(|medium| which(&medium.health))
    }

    pub fn mask_of(&self, which: impl Fn(&MediumAt) -> bool) -> u32 {
        let media = self.media.iter().enumerate().filter(|(_, medium)| which(medium));
        media.fold(0, |mask, (number, _)| mask | 1 << number)
    }

    /// How many of the media in `mask` must have a unit.
    pub fn quorum(&self, mask: u32) -> u32 {
        self.control.quorum.of(mask.count_ones() as usize) as u32
    }

    /// Whether the remaining media have enough copies to do without those that are failing.
    pub fn is_safe_without_failing(&self, unit: &Tracked) -> bool {
        let active = self.active();
        (unit.copies & active).count_ones() >= self.quorum(active)
    }

    /// Whether a unit may be acknowledged, once those before it are.
    pub fn has_quorum(&self, unit: &Tracked) -> bool {
        let enrolled = self.enrolled();
        let joining = enrolled | self.mask(|health| matches!(health, Health::Joining));
        let has = |media: u32| (unit.copies & media).count_ones() >= self.quorum(media);
        // Every rule while a failure is being recorded: whichever one a recovery applies, it finds
        // the unit.
        has(enrolled)
            && (enrolled == self.active() || self.is_safe_without_failing(unit))
            && (self.recording == 0 || has(enrolled & !self.recording))
            && (self.enlisting == 0 || has(enrolled & !self.enlisting))
            && has(joining)
    }

    /// Whether all that was acknowledged is on enough of the media that are left.
    pub fn may_record_failures(&self) -> bool {
        let acked = (self.unacked - self.base) as usize;
        self.tracked.iter().take(acked).all(|unit| self.is_safe_without_failing(unit))
    }

    pub fn has_failing(&self) -> bool {
        self.media.iter().any(|m| matches!(m.health, Health::Failing { .. }))
    }

    /// Nothing is queued, and nothing owed to a medium that takes part.
    pub fn is_quiet(&self) -> bool {
        self.open.as_ref().is_none_or(|unit| !unit.is_wanted())
            && self.full.is_empty()
            && self.forming.is_none()
            && self.formed.is_empty()
            && self.tracked.is_empty()
    }
}
