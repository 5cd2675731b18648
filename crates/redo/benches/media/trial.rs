//! One trial of `dying`: a new log, a death amid commits, and the opening without the dead medium.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::real::{OpenOptions, RealEnv, Runtime, open_disk};
use cellar_io::sim::Rng;
use cellar_io::{Device, Env, EnvExt, Instant};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Error, Log, Lsn, Medium, NewGroup, OpenLog, Options, Quorum, Record,
    Recovery, create,
};
use cellar_wait::{Kind, Session, Waits};

use crate::common::prepare;
use crate::machine::{Death, Fate, FileControl, Machine, Mortal};

pub const GROUP_BYTES: u64 = 4 << 20;
pub const GROUPS: u32 = 3;
pub const COMMITTERS: u32 = 4;
/// The minimum time of committing, and the time after the death is recorded.
const AFTER_DEATH: Duration = Duration::from_millis(60);
const AFTER_RECORDED: Duration = Duration::from_millis(10);
/// The time limit for recording a death.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Real files, opened once.
pub struct Disks {
    env: Arc<RealEnv>,
    media: Vec<BTreeMap<u32, Arc<dyn Device>>>,
    control: Arc<dyn Device>,
}

/// An acknowledged record.
struct Ack {
    lsn: Lsn,
    /// The number of the record, among those of its committer.
    number: u32,
    at: Instant,
}

/// The result of a trial.
pub struct Outcome {
    pub acknowledged: usize,
    /// Acknowledged records that are missing or changed.
    pub lost: usize,
    /// The longest time without an acknowledgement from the last one before the death on.
    pub gap: Duration,
    /// The longest one before that.
    pub gap_before: Duration,
    /// The longest disk time of a request from the death on: no log is faster than that.
    pub slowest: Duration,
    /// From the death until the control data recorded it.
    pub recorded: Option<Duration>,
    pub problem: Option<String>,
}

impl Disks {
    pub fn open(runtime: &Runtime, dir: &Path) -> Disks {
        let env = Arc::clone(runtime.real_env());
        let open = |name: String, size| {
            let path = dir.join(name);
            prepare(&path, size);
            open_disk(&env, &path, &OpenOptions::default()).unwrap() as Arc<dyn Device>
        };
        let file = |medium, group| (group, open(format!("small{medium}-{group}"), GROUP_BYTES));
        let media = (0..3).map(|m| (1..=GROUPS).map(|g| file(m, g)).collect()).collect();
        let control = open("control".to_owned(), FileControl::BYTES.next_multiple_of(1 << 20));
        Disks { env, media, control }
    }
}

/// The disks while the machine is on.
struct Running {
    machine: Arc<Machine>,
    fates: Vec<Arc<Fate>>,
    media: Vec<Medium>,
    control: Arc<FileControl>,
    waits: Waits,
}

impl Running {
    /// With media by number.
    fn new(disks: &Disks, numbers: &[usize]) -> Running {
        let machine = Arc::new(Machine::new(disks.env.clone()));
        let mortal = |inner: &Arc<dyn Device>, fate: &Arc<Fate>| {
            let (inner, fate, machine) =
                (Arc::clone(inner), Arc::clone(fate), Arc::clone(&machine));
            Arc::new(Mortal { inner, fate, machine }) as Arc<dyn Device>
        };
        let fates: Vec<Arc<Fate>> = numbers.iter().map(|_| Arc::default()).collect();
        let medium = |(number, fate): (&usize, &Arc<Fate>)| Medium {
            name: format!("m{number}"),
            files: disks.media[*number].iter().map(|(g, file)| (*g, mortal(file, fate))).collect(),
        };
        let media = numbers.iter().zip(&fates).map(medium).collect();
        let control = Arc::new(FileControl(mortal(&disks.control, &Arc::default())));
        Running { machine, fates, media, control, waits: Waits::new() }
    }

    fn opening(&self, disks: &Disks) -> OpenLog {
        OpenLog {
            env: disks.env.clone(),
            session: self.waits.session("redo", Kind::Background),
            control: self.control.clone(),
            media: self.media.clone(),
            options: Options::default(),
            returning: Vec::new(),
            force: false,
        }
    }

    fn session(&self) -> Session {
        self.waits.session("committer", Kind::User)
    }
}

pub struct Trial {
    pub disks: Arc<Disks>,
    pub media: usize,
    pub death: Death,
    pub seed: u64,
    pub number: u64,
}

impl Trial {
    pub async fn run(self) -> Outcome {
        let mut rng = Rng::stream(self.seed, self.number);
        let bytes_max = [200, 4000, 20_000][rng.below(3) as usize];
        let numbers: Vec<usize> = (0..self.media).collect();
        let running = Running::new(&self.disks, &numbers);
        let log = self.create(&running).await;
        let env = &self.disks.env;
        let committers: Vec<_> =
            (0..COMMITTERS).map(|c| self.committer(c, bytes_max, &running, &log)).collect();
        let checkpoints = tokio::spawn(checkpoints(Arc::clone(env), log.clone()));
        env.sleep(Duration::from_micros(rng.within(30_000..=80_000))).await;
        let victim = rng.below(self.media as u64) as usize;
        running.machine.slowest();
        running.fates[victim].die(self.death);
        let died = env.now();
        let recorded = self.recorded(&running, victim, died).await;
        let end = env.now();
        let slowest = running.machine.slowest();
        running.machine.switch_off().await;
        drop(log);
        let mut acks = BTreeMap::new();
        for (committer, task) in (0..).zip(committers) {
            acks.insert(committer, task.await.unwrap());
        }
        checkpoints.await.unwrap();
        let mut times: Vec<Instant> = acks.values().flatten().map(|ack: &Ack| ack.at).collect();
        times.retain(|at| *at <= end);
        times.sort_unstable();
        let (gap_before, gap) = gaps(&times, died, end);
        let acknowledged = acks.values().map(Vec::len).sum();
        let survivors: Vec<usize> = numbers.into_iter().filter(|m| *m != victim).collect();
        let mut checked = self.recover(&survivors, bytes_max, &acks).await;
        if recorded.is_none() && checked.1.is_none() {
            checked.1 = Some(format!("its death was not recorded within {TIMEOUT:?}"));
        }
        let (lost, problem) = checked;
        Outcome { acknowledged, lost, gap, gap_before, slowest, recorded, problem }
    }

    async fn create(&self, running: &Running) -> Log {
        let env = &self.disks.env;
        running.control.clear().await;
        let spec = CreateLog {
            database: DatabaseId(u128::from(env.random())),
            block_size: 4096,
            quorum: Quorum::Auto,
            archiving: false,
            groups: (1..=GROUPS).map(|number| NewGroup { number, size: GROUP_BYTES }).collect(),
            media: running.media.clone(),
        };
        let (shared, control) = (env.clone() as _, running.control.clone() as Arc<dyn Control>);
        create(&shared, &control, spec).await.unwrap();
        let recovery = Recovery::start(running.opening(&self.disks)).await.unwrap();
        recovery.open().await.unwrap().0
    }

    /// Commits until the log stops; returns the acknowledged records.
    fn committer(
        &self,
        committer: u32,
        bytes_max: u64,
        running: &Running,
        log: &Log,
    ) -> tokio::task::JoinHandle<Vec<Ack>> {
        let (log, session, env) = (log.clone(), running.session(), Arc::clone(&self.disks.env));
        let (seed, trial) = (self.seed, self.number);
        tokio::spawn(async move {
            let mut acks = Vec::new();
            for number in 0.. {
                let body = body(seed, trial, committer, number, bytes_max);
                let Ok(done) = log.commit(&session, committer as u8, 0, body).await else { break };
                acks.push(Ack { lsn: done.lsn, number, at: env.now() });
            }
            acks
        })
    }

    /// Waits until the control data record that the medium failed, and a little longer; returns the time
    /// until the record.
    async fn recorded(&self, running: &Running, victim: usize, died: Instant) -> Option<Duration> {
        let env = &self.disks.env;
        let mut recorded = None;
        while recorded.is_none() && env.now() < died.plus(TIMEOUT) {
            env.sleep(Duration::from_millis(1)).await;
            let data = running.control.data().await.unwrap();
            if data.is_some_and(|(data, _)| !data.media[victim].state.is_active()) {
                recorded = Some(env.now().since(died));
            }
        }
        let until = env.now().plus(AFTER_RECORDED).max(died.plus(AFTER_DEATH));
        env.sleep_until(until).await;
        recorded
    }

    /// Opens the log with the remaining media; counts lost records, and reports what is wrong.
    async fn recover(
        &self,
        survivors: &[usize],
        bytes_max: u64,
        acks: &BTreeMap<u32, Vec<Ack>>,
    ) -> (usize, Option<String>) {
        let running = Running::new(&self.disks, survivors);
        let opened = async {
            let mut recovery = Recovery::start(running.opening(&self.disks)).await?;
            let checkpoint = recovery.checkpoint();
            let mut records = Vec::new();
            while let Some(record) = recovery.next().await? {
                records.push(record);
            }
            let (log, _) = recovery.open().await?;
            log.commit(&running.session(), 0, 0, Bytes::from_static(b"it goes on")).await?;
            Ok::<_, Error>((checkpoint, records))
        };
        let opened = opened.await;
        running.machine.switch_off().await;
        match opened {
            Ok((checkpoint, records)) => self.check(checkpoint, &records, bytes_max, acks),
            Err(error) => {
                let all = acks.values().map(Vec::len).sum();
                (all, Some(format!("not opened: {error}")))
            }
        }
    }

    /// Checks that each acknowledged record from the checkpoint on is at its LSN, unchanged;
    /// those of a committer are in order, without a hole; there are no others.
    fn check(
        &self,
        checkpoint: Lsn,
        records: &[Record],
        bytes_max: u64,
        acks: &BTreeMap<u32, Vec<Ack>>,
    ) -> (usize, Option<String>) {
        let mut problem = None;
        let mut next: BTreeMap<u32, u32> = BTreeMap::new();
        for record in records {
            let committer = u32::from(record.kind);
            let number = record.body.get(..4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
            let due = *next.entry(committer).or_insert(number.unwrap_or(0));
            next.insert(committer, due + 1);
            if record.body != body(self.seed, self.number, committer, due, bytes_max) {
                problem = Some(format!("not record {due} of {committer} at {}", record.lsn));
            }
        }
        if !records.is_sorted_by(|a, b| a.lsn < b.lsn) {
            problem = Some("records out of order".to_owned());
        }
        let found: BTreeMap<Lsn, &Record> = records.iter().map(|r| (r.lsn, r)).collect();
        let mut lost = 0;
        for (committer, acks) in acks {
            if !acks.is_sorted_by(|a, b| a.lsn < b.lsn && a.at <= b.at) {
                problem = Some(format!("acknowledgements of {committer} out of order"));
            }
            for ack in acks.iter().filter(|ack| ack.lsn >= checkpoint) {
                let given = body(self.seed, self.number, *committer, ack.number, bytes_max);
                let is_it =
                    |record: &&Record| record.body == given && u32::from(record.kind) == *committer;
                if found.get(&ack.lsn).filter(|record| is_it(record)).is_none() {
                    lost += 1;
                    problem = Some(format!("record {} of {committer} is lost", ack.number));
                }
            }
        }
        (lost, problem)
    }
}

/// The body of a record: its number, and bytes derived from it.
fn body(seed: u64, trial: u64, committer: u32, number: u32, bytes_max: u64) -> Bytes {
    let stream = trial << 40 ^ u64::from(committer) << 32 ^ u64::from(number);
    let mut rng = Rng::stream(seed, stream);
    let mut bytes = vec![0; rng.within(4..=bytes_max) as usize];
    rng.fill(&mut bytes);
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes.into()
}

/// Frees space when half of the log is in use.
async fn checkpoints(env: Arc<RealEnv>, log: Log) {
    while log.stopped().is_none() {
        let (used, all) = log.ring();
        if used > all / 2 && log.set_checkpoint(log.durable_lsn()).await.is_err() {
            return;
        }
        env.sleep(Duration::from_millis(2)).await;
    }
}

/// The longest time without an acknowledgement before the death, and from the last one before it.
fn gaps(times: &[Instant], died: Instant, end: Instant) -> (Duration, Duration) {
    let longest = |times: &[Instant]| {
        times.windows(2).map(|two| two[1].since(two[0])).max().unwrap_or_default()
    };
    let before = times.partition_point(|at| *at < died);
    let mut after = times[before.saturating_sub(1)..].to_vec();
    after.push(end);
    (longest(&times[..before]), longest(&after))
}
