//! A scrub at work: our own structures first, then the files by number and each by extent.
//!
//! Some lanes work side by side, each on an extent of its own, the next ones in order: so all disks
//! have something to do, also where files are small, and a disk reads one AU after another. Beside
//! others only so many lanes go on as there are disjoint pairs (or triples) of disks, one small step
//! at a time, and rest in between.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_io::{EnvExt, Instant};
use futures_util::future::{join_all, select};

use super::record::{LAST, Record, UNDER_WAY, kept};
use super::{Now, ScrubPower, ScrubResult, ScrubScope, ScrubSpec, unix_seconds};
use crate::base::Base;
use crate::data::file::FileRuntime;
use crate::data::relocate::{parts_of, written_runs};
use crate::data::scrub as data;
use crate::data::write::legs_of;
use crate::disk::lock;
use crate::error::Error;
use crate::meta;
use crate::on_disk::layout::{FINE_WIDTH, REGION_BYTES};
use crate::scrub::Scrub;
use crate::state::{DiskStatus, Op, Stretch, Striping};

/// How often its position is recorded.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// How often it looks whether what it waits for is over.
const WAIT_EVERY: Duration = Duration::from_millis(500);
/// For this long after somebody read or wrote, more requests are expected.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// The longest rest between two steps.
const REST_MAX: Duration = Duration::from_secs(10);
/// Bytes of a file that are read at once: while nobody else reads, and beside others.
const STEP_ALONE: u64 = 1 << 20;
const STEP_BESIDE: u64 = 128 << 10;
/// Lanes for each disk, and steps of a lane at once, while nobody else reads.
const LANES_PER_DISK: usize = 2;
const STEPS_PER_LANE: usize = 2;
/// Extents without data that are passed over before others have their turn.
const SKIPPED_MAX: u32 = 256;

/// A scrub under way, as its task has it.
struct Job<'a> {
    scrub: &'a Arc<Scrub>,
    turn: u64,
    spec: ScrubSpec,
    clock: Mutex<Clock>,
    walk: Mutex<Walk>,
}

/// What happened when.
struct Clock {
    saved: Instant,
    /// Until when the time it worked is counted.
    worked: Instant,
    /// When it was last asked whether something has to come first.
    looked: Option<Instant>,
    /// How often files had been read or written, and when that was last seen to grow.
    asked: (u64, Option<Instant>),
}

/// Where it is.
#[derive(Default)]
struct Walk {
    files: VecDeque<(u32, u32)>,
    /// Where the first of them is begun.
    from: u64,
    current: Option<(Arc<FileRuntime>, Range<u64>)>,
    /// Whether the one under way was not known before.
    new: bool,
    /// Extents under way, and bytes of files before each, in order: all before the first are done.
    open: BTreeMap<u64, (Place, u64)>,
    next: u64,
    done: u64,
}

/// A file, its incarnation, and an extent of it.
type Place = (u32, u32, u64);

/// An extent that a lane is at.
struct Extent {
    number: u64,
    file: Arc<FileRuntime>,
    extent: u64,
    /// Nobody had used the file before.
    new: bool,
}

/// Scrubs until the end, or until it is to stop.
pub(super) async fn run(scrub: &Arc<Scrub>, turn: u64, record: Record) -> Result<(), Error> {
    let now = scrub.env.now();
    let (done, spec) = (record.done, record.spec);
    let clock =
        Clock { saved: now, worked: now, looked: None, asked: (scrub.data.asked_count(), None) };
    let walk = Mutex::new(Walk::default());
    let job = Job { scrub, turn, spec, clock: Mutex::new(clock), walk };
    *lock(&scrub.now) = Some(Now { record, since: (now, done), waits: None });
    // Checked for each part: a close and reopen in quick succession must not make a part count as
    // done.
    if job.own_structures().await? && job.files().await? {
        return job.end().await;
    }
    job.save().await
}

impl Job<'_> {
    fn may_work(&self) -> bool {
        let scrub = self.scrub;
        let wanted = scrub.turn.load(Ordering::SeqCst) == self.turn;
        wanted && !scrub.is_closing() && !self.scrub.is_ending()
    }

    fn tell<T>(&self, tell: impl FnOnce(&mut Record) -> T) -> Option<T> {
        lock(&self.scrub.now).as_mut().map(|now| tell(&mut now.record))
    }

    /// Waits for what has to come first; false if it is to stop.
    async fn turn(&self) -> Result<bool, Error> {
        while self.may_work() {
            let now = self.scrub.env.now();
            let (looked, saved) = {
                let clock = lock(&self.clock);
                (clock.looked.is_some_and(|at| now.since(at) < WAIT_EVERY), clock.saved)
            };
            if looked {
                return Ok(true);
            }
            let waits = if self.spec.force { None } else { waits_for(self.scrub) };
            if let Some(now) = lock(&self.scrub.now).as_mut() {
                if now.waits.is_some() && waits.is_none() {
                    now.since = (self.scrub.env.now(), now.record.done);
                }
                now.waits = waits;
            }
            if waits.is_none() {
                lock(&self.clock).looked = Some(now);
                if now.since(saved) >= SAVE_EVERY {
                    self.save().await?;
                }
                return Ok(true);
            }
            let changed = self.scrub.wanted.listen();
            select(changed, self.scrub.env.sleep(WAIT_EVERY)).await;
        }
        Ok(false)
    }

    /// Labels, superblocks, logs and the rest, disk after disk; false if it is to stop.
    async fn own_structures(&self) -> Result<bool, Error> {
        if matches!(self.spec.scope, ScrubScope::File(_)) {
            return Ok(true);
        }
        if self.tell(|record| record.own_done) == Some(true) {
            return Ok(true);
        }
        for disk in self.scrub.disks_in_sync() {
            if matches!(self.spec.scope, ScrubScope::Disk(no) if no != disk.no) {
                continue;
            }
            if !self.turn().await? {
                return Ok(false);
            }
            let found = meta::scrub::disk(&self.scrub.data, &disk, self.spec.repair).await?;
            self.tell(|record| record.found.add(found));
        }
        self.tell(|record| record.own_done = true);
        Ok(true)
    }

    /// All files; false if it is to stop before the end.
    async fn files(&self) -> Result<bool, Error> {
        let at = self.tell(|record| record.at).unwrap_or_default();
        let (files, before, total) = files_from(self.scrub, self.spec.scope, at);
        self.tell(|record| (record.done, record.total) = (before, total));
        {
            let mut walk = lock(&self.walk);
            let same = files.first().is_some_and(|first| *first == (at.0, at.1));
            walk.from = if same { at.2 } else { 0 };
            walk.done = before;
            walk.files = files.into();
        }
        let disks = self.scrub.disks.all().len();
        let lanes = (0..(disks * LANES_PER_DISK).max(1)).map(|lane| self.lane(lane));
        let mut whole = true;
        // All of them to their end: what one has begun may still write.
        for ended in join_all(lanes).await {
            whole &= ended?;
        }
        Ok(whole)
    }

    /// One extent after another; false if it is to stop before the end.
    async fn lane(&self, lane: usize) -> Result<bool, Error> {
        let copies = usize::from(lock(&self.scrub.core).state.header.redundancy.copies());
        let beside_max = (self.scrub.disks.all().len() / copies.max(1)).max(1);
        loop {
            // Where there is nothing left, it ends as the others do.
            let rests = || self.is_beside() && self.may_work() && !lock(&self.walk).is_over();
            while lane >= beside_max && rests() {
                let changed = self.scrub.wanted.listen();
                select(changed, self.scrub.env.sleep(WAIT_EVERY)).await;
            }
            if !self.turn().await? {
                return Ok(false);
            }
            let Some(extent) = self.next_extent().await else { return Ok(self.may_work()) };
            if !self.extent(&extent).await? {
                return Ok(false);
            }
            let (at, done) = lock(&self.walk).ended(extent.number);
            self.tell(|record| (record.at, record.done) = (at, done));
            let (file, new) = (extent.file.number, extent.new);
            drop(extent);
            if new {
                // The last lane at it lets go of it.
                self.scrub.data.forget_idle(file);
            }
        }
    }

    /// The next extent that holds data; `None` at the end, or if it is to stop.
    async fn next_extent(&self) -> Option<Extent> {
        let mut skipped = 0;
        while self.may_work() {
            match lock(&self.walk).step(self.scrub, self.spec.scope) {
                Step::Work(extent) => return Some(extent),
                Step::End => return None,
                Step::Skipped => skipped += 1,
            }
            if skipped % SKIPPED_MAX == 0 {
                self.scrub.env.sleep(Duration::from_micros(1)).await;
            }
        }
        None
    }

    /// All of an extent; false if it is to stop before the end.
    async fn extent(&self, extent: &Extent) -> Result<bool, Error> {
        let (file, au_size) = (&extent.file, self.scrub.au_size);
        let mut parts: VecDeque<Stretch> =
            parts_of(file.attributes.striping, au_size, extent.extent, STEP_BESIDE).collect();
        let mut head = true;
        while !parts.is_empty() {
            if !self.turn().await? {
                return Ok(false);
            }
            let (beside, began) = (self.is_beside(), self.scrub.env.now());
            let (most, count) = if beside { (0, 1) } else { (STEP_ALONE, STEPS_PER_LANE) };
            let mut runs = Vec::new();
            for _ in 0..count {
                let Some(part) = next_part(&mut parts, most) else { break };
                runs.extend(written_runs(&self.scrub.data, file, &part));
            }
            if runs.is_empty() {
                continue;
            }
            let steps = runs.into_iter().map(|s| {
                let (all, own, repair) =
                    (Arc::clone(&self.scrub.data), Arc::clone(file), self.spec.repair);
                let head = std::mem::take(&mut head);
                // A task of its own: a repair must not be left half-way when this is given up.
                let work = async move { data::step(all, own, s, head, repair).await };
                self.scrub.run("scrub", work)
            });
            for found in join_all(steps).await {
                let found = found?;
                self.tell(|record| record.found.add(found));
            }
            self.rest(beside, began).await;
        }
        Ok(true)
    }

    /// Whether somebody else reads or writes, so that this must yield.
    fn is_beside(&self) -> bool {
        let (count, now) = (self.scrub.data.asked_count(), self.scrub.env.now());
        let mut clock = lock(&self.clock);
        if count != clock.asked.0 {
            clock.asked = (count, Some(now));
        }
        match self.spec.power {
            ScrubPower::Max => false,
            ScrubPower::Low => true,
            ScrubPower::Auto | ScrubPower::High => {
                clock.asked.1.is_some_and(|at| now.since(at) < BUSY_FOR)
            }
        }
    }

    /// Leaves the disks to others for a multiple of what the step took.
    async fn rest(&self, beside: bool, began: Instant) {
        let times = match self.spec.power {
            _ if !beside => return,
            ScrubPower::Max => return,
            ScrubPower::High => 1,
            ScrubPower::Auto => 9,
            ScrubPower::Low => 19,
        };
        let rest = (self.scrub.env.now().since(began) * times).min(REST_MAX);
        let changed = self.scrub.wanted.listen();
        if self.may_work() {
            select(changed, self.scrub.env.sleep(rest)).await;
        }
    }

    /// Records its position, unless it was stopped. If there is no room for that, the next scrub
    /// continues from the position recorded before.
    async fn save(&self) -> Result<(), Error> {
        self.count_time();
        let Some(text) = self.tell(|record| record.text()) else { return Ok(()) };
        let (scrub, turn) = (self.scrub, self.turn);
        let save = scrub.change_inside_as(|core| {
            let wanted = scrub.turn.load(Ordering::SeqCst) == turn;
            let under_way = kept(&core.state.attributes, UNDER_WAY).is_some();
            let op = Op::Attribute { name: UNDER_WAY.to_owned(), value: text.clone() };
            if wanted && under_way { vec![op] } else { Vec::new() }
        });
        match save.await {
            Err(Error::NoSpace { .. }) => Ok(()),
            other => other,
        }
    }

    fn count_time(&self) {
        let now = self.scrub.env.now();
        let more = {
            let mut clock = lock(&self.clock);
            let more = now.since(clock.worked);
            (clock.worked, clock.saved) = (now, now);
            more
        };
        self.tell(|record| record.took += more);
    }

    /// It has come to its end: what it found is kept.
    async fn end(self) -> Result<(), Error> {
        self.count_time();
        let scrub = self.scrub;
        let ended = unix_seconds(scrub);
        let Some(record) = self.tell(|record| {
            (record.ended, record.done) = (ended, record.total);
            record.clone()
        }) else {
            return Ok(());
        };
        let text = record.text();
        let wanted = Mutex::new(false);
        let over = || {
            scrub.change_inside_as(|core| {
                let same = scrub.turn.load(Ordering::SeqCst) == self.turn;
                let is_wanted = same && kept(&core.state.attributes, UNDER_WAY).is_some();
                *lock(&wanted) = is_wanted;
                if !is_wanted {
                    return Vec::new();
                }
                let none = Op::Attribute { name: UNDER_WAY.to_owned(), value: String::new() };
                let last = Op::Attribute { name: LAST.to_owned(), value: text.clone() };
                match record.spec.scope {
                    ScrubScope::Group => vec![none, last],
                    _ => vec![none],
                }
            })
        };
        let mut noted = over().await;
        while matches!(noted, Err(Error::NoSpace { .. })) && self.may_work() {
            // A full group: there may be room soon.
            select(scrub.wanted.listen(), scrub.env.sleep(SAVE_EVERY)).await;
            noted = over().await;
        }
        match noted {
            Err(Error::NoSpace { .. }) => return Ok(()),
            other => other?,
        }
        if !*lock(&wanted) {
            return Ok(());
        }
        if record.spec.scope == ScrubScope::Group && record.found.left == 0 {
            scrub.disks.all().values().for_each(|disk| disk.clear_errors());
        }
        *lock(&scrub.result) = Some(ScrubResult::of(&record, false));
        Ok(())
    }
}

/// The next part of an extent: as many neighbours as one read of `most` bytes has room for.
fn next_part(parts: &mut VecDeque<Stretch>, most: u64) -> Option<Stretch> {
    let mut part = parts.pop_front()?;
    while let Some(next) = parts.front()
        && next.offset == part.offset + part.length
        && next.au_offset == part.au_offset + part.length
        && part.length + next.length <= most
    {
        part.length += next.length;
        parts.pop_front();
    }
    Some(part)
}

/// What keeps a scrub from working, in words.
fn waits_for(scrub: &Scrub) -> Option<&'static str> {
    if scrub.data.regions.pieces_to_sync() > 0 {
        return Some("resync");
    }
    let core = lock(&scrub.core);
    let returning = |(no, d): (&u16, &crate::state::DiskState)| {
        d.status == DiskStatus::Returning && !scrub.returning.is_stuck(*no)
    };
    let returning = core.state.disks.iter().any(returning);
    let moving = core.state.rebalance.is_some_and(|power| power > 0);
    match (returning, moving && !scrub.moves.is_stuck()) {
        (true, _) => Some("disks that return"),
        (_, true) => Some("rebalance"),
        _ => None,
    }
}

/// Files from a place on, in order; bytes of those before it, and of all.
type Files = (Vec<(u32, u32)>, u64, u64);

pub(super) fn files_from(base: &Base, scope: ScrubScope, at: Place) -> Files {
    let core = lock(&base.core);
    let wanted = |number: u32| !matches!(scope, ScrubScope::File(one) if one != number);
    let files = core.state.files.values().filter(|f| wanted(f.number));
    let (mut rest, mut before, mut total) = (Vec::new(), 0, 0);
    for file in files {
        let bytes = file.allocated(base.au_size);
        total += bytes;
        match (file.number, file.incarnation).cmp(&(at.0, at.1)) {
            std::cmp::Ordering::Less => {
                before += bytes;
                continue;
            }
            std::cmp::Ordering::Equal => before += at.2.saturating_mul(base.au_size).min(bytes),
            std::cmp::Ordering::Greater => {}
        }
        rest.push((file.number, file.incarnation));
    }
    (rest, before, total)
}

enum Step {
    Work(Extent),
    /// Nothing to do at the place that was next.
    Skipped,
    End,
}

impl Walk {
    /// Gives out the extent that comes next.
    fn step(&mut self, scrub: &Scrub, scope: ScrubScope) -> Step {
        let Some((file, extents)) = &mut self.current else {
            return self.next_file(scrub);
        };
        let Some(extent) = extents.next() else {
            if let Some((file, _)) = self.current.take().filter(|_| self.new) {
                // Lanes that are at it still have it.
                let number = file.number;
                drop(file);
                scrub.data.forget_idle(number);
            }
            return Step::Skipped;
        };
        let place = (file.number, file.incarnation, extent);
        let before = self.done;
        self.done += scrub.au_size;
        if !has_data(scrub, file, extent) || !is_in(scrub, file, scope, extent) {
            return Step::Skipped;
        }
        let (number, file) = (self.next, Arc::clone(file));
        self.next += 1;
        self.open.insert(number, (place, before));
        Step::Work(Extent { number, file, extent, new: self.new })
    }

    /// Whether everything was given out.
    fn is_over(&self) -> bool {
        self.files.is_empty() && self.current.is_none()
    }

    fn next_file(&mut self, scrub: &Scrub) -> Step {
        let Some((number, incarnation)) = self.files.pop_front() else { return Step::End };
        let from = std::mem::take(&mut self.from);
        self.new = !scrub.data.knows(number);
        let core = lock(&scrub.core);
        let file = core.state.files.get(&number).filter(|f| f.incarnation == incarnation);
        if let Some(file) = file {
            let extents = from.min(file.extents())..file.extents();
            self.current = Some((scrub.data.file(file), extents));
        }
        Step::Skipped
    }

    /// An extent is done; where everything before is, and how many bytes of files that are.
    fn ended(&mut self, number: u64) -> (Place, u64) {
        let (place, before) = self.open.remove(&number).expect("it was given out");
        match (self.open.values().next(), &self.current) {
            (Some((first, before)), _) => (*first, *before),
            (None, Some((file, extents))) => {
                ((file.number, file.incarnation, extents.start), self.done)
            }
            (None, None) => ((place.0, place.1, place.2 + 1), before.max(self.done)),
        }
    }
}

/// Whether any piece of an extent, or of its stripe, was ever written.
fn has_data(scrub: &Scrub, file: &FileRuntime, extent: u64) -> bool {
    let bytes = match file.attributes.striping {
        Striping::Coarse => extent * scrub.au_size..(extent + 1) * scrub.au_size,
        Striping::Fine => {
            let stripe = scrub.au_size * FINE_WIDTH;
            let first = extent / FINE_WIDTH * stripe;
            first..first + stripe
        }
    };
    let mut regions = bytes.start / REGION_BYTES..bytes.end.div_ceil(REGION_BYTES);
    let core = lock(&scrub.core);
    let state = core.state.files.get(&file.number);
    let state = state.filter(|f| f.incarnation == file.incarnation);
    let durable = state.is_some_and(|f| regions.clone().any(|region| f.pieces_of(region) != 0));
    durable || regions.any(|region| file.fresh_of(region as u32) != 0)
}

fn is_in(scrub: &Scrub, file: &FileRuntime, scope: ScrubScope, extent: u64) -> bool {
    let ScrubScope::Disk(no) = scope else { return true };
    let first = parts_of(file.attributes.striping, scrub.au_size, extent, STEP_BESIDE).next();
    let legs = first.and_then(|s| legs_of(&scrub.data, file, &s).ok()).unwrap_or_default();
    legs.iter().any(|leg| leg.disk == no)
}
