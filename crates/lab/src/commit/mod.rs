//! A redo log on media and the commit loads that experiments compare, with a concurrent archiver and
//! scans.

mod archives;
pub(crate) mod areas;
mod figures;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{DeviceExt, Env, EnvExt, Instant, Io, IoFuture, SharedEnv};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Error as RedoError, Log, MediumReport, OpenLog, Options, Quorum, Recovery,
    Stats, create,
};
use cellar_wait::{Histogram, Kind, Session, Waits};

use self::archives::Archives;
use self::areas::Areas;
pub(crate) use self::figures::{BUCKETS, PARTS, figure, spread};
use crate::content::{STEP, noise};
use crate::control::{Control as Watch, go_on};
use crate::error::LabError;
use crate::place::Disk;

/// The kind of the lab's records, which are never read.
const KIND: u8 = 1;
/// The interval between checkpoints at the end of the log.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(2);
/// The log buffer: so large that a 1 MB commit never waits for space in it.
const LOG_BUFFER: usize = 128 << 20;

/// The plan of a log.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its media: the disk, and the name.
    pub(crate) media: Vec<(usize, &'static str)>,
    /// 512 or 4096.
    pub(crate) block_size: u32,
    /// How many media must have a block.
    pub(crate) quorum: Quorum,
    /// Units in flight.
    pub(crate) in_flight: usize,
    /// The disk for archives of finished groups; none: no archiving.
    pub(crate) archive: Option<usize>,
    /// Concurrent scans of the first disk, each with one read of 1 MiB in flight.
    pub(crate) scans: usize,
    /// How long the sessions commit.
    pub(crate) time: Duration,
}

/// Sessions with the same behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crew {
    /// Its name in figures.
    pub(crate) name: &'static str,
    pub(crate) sessions: usize,
    /// Record size in bytes.
    pub(crate) bytes: usize,
    /// Time between commits, randomized from half to one and a half times; zero: a tight loop.
    pub(crate) think: Duration,
}

/// The result of one crew.
#[derive(Debug)]
pub(crate) struct CrewDone {
    pub(crate) name: &'static str,
    pub(crate) commits: u64,
    /// The total time of its commits, by part.
    pub(crate) parts: [Duration; 8],
    /// `log file sync`.
    pub(crate) sync: Histogram,
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) nanos: u64,
    pub(crate) crews: Vec<CrewDone>,
    pub(crate) stats: Stats,
    pub(crate) media: Vec<MediumReport>,
    /// `log file parallel write`.
    pub(crate) write: Histogram,
    pub(crate) scanned: u64,
    pub(crate) archived: u64,
    pub(crate) block_size: u32,
}

/// Control data in memory: it is not part of the measurement.
#[derive(Default)]
struct MemoryControl(Mutex<Vec<u8>>);

impl Control for MemoryControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async { Ok(self.0.lock().unwrap_or_else(|e| e.into_inner()).clone()) })
    }

    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            *self.0.lock().unwrap_or_else(|e| e.into_inner()) = bytes;
            Ok(())
        })
    }
}

/// Disks with areas for logs, used for one load after another.
pub(crate) struct Bench {
    env: SharedEnv,
    disks: Vec<Disk>,
    areas: Areas,
    stop: Arc<AtomicBool>,
    /// The bytes that records consist of.
    noise: Bytes,
}

impl Bench {
    /// `disks` have these areas, all written; no record is longer than `bytes_max`.
    pub(crate) fn new(
        env: SharedEnv,
        disks: Vec<Disk>,
        areas: Areas,
        bytes_max: usize,
        control: &Watch<'_>,
    ) -> Bench {
        let noise = Bytes::from(noise((2 * bytes_max).next_multiple_of(STEP as usize)));
        Bench { env, disks, areas, stop: control.flag(), noise }
    }

    /// Creates a log as planned, runs the crews on it, and closes it.
    pub(crate) async fn run(&self, plan: &Plan, crews: &[Crew]) -> Result<Done, LabError> {
        go_on(&self.stop)?;
        let waits = Waits::new();
        let log = self.open(plan, waits.session("log", Kind::Background)).await?;
        let beside = Beside::default();
        let archiver = plan.archive.map(|disk| {
            let store = Archives::new(self.areas.archives(&self.disks[disk]));
            self.env.run("archiver", archive(log.clone(), store, beside.clone()))
        });
        let ran = self.work(&log, &waits, plan, crews, &beside).await;
        beside.over.store(true, Ordering::Relaxed);
        // Also wakes the archiver.
        let closed = log.close().await;
        let archived = match archiver {
            Some(archiver) => archiver.await.ok_or(LabError::Stopped).and_then(|ended| ended),
            None => Ok(()),
        };
        let done = ran?;
        closed?;
        archived.map(|()| done)
    }

    /// Removes all traces from the disks.
    pub(crate) async fn wipe(&self) -> Result<(), LabError> {
        for disk in &self.disks {
            self.areas.wipe(disk).await?;
        }
        Ok(())
    }

    async fn open(&self, plan: &Plan, session: Session) -> Result<Log, LabError> {
        let control: Arc<dyn Control> = Arc::new(MemoryControl::default());
        let medium =
            |(disk, name): &(usize, &'static str)| self.areas.medium(&self.disks[*disk], name);
        let media: Vec<_> = plan.media.iter().map(medium).collect();
        let spec = CreateLog {
            // Blocks of the previous log have another database id.
            database: DatabaseId(u128::from(self.env.random()) << 64 | 1),
            block_size: plan.block_size,
            quorum: plan.quorum,
            archiving: plan.archive.is_some(),
            groups: self.areas.new_groups(),
            media: media.clone(),
        };
        create(&self.env, &control, spec).await?;
        let open = OpenLog {
            env: Arc::clone(&self.env),
            session,
            control,
            media,
            options: Options {
                units_in_flight: plan.in_flight,
                log_buffer: LOG_BUFFER,
                ..Options::default()
            },
            returning: Vec::new(),
            force: false,
        };
        Ok(Recovery::start(open).await?.open().await?.0)
    }

    async fn work(
        &self,
        log: &Log,
        waits: &Waits,
        plan: &Plan,
        crews: &[Crew],
        beside: &Beside,
    ) -> Result<Done, LabError> {
        let env = &self.env;
        let start = env.now();
        let end = start.plus(plan.time);
        let checkpoint = checkpoint(log.clone(), Arc::clone(env), beside.clone());
        let checkpoint = env.run("checkpoint", checkpoint);
        let scan = |which: usize| {
            let device = Arc::clone(&self.disks[0].device);
            let places = self.areas.scan(which, plan.scans);
            let (clock, beside) = (Arc::clone(env), beside.clone());
            env.run("scan", async move { scan(&*clock, &*device, places, end, &beside).await })
        };
        let scans: Vec<_> = (0..plan.scans).map(scan).collect();
        let started: Vec<_> = crews.iter().map(|crew| self.sessions(log, *crew, end)).collect();
        let mut done = Vec::new();
        let mut outcome = Ok(());
        for (crew, (waits, sessions)) in crews.iter().zip(started) {
            let (ended, error) = gather(crew.name, &waits, sessions).await;
            done.push(ended);
            outcome = outcome.and(error);
        }
        let nanos = u64::try_from(env.now().since(start).as_nanos()).unwrap_or(u64::MAX);
        let (stats, media) = (log.stats(), log.media());
        let archived = beside.archived.load(Ordering::Relaxed);
        beside.over.store(true, Ordering::Relaxed);
        let mut scanned = 0;
        for scan in scans {
            scanned += scan.await.ok_or(LabError::Stopped)??;
        }
        outcome?;
        checkpoint.await.ok_or(LabError::Stopped)??;
        go_on(&self.stop)?;
        let write = histogram(waits, "log file parallel write");
        let block_size = plan.block_size;
        Ok(Done { nanos, crews: done, stats, media, write, scanned, archived, block_size })
    }

    /// Starts the sessions of a crew; their waits are counted separately.
    fn sessions(&self, log: &Log, crew: Crew, end: Instant) -> (Waits, Vec<Ending>) {
        let waits = Waits::new();
        let one = |_| {
            let session = waits.session("committer", Kind::User);
            let (log, env, stop) = (log.clone(), Arc::clone(&self.env), Arc::clone(&self.stop));
            let noise = self.noise.clone();
            let job = Job { log, env, session, noise, crew, end, stop };
            self.env.run("committer", job.run())
        };
        let sessions = (0..crew.sessions).map(one).collect();
        (waits, sessions)
    }
}

/// State shared by the tasks other than sessions.
#[derive(Clone, Default)]
struct Beside {
    /// The load is over or cannot continue: all tasks end.
    over: Arc<AtomicBool>,
    /// Bytes of archives.
    archived: Arc<AtomicU64>,
}

/// Waits for all sessions of a crew, whatever their results.
async fn gather(
    name: &'static str,
    waits: &Waits,
    sessions: Vec<Ending>,
) -> (CrewDone, Result<(), LabError>) {
    let (mut commits, mut parts, mut outcome) = (0, [Duration::ZERO; 8], Ok(()));
    for session in sessions {
        match session.await.ok_or(LabError::Stopped).and_then(|ended| ended) {
            Ok((more, its)) => {
                commits += more;
                parts.iter_mut().zip(its).for_each(|(sum, part)| *sum += part);
            }
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    let sync = histogram(waits, "log file sync");
    (CrewDone { name, commits, parts, sync }, outcome)
}

/// Commits, and the parts of their time.
type Ending = cellar_io::Handle<Result<(u64, [Duration; 8]), LabError>>;

/// All waits of one name.
fn histogram(waits: &Waits, name: &str) -> Histogram {
    let mut all = Histogram::new();
    for total in waits.totals().iter().filter(|total| total.event.def().name == name) {
        all.merge(&total.histogram);
    }
    all
}

/// The work of one session.
struct Job {
    log: Log,
    env: SharedEnv,
    session: Session,
    noise: Bytes,
    crew: Crew,
    end: Instant,
    stop: Arc<AtomicBool>,
}

impl Job {
    /// Waits half to one and a half times the crew's think time, at random; at first up to
    /// once. Never past the end, which would count as time without commits.
    async fn think(&self, is_first: bool) {
        let nanos = u64::try_from(self.crew.think.as_nanos()).unwrap_or(u64::MAX);
        if nanos > 0 {
            let least = if is_first { 0 } else { nanos / 2 };
            let think = Duration::from_nanos(least + self.env.random() % nanos);
            let until = self.env.now().plus(think).min(self.end);
            self.env.sleep_until(until).await;
        }
    }

    async fn run(self) -> Result<(u64, [Duration; 8]), LabError> {
        let (mut commits, mut parts) = (0, [Duration::ZERO; 8]);
        let room = self.noise.len() - self.crew.bytes;
        self.think(true).await;
        while self.env.now() < self.end {
            go_on(&self.stop)?;
            let from = (self.env.random() % (room as u64 + 1)) as usize;
            let body = self.noise.slice(from..from + self.crew.bytes);
            let done = self.log.commit(&self.session, KIND, 0, body).await?;
            let its = done.breakdown.parts();
            parts.iter_mut().zip(its).for_each(|(sum, (_, part))| *sum += part);
            commits += 1;
            self.think(false).await;
        }
        Ok((commits, parts))
    }
}

/// Archives finished groups until the log closes.
async fn archive(log: Log, store: Archives, beside: Beside) -> Result<(), LabError> {
    loop {
        let archived = match log.archivable().await {
            Ok(()) => log.archive(&store).await,
            Err(error) => Err(error),
        };
        match archived {
            Ok(archived) => {
                let bytes = archived.map_or(0, |archived| archived.bytes);
                beside.archived.fetch_add(bytes, Ordering::Relaxed);
            }
            // The log was closed; if it stopped before that, sessions report the reason.
            Err(RedoError::Stopped { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes the checkpoint follow the log, so that groups can be reused.
async fn checkpoint(log: Log, env: SharedEnv, beside: Beside) -> Result<(), LabError> {
    while !beside.over.load(Ordering::Relaxed) && log.stopped().is_none() {
        env.sleep(CHECKPOINT_EVERY).await;
        let (used, blocks) = log.ring();
        if used * 4 > blocks {
            log.set_checkpoint(log.durable_lsn()).await?;
        }
    }
    Ok(())
}

/// Reads 1 MiB at a time until the end; returns the bytes read.
async fn scan(
    env: &dyn Env,
    device: &dyn cellar_io::Device,
    places: impl Iterator<Item = u64>,
    end: Instant,
    beside: &Beside,
) -> Result<u64, LabError> {
    let mut bytes = 0;
    for at in places {
        device.read_at(Io::SCAN, at, STEP as usize).await?;
        if env.now() >= end || beside.over.load(Ordering::Relaxed) {
            break;
        }
        bytes += STEP;
    }
    Ok(bytes)
}
