//! The small scope, all of it: a few commits, and after each step of the machine every subset of
//! the sectors that were on their way. What was acknowledged is always there.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::sim::{Rng, Sim};
use cellar_io::{
    Buffer, Device, Discard, Durability, EnvExt, Geometry, Io, IoFuture, SharedEnv, check_request,
};
use cellar_redo::{
    Control, CreateLog, Error, Log, Medium, NewGroup, OpenLog, Options, Quorum, Record, Recovery,
    create,
};
use cellar_wait::{Kind, Waits};

use crate::support::DATABASE;

const SECTOR: usize = 512;
const BLOCKS: usize = 8;
const FILE: usize = 8192 + BLOCKS * SECTOR;
const GROUPS: usize = 3;
/// So many sectors on their way are tried in every combination; of more, a sample.
const SECTORS_MAX: u32 = 12;
const SAMPLE: u64 = 24;

/// What happened, in order.
#[derive(Clone)]
enum Step {
    Write {
        id: u64,
        disk: usize,
        offset: usize,
        data: Bytes,
    },
    Done {
        id: u64,
    },
    Store {
        bytes: Vec<u8>,
    },
    Stored,
    /// The record was given to the log, in this order.
    Placed {
        record: u8,
    },
    Acknowledged {
        record: u8,
    },
}

#[derive(Default)]
struct Trace {
    steps: Vec<Step>,
    next: u64,
}

/// What the media and the control data hold.
#[derive(Clone, PartialEq, Eq)]
struct Images {
    media: Vec<Vec<u8>>,
    control: Vec<u8>,
}

/// A machine whose writes are noted, and take a while.
struct Noted {
    env: SharedEnv,
    trace: Arc<Mutex<Trace>>,
    images: Arc<Mutex<Images>>,
    slow: bool,
}

impl Noted {
    fn pause(&self) -> cellar_io::Task {
        let micros = if self.slow { 20 + self.env.random() % 180 } else { 0 };
        self.env.sleep(Duration::from_micros(micros))
    }
}

struct Part {
    machine: Arc<Noted>,
    disk: usize,
    start: usize,
}

impl Device for Part {
    fn geometry(&self) -> Geometry {
        Geometry {
            name: format!("medium{}", self.disk).into(),
            size: FILE as u64,
            logical_sector: SECTOR as u32,
            physical_sector: SECTOR as u32,
            transfer_max: 0,
            queue_depth: 0,
            volatile_cache: true,
            fast_zero: false,
        }
    }

    fn read(&self, _: Io, offset: u64, mut buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        let images = self.machine.images.lock().unwrap();
        let mut at = self.start + offset as usize;
        for buffer in &mut buffers {
            let length = buffer.len();
            buffer.copy_from_slice(&images.media[self.disk][at..at + length]);
            at += length;
        }
        Box::pin(ready(Ok(buffers)))
    }

    fn write(&self, _: Io, offset: u64, data: Vec<Bytes>, _: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let lengths = data.iter().map(Bytes::len);
            check_request(&self.geometry(), cellar_io::Op::Write, offset, lengths)?;
            let data = Bytes::from(data.concat());
            let offset = self.start + offset as usize;
            let id = {
                let mut trace = self.machine.trace.lock().unwrap();
                trace.next += 1;
                let id = trace.next;
                let data = data.clone();
                trace.steps.push(Step::Write { id, disk: self.disk, offset, data });
                id
            };
            self.machine.pause().await;
            let mut images = self.machine.images.lock().unwrap();
            images.media[self.disk][offset..offset + data.len()].copy_from_slice(&data);
            self.machine.trace.lock().unwrap().steps.push(Step::Done { id });
            Ok(())
        })
    }

    fn flush(&self, _: Io) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn discard(&self, _: Io, _: u64, _: u64, _: Discard) -> IoFuture<'_, ()> {
        unreachable!("the log discards nothing")
    }
}

impl Control for Noted {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(ready(Ok(self.images.lock().unwrap().control.clone())))
    }

    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let step = Step::Store { bytes: bytes.clone() };
            self.trace.lock().unwrap().steps.push(step);
            self.pause().await;
            self.images.lock().unwrap().control = bytes;
            self.trace.lock().unwrap().steps.push(Step::Stored);
            Ok(())
        })
    }
}

fn machine(sim: &Sim, images: Images, slow: bool) -> Arc<Noted> {
    let images = Arc::new(Mutex::new(images));
    Arc::new(Noted { env: sim.env(), trace: Arc::default(), images, slow })
}

fn media(machine: &Arc<Noted>) -> Vec<Medium> {
    let count = machine.images.lock().unwrap().media.len();
    let file = |disk: usize, group: usize| {
        let part = Part { machine: Arc::clone(machine), disk, start: group * FILE };
        (group as u32 + 1, Arc::new(part) as Arc<dyn Device>)
    };
    let medium = |disk| Medium {
        name: format!("medium{disk}"),
        files: (0..GROUPS).map(|group| file(disk, group)).collect::<BTreeMap<_, _>>(),
    };
    (0..count).map(medium).collect()
}

async fn open(machine: &Arc<Noted>, in_flight: usize) -> Result<(Log, Vec<Record>), Error> {
    let log = OpenLog {
        env: Arc::clone(&machine.env),
        session: Waits::new().session("redo", Kind::Background),
        control: Arc::clone(machine) as Arc<dyn Control>,
        media: media(machine),
        options: Options {
            unit_bytes: 4 * SECTOR,
            units_in_flight: in_flight,
            ..Options::default()
        },
        returning: Vec::new(),
        force: false,
    };
    let mut recovery = Recovery::start(log).await?;
    let mut records = Vec::new();
    while let Some(record) = recovery.next().await? {
        records.push(record);
    }
    Ok((recovery.open().await?.0, records))
}

/// A few commits, some at once: the images before, and what happened.
fn workload(seed: u64) -> (Images, Vec<Step>) {
    let mut rng = Rng::stream(seed, 5);
    let sim = Sim::new(seed);
    let count = 1 + rng.below(3) as usize;
    let empty = Images { media: vec![vec![0; GROUPS * FILE]; count], control: Vec::new() };
    let quiet = machine(&sim, empty, false);
    let spec = CreateLog {
        database: DATABASE,
        block_size: SECTOR as u32,
        quorum: Quorum::Auto,
        archiving: false,
        groups: (1..=GROUPS as u32).map(|number| NewGroup { number, size: FILE as u64 }).collect(),
        media: media(&quiet),
    };
    let before = rng.below(9);
    let control = Arc::clone(&quiet) as Arc<dyn Control>;
    sim.run(async {
        create(&sim.env(), &control, spec).await.expect("created");
        // So that the commits that are looked at meet the end of a group as well.
        let (log, _) = open(&quiet, 4).await.expect("opened");
        let session = Waits::new().session("before", Kind::User);
        for _ in 0..before {
            let done = log.commit(&session, 100, 0, Bytes::new()).await.expect("committed");
            log.set_checkpoint(done.end).await.expect("checkpoint");
        }
        log.close().await.expect("closed");
    })
    .expect("no crash");
    let images = quiet.images.lock().unwrap().clone();
    let slow = machine(&sim, images.clone(), true);
    let (in_flight, commits) = (rng.within(1..=4) as usize, rng.within(1..=3) as u8);
    let lengths: Vec<usize> = (0..commits).map(|_| rng.below(900) as usize).collect();
    sim.run(async {
        let (log, _) = open(&slow, in_flight).await.expect("opened");
        let tasks: Vec<_> = (0..commits)
            .map(|record| {
                let (log, trace) = (log.clone(), Arc::clone(&slow.trace));
                let body = vec![record; lengths[usize::from(record)]].into();
                let after = Duration::from_micros(sim.env().random() % 150);
                let sleep = sim.env().sleep(after);
                slow.env.run("committer", async move {
                    sleep.await;
                    let session = Waits::new().session("committer", Kind::User);
                    let placed = log.append(&session, record, 0, body).await.expect("placed");
                    trace.lock().unwrap().steps.push(Step::Placed { record });
                    log.wait_durable(&session, placed.end).await.expect("durable");
                    trace.lock().unwrap().steps.push(Step::Acknowledged { record });
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("committed");
        }
        log.close().await.expect("closed");
    })
    .expect("no crash");
    let steps = std::mem::take(&mut slow.trace.lock().unwrap().steps);
    (images, steps)
}

/// Everything that may be left after the first `count` steps.
fn for_each_crash(
    images: &Images,
    steps: &[Step],
    rng: &mut Rng,
    mut check: impl FnMut(Images, &mut Rng),
) {
    let mut base = images.clone();
    let mut flying: BTreeMap<u64, (usize, usize, Bytes)> = BTreeMap::new();
    let mut storing = None;
    for step in steps {
        match step {
            Step::Write { id, disk, offset, data } => {
                flying.insert(*id, (*disk, *offset, data.clone()));
            }
            Step::Done { id } => {
                let (disk, offset, data) = flying.remove(id).expect("it was on its way");
                base.media[disk][offset..offset + data.len()].copy_from_slice(&data);
            }
            Step::Store { bytes } => storing = Some(bytes.clone()),
            Step::Stored => base.control = storing.take().expect("it was on its way"),
            Step::Placed { .. } | Step::Acknowledged { .. } => {}
        }
    }
    let sectors: Vec<(usize, usize, Bytes)> = flying
        .into_values()
        .flat_map(|(disk, offset, data)| {
            let length = data.len();
            let part = move |at: usize| (disk, offset + at, data.slice(at..at + SECTOR));
            (0..length).step_by(SECTOR).map(part)
        })
        .collect();
    let count = sectors.len() as u32;
    let subsets: Vec<u64> = match count <= SECTORS_MAX {
        true => (0..1 << count).collect(),
        false => (0..SAMPLE).map(|_| rng.bits()).chain([0, u64::MAX]).collect(),
    };
    for subset in subsets {
        let mut left = base.clone();
        for (bit, (disk, offset, data)) in sectors.iter().enumerate() {
            if subset >> (bit % 64) & 1 == 1 {
                left.media[*disk][*offset..offset + SECTOR].copy_from_slice(data);
            }
        }
        if let Some(bytes) = &storing {
            check(Images { control: bytes.clone(), ..left.clone() }, rng);
        }
        check(left, rng);
    }
}

/// Recovers what is left; the records, and what recovery did.
fn recover(images: Images, slow: bool) -> (Vec<Record>, Vec<Step>) {
    let sim = Sim::new(1);
    let machine = machine(&sim, images, slow);
    let records = sim.run(async {
        match open(&machine, 4).await {
            Ok((_, records)) => records,
            Err(error) => panic!("not opened: {error}"),
        }
    });
    let steps = std::mem::take(&mut machine.trace.lock().unwrap().steps);
    (records.expect("no crash"), steps)
}

/// The records are the first ones that were given to the log, and all that were acknowledged.
fn check(records: &[Record], placed: &[u8], acknowledged: &[u8]) {
    let found: Vec<u8> = records.iter().map(|r| r.kind).filter(|kind| *kind != 100).collect();
    assert!(found.len() <= placed.len(), "{found:?} of {placed:?}");
    assert_eq!(found, placed[..found.len()], "not the first of {placed:?}");
    assert!(acknowledged.iter().all(|a| found.contains(a)), "{acknowledged:?} not in {found:?}");
    assert!(records.iter().all(|r| r.kind == 100 || r.body.iter().all(|b| *b == r.kind)));
}

#[test]
fn every_subset_at_every_crash_point() {
    let seeds = std::env::var("CELLAR_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    let mut recoveries = 0u64;
    for seed in 0..seeds {
        let (images, steps) = workload(seed);
        let mut rng = Rng::stream(seed, 9);
        let (mut placed, mut acknowledged) = (Vec::new(), Vec::new());
        for count in 0..=steps.len() {
            match count.checked_sub(1).map(|last| &steps[last]) {
                Some(Step::Placed { record }) => placed.push(*record),
                Some(Step::Acknowledged { record }) => acknowledged.push(*record),
                _ => {}
            }
            for_each_crash(&images, &steps[..count], &mut rng, |left, rng| {
                recoveries += 1;
                let deep = rng.one_in(1500);
                let (records, again) = recover(left.clone(), deep);
                check(&records, &placed, &acknowledged);
                // Now and then the recovery itself is cut off, at every step.
                for cut in 0..if deep { again.len() } else { 0 } {
                    for_each_crash(&left, &again[..cut], rng, |left, _| {
                        recoveries += 1;
                        assert_eq!(recover(left, false).0, records, "another crash, another end");
                    });
                }
            });
        }
    }
    println!("{recoveries} recoveries");
}
