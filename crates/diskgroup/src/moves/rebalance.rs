//! The rebalance: moving extents until every disk holds its share, and disks that are being
//! dropped hold nothing.
//!
//! The metadata records that a rebalance is wanted, and its power, but not what is to be moved: that
//! is planned from the state as it is, so a mount after a crash plans again and loses only the AUs
//! that were in flight.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{Instant, IoError, IoErrorKind, Op as IoOp};
use event_listener::Event as Notify;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::base::core::Core;
use crate::base::listeners::Listener;
use crate::data::Data;
use crate::data::relocate::{self, Moved};
use crate::disk::lock;
use crate::error::Error;
use crate::meta::labels::relabel;
use crate::moves::meter::Meter;
use crate::moves::progress::{Operation, Pass, Progress};
use crate::moves::shrink;
use crate::moves::throttle::Throttle;
use crate::on_disk::label::LabelStatus;
use crate::on_disk::layout::au_count;
use crate::space::plan::{
    DiskPlan, DiskRole, Lack, Move, Plan, PlanDisk, PlanFile, PlanInput, Unplaced, plan,
};
use crate::space::{DiskNo, FailGroupNo};
use crate::state::{DiskStatus, GroupState, Leg, Op, Striping};

/// The highest power, as in ASM.
pub const POWER_MAX: u32 = 1024;
/// AUs in flight at once, however high the power.
pub(crate) const WORKERS_MAX: usize = 64;
/// Moves that wait for others before no more are started.
const WAITING_MAX: usize = 256;
/// The power of a rebalance for which none was given.
pub const POWER_DEFAULT: u32 = 1;

/// What the task and its callers share.
pub(crate) struct Rebalance {
    pub data: Arc<Data>,
    /// There may be something to do, or to leave.
    pub(super) wanted: Notify,
    /// A round of the task ended.
    ended: Notify,
    /// Nothing is to be moved now: the group is being dismounted.
    closing: AtomicBool,
    /// Whether the task is at work.
    working: AtomicBool,
    /// Counts the requests, with the core held: a plan does not serve a request that came after it.
    requests: AtomicU64,
    /// Probes under way: they write to free AUs.
    probes: AtomicUsize,
    /// Grows when probes are to end.
    probe_turn: AtomicU64,
    pub(super) progress: Mutex<Progress>,
    /// Since when probes are under way, and for how long; of the last that began.
    probed: Mutex<Option<(Instant, Duration)>>,
    /// What was moved since the mount, by power: bytes, and how long that took.
    made: Mutex<BTreeMap<u32, (f64, Duration)>>,
}

impl Deref for Rebalance {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.data
    }
}

impl Listener for Rebalance {
    fn stopped(&self) {
        self.wake();
    }

    fn has_to_move(&self) {
        self.request();
    }
}

impl Rebalance {
    /// The rebalance over a data path, which it is told by what happens.
    pub fn new(data: Arc<Data>) -> Arc<Rebalance> {
        let rebalance = Arc::new(Rebalance {
            data,
            wanted: Notify::new(),
            ended: Notify::new(),
            closing: AtomicBool::new(false),
            working: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            probes: AtomicUsize::new(0),
            probe_turn: AtomicU64::new(0),
            progress: Mutex::default(),
            probed: Mutex::default(),
            made: Mutex::default(),
        });
        rebalance.listeners.add(&rebalance);
        rebalance
    }

    pub fn wake(&self) {
        self.wanted.notify(usize::MAX);
        self.ended.notify(usize::MAX);
    }

    /// Whether it does not go on.
    pub fn is_stuck(&self) -> bool {
        lock(&self.progress).error.is_some()
    }

    /// A file is gone: what was stuck for want of room, or for what it lacked, is tried again. Said
    /// with the core held.
    pub fn room_came(&self) {
        if lock(&self.progress).error.is_some() {
            self.request();
        }
    }

    /// Something more is wanted. Said with the core held.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        lock(&self.progress).error = None;
        self.wanted.notify(usize::MAX);
    }

    /// Keeps the task from moving anything, and waits until nothing is on its way.
    /// False if somebody had closed it before.
    #[boxed]
    pub async fn close(&self) -> bool {
        let first = !self.closing.swap(true, Ordering::SeqCst);
        self.wanted.notify(usize::MAX);
        loop {
            let listener = self.ended.listen();
            let busy = self.working.load(Ordering::SeqCst) || self.is_probed();
            if !busy {
                return first;
            }
            listener.await;
        }
    }

    /// A probe may begin; it has ended when what this gives back is dropped. `None` while the group
    /// is being dismounted.
    pub fn begin_probe(&self, now: Instant, time: Duration) -> Option<Probing<'_>> {
        self.probes.fetch_add(1, Ordering::SeqCst);
        *lock(&self.probed) = Some((now, time));
        let probing = Probing(self);
        // Set before the check: whoever closes sets its flag first, and then checks whether we work.
        (!self.closing.load(Ordering::SeqCst)).then_some(probing)
    }

    /// What a probe looks at to know whether it may go on: it changes when it may not.
    pub fn probe_turn(&self) -> u64 {
        self.probe_turn.load(Ordering::SeqCst)
    }

    /// Ends the probes that are under way: what they write to may be somebody's from now on. The
    /// caller holds `labels`, so that none begins meanwhile.
    #[boxed]
    pub async fn end_probes(&self) {
        self.probe_turn.fetch_add(1, Ordering::SeqCst);
        loop {
            let listener = self.ended.listen();
            if !self.is_probed() {
                return;
            }
            listener.await;
        }
    }

    fn is_probed(&self) -> bool {
        self.probes.load(Ordering::SeqCst) > 0
    }

    /// Stops the clock of the rate, and keeps what it showed.
    fn stop_meter(&self, au_size: u64, now: Instant) {
        let mut progress = lock(&self.progress);
        let Some(meter) = progress.meter.take() else { return };
        let (bytes, took) = meter.all(now, progress.bytes(au_size));
        if bytes > 0 {
            let mut made = lock(&self.made);
            let (all, time) = made.entry(meter.power).or_default();
            *all += bytes as f64;
            *time += took;
        }
    }

    /// Sets the clock of the rate, unless it runs at that power.
    fn start_meter(&self, au_size: u64, power: u32, now: Instant) {
        if lock(&self.progress).meter.is_some_and(|meter| meter.power == power) {
            return;
        }
        self.stop_meter(au_size, now);
        let mut progress = lock(&self.progress);
        let bytes = progress.bytes(au_size);
        progress.meter = Some(Meter::new(power, now, bytes));
    }

    pub fn open(&self) {
        self.closing.store(false, Ordering::SeqCst);
        self.wanted.notify(usize::MAX);
    }
}

/// A probe under way.
pub(crate) struct Probing<'a>(&'a Rebalance);

impl Drop for Probing<'_> {
    fn drop(&mut self) {
        self.0.probes.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify(usize::MAX);
    }
}

pub(super) fn power_of(moves: &Rebalance) -> u32 {
    lock(&moves.core).state.rebalance.unwrap_or(0)
}

pub(super) fn may_work(moves: &Rebalance) -> bool {
    may_read(moves) && power_of(moves) > 0
}

/// Whether the group is neither stopped nor being dismounted.
pub(super) fn may_read(moves: &Rebalance) -> bool {
    !moves.is_ending() && !moves.closing.load(Ordering::SeqCst)
}

/// The files of a group as a plan needs them, copied out so that nobody waits for the planner.
pub(crate) struct Snapshot {
    files: Vec<SnapshotFile>,
    pub disks: Vec<PlanDisk>,
    groups: BTreeMap<String, FailGroupNo>,
}

struct SnapshotFile {
    number: u32,
    incarnation: u32,
    copies: u8,
    placement: Option<FailGroupNo>,
    striping: Striping,
    legs: Vec<Leg>,
}

impl Snapshot {
    pub fn of(core: &Core) -> Snapshot {
        let state = &core.state;
        let mut groups: BTreeMap<String, FailGroupNo> = BTreeMap::new();
        let au_size = u64::from(state.header.au_size);
        let mut disks = Vec::new();
        for (no, disk) in &state.disks {
            let failgroup = group_no(&mut groups, &disk.failgroup);
            let end = match disk.shrink_to {
                0 => u32::MAX,
                bytes => au_count(bytes, au_size),
            };
            let role = match disk.status {
                DiskStatus::Online => DiskRole::Active,
                DiskStatus::Dropping => DiskRole::Dropping,
                DiskStatus::Offline | DiskStatus::Returning => DiskRole::Offline,
                DiskStatus::Forcing => DiskRole::Lost,
            };
            let capacity = match disk.shrink_to {
                0 => core.space.of_disk(*no).0,
                bytes => core.capacity_at(*no, bytes),
            };
            disks.push(PlanDisk { disk: DiskNo(*no), failgroup, capacity, end, role });
        }
        let files = state.files.values().map(|f| SnapshotFile {
            number: f.number,
            incarnation: f.incarnation,
            copies: f.attributes.copies,
            placement: f.attributes.placement.as_ref().map(|g| group_no(&mut groups, g)),
            striping: f.attributes.striping,
            legs: f.legs.clone(),
        });
        let files = files.collect();
        Snapshot { files, disks, groups }
    }

    /// The number of a failure group in this snapshot.
    pub fn group(&mut self, name: &str) -> FailGroupNo {
        group_no(&mut self.groups, name)
    }

    pub fn input(&self) -> PlanInput<'_> {
        let files = self.files.iter().map(|f| PlanFile {
            number: f.number,
            incarnation: f.incarnation,
            copies: f.copies,
            placement: f.placement,
            striping: f.striping,
            legs: &f.legs,
        });
        PlanInput { disks: self.disks.clone(), files: files.collect() }
    }
}

fn group_no(groups: &mut BTreeMap<String, FailGroupNo>, name: &str) -> FailGroupNo {
    let next = FailGroupNo(groups.len() as u16);
    *groups.entry(name.to_owned()).or_insert(next)
}

/// The task, until the group is dismounted.
pub(crate) async fn run(moves: Arc<Rebalance>) {
    loop {
        let listener = moves.wanted.listen();
        if moves.is_ending() {
            return;
        }
        let stuck = lock(&moves.progress).error.is_some();
        // Set before the check: whoever closes sets its flag first, and then checks whether we work.
        moves.working.store(true, Ordering::SeqCst);
        let works = !stuck && may_work(&moves);
        let requests = moves.requests.load(Ordering::SeqCst);
        let result = if works { round(&moves).await } else { Ok(()) };
        if !works && !stuck && may_read(&moves) {
            plan_only(&moves);
        }
        moves.working.store(false, Ordering::SeqCst);
        if let Err(error) = result {
            let mut progress = lock(&moves.progress);
            // Requests that came meanwhile deserve their own try.
            if moves.requests.load(Ordering::SeqCst) == requests {
                progress.error = Some(error);
            }
        }
        if !works {
            moves.stop_meter(moves.au_size, moves.env.now());
        }
        moves.ended.notify(usize::MAX);
        if !works {
            listener.await;
        }
    }
}

/// Tells what a rebalance that was stopped would do.
fn plan_only(moves: &Rebalance) {
    let requests = moves.requests.load(Ordering::SeqCst);
    let snapshot = {
        let core = lock(&moves.core);
        let known = lock(&moves.progress).told_for == Some(requests);
        if core.state.rebalance != Some(0) || known {
            return;
        }
        Snapshot::of(&core)
    };
    let planned = plan(&snapshot.input());
    let mut progress = lock(&moves.progress);
    progress.plan(&planned.moves);
    progress.told_for = Some(requests);
}

/// Plans and moves; when nothing is left to move, lets go of what is empty.
async fn round(moves: &Arc<Rebalance>) -> Result<(), Error> {
    let (planned, requests) = {
        let (snapshot, requests) = {
            let core = lock(&moves.core);
            (Snapshot::of(&core), moves.requests.load(Ordering::SeqCst))
        };
        let mut planned = plan(&snapshot.input());
        spread_out(&mut planned);
        (planned, requests)
    };
    if planned.moves.is_empty() {
        return finish(moves, &planned, requests).await;
    }
    lock(&moves.progress).plan(&planned.moves);
    let moved = move_all(moves, planned.moves).await?;
    if moved == 0 && may_work(moves) {
        let why = "the moves that are left wait for one another, and no disk has a free AU";
        return Err(Error::NoSpace {
            group: moves.name.clone(),
            wanted_mb: moves.au_size >> 20,
            why: why.to_owned(),
        });
    }
    Ok(())
}

/// Shuffles the moves of a plan, so that its disks work in parallel to the end and not one pair
/// after the other. Lost copies stay first. If disks are so full that a move may wait for the room
/// that another one frees, the order is kept; copies that must lie apart can wait in any order.
pub(crate) fn spread_out(plan: &mut Plan) {
    let is_tight = |d: &DiskPlan| d.incoming > d.capacity.saturating_sub(d.before);
    if plan.disks.iter().any(|d| d.incoming > 0 && is_tight(d)) {
        return;
    }
    let pair = |step: &Move| (step.from, step.to);
    let mut counts: BTreeMap<(Option<DiskNo>, DiskNo), (u64, u64)> = BTreeMap::new();
    for step in &plan.moves {
        counts.entry(pair(step)).or_default().0 += 1;
    }
    let mut placed: Vec<(bool, f64, Move)> = Vec::with_capacity(plan.moves.len());
    for step in plan.moves.drain(..) {
        let (all, seen) = counts.get_mut(&pair(&step)).expect("it was counted");
        placed.push((step.from.is_some(), (*seen as f64 + 0.5) / *all as f64, step));
        *seen += 1;
    }
    placed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    plan.moves.extend(placed.into_iter().map(|(.., step)| step));
}

/// Does the moves of a plan, as many at once as the power allows. Returns how many came to their
/// end or turned out to be obsolete.
async fn move_all(moves: &Arc<Rebalance>, wanted: Vec<Move>) -> Result<u64, Error> {
    let mut todo: VecDeque<Move> = wanted.into();
    let mut waiting: VecDeque<Move> = VecDeque::new();
    let mut running = FuturesUnordered::new();
    let (mut settled, mut failure) = (0, None);
    loop {
        let power = power_of(moves);
        let workers = (power as usize).min(WORKERS_MAX);
        if power > 0 {
            moves.start_meter(moves.au_size, power, moves.env.now());
        }
        while running.len() < workers && may_work(moves) {
            if waiting.len() >= WAITING_MAX && !running.is_empty() {
                break;
            }
            let Some(next) = todo.pop_front() else { break };
            let all = Arc::clone(moves);
            let task = moves.run("rebalance", async move {
                let throttle = Throttle::new(&all, Pass::of(&next));
                let moved = relocate::relocate(&all.data, &next, &throttle).await;
                throttle.end(matches!(moved, Ok(Moved::Done)));
                moved
            });
            lock(&moves.progress).of(Pass::of(&next)).in_flight += 1;
            running.push(async move { (next, task.await) });
        }
        let Some((step, result)) = running.next().await else { break };
        lock(&moves.progress).of(Pass::of(&step)).in_flight -= 1;
        match result {
            Ok(Moved::Done) => {
                settled += 1;
                // Moves that waited may have waited for this one.
                todo.extend(waiting.drain(..));
            }
            Ok(Moved::Obsolete) => {
                settled += 1;
                lock(&moves.progress).of(Pass::of(&step)).total -= 1;
            }
            Ok(Moved::NotYet) => waiting.push_back(step),
            Ok(Moved::Stopped) => {}
            // One unreadable extent must not keep the others where they are.
            Err(error) => failure = failure.or(Some(error)),
        }
        moves.check_running()?;
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(settled),
    }
}

/// Nothing is left to move: disks that are empty and leaving are let go of, and the rebalance is
/// over.
async fn finish(moves: &Arc<Rebalance>, planned: &Plan, requests: u64) -> Result<(), Error> {
    let leaving: Vec<u16> = {
        let core = lock(&moves.core);
        let disks = core.state.disks.iter();
        disks.filter(|(_, d)| d.status.is_leaving()).map(|(no, _)| *no).collect()
    };
    let mut kept = Ok(());
    for no in leaving {
        if !holds_anything(&lock(&moves.core).state, no) {
            // A disk that cannot go does not hold up the others.
            kept = kept.and(release(moves, no).await);
        }
    }
    kept?;
    shrink::finish(moves).await?;
    if moves.requests.load(Ordering::SeqCst) != requests {
        return Ok(());
    }
    if let Some(unplaced) = planned.unplaced.first() {
        return Err(stuck(moves, unplaced));
    }
    let over = moves.change(|core| {
        let met = moves.requests.load(Ordering::SeqCst) == requests;
        let over = met && core.state.rebalance.is_some();
        Ok((over, if over { vec![Op::Rebalance { power: None }] } else { vec![] }))
    });
    if over.await? {
        moves.stop_meter(moves.au_size, moves.env.now());
        *lock(&moves.progress) = Progress::default();
    }
    Ok(())
}

/// Why something that is to move stays where it is.
fn stuck(moves: &Rebalance, unplaced: &Unplaced) -> Error {
    let names = lock(&moves.core).state.paths_of(unplaced.file);
    let file = names
        .first()
        .map_or(format!("file {}", unplaced.file), |path| format!("+{}/{path}", moves.name));
    let aus = unplaced.aus;
    let why = match unplaced.lack {
        Lack::Copy => return Error::Lost { file, aus },
        Lack::Room => format!("{aus} extents of {file} have no free AU where they may go"),
        Lack::FailGroups => {
            format!("{aus} extents of {file} need more failure groups than there are")
        }
    };
    let wanted_mb = (aus * moves.au_size) >> 20;
    Error::NoSpace { group: moves.name.clone(), wanted_mb, why }
}

fn holds_anything(state: &GroupState, no: u16) -> bool {
    state.files.values().any(|f| f.legs.iter().any(|leg| leg.disk == no))
}

/// Takes an empty disk out of the group, then labels it as one that may be unplugged.
async fn release(moves: &Arc<Rebalance>, no: u16) -> Result<(), Error> {
    let _labels = moves.labels.lock().await;
    let disk = moves.disk(no);
    let (all, told) = (Arc::clone(moves), Arc::new(AtomicBool::new(false)));
    let gone = Arc::clone(&told);
    let leave = moves.change_disks(move |core| {
        let wanted = core.state.disks.get(&no).is_some_and(|d| d.status.is_leaving());
        if !wanted {
            // The drop was cancelled.
            return Ok(Vec::new());
        }
        if holds_anything(&core.state, no) {
            // The next plan moves it.
            all.request();
            return Ok(Vec::new());
        }
        if core.state.members.contains(&no) {
            let why = format!("disk {no} still holds metadata that no other disk has room for");
            return Err(Error::NoSpace { group: all.name.clone(), wanted_mb: 0, why });
        }
        core.space.remove_disk(no);
        all.disks.remove(no);
        gone.store(true, Ordering::SeqCst);
        Ok(vec![Op::DiskGone { disk: no }])
    });
    leave.await?;
    let Some(disk) = disk.filter(|_| told.load(Ordering::SeqCst)) else { return Ok(()) };
    // Nobody monitors it any more: whoever still waits for it is told that it left.
    disk.left();
    moves.log.moved.notify(usize::MAX);
    moves.data.checksums.forget_disk(no);
    if disk.is_alive() {
        let request_timeout = moves.request_timeout();
        // If this fails, the next mount does it.
        let _ = relabel(&disk, LabelStatus::Former, request_timeout).await;
    }
    let kind = IoErrorKind::Gone { reason: "it left the group" };
    disk.fail(IoError::new(kind, &disk.device().geometry().name, IoOp::Open, 0, 0));
    Ok(())
}

impl Rebalance {
    /// The rebalance that is wanted, if one is.
    pub fn operation(&self) -> Option<Operation> {
        let power = lock(&self.core).state.rebalance?;
        let progress = lock(&self.progress);
        Some(progress.operation(power, self.au_size, self.env.now()))
    }

    /// How long a probe has been under way, and how long it may take.
    pub fn probing(&self) -> Option<(Duration, Duration)> {
        let (began, time) = (*lock(&self.probed)).filter(|_| self.is_probed())?;
        Some((self.env.now().since(began), time))
    }

    /// Bytes a second that were moved since the mount, by power: of moves that have been made.
    pub fn rates(&self) -> Vec<(u32, u64)> {
        let mut rates: BTreeMap<u32, u64> = lock(&self.made)
            .iter()
            .map(|(power, (bytes, time))| (*power, (bytes / time.as_secs_f64().max(1e-9)) as u64))
            .collect();
        let power = power_of(self);
        let now = lock(&self.progress).rate(self.au_size, power, self.env.now());
        rates.extend(now.map(|rate| (power, rate as u64)));
        rates.into_iter().filter(|(_, rate)| *rate > 0).collect()
    }

    /// REBALANCE: wanted from here on, at that power; 0 stops it. Survives restarts.
    ///
    /// # Errors
    /// The power is out of its range, or the group has stopped.
    pub async fn request_at(&self, power: u32) -> Result<(), Error> {
        check_power(power)?;
        let op = Op::Rebalance { power: Some(power) };
        let change = |_: &mut Core| {
            self.request();
            Ok(((), vec![op]))
        };
        self.change(change).await?;
        self.wake();
        Ok(())
    }

    /// Waits until no rebalance is wanted, or it is stopped or stuck.
    ///
    /// # Errors
    /// Why it does not go on.
    pub async fn wait(&self) -> Result<(), Error> {
        loop {
            let listener = self.ended.listen();
            self.check_running()?;
            if power_of(self) == 0 {
                return Ok(());
            }
            if self.read_only {
                return Err(Error::ReadOnly { group: self.name.clone() });
            }
            if let Some(error) = lock(&self.progress).error.clone() {
                return Err(error);
            }
            listener.await;
        }
    }
}

pub(crate) fn check_power(power: u32) -> Result<(), Error> {
    if power <= POWER_MAX {
        return Ok(());
    }
    Err(Error::BadValue {
        what: "POWER",
        value: power.to_string(),
        allowed: format!("0 (stop) to {POWER_MAX}"),
    })
}
