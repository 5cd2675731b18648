//! Segments on simulated disks, and scans of them by several workers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_cell::{Cache, Error, Item, Request, Scan, ScanStats, Segment, Totals, Worker};
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, EnvExt, SharedEnv};

use crate::table::Rng;
use crate::tables::{Image, TABLE, Table};

/// An hour of virtual time is more than any scan takes.
const LIMIT: Duration = Duration::from_secs(3600);

/// A disk for each segment of a table, and the segment on it.
pub fn disks(sim: &Sim, table: &Table) -> Vec<Arc<SimDisk>> {
    let size = table.device_bytes();
    let disk = |image: &Image| {
        let disk = sim.disk(
            &format!("segment{}", image.number),
            SimDiskOptions { size, ..SimDiskOptions::default() },
        );
        image.pieces.iter().for_each(|(at, bytes)| disk.poke(*at, bytes));
        disk
    };
    table.images.iter().map(disk).collect()
}

/// Opens a segment on a device.
pub async fn open(
    device: Arc<dyn Device>,
    table: &Table,
    image: &Image,
) -> Result<Arc<Segment>, Error> {
    let columns = table.types.len();
    Segment::open(device, image.bytes, TABLE, Some(columns), image.rows).await.map(Arc::new)
}

/// Opens all segments of a table, each on its disk.
pub async fn open_all(disks: &[Arc<SimDisk>], table: &Table) -> Vec<Arc<Segment>> {
    let mut segments = Vec::new();
    for (disk, image) in disks.iter().zip(&table.images) {
        let device = Arc::clone(disk) as Arc<dyn Device>;
        segments.push(open(device, table, image).await.expect("a sound disk"));
    }
    segments
}

/// Runs a future to its end, and fails if that takes more than an hour of virtual time.
pub fn run<F: Future>(sim: &Sim, future: F) -> F::Output {
    let env = sim.env();
    let ran = sim.run(async move {
        let limit = env.sleep(LIMIT);
        match futures_util::future::select(Box::pin(future), limit).await {
            futures_util::future::Either::Left((output, _)) => output,
            futures_util::future::Either::Right(_) => panic!("hung: an hour went by"),
        }
    });
    ran.expect("no crash")
}

/// What happens beside a scan, between two results of a worker.
pub type Meanwhile = Arc<dyn Fn(&mut Rng) + Send + Sync>;

/// Nothing happens.
pub fn nothing() -> Meanwhile {
    Arc::new(|_| {})
}

/// What a scan answered.
#[derive(Debug)]
pub struct Answer {
    pub items: Vec<Item>,
    pub errors: Vec<Error>,
    pub totals: Totals,
}

impl Answer {
    /// The results of a scan that came to its end.
    pub fn sound(self) -> Vec<Item> {
        assert!(self.errors.is_empty(), "{:?}", self.errors);
        self.items
    }
}

async fn work(env: SharedEnv, mut worker: Worker, seed: u64, meanwhile: Meanwhile) -> Vec<Next> {
    let (mut rng, mut all) = (Rng(seed), Vec::new());
    let is_lazy = rng.one_in(3);
    loop {
        if rng.one_in(if is_lazy { 2 } else { 20 }) {
            env.sleep(Duration::from_micros(rng.below(400) as u64)).await;
        }
        meanwhile(&mut rng);
        match worker.next().await {
            Some(next) => all.push(next),
            None => return all,
        }
    }
}

type Next = Result<Item, Error>;

/// Runs a scan to its end, with so many workers beside each other.
pub async fn scan_with(
    env: &SharedEnv,
    request: Request,
    cache: &Cache,
    (workers, seed): (usize, u64),
    meanwhile: Meanwhile,
) -> Answer {
    let stats = Arc::new(ScanStats::default());
    let scan = Scan::new(request, cache.clone(), Arc::clone(env), Arc::clone(&stats));
    let all: Arc<Mutex<Vec<Next>>> = Arc::default();
    let tasks: Vec<_> = (0..workers)
        .map(|at| {
            let (worker, all) = (scan.worker(), Arc::clone(&all));
            let (seed, own) = (seed ^ (at as u64) << 32, Arc::clone(env));
            let work = work(own, worker, seed, Arc::clone(&meanwhile));
            env.run("worker", async move {
                let next = work.await;
                all.lock().expect("no panic").extend(next);
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a worker comes to its end");
    }
    let mut answer = Answer { items: Vec::new(), errors: Vec::new(), totals: stats.totals() };
    for next in std::mem::take(&mut *all.lock().expect("no panic")) {
        match next {
            Ok(item) => answer.items.push(item),
            Err(error) => answer.errors.push(error),
        }
    }
    answer
}

/// The same, by one worker, with nothing kept in memory.
pub async fn scan(env: &SharedEnv, request: Request) -> Answer {
    scan_with(env, request, &Cache::new(0), (1, 0), nothing()).await
}

/// Whether nothing holds these segments any more but the caller, once what is on its way has ended.
pub async fn is_released(env: &SharedEnv, segments: &[Arc<Segment>]) -> bool {
    env.sleep(Duration::from_secs(5)).await;
    segments.iter().all(|segment| Arc::strong_count(segment) == 1)
}
