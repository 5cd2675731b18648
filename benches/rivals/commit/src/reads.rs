//! Readers of rows in memory, each in a thread, and their statistics.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::load::{Load, Random, cpu, settle};

/// A store whose rows are read.
pub trait Reads: Sync {
    /// Reads the rows of these keys, each in its current state. Called in as many threads as there are
    /// readers.
    fn read(&self, keys: &mut Keys) -> Result<(), Error>;

    /// The method of reading, for people.
    fn how(&self) -> &'static str;
}

/// Reads between two looks at the clock.
const AT_ONCE: u64 = 64;

/// The keys of a reader, until its time is over.
pub struct Keys {
    order: Order,
    rows: u64,
    bytes: usize,
    /// The previous key.
    sought: u64,
    count: u64,
}

enum Order {
    /// Each key once.
    All,
    ByChance(Random, Instant),
}

impl Keys {
    pub fn next(&mut self) -> Option<u64> {
        let next = match &mut self.order {
            Order::All => Some(self.count).filter(|count| *count < self.rows),
            Order::ByChance(_, end)
                if self.count.is_multiple_of(AT_ONCE) && Instant::now() >= *end =>
            {
                None
            }
            Order::ByChance(random, _) => Some(random.below(self.rows)),
        };
        self.sought = next?;
        self.count += 1;
        next
    }

    /// Checks whether a row is that of the last key.
    pub fn got(&self, row: &[u8]) -> Result<(), Error> {
        match row.len() == self.bytes && row[..8] == self.sought.to_le_bytes() {
            true => Ok(()),
            false => Err(format!("the row of key {} is another", self.sought).into()),
        }
    }
}

/// Reads for some time in all threads; returns the number, and the time. First each thread reads all rows once.
fn reads(store: &dyn Reads, load: &Load) -> Result<(u64, Duration, Duration), Error> {
    let barrier = Barrier::new(load.readers + 1);
    let keys = |order| Keys { order, rows: load.keys(), bytes: load.bytes, sought: 0, count: 0 };
    std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..load.readers)
            .map(|reader| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut all = keys(Order::All);
                    let warmed = store.read(&mut all);
                    barrier.wait();
                    warmed?;
                    let random = Random(reader as u64 * 2 + 1);
                    let mut own = keys(Order::ByChance(random, Instant::now() + load.time));
                    store.read(&mut own)?;
                    Ok::<_, Error>(own.count)
                })
            })
            .collect();
        barrier.wait();
        let (start, before) = (Instant::now(), cpu());
        let mut count = 0;
        for task in tasks {
            count += task.join().map_err(|_| "a reader panicked")??;
        }
        Ok((count, start.elapsed(), cpu() - before))
    })
}

/// Runs a store with the readers and prints the results.
pub fn run(arm: &str, store: &dyn Reads, load: &Load, about: Value) -> Result<String, Error> {
    settle(load)?;
    let (count, time, cpu) = reads(store, load)?;
    let (reads, readers) = (count.max(1) as f64, load.readers as f64);
    let line = json!({
        "arm": arm,
        "about": {"version": about["version"], "how": store.how()},
        "readers": load.readers,
        "bytes": load.bytes,
        "rows": load.rows,
        "seconds": time.as_secs_f64(),
        "reads": count,
        "per_second": reads / time.as_secs_f64(),
        "ns": time.as_secs_f64() * 1e9 * readers / reads,
        "cpu_ns": cpu.as_secs_f64() * 1e9 / reads,
    });
    Ok(line.to_string())
}
