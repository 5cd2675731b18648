//! The rebalance probe: the speed of a rebalance, measured by trial copies to places that nobody needs.
//!
//! The extents that a plan moves are read as a move reads them: as many in flight, in the same class
//! and at the same speed. They are written to free AUs of their target disks. A disk that is not in the
//! group yet, and is blank or has left a group, is written with what it already holds; where a file is
//! still to be made, a scratch file stands in for it. A disk with any other content is not written:
//! somebody may use it, and would find old bytes. As in a move, each extent is flushed and followed by a
//! small durable write beside the metadata. Nothing of this is ever read back: the metadata does not
//! change, and a probe that is cut off leaves nothing behind but such a scratch file.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{Device, Durability, EnvExt, Instant, Io};

use crate::base::request_timeout::RequestTimeout;
use crate::data::access::Access;
use crate::data::relocate::{MovePace, parts_of, written_runs};
use crate::data::write::checksums_of;
use crate::disk::{Disk, DiskIdentity, lock};
use crate::error::Error;
use crate::group::Group;
use crate::group::disks::{AlterDisks, Leave, after, work};
use crate::group::inner::Inner;
use crate::meta::create::check_label;
use crate::meta::labels::read_labels_within;
use crate::meta::rules::{self, Candidate};
use crate::moves::rebalance::{WORKERS_MAX, spread_out};
use crate::moves::throttle::{POWER_FULL, Throttle};
use crate::on_disk::Uuid;
use crate::on_disk::label::LabelStatus;
use crate::on_disk::layout::{AU_START, BLOCK_U64, au_offset};
use crate::space::plan::{DiskRole, Move, PlanDisk};
use crate::state::{Leg, Stretch};

/// What is written at once at most, and the size of a place on a disk that is not of the group.
const STEP: u64 = 1 << 20;
/// Bytes kept of all disks that are to be written over with what they hold.
const KEPT_MAX: u64 = 64 << 20;
/// Neighbours in the plan that are tried one after another, as the rebalance does.
const NEIGHBOURS: u64 = 16;
/// Extents that may fail one after another before a worker gives up.
const FAILURES_MAX: u32 = 64;

/// How a probe is made.
#[derive(Clone)]
pub struct ProbeSpec {
    /// How long it takes in all.
    pub time: Duration,
    /// The powers to be tried, each for an equal part of the time.
    pub powers: Vec<u32>,
    /// Where the writing to each disk of [`AlterDisks::add`] is tried, in that order.
    pub targets: Vec<ProbeTarget>,
}

/// The target that stands for a disk that is to join.
#[derive(Clone)]
pub enum ProbeTarget {
    /// The disk itself: it ends up holding what it held.
    Itself(Arc<dyn Device>),
    /// A device that nobody needs, written before, as a new file disk is.
    Scratch(Arc<dyn Device>),
}

/// What a probe found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Bytes a second that a rebalance would move, by power, ascending.
    pub by_power: Vec<(u32, u64)>,
    /// Bytes a second read where the plan reads, nothing being written.
    pub reading: u64,
    /// Bytes a second written where the plan writes, nothing being read.
    pub writing: u64,
    /// How long it took.
    pub took: Duration,
    /// A disk that is to join holds something, so nothing was tried: somebody may still use it, and
    /// would find old contents.
    pub holds: Option<String>,
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Read,
    Write,
    Move,
}

/// Whether a probe is to go on.
struct Wanted {
    /// Gone when nobody waits for it any more.
    asked: Weak<()>,
    /// Another one now when disks are about to join or leave.
    turn: u64,
}

/// A disk that is written to.
struct Sink {
    disk: Arc<Disk>,
    /// Where, in bytes from its start.
    places: Vec<u64>,
    /// How long each of them is.
    length: u64,
    /// What each holds and is to hold; empty where anything may be written.
    kept: Vec<Bytes>,
    next: AtomicUsize,
    /// AUs that are to be given back.
    taken: Vec<Leg>,
}

struct Probe {
    inner: Arc<Inner>,
    moves: Vec<Move>,
    sinks: BTreeMap<u16, Sink>,
    /// Disks that will hold the metadata: records of its log are imitated there.
    members: Vec<u16>,
    /// Those among them to which nothing moves.
    beside: BTreeMap<u16, Sink>,
    committing: futures_util::lock::Mutex<u64>,
    asked: AtomicU64,
    /// Moves begun.
    begun: AtomicU64,
    /// What a write-only worker writes.
    filler: Mutex<Bytes>,
    wanted: Wanted,
}

impl Group {
    /// Tries how fast the rebalance after `change` would go. Nothing changes. Nothing where there is
    /// nothing to move.
    ///
    /// # Errors
    /// As [`Group::alter_disks`], or a disk that fails.
    #[boxed]
    pub async fn probe(&self, change: &AlterDisks, spec: &ProbeSpec) -> Result<Rates, Error> {
        let (group, change, spec) = (self.clone(), change.clone(), spec.clone());
        let wanted = Arc::new(());
        let asked = Arc::downgrade(&wanted);
        // A task of its own: what it took must be given back, and not before it is written.
        let probed = async move { group.probe_to_the_end(&change, &spec, asked).await };
        let rates = self.inner.run("probe", probed).await;
        // If the caller goes away this is dropped, and the probe ends.
        drop(wanted);
        rates
    }

    async fn probe_to_the_end(
        &self,
        change: &AlterDisks,
        spec: &ProbeSpec,
        asked: Weak<()>,
    ) -> Result<Rates, Error> {
        let inner = &self.inner;
        inner.check_writable()?;
        // Nobody joins while this checks who may be written to; a later join ends the probe first.
        let labels = inner.labels.lock().await;
        let Some(_probing) = inner.rebalance.begin_probe(inner.env.now(), spec.time) else {
            return Ok(Rates::default());
        };
        let wanted = Wanted { asked, turn: inner.rebalance.probe_turn() };
        let planned = self.plan_new(change)?;
        let request_timeout = inner.request_timeout();
        for (p, target) in planned.iter().zip(&spec.targets) {
            if matches!(target, ProbeTarget::Itself(_)) {
                check_label(p, request_timeout).await?;
            }
        }
        let snapshot = {
            let core = lock(&inner.core);
            let leave = Leave::of(inner, &core.state, change, false)?;
            after(&core, &planned, &leave)
        };
        let mut plan = work(&snapshot, inner.au_size).plan;
        spread_out(&mut plan);
        let moves = plan.moves;
        if moves.is_empty() || !snapshot.disks.iter().any(|d| d.role == DiskRole::Active) {
            return Ok(Rates::default());
        }
        let mut sinks = BTreeMap::new();
        for (p, target) in planned.iter().zip(&spec.targets) {
            let sink = Sink::of_new(inner, p.no, &p.disk.path, target, planned.len()).await?;
            if sink.holds_something() && !is_former(&p.disk.device, request_timeout).await? {
                let holds = Some(p.disk.path.clone());
                return Ok(Rates { holds, ..Rates::default() });
            }
            sinks.insert(p.no, sink);
        }
        let new: Vec<Arc<Disk>> = sinks.values().map(|sink| Arc::clone(&sink.disk)).collect();
        let members = members_after(inner, &snapshot.disks);
        let probe = Arc::new(Probe::new(inner, moves, sinks, members, wanted));
        drop(labels);
        let rates = probe.rates(spec);
        // The group looks after its own disks, nobody yet after those that are to join.
        let watched = async {
            let () = loop {
                inner.env.sleep(Duration::from_secs(1)).await;
                new.iter().for_each(|disk| disk.check_timeout(inner.disk_timeout));
            };
        };
        let watched = std::pin::pin!(watched);
        let rates = match futures_util::future::select(Box::pin(rates), watched).await {
            futures_util::future::Either::Left((rates, _)) => rates,
            futures_util::future::Either::Right(_) => unreachable!("who watches does not end"),
        };
        if let Some(failed) = new.iter().find_map(|disk| disk.failure()) {
            return Err(failed.clone().into());
        }
        inner.check_running()?;
        Ok(rates)
    }
}

/// Whether a disk says of itself that it left a group: what it holds is nobody's.
async fn is_former(
    device: &Arc<dyn Device>,
    request_timeout: RequestTimeout<'_>,
) -> Result<bool, Error> {
    let labels = read_labels_within(device, request_timeout).await?;
    Ok(labels.newest().is_some_and(|label| label.status == LabelStatus::Former))
}

/// Which disks will hold the metadata.
fn members_after(inner: &Inner, disks: &[PlanDisk]) -> Vec<u16> {
    let candidates: Vec<Candidate> = disks
        .iter()
        .filter(|d| d.role == DiskRole::Active)
        .map(|d| Candidate { disk: d.disk.0, failgroup: d.failgroup.0.to_string() })
        .collect();
    let core = lock(&inner.core);
    rules::choose(core.state.header.redundancy, &core.state.members, &candidates)
}

impl Sink {
    /// Free AUs of a disk of the group; few enough that nobody misses them.
    fn of_member(inner: &Arc<Inner>, no: u16, count: u32) -> Option<Sink> {
        let disk = inner.disk(no).filter(|d| d.is_in_sync() && d.is_alive())?;
        let mut core = lock(&inner.core);
        let most = (core.space.of_disk(no).1 / 8).min(count);
        let taken: Vec<Leg> = (0..most).map_while(|_| core.space.take_on(no)).collect();
        let places = taken.iter().map(|leg| au_offset(leg.au, inner.au_size)).collect();
        let (next, length) = (AtomicUsize::new(0), inner.au_size);
        (!taken.is_empty()).then_some(Sink { disk, places, length, kept: vec![], next, taken })
    }

    /// A disk that is to join, one of `among`.
    async fn of_new(
        inner: &Inner,
        no: u16,
        path: &str,
        target: &ProbeTarget,
        among: usize,
    ) -> Result<Sink, Error> {
        let (device, first) = match target {
            ProbeTarget::Itself(device) => (device, AU_START),
            ProbeTarget::Scratch(device) => (device, 0),
        };
        let name = path.to_owned();
        let identity = DiskIdentity {
            no,
            uuid: Uuid(0),
            name: name.clone(),
            failgroup: name.clone(),
            path: name,
        };
        let disk = Disk::new(identity, Arc::clone(device), Arc::clone(&inner.env));
        let room = (device.geometry().size.saturating_sub(first) / STEP).max(1);
        let count = (KEPT_MAX / STEP / among as u64).clamp(1, room);
        // All over the disk: its first part may be faster than the rest.
        let apart = room / count;
        let places: Vec<u64> = (0..count).map(|i| first + i * apart * STEP).collect();
        let mut kept = Vec::new();
        if matches!(target, ProbeTarget::Itself(_)) {
            for place in &places {
                let request_timeout = inner.request_timeout();
                let read = disk.read_at(Io::BACKGROUND, *place, STEP as usize);
                kept.push(request_timeout.wait(device, cellar_io::Op::Read, read).await?.freeze());
            }
        }
        let next = AtomicUsize::new(0);
        Ok(Sink { disk: Arc::new(disk), places, length: STEP, kept, next, taken: vec![] })
    }

    /// Whether any place that would be written over holds more than zeros.
    fn holds_something(&self) -> bool {
        self.kept.iter().any(|kept| kept.iter().any(|byte| *byte != 0))
    }

    /// A place for one extent.
    fn choose(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.places.len()
    }

    /// Writes `data`, or as much of what is there, at `at` of the extent that got place `own`.
    async fn write(&self, io: Io, own: usize, at: u64, data: Bytes, how: Durability) -> bool {
        let whole = at + data.len() as u64 <= self.length;
        let (place, at) = if whole { (own, at) } else { (self.choose(), 0) };
        let data = match self.kept.get(place) {
            Some(kept) => kept.slice(at as usize..at as usize + data.len()),
            None => data,
        };
        self.disk.write(io, self.places[place] + at, vec![data], how).await.is_ok()
    }
}

impl Probe {
    fn new(
        inner: &Arc<Inner>,
        moves: Vec<Move>,
        mut sinks: BTreeMap<u16, Sink>,
        members: Vec<u16>,
        wanted: Wanted,
    ) -> Probe {
        for step in &moves {
            if !sinks.contains_key(&step.to.0)
                && let Some(sink) = Sink::of_member(inner, step.to.0, POWER_FULL)
            {
                sinks.insert(step.to.0, sink);
            }
        }
        let others = members.iter().filter(|no| !sinks.contains_key(no));
        let beside = others.filter_map(|no| Some((*no, Sink::of_member(inner, *no, 1)?))).collect();
        Probe {
            inner: Arc::clone(inner),
            moves,
            sinks,
            members,
            beside,
            committing: futures_util::lock::Mutex::new(0),
            asked: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            filler: Mutex::new(Bytes::new()),
            wanted,
        }
    }

    /// Whether somebody still waits for what it finds.
    fn is_wanted(&self) -> bool {
        let Wanted { asked, turn } = &self.wanted;
        asked.strong_count() > 0 && *turn == self.inner.rebalance.probe_turn()
    }

    /// Tries one thing after another; what cannot be tried has the rate 0.
    async fn rates(self: &Arc<Self>, spec: &ProbeSpec) -> Rates {
        let began = self.inner.env.now();
        let time = spec.time / (spec.powers.len() as u32 + 2);
        let mut by_power = Vec::new();
        // From the lowest power up: work that a device still has to do after heavy writing slows what
        // follows.
        for power in &spec.powers {
            by_power.push((*power, self.phase(Part::Move, *power, time).await));
        }
        let reading = self.phase(Part::Read, POWER_FULL, time).await;
        let writing = self.phase(Part::Write, POWER_FULL, time).await;
        Rates { by_power, reading, writing, took: self.inner.env.now().since(began), holds: None }
    }

    /// Does one thing for this long, or until each worker has done it once; returns bytes a second.
    async fn phase(self: &Arc<Self>, part: Part, power: u32, time: Duration) -> u64 {
        let until = self.inner.env.now().plus(time);
        let workers = (power as usize).min(WORKERS_MAX).min(self.moves.len());
        let tasks = (0..workers).map(|_| {
            let probe = Arc::clone(self);
            let work = async move { Ok(probe.worker(part, power, until).await) };
            self.inner.run("probe", work)
        });
        let rates = futures_util::future::join_all(tasks).await;
        rates.into_iter().map(|rate| rate.unwrap_or(0.0)).sum::<f64>() as u64
    }

    /// Moves one extent after another; bytes a second.
    async fn worker(&self, part: Part, power: u32, until: Instant) -> f64 {
        let env = &self.inner.env;
        let (began, mut bytes, mut whole, mut failures) = (env.now(), 0, 0, 0);
        while (env.now() < until || whole == 0) && failures < FAILURES_MAX && self.is_wanted() {
            let throttle = Throttle::probing(&self.inner.rebalance, power);
            let until = if whole == 0 { None } else { Some(until) };
            let Some(done) = self.extent(part, &throttle, until).await else {
                if !throttle.go_on(0).await {
                    break;
                }
                failures += 1;
                continue;
            };
            if done == 0 {
                // Nothing was ever written there: no request lets others have their turn.
                env.sleep(Duration::from_millis(1)).await;
            }
            bytes += done;
            whole += 1;
            failures = 0;
        }
        bytes as f64 / env.now().since(began).as_secs_f64().max(1e-6)
    }

    /// The next move to be tried: some neighbours, then some elsewhere in the plan.
    fn next_move(&self) -> &Move {
        let turn = self.begun.fetch_add(1, Ordering::Relaxed);
        let count = self.moves.len() as u64;
        // The golden ratio: wherever it stops, what was tried lies evenly over the plan.
        let jump = (turn / NEIGHBOURS).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let start = ((u128::from(jump) * u128::from(count)) >> 64) as u64;
        &self.moves[((start + turn % NEIGHBOURS) % count) as usize]
    }

    /// Does with one extent what a move does, until `until` is past. Gives the bytes of the extent
    /// that were dealt with; of the reading and the writing alone, those that were read or written.
    /// `None` if it could not be done. As with a move, each step is done inside the file, and at the
    /// end those who are inside are waited for.
    async fn extent(
        &self,
        part: Part,
        throttle: &Throttle<'_>,
        until: Option<Instant>,
    ) -> Option<u64> {
        let step = self.next_move();
        let sink = self.sinks.get(&step.to.0)?;
        let own = sink.choose();
        let runtime = {
            let core = lock(&self.inner.core);
            let file = core.state.files.get(&step.file);
            let file = file.filter(|f| f.incarnation == step.incarnation)?;
            self.inner.data.file(file)
        };
        let mut done = 0;
        let (striping, au_size) = (runtime.attributes.striping, self.inner.au_size);
        for stretch in parts_of(striping, au_size, step.extent.into(), throttle.step()) {
            if !throttle.go_on(stretch.length).await || !self.is_wanted() {
                return None;
            }
            if until.is_some_and(|until| self.inner.env.now() >= until) {
                return Some(done);
            }
            let _entered = runtime.enter().await.ok()?;
            let mut bytes = 0;
            for run in written_runs(&self.inner.data, &runtime, &stretch) {
                bytes += run.length;
                let data = match part {
                    Part::Write => self.filler(run.length),
                    Part::Read | Part::Move => self.read(&runtime, &run).await?,
                };
                if part != Part::Read {
                    let io = Io::BACKGROUND;
                    let written =
                        sink.write(io, own, run.au_offset, data, Durability::Cached).await;
                    written.then_some(())?;
                }
            }
            // What was never written is skipped by a move, and counts as moved.
            done += if part == Part::Move { stretch.length } else { bytes };
        }
        if part == Part::Move {
            self.finish(sink, own, runtime.attributes.checksums).await?;
            runtime.turn_over().await;
        }
        Some(done)
    }

    async fn read(
        &self,
        file: &Arc<crate::data::file::FileRuntime>,
        run: &Stretch,
    ) -> Option<Bytes> {
        let read = {
            // Not longer than for the reading: what is written is not for the file.
            let _held = file.locks.lock(run.offset, run.offset + run.length).await;
            Access::new(&self.inner.data, file, Io::BACKGROUND).read_any_copy(run).await
        };
        let data = read.ok()?.freeze();
        if file.attributes.checksums {
            // A move makes them too.
            std::hint::black_box(checksums_of(std::slice::from_ref(&data)));
        }
        let mut filler = lock(&self.filler);
        if filler.len() < data.len() {
            *filler = data.clone();
        }
        Some(data)
    }

    /// Bytes to write: some that were read, over and over.
    fn filler(&self, length: u64) -> Bytes {
        let filler = lock(&self.filler).clone();
        match filler.len() as u64 >= length {
            true => filler.slice(..length as usize),
            false => cellar_io::Buffer::zeroed(length as usize).freeze(),
        }
    }

    /// What a move does once all is copied: checksums, flush, and a record.
    async fn finish(&self, sink: &Sink, own: usize, checksums: bool) -> Option<()> {
        let block = self.filler(BLOCK_U64);
        if checksums {
            let io = Io::BACKGROUND;
            sink.write(io, own, 0, block.clone(), Durability::Cached).await.then_some(())?;
        }
        sink.disk.flush(Io::BACKGROUND).await.ok()?;
        // As the committer: one record at a time, and who waits meanwhile shares the next one.
        let ticket = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut durable = self.committing.lock().await;
        if *durable >= ticket {
            return Some(());
        }
        let covers = self.asked.load(Ordering::SeqCst);
        let members = self.members.iter();
        let members = members.filter_map(|no| self.sinks.get(no).or_else(|| self.beside.get(no)));
        let write = |sink| Sink::write(sink, Io::COMMIT, 0, 0, block.clone(), Durability::Durable);
        let written = futures_util::future::join_all(members.map(write)).await;
        *durable = covers;
        written.into_iter().all(|well| well).then_some(())
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let mut core = lock(&self.inner.core);
        for sink in self.sinks.values().chain(self.beside.values()) {
            // The disk may have left meanwhile, and its number may be another's.
            let here = self.inner.disk(sink.disk.no).is_some_and(|d| d.uuid == sink.disk.uuid);
            sink.taken.iter().filter(|_| here).for_each(|leg| core.space.free(*leg));
        }
    }
}
