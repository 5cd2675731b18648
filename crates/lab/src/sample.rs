//! The measurements of one load.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counters::DeviceUse;

/// The read requests to one disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Reads.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The largest, in bytes.
    pub request_max: u64,
    /// The most in flight at once.
    pub in_flight_max: u32,
    /// Nanoseconds with at least one in flight.
    pub busy_ns: u64,
    /// The count for each size in bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<u64, u64>,
}

/// The result of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Bytes read and checked.
    pub bytes: u64,
    /// From the first read to the last answer.
    pub nanos: u64,
    /// Reads.
    pub reads: u64,
    /// The median latency of reads in nanoseconds; absent if reads are not timed individually.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
    /// The sum of the latencies of all reads in nanoseconds; 0 if they are not timed individually.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: u64,
    /// Reads that span two AUs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub crossed: u64,
    /// Reads of each size in bytes, if sizes differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<u64, u64>,
    /// The requests to each disk.
    pub disks: Vec<DiskUse>,
    /// The kernel's requests to the underlying devices; one if two disks are on one device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Sample {
    /// Seconds from the first read to the last answer.
    pub fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// Megabytes (of 1000) a second.
    pub fn mb_per_second(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.nanos.max(1) as f64
    }

    /// The sum of concurrent loads.
    pub(crate) fn of(done: Vec<Done>) -> Sample {
        let start = done.iter().map(|d| d.start).min().unwrap_or(0);
        let end = done.iter().map(|d| d.end).max().unwrap_or(0);
        let (bytes, reads) = done.iter().fold((0, 0), |(b, r), d| (b + d.bytes, r + d.reads));
        let mut sizes = BTreeMap::new();
        for (size, count) in done.iter().flat_map(|d| &d.sizes) {
            *sizes.entry(*size).or_default() += count;
        }
        let crossed = done.iter().map(|d| d.crossed).sum();
        let mut times: Vec<u64> = done.into_iter().flat_map(|d| d.times).collect();
        times.sort_unstable();
        let at = |part: usize| {
            let index = (times.len() * part).div_ceil(100).saturating_sub(1);
            times.get(index).copied()
        };
        Sample {
            bytes,
            nanos: end.saturating_sub(start),
            reads,
            p50_ns: at(50),
            p99_ns: at(99),
            waited_ns: times.iter().sum(),
            crossed,
            sizes,
            disks: Vec::new(),
            devices: Vec::new(),
        }
    }
}

/// The result of one load, in nanoseconds of the clock of its environment.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    pub(crate) reads: u64,
    /// Latency of each read, if they are timed individually.
    pub(crate) times: Vec<u64>,
    /// Reads that span two AUs.
    pub(crate) crossed: u64,
    /// Reads of each size.
    pub(crate) sizes: BTreeMap<u64, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact() {
        let done = |times: Vec<u64>, start| {
            let reads = times.len() as u64;
            let (end, bytes) = (1_000_000_000, reads << 20);
            Done { start, end, bytes, reads, times, ..Done::default() }
        };
        let sample =
            Sample::of(vec![done((1..=100).rev().collect(), 0), done((101..=200).collect(), 9)]);
        assert_eq!((sample.p50_ns, sample.p99_ns), (Some(100), Some(198)));
        assert!((sample.mb_per_second() - 209.7152).abs() < 1e-9, "both together");
        assert_eq!(Sample::of(vec![done(vec![], 0)]).p99_ns, None);
    }
}
