//! Progress of disks on their way back online, and the reasons that keep a disk from returning.

mod catch_up;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{EnvExt, Instant};
use event_listener::Event as Notify;
use futures_util::future::select;

use crate::base::listeners::Listener;
use crate::data::Data;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::moves::rebalance::Rebalance;
use crate::on_disk::layout::PIECE_BYTES;
use crate::state::DiskStatus;

/// The default power of a resync: redundancy is worth more than a little latency, and it still
/// yields to those who wait.
pub const RESYNC_POWER_DEFAULT: u32 = 8;

/// How often a stalled resync is retried.
const TRY_EVERY: Duration = Duration::from_secs(10);

/// Disks on their way back.
pub(crate) struct Returning {
    pub data: Arc<Data>,
    /// Beside which it copies.
    moves: Arc<Rebalance>,
    /// A disk left, or the group ends.
    pub(super) wanted: Notify,
    /// A disk came back, or does not.
    pub(super) ended: Notify,
    /// The group is being dismounted: nothing is begun, and what is under way stops.
    closing: AtomicBool,
    /// Returns under way.
    working: AtomicUsize,
    /// How far each is, by the number of the disk; one that has failed stays until the next try.
    progress: Mutex<BTreeMap<u16, Progress>>,
    /// Disks that are away and are about to come back by themselves.
    coming: Mutex<BTreeSet<u16>>,
    /// Why the disks that were tried did not come back.
    refused: Mutex<BTreeMap<u16, Error>>,
}

struct Progress {
    began: Instant,
    power: u32,
    total: u64,
    done: u64,
    error: Option<Error>,
}

/// A disk on its way back, for v$asm_operation and status.
#[derive(Clone, Debug)]
pub struct DiskReturn {
    /// Its number.
    pub disk: u16,
    /// Its name.
    pub name: String,
    /// The power.
    pub power: u32,
    /// Bytes that it missed when this began, and what of that it has again.
    pub bytes_total: u64,
    /// What of that it has again.
    pub bytes_done: u64,
    /// How long the rest will take.
    pub left: Option<Duration>,
    /// How long it has been under way.
    pub since: Duration,
    /// Whether it has begun: of one that is about to, nothing is copied yet.
    pub begun: bool,
    /// Why it does not go on, if it does not.
    pub error: Option<String>,
}

impl DiskReturn {
    /// RUN; WAIT before it has begun; ERRS when it is stalled.
    pub fn state(&self) -> &'static str {
        match (&self.error, self.begun) {
            (Some(_), _) => "ERRS",
            (None, true) => "RUN",
            (None, false) => "WAIT",
        }
    }

    /// Bytes a second, of what is in sync again.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.since.as_secs_f64();
        (self.bytes_done > 0 && seconds > 0.0).then(|| self.bytes_done as f64 / seconds)
    }
}

impl Deref for Returning {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.data
    }
}

impl Listener for Returning {
    fn stopped(&self) {
        self.wake();
    }

    fn left(&self, disks: &[u16]) {
        disks.iter().for_each(|disk| self.came(*disk, None));
        self.wake();
    }
}

impl Returning {
    /// The disks that return to a data path; told by it what happens.
    pub fn new(moves: &Arc<Rebalance>) -> Arc<Returning> {
        let returning = Arc::new(Returning {
            data: Arc::clone(&moves.data),
            moves: Arc::clone(moves),
            wanted: Notify::new(),
            ended: Notify::new(),
            closing: AtomicBool::new(false),
            working: AtomicUsize::new(0),
            progress: Mutex::default(),
            coming: Mutex::default(),
            refused: Mutex::default(),
        });
        returning.listeners.add(&returning);
        returning
    }

    pub fn wake(&self) {
        self.wanted.notify(usize::MAX);
        self.ended.notify(usize::MAX);
    }

    /// Told when a disk leaves, and when the group ends.
    pub fn changed(&self) -> event_listener::EventListener {
        self.wanted.listen()
    }

    /// Whether a resync may go on.
    pub fn may_work(&self) -> bool {
        !self.closing.load(Ordering::SeqCst)
    }

    /// Ends what is under way; false if somebody had done so before.
    #[boxed]
    pub async fn close(&self) -> bool {
        let first = !self.closing.swap(true, Ordering::SeqCst);
        self.wake();
        loop {
            let listener = self.ended.listen();
            if self.working.load(Ordering::SeqCst) == 0 {
                return first;
            }
            listener.await;
        }
    }

    pub fn open(&self) {
        self.closing.store(false, Ordering::SeqCst);
        self.wake();
    }

    /// A return may begin; it has ended when what this gives back is dropped.
    pub fn begin_return(&self) -> Option<Working<'_>> {
        self.working.fetch_add(1, Ordering::SeqCst);
        let working = Working(self);
        // Said before it is asked: who closes first tells, and then looks whether anybody works.
        self.may_work().then_some(working)
    }

    /// So many pieces more are in sync again.
    pub fn tell(&self, disk: u16, pieces: u64) {
        if let Some(progress) = lock(&self.progress).get_mut(&disk) {
            progress.done += pieces;
        }
    }

    /// Whether a return does not go on.
    pub fn is_stuck(&self, disk: u16) -> bool {
        lock(&self.progress).get(&disk).is_some_and(|p| p.error.is_some())
    }

    /// What a disk missed begins to be copied to it.
    pub fn start(&self, disk: u16, began: Instant, power: u32, total: u64) {
        let progress = Progress { began, power, total, done: 0, error: None };
        lock(&self.progress).insert(disk, progress);
    }

    /// How a try to copy it ended.
    pub fn tried(&self, disk: u16, result: Result<bool, Error>) {
        if let Some(progress) = lock(&self.progress).get_mut(&disk) {
            progress.error = result.err();
        }
    }

    /// Nothing is copied to it any more.
    pub fn forget(&self, disk: u16) {
        lock(&self.progress).remove(&disk);
    }

    /// These are about to come back by themselves.
    pub fn expect(&self, disks: impl Iterator<Item = u16>) {
        lock(&self.coming).extend(disks);
    }

    /// A disk is not about to come back any more.
    pub fn unexpect(&self, disk: u16) {
        lock(&self.coming).remove(&disk);
        self.ended.notify(usize::MAX);
    }

    /// A disk has come back, or why it has not.
    pub fn came(&self, disk: u16, refused: Option<Error>) {
        {
            let (mut coming, mut all) = (lock(&self.coming), lock(&self.refused));
            coming.remove(&disk);
            match refused {
                Some(error) => all.insert(disk, error),
                None => all.remove(&disk),
            };
        }
        self.ended.notify(usize::MAX);
    }

    /// Whether a disk that is away is about to come back, and else why it did not when it was tried.
    pub fn outlook(&self, disk: u16) -> (bool, Option<String>) {
        let coming = lock(&self.coming).contains(&disk);
        (coming, lock(&self.refused).get(&disk).map(ToString::to_string))
    }

    /// Whether a disk of that status is on its way back, or about to be.
    fn awaits(&self, disk: u16, status: DiskStatus) -> bool {
        match status {
            DiskStatus::Returning => true,
            DiskStatus::Offline => lock(&self.coming).contains(&disk),
            _ => false,
        }
    }

    pub fn power_of(&self, disk: u16) -> u32 {
        lock(&self.progress).get(&disk).map_or(RESYNC_POWER_DEFAULT, |p| p.power)
    }
}

pub(super) struct Working<'a>(&'a Returning);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify(usize::MAX);
    }
}

impl Returning {
    /// Copies to a disk that is back what it missed, in a task.
    pub fn spawn_catch_up(self: &Arc<Self>, disk: &Arc<Disk>) {
        let (returning, disk) = (Arc::clone(self), Arc::clone(disk));
        let task = async move {
            // Again and again, until the disk is in sync or gone: what could not be read may be
            // written anew, and a dismount may be given up.
            while disk.is_alive() && disk.is_returning() && !returning.is_ending() {
                let changed = returning.wanted.listen();
                if let Some(_working) = returning.begin_return() {
                    returning.tried(disk.no, catch_up::run(&returning, &disk).await);
                }
                returning.ended.notify(usize::MAX);
                if disk.is_returning() {
                    select(changed, returning.env.sleep(TRY_EVERY)).await;
                }
            }
            if returning.disk(disk.no).is_none_or(|now| Arc::ptr_eq(&now, &disk)) {
                returning.forget(disk.no);
            }
            returning.ended.notify(usize::MAX);
        };
        self.env.spawn("disk resync", Box::pin(task));
    }

    /// Disks on their way back, and those about to be.
    pub fn list(&self) -> Vec<DiskReturn> {
        let now = self.env.now();
        let core = lock(&self.core);
        let progress = lock(&self.progress);
        let back = core.state.disks.iter().filter(|(no, d)| self.awaits(**no, d.status));
        back.map(|(no, d)| {
            let left = core.state.stale_pieces(*no);
            let p = progress.get(no);
            let done = p.map_or(0, |p| p.done);
            let since = p.map_or(Duration::ZERO, |p| now.since(p.began));
            let rate = p.map_or(0.0, |p| p.done as f64 / since.as_secs_f64().max(1e-9));
            DiskReturn {
                disk: *no,
                name: d.name.clone(),
                power: p.map_or(RESYNC_POWER_DEFAULT, |p| p.power),
                bytes_total: p.map_or(left, |p| p.total.max(p.done + left)) * PIECE_BYTES,
                bytes_done: done * PIECE_BYTES,
                left: (rate > 0.0).then(|| Duration::from_secs_f64(left as f64 / rate)),
                since,
                begun: d.status == DiskStatus::Returning,
                error: p.and_then(|p| p.error.as_ref()).map(ToString::to_string),
            }
        })
        .collect()
    }

    /// Waits until no disk is on its way back, or about to be.
    ///
    /// # Errors
    /// The group has stopped, or one of them cannot go on: why.
    pub async fn wait(&self) -> Result<(), Error> {
        loop {
            let listener = self.ended.listen();
            self.check_running()?;
            let returning: Vec<u16> = {
                let core = lock(&self.core);
                let disks = core.state.disks.iter();
                let back = disks.filter(|(no, d)| self.awaits(**no, d.status));
                back.map(|(no, _)| *no).collect()
            };
            if returning.is_empty() {
                return Ok(());
            }
            let stuck = {
                let progress = lock(&self.progress);
                returning.iter().find_map(|no| progress.get(no)?.error.clone())
            };
            if let Some(error) = stuck {
                return Err(error);
            }
            listener.await;
        }
    }
}
