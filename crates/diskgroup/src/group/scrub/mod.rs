//! SCRUB: everything is read, once a month by itself, and what is wrong is made right.
//!
//! A scrub that is wanted is in the metadata, with the place it has come to: it goes on after a
//! restart. It goes through the files by number and through each by extent, so that a disk reads one
//! AU after another; our own structures come first.

pub(crate) mod record;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_io::{EnvExt, Instant};
use event_listener::Event as Notify;
use futures_util::future::select;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::data::file::FileRuntime;
use crate::data::relocate::{parts_of, written_runs};
use crate::data::scrub::{self as step, DiskFaults, Scrubbed};
use crate::data::write::legs_of;
use crate::disk::lock;
use crate::error::Error;
use crate::group::Group;
use crate::group::disks::no_such_disk;
use crate::group::inner::Inner;
use crate::meta;
use crate::state::{DiskStatus, GroupState, Op, Stretch};
use record::{LAST, Record, UNDER_WAY, kept};

pub use record::{ScrubPower, ScrubScope, ScrubSpec};

/// How long a group is mounted before it is scrubbed by itself: a command that looks at something is
/// not to read everything.
const MOUNTED_MIN: Duration = Duration::from_secs(60);
/// How often the task looks whether a scrub is due.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How often the place it has come to is written down.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// How often it looks whether what it waits for is over.
const WAIT_EVERY: Duration = Duration::from_millis(500);
/// The time between scrubs of a group for which none was set.
pub(crate) const INTERVAL_DEFAULT: &str = "30d";
/// For so long after somebody read or wrote, others may come.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// The longest rest between two steps.
const REST_MAX: Duration = Duration::from_secs(1);
/// Bytes of a file that are read at once: while nobody else reads, and beside others.
const STEP_ALONE: u64 = 1 << 20;
const STEP_BESIDE: u64 = 128 << 10;
/// Steps in flight for each disk while nobody else reads.
const DEPTH_PER_DISK: usize = 8;

/// What the task and everybody else tell each other.
#[derive(Default)]
pub(crate) struct Scrub {
    wanted: Notify,
    ended: Notify,
    /// The group is being dismounted.
    closing: AtomicBool,
    working: AtomicBool,
    /// Grows when a scrub is stopped.
    turn: AtomicU64,
    /// How far the one under way is.
    now: Mutex<Option<Now>>,
    /// The last one that ended or was stopped since the mount.
    result: Mutex<Option<ScrubResult>>,
    /// Errors of each disk when a scrub last found or left nothing wrong.
    cleared: Mutex<BTreeMap<u16, u64>>,
}

struct Now {
    record: Record,
    /// Since when it works without a break, and what was done then.
    since: (Instant, u64),
    /// What it waits for.
    waits: Option<&'static str>,
}

/// A scrub under way, for v$asm_operation.
#[derive(Clone, Debug)]
pub struct Scrubbing {
    /// What is wanted.
    pub spec: ScrubSpec,
    /// Bytes of files that are done, and of all that are to be looked at.
    pub bytes_done: u64,
    /// Likewise.
    pub bytes_total: u64,
    /// Bytes a second of late, if that is known.
    pub rate: Option<f64>,
    /// What was found so far.
    pub found: Scrubbed,
    /// What it waits for, if it does.
    pub waits: Option<&'static str>,
}

impl Scrubbing {
    /// How long the rest will take at the rate of now.
    pub fn left(&self) -> Option<Duration> {
        let rest = self.bytes_total.saturating_sub(self.bytes_done) as f64;
        self.rate.map(|rate| Duration::from_secs_f64(rest / rate))
    }
}

/// A scrub that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubResult {
    /// What was wanted.
    pub spec: ScrubSpec,
    /// When it began and ended, seconds since 1970.
    pub began: u64,
    /// Likewise.
    pub ended: u64,
    /// How long it worked.
    pub took: Duration,
    /// Whether it was stopped before it came to its end.
    pub stopped: bool,
    /// What it found and did.
    pub found: Scrubbed,
}

impl ScrubResult {
    fn of(record: &Record, stopped: bool) -> ScrubResult {
        let Record { spec, began, ended, took, found, .. } = record.clone();
        ScrubResult { spec, began, ended, took, stopped, found }
    }
}

impl Scrub {
    pub fn wake(&self) {
        self.wanted.notify(usize::MAX);
        self.ended.notify(usize::MAX);
    }

    /// Keeps the task from working, and waits until nothing is on its way; false if somebody had
    /// closed it before.
    pub async fn close(&self) -> bool {
        let first = !self.closing.swap(true, Ordering::SeqCst);
        self.wanted.notify(usize::MAX);
        loop {
            let listener = self.ended.listen();
            if !self.working.load(Ordering::SeqCst) {
                return first;
            }
            listener.await;
        }
    }

    pub fn open(&self) {
        self.closing.store(false, Ordering::SeqCst);
        self.wanted.notify(usize::MAX);
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }
}

fn unix_seconds(inner: &Inner) -> u64 {
    inner.env.wall().unix_nanos / 1_000_000_000
}

/// Reads a time between scrubs: 30d, 12h, or 0 for never.
pub fn parse_interval(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let at = text.len().checked_sub(1).filter(|at| text.is_char_boundary(*at))?;
    let (digits, unit) = text.split_at(at);
    let number = digits.parse::<f64>().ok().filter(|v| *v >= 0.0 && *v < 1e6)?;
    let seconds = match unit {
        "h" | "H" => 3600.0,
        "d" | "D" => 86_400.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number * seconds))
}

/// Checks a value of scrub_interval.
///
/// # Errors
/// It is no time.
pub(crate) fn check_interval(value: &str) -> Result<(), Error> {
    match parse_interval(value) {
        Some(_) => Ok(()),
        None => Err(Error::BadValue {
            what: "attribute value",
            value: value.to_owned(),
            allowed: "a number and d or h, as 30d; 0 is never".to_owned(),
        }),
    }
}

/// When the next scrub is due, seconds since 1970; `None`: never.
fn due_at(state: &GroupState) -> Option<u64> {
    let text = state.attributes.get("scrub_interval").map_or(INTERVAL_DEFAULT, |text| text);
    let interval = parse_interval(text).filter(|interval| !interval.is_zero())?;
    let last = kept(&state.attributes, LAST).map(|record| record.ended);
    let last = last.unwrap_or(state.header.created_ns / 1_000_000_000);
    Some(last.saturating_add(interval.as_secs()))
}

/// The task, until the group is dismounted.
pub(crate) async fn run(group: Group) {
    let inner = Arc::clone(&group.inner);
    let mounted = inner.env.now();
    while !inner.is_ending() {
        let changed = inner.scrub.wanted.listen();
        // Said before it is asked: who closes first tells, and then looks whether we work.
        inner.scrub.working.store(true, Ordering::SeqCst);
        let mut worked = false;
        if !inner.scrub.is_closing() {
            let settled = inner.env.now().since(mounted) >= MOUNTED_MIN;
            // One that cannot be begun now is due still.
            if settled && is_due(&inner) {
                let _ = group.scrub(ScrubSpec::default()).await;
            }
            let wanted = kept(&lock(&inner.core).state.attributes, UNDER_WAY);
            if let Some(record) = wanted {
                // What keeps it from being noted may pass: it is tried again after a while.
                worked = scrub(&inner, record).await.is_ok();
            }
        }
        *lock(&inner.scrub.now) = None;
        inner.scrub.working.store(false, Ordering::SeqCst);
        inner.scrub.ended.notify(usize::MAX);
        if !worked || inner.scrub.is_closing() {
            select(changed, inner.env.sleep(LOOK_EVERY)).await;
        }
    }
}

fn is_due(inner: &Inner) -> bool {
    let core = lock(&inner.core);
    let none = kept(&core.state.attributes, UNDER_WAY).is_none();
    none && due_at(&core.state).is_some_and(|due| due <= unix_seconds(inner))
}

/// A scrub under way, as its task has it.
struct Job<'a> {
    inner: &'a Arc<Inner>,
    turn: u64,
    saved: Instant,
    /// When the step before began, and how often files had been read or written by then.
    asked: (u64, Instant),
    worked: Instant,
}

/// Scrubs until the end, or until it is to stop.
async fn scrub(inner: &Arc<Inner>, record: Record) -> Result<(), Error> {
    let now = inner.env.now();
    let done = record.done;
    let spec = record.spec;
    let mut job = Job {
        inner,
        turn: inner.scrub.turn.load(Ordering::SeqCst),
        saved: now,
        asked: (inner.rebalance.asked_count(), Instant(0)),
        worked: now,
    };
    *lock(&inner.scrub.now) = Some(Now { record, since: (now, done), waits: None });
    // Asked of each part: who closes and opens again at once must not make a part count as done.
    if job.own_structures(spec).await? && job.files(spec).await? {
        return job.end().await;
    }
    job.save().await
}

impl Job<'_> {
    fn may_work(&self) -> bool {
        let scrub = &self.inner.scrub;
        let wanted = scrub.turn.load(Ordering::SeqCst) == self.turn;
        wanted && !scrub.is_closing() && !self.inner.is_ending()
    }

    fn tell<T>(&self, tell: impl FnOnce(&mut Record) -> T) -> Option<T> {
        lock(&self.inner.scrub.now).as_mut().map(|now| tell(&mut now.record))
    }

    /// Waits for what has to come first; false if it is to stop.
    async fn turn(&mut self, spec: ScrubSpec) -> Result<bool, Error> {
        while self.may_work() {
            let waits = if spec.force { None } else { waits_for(self.inner) };
            if let Some(now) = lock(&self.inner.scrub.now).as_mut() {
                if now.waits.is_some() && waits.is_none() {
                    now.since = (self.inner.env.now(), now.record.done);
                }
                now.waits = waits;
            }
            if waits.is_none() {
                if self.inner.env.now().since(self.saved) >= SAVE_EVERY {
                    self.save().await?;
                }
                return Ok(true);
            }
            let changed = self.inner.scrub.wanted.listen();
            select(changed, self.inner.env.sleep(WAIT_EVERY)).await;
        }
        Ok(false)
    }

    /// Labels, superblocks, logs and the rest, disk after disk.
    async fn own_structures(&mut self, spec: ScrubSpec) -> Result<bool, Error> {
        if matches!(spec.scope, ScrubScope::File(_)) || self.tell(|r| r.own_done) == Some(true) {
            return Ok(true);
        }
        for disk in self.inner.disks_in_sync() {
            if matches!(spec.scope, ScrubScope::Disk(no) if no != disk.no) {
                continue;
            }
            if !self.turn(spec).await? {
                return Ok(false);
            }
            let found = meta::scrub::disk(self.inner, &disk, spec.repair).await?;
            self.tell(|record| record.found.add(found));
        }
        self.tell(|record| record.own_done = true);
        Ok(true)
    }

    async fn files(&mut self, spec: ScrubSpec) -> Result<bool, Error> {
        let at = self.tell(|record| record.at).unwrap_or_default();
        let (files, before, total) = files_from(self.inner, spec.scope, at);
        self.tell(|record| (record.done, record.total) = (before, total));
        for (number, incarnation) in files {
            let from = if (number, incarnation) == (at.0, at.1) { at.2 } else { 0 };
            let found = {
                let core = lock(&self.inner.core);
                let file = core.state.files.get(&number);
                let file = file.filter(|f| f.incarnation == incarnation);
                file.map(|f| (self.inner.data.file(f), f.extents()))
            };
            let Some((file, extents)) = found else { continue };
            let done = self.tell(|record| record.done).unwrap_or(0);
            if !self.file(spec, &file, from..extents, done).await? {
                return Ok(false);
            }
            self.tell(|record| {
                record.at = (number, incarnation, extents);
                record.done = done + extents.saturating_sub(from) * self.inner.au_size;
            });
        }
        Ok(true)
    }

    /// Extents of a file, as many at once as the power allows; false if it is to stop before the end.
    async fn file(
        &mut self,
        spec: ScrubSpec,
        file: &Arc<FileRuntime>,
        extents: std::ops::Range<u64>,
        done: u64,
    ) -> Result<bool, Error> {
        let first = extents.start;
        let mut stopped = false;
        let mut steps = Steps::new(self.inner, file, spec.scope, extents);
        let mut running = FuturesUnordered::new();
        // Extents with steps under way: all before the first of them are done.
        let mut open: BTreeMap<u64, usize> = BTreeMap::new();
        loop {
            let beside = self.is_beside(spec.power);
            let width = if beside { 1 } else { DEPTH_PER_DISK * self.inner.disks.all().len() };
            while running.len() < width.max(1) && !stopped {
                stopped = !self.turn(spec).await?;
                let length = if beside { STEP_BESIDE } else { STEP_ALONE };
                if stopped {
                    break;
                }
                let Some((s, head)) = steps.next(length) else { break };
                *open.entry(s.extent).or_default() += 1;
                let (all, own) = (Arc::clone(self.inner), Arc::clone(file));
                // A task of its own: a repair must not be left half-way when this is given up.
                let work = async move { step::step(all, own, s, head, spec.repair).await };
                let began = self.inner.env.now();
                let task = self.inner.run("scrub", work);
                running.push(async move { (s.extent, began, task.await) });
            }
            let Some((extent, began, found)) = running.next().await else {
                return Ok(!stopped);
            };
            let found = found?;
            if let Some(left) = open.get_mut(&extent) {
                *left -= 1;
                if *left == 0 {
                    open.remove(&extent);
                }
            }
            let upto = open.keys().next().copied().unwrap_or(steps.extent());
            self.tell(|record| {
                record.found.add(found);
                record.at = (file.number, file.incarnation, upto);
                record.done = done + upto.saturating_sub(first) * self.inner.au_size;
            });
            self.rest(spec.power, beside, began).await;
        }
    }

    /// Whether somebody else reads or writes, so that this has to make way.
    fn is_beside(&mut self, power: ScrubPower) -> bool {
        let (count, now) = (self.inner.rebalance.asked_count(), self.inner.env.now());
        if count != self.asked.0 {
            self.asked = (count, now);
        }
        match power {
            ScrubPower::Max => false,
            ScrubPower::Low => true,
            ScrubPower::Auto | ScrubPower::High => {
                self.asked.1 != Instant(0) && now.since(self.asked.1) < BUSY_FOR
            }
        }
    }

    /// Leaves the disks to others for a multiple of what the step took.
    async fn rest(&self, power: ScrubPower, beside: bool, began: Instant) {
        let times = match power {
            _ if !beside => return,
            ScrubPower::Max => return,
            ScrubPower::High => 1,
            ScrubPower::Auto => 9,
            ScrubPower::Low => 19,
        };
        let rest = (self.inner.env.now().since(began) * times).min(REST_MAX);
        let changed = self.inner.scrub.wanted.listen();
        if self.may_work() {
            select(changed, self.inner.env.sleep(rest)).await;
        }
    }

    /// Writes down how far it is, unless it was stopped.
    async fn save(&mut self) -> Result<(), Error> {
        self.count_time();
        let Some(text) = self.tell(|record| record.text()) else { return Ok(()) };
        let (inner, turn) = (self.inner, self.turn);
        let save = inner.change_inside_as(|core| {
            let wanted = inner.scrub.turn.load(Ordering::SeqCst) == turn;
            let under_way = kept(&core.state.attributes, UNDER_WAY).is_some();
            let op = Op::Attribute { name: UNDER_WAY.to_owned(), value: text.clone() };
            if wanted && under_way { vec![op] } else { Vec::new() }
        });
        save.await
    }

    fn count_time(&mut self) {
        let now = self.inner.env.now();
        let more = now.since(self.worked);
        self.tell(|record| record.took += more);
        (self.worked, self.saved) = (now, now);
    }

    /// It has come to its end: what it found is kept.
    async fn end(mut self) -> Result<(), Error> {
        self.count_time();
        let ended = unix_seconds(self.inner);
        let Some(record) = self.tell(|record| {
            record.ended = ended;
            record.done = record.total;
            record.clone()
        }) else {
            return Ok(());
        };
        let (inner, turn, text) = (self.inner, self.turn, record.text());
        let over = inner.change_inside_as(|core| {
            let wanted = inner.scrub.turn.load(Ordering::SeqCst) == turn;
            if !wanted || kept(&core.state.attributes, UNDER_WAY).is_none() {
                return Vec::new();
            }
            let none = Op::Attribute { name: UNDER_WAY.to_owned(), value: String::new() };
            let last = Op::Attribute { name: LAST.to_owned(), value: text.clone() };
            match record.spec.scope {
                ScrubScope::Group => vec![none, last],
                _ => vec![none],
            }
        });
        over.await?;
        if record.spec.scope == ScrubScope::Group && record.found.left == 0 {
            *lock(&inner.scrub.cleared) = errors_by_disk(inner);
        }
        *lock(&inner.scrub.result) = Some(ScrubResult::of(&record, false));
        Ok(())
    }
}

/// What keeps a scrub from working, in words.
fn waits_for(inner: &Inner) -> Option<&'static str> {
    if inner.data.regions.pieces_to_sync() > 0 {
        return Some("resync");
    }
    let core = lock(&inner.core);
    let returning = core.state.disks.values().any(|d| d.status == DiskStatus::Returning);
    let moving = core.state.rebalance.is_some_and(|power| power > 0);
    match (returning, moving && !inner.rebalance.is_stuck()) {
        (true, _) => Some("disks that return"),
        (_, true) => Some("rebalance"),
        _ => None,
    }
}

/// Files from a place on, in order; bytes of those before it, and of all.
type Files = (Vec<(u32, u32)>, u64, u64);

fn files_from(inner: &Inner, scope: ScrubScope, at: (u32, u32, u64)) -> Files {
    let core = lock(&inner.core);
    let wanted = |number: u32| !matches!(scope, ScrubScope::File(one) if one != number);
    let files = core.state.files.values().filter(|f| wanted(f.number));
    let (mut rest, mut before, mut total) = (Vec::new(), 0, 0);
    for file in files {
        let bytes = file.allocated(inner.au_size);
        total += bytes;
        match (file.number, file.incarnation).cmp(&(at.0, at.1)) {
            std::cmp::Ordering::Less => {
                before += bytes;
                continue;
            }
            std::cmp::Ordering::Equal => before += (at.2 * inner.au_size).min(bytes),
            std::cmp::Ordering::Greater => {}
        }
        rest.push((file.number, file.incarnation));
    }
    (rest, before, total)
}

/// The steps of a file, extent by extent.
struct Steps<'a> {
    inner: &'a Arc<Inner>,
    file: &'a Arc<FileRuntime>,
    scope: ScrubScope,
    extents: std::ops::Range<u64>,
    /// What is left of the extent that was begun: parts, and runs of a part that hold data.
    parts: std::vec::IntoIter<Stretch>,
    runs: std::vec::IntoIter<Stretch>,
    /// Whether the next step is the first of its extent.
    head: bool,
}

impl<'a> Steps<'a> {
    fn new(
        inner: &'a Arc<Inner>,
        file: &'a Arc<FileRuntime>,
        scope: ScrubScope,
        extents: std::ops::Range<u64>,
    ) -> Steps<'a> {
        let (parts, runs) = (Vec::new().into_iter(), Vec::new().into_iter());
        Steps { inner, file, scope, extents, parts, runs, head: false }
    }

    /// All before it was given out.
    fn extent(&self) -> u64 {
        let rest = self.runs.as_slice().first().or(self.parts.as_slice().first());
        rest.map_or(self.extents.start, |part| part.extent)
    }

    /// The next stretch that holds data, of at most so many bytes if a new extent is begun; and
    /// whether it is the first of its extent.
    fn next(&mut self, length: u64) -> Option<(Stretch, bool)> {
        loop {
            if let Some(run) = self.runs.next() {
                return Some((run, std::mem::take(&mut self.head)));
            }
            if let Some(part) = self.parts.next() {
                self.runs = written_runs(self.inner, self.file, &part).into_iter();
                continue;
            }
            let extent = self.extents.next()?;
            let striping = self.file.attributes.striping;
            let parts: Vec<Stretch> =
                parts_of(striping, self.inner.au_size, extent, length).collect();
            let here = |s: &Stretch| match self.scope {
                ScrubScope::Disk(no) => legs_of(self.inner, self.file, s)
                    .is_ok_and(|legs| legs.iter().any(|leg| leg.disk == no)),
                _ => true,
            };
            if parts.first().is_some_and(here) {
                (self.parts, self.head) = (parts.into_iter(), true);
            }
        }
    }
}

fn errors_by_disk(inner: &Inner) -> BTreeMap<u16, u64> {
    inner.disks.all().iter().map(|(no, disk)| (*no, disk.errors())).collect()
}

impl Group {
    /// SCRUB: wanted from here on. Survives restarts. One that is under way and wanted in the same way
    /// goes on.
    ///
    /// # Errors
    /// Another one is under way; no such file or disk; the group cannot be written.
    pub async fn scrub(&self, spec: ScrubSpec) -> Result<(), Error> {
        let inner = &self.inner;
        let record = Record { spec, began: unix_seconds(inner), ..Record::default() };
        let wish = |core: &mut crate::group::inner::Core| {
            let state = &core.state;
            match kept(&state.attributes, UNDER_WAY) {
                // What is wanted is being done.
                Some(record) if record.spec == spec => return Ok(((), Vec::new())),
                Some(_) => return Err(Error::ScrubUnderWay { group: inner.name.clone() }),
                None => {}
            }
            match spec.scope {
                ScrubScope::File(number) if !state.files.contains_key(&number) => {
                    return Err(Error::NoSuchFile { name: number.to_string() });
                }
                ScrubScope::Disk(number) if !state.disks.contains_key(&number) => {
                    return Err(no_such_disk(&number.to_string()));
                }
                _ => {}
            }
            *lock(&inner.scrub.result) = None;
            let op = Op::Attribute { name: UNDER_WAY.to_owned(), value: record.text() };
            Ok(((), vec![op]))
        };
        inner.change(wish).await?;
        inner.scrub.wanted.notify(usize::MAX);
        Ok(())
    }

    /// SCRUB STOP: whether there was one.
    ///
    /// # Errors
    /// The group cannot be written.
    pub async fn stop_scrub(&self) -> Result<bool, Error> {
        let inner = &self.inner;
        let stop = |core: &mut crate::group::inner::Core| {
            let Some(record) = kept(&core.state.attributes, UNDER_WAY) else {
                return Ok((false, Vec::new()));
            };
            inner.scrub.turn.fetch_add(1, Ordering::SeqCst);
            let now = lock(&inner.scrub.now).as_ref().map(|now| now.record.clone());
            let ended = unix_seconds(inner);
            let record = Record { ended, ..now.unwrap_or(record) };
            *lock(&inner.scrub.result) = Some(ScrubResult::of(&record, true));
            let op = Op::Attribute { name: UNDER_WAY.to_owned(), value: String::new() };
            Ok((true, vec![op]))
        };
        let stopped = inner.change(stop).await?;
        inner.scrub.wake();
        Ok(stopped)
    }

    /// The scrub that is wanted, if one is, and how far it is.
    pub fn scrubbing(&self) -> Option<Scrubbing> {
        let inner = &self.inner;
        let kept = kept(&lock(&inner.core).state.attributes, UNDER_WAY)?;
        let at = inner.env.now();
        let now = lock(&inner.scrub.now);
        let (record, since, waits) = match now.as_ref() {
            Some(now) => (now.record.clone(), Some(now.since), now.waits),
            None => (kept, None, None),
        };
        let rate = since.and_then(|(since, done)| {
            let (seconds, bytes) = (at.since(since).as_secs_f64(), record.done.checked_sub(done)?);
            (bytes > 0 && seconds > 0.0 && waits.is_none()).then(|| bytes as f64 / seconds)
        });
        let total = match record.total {
            0 => files_from(inner, record.spec.scope, (0, 0, 0)).2,
            total => total,
        };
        Some(Scrubbing {
            spec: record.spec,
            bytes_done: record.done.min(total),
            bytes_total: total,
            rate,
            found: record.found,
            waits,
        })
    }

    /// Waits until no scrub is wanted; the one that ended last since the mount, if any did.
    ///
    /// # Errors
    /// The group has stopped.
    pub async fn wait_scrubbed(&self) -> Result<Option<ScrubResult>, Error> {
        let inner = &self.inner;
        loop {
            let listener = inner.scrub.ended.listen();
            inner.check_running()?;
            if kept(&lock(&inner.core).state.attributes, UNDER_WAY).is_none()
                && !inner.scrub.working.load(Ordering::SeqCst)
            {
                return Ok(lock(&inner.scrub.result).clone());
            }
            if inner.read_only {
                return Err(Error::ReadOnly { group: inner.name.clone() });
            }
            listener.await;
        }
    }

    /// The last scrub of the whole group that came to its end.
    pub fn last_scrub(&self) -> Option<ScrubResult> {
        let record = kept(&lock(&self.inner.core).state.attributes, LAST)?;
        Some(ScrubResult::of(&record, false))
    }

    /// When the next scrub is due, seconds since 1970; `None`: never by itself.
    pub fn next_scrub(&self) -> Option<u64> {
        due_at(&lock(&self.inner.core).state)
    }

    /// Wrong checksums, differing copies and failed requests of a disk since the last scrub that
    /// found or left nothing wrong, and at the earliest since the mount.
    pub fn errors_since_scrub(&self, disk: u16) -> u64 {
        let cleared = lock(&self.inner.scrub.cleared).get(&disk).copied().unwrap_or(0);
        self.inner.disk(disk).map_or(0, |disk| disk.errors().saturating_sub(cleared))
    }
}

/// Names of what was wrong on a disk, with how often.
pub fn fault_words(faults: DiskFaults) -> Vec<(u64, &'static str)> {
    let DiskFaults { checksum, unreadable, differs, own } = faults;
    let all = [
        (checksum, "wrong checksums"),
        (unreadable, "unreadable"),
        (differs, "differing"),
        (own, "blocks of metadata"),
    ];
    all.into_iter().filter(|(count, _)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_days_or_hours() {
        assert_eq!(parse_interval("30d"), Some(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_interval("12H"), Some(Duration::from_secs(12 * 3600)));
        assert_eq!(parse_interval("0"), Some(Duration::ZERO));
        for wrong in ["", "d", "30", "-1d", "1e9d", "3s", "ä"] {
            assert_eq!(parse_interval(wrong), None, "{wrong}");
        }
    }
}
