//! Measurement of the cost of 512-byte blocks on a device, written as a log writes.
//!
//! A log never writes a block twice, and units follow each other: eight blocks of 512 bytes go into the
//! same 4,096-byte page. So each size has a stretch of its own, and bursts of both sizes that are close
//! in time are compared: within a burst the head of a disk, or the page that flash has in memory, stays
//! where it is, and a disturbance hits both. The first writes of a burst bring the disk there and are
//! not counted. The counted writes cover a whole page, so that a cost that comes once a page, or at
//! random every other time, is counted in proportion. Only the middle half of the ratios of pairs
//! counts, so an occasional late write does not change the result.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{Buffer, Device, DeviceExt, Durability, Io, IoError, SharedEnv};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::AS_GOOD;

/// Writes of a burst that count.
const COUNTED: u32 = 8;
/// Units in flight under load, as many as a log has.
const IN_FLIGHT: u32 = 4;
/// Bytes of a unit under load, where blocks are smaller: about four records of 200 bytes.
const UNIT: u64 = 1024;
/// Rounds that are always made, however long they take.
const ROUNDS_MIN: usize = 2;
/// Rounds, and time, after which the result may be clear.
const ROUNDS_CLEAR: usize = 16;
const TIME_CLEAR: Duration = Duration::from_millis(200);
/// A standard error of 1 % is good enough for anything.
const ERROR_CLEAR: f64 = 0.01;
/// Each size has a stretch of so many bytes, or of half the file.
const STRETCH: u64 = 1 << 20;
/// The bytes to be written, over and over.
const CONTENT: u64 = 64 << 10;

/// The write times of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// The logarithm of how many times as long 512 takes as 4,096: the mean of one at a time and under
    /// load.
    pub(super) log: f64,
    /// The standard error of that.
    pub(super) error: f64,
    /// The time of a durable write of 4,096 bytes, alone.
    pub(super) seconds_4096: f64,
}

impl Cost {
    /// The time of a durable write of 512 bytes, alone.
    pub(super) fn seconds_512(&self) -> f64 {
        self.seconds_4096 * self.log.exp()
    }
}

/// Where blocks of one size are written.
struct Stretch<'a> {
    env: &'a SharedEnv,
    device: &'a dyn Device,
    content: Bytes,
    block: u64,
    start: u64,
    size: u64,
    next: u64,
}

impl Stretch<'_> {
    /// The next place, and what is written there.
    fn take(&mut self, bytes: u64) -> (u64, Bytes) {
        if self.next + bytes > self.size {
            self.next = 0;
        }
        let at = self.next;
        self.next += bytes;
        let from = at % (CONTENT - bytes);
        let from = (from - from % self.block) as usize;
        (self.start + at, self.content.slice(from..from + bytes as usize))
    }

    /// Seconds of a block, one after the other.
    async fn alone(&mut self) -> Result<f64, IoError> {
        let mut began = self.env.now();
        for write in 0..=COUNTED {
            if write == 1 {
                began = self.env.now();
            }
            let (at, data) = self.take(self.block);
            self.device.write_alone(Io::COMMIT, at, vec![data]).await?;
        }
        Ok(self.env.now().since(began).as_secs_f64() / f64::from(COUNTED))
    }

    /// Seconds from one unit to the next, several in flight.
    async fn crowd(&mut self) -> Result<f64, IoError> {
        let (env, device, unit) = (self.env, self.device, self.block.max(UNIT));
        let mut began = env.now();
        let mut running = FuturesUnordered::new();
        let (mut sent, mut done) = (0, 0);
        while done < IN_FLIGHT + COUNTED {
            while sent < done + IN_FLIGHT && sent < IN_FLIGHT + COUNTED {
                let (at, data) = self.take(unit);
                running.push(device.write_at(Io::COMMIT, at, data, Durability::Durable));
                sent += 1;
            }
            if let Some(written) = running.next().await {
                written?;
            }
            done += 1;
            if done == IN_FLIGHT {
                began = env.now();
            }
        }
        Ok(env.now().since(began).as_secs_f64() / f64::from(COUNTED))
    }
}

/// Measures for about `time`, less where it is clear earlier. What was there is zeros afterwards.
pub(super) async fn cost_of_512(
    env: &SharedEnv,
    device: &Arc<dyn Device>,
    time: Duration,
) -> Result<Cost, IoError> {
    let size = (device.geometry().size / 2).min(STRETCH) / 4096 * 4096;
    let content = Buffer::noise(CONTENT as usize, env.random()).freeze();
    let stretch = |(which, block)| {
        let (device, content) = (&**device, content.clone());
        Stretch { env, device, content, block, start: which * size, size, next: 0 }
    };
    let mut stretches = [(0, 512), (1, 4096)].map(stretch);
    let began = env.now();
    let (mut logs, mut larges) = (Vec::new(), Vec::new());
    loop {
        let order = if logs.len().is_multiple_of(2) { [0, 1] } else { [1, 0] };
        let mut took = [[0.0; 2]; 2];
        for which in order {
            took[0][which] = stretches[which].alone().await?;
        }
        for which in order {
            took[1][which] = stretches[which].crowd().await?;
        }
        larges.push(took[0][1]);
        let log = |[small, large]: [f64; 2]| match small > 0.0 && large > 0.0 {
            true => (small / large).ln(),
            false => 0.0,
        };
        logs.push((log(took[0]) + log(took[1])) / 2.0);
        let elapsed = env.now().since(began);
        let may_be_clear = logs.len() >= ROUNDS_CLEAR && elapsed >= TIME_CLEAR;
        if elapsed >= time && logs.len() >= ROUNDS_MIN || may_be_clear && is_clear(&logs) {
            break;
        }
    }
    // The test data must not be mistaken for blocks of the log.
    for start in [0, size] {
        let zeros = Buffer::zeroed(size as usize).freeze();
        device.write_at(Io::COMMIT, start, zeros, Durability::Durable).await?;
    }
    let (log, error) = middle(&logs);
    Ok(Cost { log, error, seconds_4096: middle(&larges).0 })
}

/// Whether more rounds would not change the choice.
fn is_clear(logs: &[f64]) -> bool {
    let (log, error) = middle(logs);
    error <= ERROR_CLEAR || (log - AS_GOOD.ln()).abs() >= 5.0 * error
}

/// The mean of the middle half, and its standard error. For normally distributed values the middle half
/// spans 1.35 standard deviations, and its mean has 1.09 times the error of the mean of all.
fn middle(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let half = &values[quarter..values.len() - quarter];
    let (Some(least), Some(most)) = (half.first(), half.last()) else { return (0.0, 0.0) };
    let mean = half.iter().sum::<f64>() / half.len() as f64;
    (mean, (most - least) / 1.35 * 1.09 / (values.len() as f64).sqrt())
}
