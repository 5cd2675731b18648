//! SCRUB of a group: everything is read, once a month by default, and what is wrong is repaired.
//!
//! A requested scrub is recorded in the metadata with its position, so it resumes after a restart. It
//! reads our own structures first, then the files by number and each file by extent, so that a disk
//! reads one AU after another.

pub(crate) mod record;
mod walk;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{EnvExt, Instant};
use event_listener::Event as Notify;
use futures_util::future::select;

use crate::base::core::Core;
use crate::base::listeners::Listener;
use crate::base::{Base, StopOnPanic};
use crate::data::Data;
use crate::data::scrub::{DiskFaults, Scrubbed};
use crate::disk::lock;
use crate::error::{Error, no_such_disk};
use crate::meta::attributes::{INTERVAL_DEFAULT, INTERVAL_MIN, parse_interval};
use crate::moves::rebalance::Rebalance;
use crate::returning::Returning;
use crate::state::{GroupState, Op};
use record::{LAST, Record, STOPPED, UNDER_WAY, kept};

pub use record::{ScrubPower, ScrubScope, ScrubSpec};

/// How long a group is mounted before it is scrubbed automatically: a command that only looks at
/// something should not read everything.
const MOUNTED_MIN: Duration = Duration::from_secs(60);
/// How often the task looks whether a scrub is due.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// After one was stopped, none starts automatically for this long.
const STOPPED_FOR: Duration = Duration::from_secs(86_400);

/// What the task and everybody else tell each other.
pub(crate) struct Scrub {
    pub data: Arc<Data>,
    /// What takes precedence over it.
    moves: Arc<Rebalance>,
    returning: Arc<Returning>,
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
    /// Bytes of files that are done.
    pub bytes_done: u64,
    /// Bytes of all files that are to be read.
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
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// When it ended, in seconds since 1970.
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

impl Deref for Scrub {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.data
    }
}

impl Listener for Scrub {
    fn stopped(&self) {
        self.wake();
    }
}

impl Scrub {
    /// The scrub of a data path, which makes way for moves and for disks that return; told by it what
    /// happens.
    pub fn new(moves: &Arc<Rebalance>, returning: &Arc<Returning>) -> Arc<Scrub> {
        let scrub = Arc::new(Scrub {
            data: Arc::clone(&moves.data),
            moves: Arc::clone(moves),
            returning: Arc::clone(returning),
            wanted: Notify::new(),
            ended: Notify::new(),
            closing: AtomicBool::new(false),
            working: AtomicBool::new(false),
            turn: AtomicU64::new(0),
            now: Mutex::default(),
            result: Mutex::default(),
        });
        scrub.listeners.add(&scrub);
        scrub
    }

    pub fn wake(&self) {
        self.wanted.notify(usize::MAX);
        self.ended.notify(usize::MAX);
    }

    /// Keeps the task from working, and waits until nothing is on its way; false if somebody had
    /// closed it before.
    #[boxed]
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

fn unix_seconds(base: &Base) -> u64 {
    base.env.wall().unix_nanos / 1_000_000_000
}

/// When the next scrub is due, seconds since 1970; `None`: never. A clock that was ahead does not
/// put it off.
fn due_at(state: &GroupState, now: u64) -> Option<u64> {
    let text = state.attributes.get("scrub_interval").map_or(INTERVAL_DEFAULT, |text| text);
    let interval = parse_interval(text).filter(|interval| *interval >= INTERVAL_MIN)?;
    // A scrub that only reported faults does not replace one that repairs them.
    let last = kept(&state.attributes, LAST).filter(|r| r.spec.repair || r.found.left == 0);
    let last = last.map_or(state.header.created_ns / 1_000_000_000, |record| record.ended);
    let stopped = kept(&state.attributes, STOPPED).map_or(0, |record| record.ended);
    let after = |then: u64, time: Duration| then.min(now).saturating_add(time.as_secs());
    Some(after(last, interval).max(after(stopped, interval.min(STOPPED_FOR))))
}

/// The task, until the group is dismounted.
pub(crate) async fn run(scrub: Arc<Scrub>) {
    let _watched = StopOnPanic(&scrub);
    let mounted = scrub.env.now();
    while !scrub.is_ending() {
        let changed = scrub.wanted.listen();
        // Said before it is asked: who closes first tells, and then looks whether we work.
        scrub.working.store(true, Ordering::SeqCst);
        let mut worked = false;
        if !scrub.is_closing() {
            let settled = scrub.env.now().since(mounted) >= MOUNTED_MIN;
            // A scrub that cannot begin now is still due.
            if settled && is_due(&scrub) {
                let _ = scrub.request(ScrubSpec::default()).await;
            }
            // In this order: one that is stopped from here on is seen to be.
            let turn = scrub.turn.load(Ordering::SeqCst);
            let wanted = kept(&lock(&scrub.core).state.attributes, UNDER_WAY);
            if let Some(record) = wanted {
                worked = walk::run(&scrub, turn, record).await.is_ok();
            }
        }
        *lock(&scrub.now) = None;
        scrub.working.store(false, Ordering::SeqCst);
        scrub.ended.notify(usize::MAX);
        if !worked || scrub.is_closing() {
            select(changed, scrub.env.sleep(LOOK_EVERY)).await;
        }
    }
}

fn is_due(scrub: &Scrub) -> bool {
    let core = lock(&scrub.core);
    let none = kept(&core.state.attributes, UNDER_WAY).is_none();
    let now = unix_seconds(scrub);
    none && due_at(&core.state, now).is_some_and(|due| due <= now)
}

impl Scrub {
    /// SCRUB: wanted from here on. Survives restarts. One that is under way and wanted in the same way
    /// goes on.
    ///
    /// # Errors
    /// Another one is under way; no such file or disk; the group cannot be written.
    pub async fn request(&self, spec: ScrubSpec) -> Result<(), Error> {
        let record = Record { spec, began: unix_seconds(self), ..Record::default() };
        let change = |core: &mut Core| {
            let state = &core.state;
            match kept(&state.attributes, UNDER_WAY) {
                // What is wanted is being done.
                Some(record) if record.spec == spec => return Ok(((), Vec::new())),
                Some(_) => return Err(Error::ScrubUnderWay { group: self.name.clone() }),
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
            *lock(&self.result) = None;
            let op = Op::Attribute { name: UNDER_WAY.to_owned(), value: record.text() };
            Ok(((), vec![op]))
        };
        self.change(change).await?;
        self.wanted.notify(usize::MAX);
        Ok(())
    }

    /// SCRUB STOP: whether there was one.
    ///
    /// # Errors
    /// The group cannot be written.
    pub async fn give_up(&self) -> Result<bool, Error> {
        let stop = |core: &mut Core| {
            let Some(record) = kept(&core.state.attributes, UNDER_WAY) else {
                return Ok((None, Vec::new()));
            };
            let under_way = lock(&self.now).as_ref().map(|now| now.record.clone());
            let record = Record { ended: unix_seconds(self), ..under_way.unwrap_or(record) };
            let none = Op::Attribute { name: UNDER_WAY.to_owned(), value: String::new() };
            let mut ops = vec![none];
            // One of the whole group is not begun again by itself at once; where there is no room to
            // note that, it is.
            let note = Op::Attribute { name: STOPPED.to_owned(), value: record.text() };
            if record.spec.scope == ScrubScope::Group && core.has_room_to_note(&note) {
                ops.push(note);
            }
            // With the core held: one that is begun from here on is another.
            self.turn.fetch_add(1, Ordering::SeqCst);
            Ok((Some(record), ops))
        };
        let Some(record) = self.change(stop).await? else { return Ok(false) };
        *lock(&self.result) = Some(ScrubResult::of(&record, true));
        self.wake();
        Ok(true)
    }

    /// The scrub that is wanted, if one is, and how far it is.
    pub fn under_way(&self) -> Option<Scrubbing> {
        let kept = kept(&lock(&self.core).state.attributes, UNDER_WAY)?;
        let at = self.env.now();
        // Not held any longer: who has the core may want it.
        let now = lock(&self.now).as_ref().map(|n| (n.record.clone(), n.since, n.waits));
        let (record, since, waits) = match now {
            Some((record, since, waits)) => (record, Some(since), waits),
            None => (kept, None, None),
        };
        let rate = since.and_then(|(since, done)| {
            let (seconds, bytes) = (at.since(since).as_secs_f64(), record.done.checked_sub(done)?);
            (bytes > 0 && seconds > 0.0 && waits.is_none()).then(|| bytes as f64 / seconds)
        });
        let total = match record.total {
            0 => walk::files_from(self, record.spec.scope, (0, 0, 0)).2,
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
    pub async fn wait(&self) -> Result<Option<ScrubResult>, Error> {
        loop {
            let listener = self.ended.listen();
            self.check_running()?;
            if kept(&lock(&self.core).state.attributes, UNDER_WAY).is_none()
                && !self.working.load(Ordering::SeqCst)
            {
                return Ok(lock(&self.result).clone());
            }
            if self.read_only {
                return Err(Error::ReadOnly { group: self.name.clone() });
            }
            listener.await;
        }
    }

    /// The last scrub of the whole group that came to its end.
    pub fn last(&self) -> Option<ScrubResult> {
        let record = kept(&lock(&self.core).state.attributes, LAST)?;
        Some(ScrubResult::of(&record, false))
    }

    /// When the next scrub is due, seconds since 1970; `None`: never by itself.
    pub fn next(&self) -> Option<u64> {
        due_at(&lock(&self.core).state, unix_seconds(self))
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
