//! The metadata of a mounted group in RAM, and the changes of it that wait for the log.

use std::collections::BTreeMap;

use crate::base::free_space::FreeSpace;
use crate::codec::Writer;
use crate::error::Error;
use crate::on_disk::Damage;
use crate::on_disk::layout::au_count;
use crate::on_disk::record::PAYLOAD_MAX;
use crate::on_disk::superblock::{aus_in, runs_before};
use crate::state::size::{area_kept, area_needed};
use crate::state::{DiskState, GroupState, Leg, Op};

/// Metadata in RAM and what waits to be logged. Held for microseconds, never over I/O.
pub(crate) struct Core {
    pub state: GroupState,
    /// Which AUs are free; follows from `state` but for extents whose freeing is not yet durable.
    pub space: FreeSpace,
    /// Changes applied to `state` and not yet in the log, in order.
    queue: Vec<Queued>,
    /// The ticket of the newest change.
    queued: u64,
    /// Extents to be freed once the change with that ticket is durable.
    frees: Vec<(u64, Vec<Leg>)>,
    /// Bytes of `queue`.
    queued_bytes: usize,
    /// Copies of extents on their way to another place, by file and extent set. Every write goes
    /// there too, so that what was copied stays right.
    pub moving: BTreeMap<(u32, u32), Moving>,
    broken: bool,
    /// Set while a checkpoint is under way.
    pub gate: bool,
    pub log_room: LogRoom,
    /// Bytes of the base of a checkpoint ([`crate::state::size`]), or a little more.
    base_bytes: u64,
    /// The most legs there can be.
    legs_max: u64,
}

/// A copy of an extent on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moving {
    /// The file's incarnation.
    pub incarnation: u32,
    /// Which copy.
    pub leg: u8,
    /// Where it will lie.
    pub to: Leg,
}

/// The largest part of a disk that is kept for metadata: in a group of many large disks, a small
/// one would otherwise hold nothing else. A growth may then be refused for lack of metadata room.
const HELD_PART: u32 = 8;

/// Bytes queued for the log above which changes wait before they are made.
const QUEUE_MAX: usize = PAYLOAD_MAX / 2;

/// What the metadata log has room for while a checkpoint cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogRoom {
    /// Any change.
    Plenty,
    /// The disk of a member is full, and the metadata does not fit there: only changes that make it
    /// smaller.
    Shrink,
    /// The ring is nearly full, too: only changes of which disks take part.
    Nothing,
}

/// Why a change is not possible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("a change of {bytes} bytes")]
    TooLarge { bytes: usize },
    #[error("a change did not fit the state: {0}")]
    Misfit(Damage),
}

struct Queued {
    payload: Vec<u8>,
    ticket: u64,
}

/// A batch for the log.
pub(crate) struct Batch {
    pub payload: Vec<u8>,
    /// The newest change in it.
    pub ticket: u64,
}

impl Core {
    pub fn new(state: GroupState, space: FreeSpace) -> Core {
        let mut core = Core {
            base_bytes: 0,
            legs_max: state.legs_max(),
            state,
            space,
            queue: Vec::new(),
            queued: 0,
            frees: Vec::new(),
            queued_bytes: 0,
            moving: BTreeMap::new(),
            broken: false,
            gate: false,
            log_room: LogRoom::Plenty,
        };
        core.measure();
        core
    }

    /// Measures the base anew: changes only keep an upper bound.
    pub fn measure(&mut self) {
        self.base_bytes = self.state.base_bytes();
        self.hold();
    }

    fn au_size(&self) -> u64 {
        self.state.header.au_size.into()
    }

    /// Keeps the free AUs of each disk that its checkpoint areas may come to need.
    fn hold(&mut self) {
        let au_size = self.au_size();
        for (no, disk) in &self.state.disks {
            let end = au_count(disk.bytes_wanted(), au_size);
            self.space.hold(*no, self.held_of(disk, self.legs_max, end));
        }
    }

    /// AUs to be kept free on a disk of `end` AUs for its checkpoint areas.
    fn held_of(&self, disk: &DiskState, legs_max: u64, end: u32) -> u32 {
        let kept = area_kept(self.base_bytes, legs_max, self.au_size());
        // What lies behind the end has to come before it, whatever else is kept.
        let (mut missing, mut moves) = (0u32, 0);
        for runs in &disk.areas {
            let (before, all) = (aus_in(&runs_before(runs, end)), aus_in(runs));
            missing = missing.saturating_add(kept.saturating_sub(before));
            moves += all - before;
        }
        missing.min((end / HELD_PART).max(moves))
    }

    /// AUs for files on a disk if it had so many bytes.
    pub fn capacity_at(&self, no: u16, bytes: u64) -> u32 {
        let Some(disk) = self.state.disks.get(&no) else { return 0 };
        let au_size = self.au_size();
        let (now, end) = (au_count(disk.bytes, au_size), au_count(bytes, au_size));
        // Until a smaller disk ends where it should, all that it has counts.
        let legs_max = self.legs_max + u64::from(end.saturating_sub(now));
        let reserved = self.space.reserved_before(no, end);
        end.saturating_sub(reserved).saturating_sub(self.held_of(disk, legs_max, end))
    }

    /// The ticket of the newest change.
    pub fn newest_ticket(&self) -> u64 {
        self.queued
    }

    /// AUs that an area of each disk needs for what is there now, whatever is written to it.
    pub fn area_needed(&self) -> u32 {
        area_needed(self.base_bytes, self.space.legs(), self.au_size())
    }

    /// Whether the areas of every metadata disk can become large enough for a base that grows by
    /// `more` bytes.
    fn has_room_for(&self, more: u64) -> bool {
        let needed = area_needed(self.base_bytes + more, self.space.legs(), self.au_size());
        self.state.members.iter().filter_map(|no| Some((no, self.state.disks.get(no)?))).all(
            |(no, disk)| {
                let missing = disk.areas.iter().map(|runs| needed.saturating_sub(aus_in(runs)));
                missing.fold(0, u32::saturating_add) <= self.space.free_for_metadata(*no)
            },
        )
    }

    /// Applies `ops` and queues them as one: a crash keeps all of them or none.
    ///
    /// # Errors
    /// Together they do not fit a record, and nothing was done; or one does not fit the state, and
    /// [`Core::is_broken`] from now on.
    pub fn enqueue(&mut self, ops: &[Op]) -> Result<u64, ChangeError> {
        let mut w = Writer::new();
        ops.iter().for_each(|op| op.put(&mut w));
        let payload = w.into_bytes();
        if payload.len() > PAYLOAD_MAX {
            return Err(ChangeError::TooLarge { bytes: payload.len() });
        }
        let had = self.base_bytes;
        let (mut areas, mut disks) = (false, false);
        for op in ops {
            let change = self.state.base_change(op);
            self.base_bytes = self.base_bytes.saturating_add_signed(change);
            areas |= matches!(op, Op::Area { .. });
            disks |= op.changes_disks();
            if let Err(damage) = self.state.apply(op) {
                self.broken = true;
                return Err(ChangeError::Misfit(damage));
            }
        }
        if disks {
            self.legs_max = self.state.legs_max();
            self.measure();
        } else if areas || self.base_bytes != had {
            self.hold();
        }
        self.queued += 1;
        self.queued_bytes += payload.len();
        self.queue.push(Queued { payload, ticket: self.queued });
        Ok(self.queued)
    }

    /// Where a copy of that extent set is on its way to, if one is.
    pub fn moving_to(&self, file: u32, extent: u64) -> Option<Leg> {
        if self.moving.is_empty() {
            return None;
        }
        let key = (file, u32::try_from(extent).ok()?);
        self.moving.get(&key).map(|moving| moving.to)
    }

    /// Extent sets of a file from `extent` on are gone: moves of them are cancelled.
    pub fn forget_moving(&mut self, file: u32, extent: u64) {
        self.moving.retain(|(f, e), _| *f != file || u64::from(*e) < extent);
    }

    /// Whether a change was applied in part: the state is of no use any more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether another change may come now. While a checkpoint is under way, or much is queued
    /// already, it waits: what is queued when a checkpoint begins must fit the rest of the ring.
    pub fn takes_changes(&self) -> bool {
        !self.gate && self.queued_bytes < QUEUE_MAX
    }

    /// Whether the metadata has room for `op`.
    pub fn has_room_to_note(&mut self, op: &Op) -> bool {
        matches!(self.log_room, LogRoom::Plenty) && self.fits(std::slice::from_ref(op))
    }

    /// Refuses `ops` if the metadata has no room for them, and gives back the AUs they took.
    pub fn check_log_room(&mut self, group: &str, ops: &[Op]) -> Result<(), Error> {
        let fits = match self.log_room {
            LogRoom::Plenty => self.fits(ops),
            LogRoom::Shrink => !ops.iter().any(Op::grows),
            LogRoom::Nothing => ops.iter().all(|op| matches!(op, Op::Clean { .. })),
        };
        if fits {
            return Ok(());
        }
        for op in ops {
            if let Op::FileExtend { number, legs } = op {
                legs.iter().for_each(|leg| self.space.free(*leg));
                self.space.respread(*number, self.state.files.get(number));
            }
        }
        let why = "a metadata disk is full, and the metadata needs more room than it has there";
        Err(Error::NoSpace { group: group.to_owned(), wanted_mb: 0, why: why.to_owned() })
    }

    /// Whether a checkpoint of the state after `ops` will fit on every metadata disk.
    fn fits(&mut self, ops: &[Op]) -> bool {
        let more: i64 = ops.iter().map(|op| self.state.base_change(op)).sum();
        let extends = ops.iter().any(|op| matches!(op, Op::FileExtend { .. }));
        // Changes that do not make it larger are never refused, nor is what was counted when it was
        // allocated.
        if more <= 0 && !extends {
            return true;
        }
        let more = u64::try_from(more).unwrap_or(0);
        if self.has_room_for(more) {
            return true;
        }
        self.measure();
        self.has_room_for(more)
    }

    /// Frees extents once the change with `ticket` is durable.
    pub fn free_after(&mut self, ticket: u64, legs: Vec<Leg>) {
        self.frees.push((ticket, legs));
    }

    /// Takes what fits a record.
    pub fn take_batch(&mut self) -> Option<Batch> {
        let mut payload = Vec::new();
        let mut ticket = 0;
        let mut taken = 0;
        for queued in &self.queue {
            if !payload.is_empty() && payload.len() + queued.payload.len() > PAYLOAD_MAX {
                break;
            }
            payload.extend_from_slice(&queued.payload);
            ticket = queued.ticket;
            taken += 1;
        }
        self.queue.drain(..taken);
        self.queued_bytes = self.queue.iter().map(|q| q.payload.len()).sum();
        (taken > 0).then_some(Batch { payload, ticket })
    }

    /// The extents that may be given out again now that `ticket` is durable.
    pub fn take_frees(&mut self, ticket: u64) -> Vec<Leg> {
        let mut free = Vec::new();
        self.frees.retain_mut(|(at, legs)| {
            let due = *at <= ticket;
            if due {
                free.append(legs);
            }
            !due
        });
        free
    }
}
