//! Committers, each in a thread, the rows that they change, and their statistics.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::device::{Counts, Disk};

/// The request.
pub struct Load {
    /// The directory for files.
    pub dir: PathBuf,
    pub committers: usize,
    /// Size of a record.
    pub bytes: usize,
    pub time: Duration,
    /// Duration of uncounted commits before the measurement.
    pub warm: Duration,
    /// Block size in bytes, for arms with a choice.
    pub block: u32,
    /// Threads of the runtime, for arms with one.
    pub workers: usize,
    /// Initial rows, of which committers change any; 0: one row each.
    pub rows: u64,
    /// Reading threads; 0: rows are changed.
    pub readers: usize,
    /// Bytes of page cache; 0: enough for all rows.
    pub cache: usize,
}

impl Load {
    /// The number of keys, from 0.
    pub fn keys(&self) -> u64 {
        self.rows.max(self.committers as u64)
    }

    /// Upper bound of the bytes of all rows, with their overhead.
    pub fn room(&self) -> usize {
        (self.keys() as usize * (self.bytes + 100) * 2).max(64 << 20)
    }

    /// Bytes of page cache: by default enough for all rows.
    pub fn cache(&self) -> usize {
        if self.cache > 0 { self.cache } else { self.room() }
    }
}

/// Pseudo-random numbers, the same each time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}

/// The keys that a committer changes: no other committer has them.
pub struct Own {
    random: Random,
    committer: u64,
    committers: u64,
    rows: u64,
}

impl Own {
    pub fn new(load: &Load, committer: usize) -> Own {
        let (committer, committers) = (committer as u64, load.committers as u64);
        Own { random: Random(committer * 2 + 1), committer, committers, rows: load.keys() }
    }

    pub fn next(&mut self) -> u64 {
        self.random.below(self.rows / self.committers) * self.committers + self.committer
    }
}

/// A store that makes records durable. Called from as many threads as there are
/// committers.
pub trait Store: Send + Sync {
    /// Returns when the record of that committer is stored under that key and durable.
    fn commit(&self, committer: usize, key: u64, record: &[u8]) -> Result<(), Error>;

    /// Version and settings, for people.
    fn about(&self) -> Value;
}

/// The initial value of a key: it begins with the key.
pub fn row(key: u64, bytes: usize) -> Vec<u8> {
    let mut row = Body::new(key as usize, bytes).bytes;
    row[..8].copy_from_slice(&key.to_le_bytes());
    row
}

/// A record of a committer: incompressible bytes, new each time.
pub struct Body {
    bytes: Vec<u8>,
    number: u64,
}

impl Body {
    pub fn new(committer: usize, length: usize) -> Body {
        let mut state = committer as u64 + 1;
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(length);
        Body { bytes, number: 0 }
    }

    pub fn next(&mut self) -> &[u8] {
        self.number += 1;
        self.bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        &self.bytes
    }
}

/// Commits for some time; returns the latencies, in nanoseconds.
fn commits(store: &dyn Store, load: &Load, time: Duration) -> Result<(Vec<u32>, Duration), Error> {
    let barrier = Barrier::new(load.committers);
    let start = Instant::now();
    let all = std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..load.committers)
            .map(|committer| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut body = Body::new(committer, load.bytes);
                    let mut keys = Own::new(load, committer);
                    let mut took = Vec::with_capacity(1 << 16);
                    barrier.wait();
                    let end = Instant::now() + time;
                    let mut before = Instant::now();
                    while before < end {
                        store.commit(committer, keys.next(), body.next())?;
                        let now = Instant::now();
                        took.push(nanos(now - before));
                        before = now;
                    }
                    Ok::<_, Error>(took)
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.join().map_err(|_| "a committer panicked")??);
        }
        Ok::<_, Error>(all)
    })?;
    Ok((all, start.elapsed()))
}

pub fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

/// Runs a store with the load and prints the results.
pub fn run(arm: &str, store: &dyn Store, load: &Load) -> Result<String, Error> {
    settle(load)?;
    commits(store, load, load.warm)?;
    let watch = Watch::new(load)?;
    let (took, time) = commits(store, load, load.time)?;
    watch.line(arm, load, took, time, &store.about())
}

/// Data of the setup that is still in memory is written to disk before anything is measured.
pub fn settle(load: &Load) -> Result<(), Error> {
    let dir = std::fs::File::open(&load.dir)?;
    rustix::fs::syncfs(dir)?;
    Ok(())
}

/// CPU time of this process so far.
pub fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Disk and CPU while commits run.
pub struct Watch {
    disk: Option<Disk>,
    before: Counts,
    cpu: Duration,
}

impl Watch {
    pub fn new(load: &Load) -> Result<Watch, Error> {
        let disk = Disk::of(&load.dir);
        let before = disk.as_ref().map_or(Ok(Counts::default()), Disk::counts)?;
        Ok(Watch { disk, before, cpu: cpu() })
    }

    pub fn line(
        &self,
        arm: &str,
        load: &Load,
        mut took: Vec<u32>,
        time: Duration,
        about: &Value,
    ) -> Result<String, Error> {
        let cpu = cpu() - self.cpu;
        let counts = match &self.disk {
            Some(disk) => disk.counts()?.since(self.before),
            None => Counts::default(),
        };
        took.sort_unstable();
        let at = |share: f64| {
            let place = (took.len() as f64 * share) as usize;
            took.get(place.min(took.len().saturating_sub(1))).map_or(0.0, |ns| f64::from(*ns) / 1e3)
        };
        let line = json!({
            "arm": arm,
            "about": about,
            "committers": load.committers,
            "bytes": load.bytes,
            "rows": load.rows,
            "seconds": time.as_secs_f64(),
            "commits": took.len(),
            "per_second": took.len() as f64 / time.as_secs_f64(),
            "cpu_us": cpu.as_secs_f64() * 1e6 / took.len().max(1) as f64,
            "us": {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999),
                   "max": at(1.0)},
            "disk": {"name": self.disk.as_ref().map(Disk::name), "writes": counts.writes,
                     "bytes": counts.bytes, "flushes": counts.flushes},
        });
        Ok(line.to_string())
    }
}
