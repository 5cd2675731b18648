//! Readers of the group's file, one for each way of reading compared.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cellar_cell::Totals;
use cellar_diskgroup::{Copies, File, Group};
use cellar_io::{DeviceExt, EnvExt, Io, SharedEnv};
use futures_util::{StreamExt, TryStreamExt};

use super::{BLOCK, Load};
use crate::content::{Chance, STAMPED, STEP};
use crate::control::go_on;
use crate::error::LabError;
use crate::sample::Done;
use crate::table_scan::scanner::Scanner;

/// Checks that these are the bytes written at `offset`. The group has verified the checksum of each
/// block; this shows that they are the right blocks.
pub(super) fn check(buffer: &[u8], offset: u64) -> Result<(), LabError> {
    for (i, block) in buffer.chunks_exact(STAMPED).enumerate() {
        let at = offset + (i * STAMPED) as u64;
        let found = block.first_chunk().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
        if found != at {
            return Err(LabError::WrongBytes { offset: at, found });
        }
    }
    Ok(())
}

pub(super) fn steps(range: Range<u64>) -> impl Iterator<Item = u64> {
    range.step_by(STEP as usize)
}

/// Reads of `STEP` bytes that begin `shift` after each of its multiples, and the rest at both
/// ends: offsets and lengths that cover `bytes`.
pub(super) fn parts(bytes: u64, shift: u64) -> Vec<(u64, u64)> {
    let mut parts = Vec::new();
    let first = match shift % STEP {
        0 => STEP,
        rest => rest,
    };
    let (mut at, mut end) = (0, first);
    while at < bytes {
        parts.push((at, end.min(bytes) - at));
        (at, end) = (end, end + STEP);
    }
    parts
}

/// A reader of a file.
#[derive(Clone)]
pub(super) struct Reader {
    pub(super) env: SharedEnv,
    pub(super) file: File,
    pub(super) scanner: Option<Arc<Scanner>>,
    pub(super) au_size: u64,
    pub(super) stop: Arc<AtomicBool>,
}

impl Reader {
    pub(super) async fn perform(self, group: &Group, load: Load) -> Result<Done, LabError> {
        let start = self.env.now().0;
        let bytes = self.file.size();
        let times = match load {
            Load::Scan { in_flight } => self.times_of(steps(0..bytes), STEP, in_flight).await?,
            Load::Scans { count } => self.scans(bytes, count).await?,
            Load::Regions { in_flight, shift, tasks } => {
                return self.regions(in_flight, shift, tasks).await;
            }
            Load::Random { in_flight, reads, seed } => {
                let blocks = bytes / BLOCK;
                let mut chance = Chance(seed);
                let offsets = (0..reads).map(|_| chance.next() % blocks * BLOCK);
                self.times_of(offsets, BLOCK, in_flight).await?
            }
            Load::Table => return self.table().await,
            Load::Validate => {
                let bytes = validate(group, &self.file).await?;
                let (end, reads) = (self.env.now().0, bytes.div_ceil(STEP));
                return Ok(Done { start, end, bytes, reads, ..Done::default() });
            }
        };
        let read_bytes = if matches!(load, Load::Random { .. }) { BLOCK } else { STEP };
        let reads = times.len() as u64;
        let (end, bytes) = (self.env.now().0, reads * read_bytes);
        Ok(Done { start, end, bytes, reads, times, ..Done::default() })
    }

    /// A group without a table has nothing to scan.
    async fn table(self) -> Result<Done, LabError> {
        let start = self.env.now().0;
        let totals = match &self.scanner {
            Some(scanner) => scanner.scan().await?,
            None => Totals::default(),
        };
        let (end, bytes, reads) = (self.env.now().0, totals.disk_bytes, totals.reads);
        Ok(Done { start, end, bytes, reads, ..Done::default() })
    }

    async fn regions(self, in_flight: usize, shift: u64, tasks: bool) -> Result<Done, LabError> {
        let start = self.env.now().0;
        let mut done = Done { start, ..Done::default() };
        let parts = parts(self.file.size(), shift);
        for (at, bytes) in &parts {
            done.bytes += bytes;
            done.reads += 1;
            done.crossed += u64::from(at / self.au_size != (at + bytes - 1) / self.au_size);
            *done.sizes.entry(*bytes).or_default() += 1;
        }
        let reads = parts.into_iter().map(|(at, bytes)| {
            let reader = self.clone();
            let read = async move { reader.read(Io::SCAN, at, bytes).await };
            let env = Arc::clone(&self.env);
            async move {
                match tasks {
                    true => env.run("lab read", read).await.ok_or(LabError::Stopped)?,
                    false => read.await,
                }
            }
        });
        let reads = futures_util::stream::iter(reads).buffer_unordered(in_flight);
        done.times = reads.try_collect().await?;
        Ok(Done { end: self.env.now().0, ..done })
    }

    /// One read; returns the nanoseconds that it took.
    async fn read(&self, class: Io, at: u64, bytes: u64) -> Result<u64, LabError> {
        go_on(&self.stop)?;
        let start = self.env.now();
        let buffer = self.file.read_at(class, at, bytes as usize).await?;
        let took = self.env.now().0.saturating_sub(start.0);
        check(&buffer, at)?;
        Ok(took)
    }

    async fn times_of(
        &self,
        offsets: impl Iterator<Item = u64>,
        bytes: u64,
        in_flight: usize,
    ) -> Result<Vec<u64>, LabError> {
        let class = if bytes < STEP { Io::FOREGROUND } else { Io::SCAN };
        let reads = offsets.map(|at| self.read(class, at, bytes));
        futures_util::stream::iter(reads).buffered(in_flight).try_collect().await
    }

    async fn scans(&self, bytes: u64, count: usize) -> Result<Vec<u64>, LabError> {
        let part = bytes / count as u64;
        let tasks: Vec<_> = (0..count as u64)
            .map(|i| {
                let reader = self.clone();
                let range = i * part..(i + 1) * part;
                self.env
                    .run("lab scan", async move { reader.times_of(steps(range), STEP, 1).await })
            })
            .collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.ok_or(LabError::Stopped)??);
        }
        Ok(times)
    }
}

/// Returns the bytes read and verified.
async fn validate(group: &Group, file: &File) -> Result<u64, LabError> {
    let findings = group.validate(&[file.number()], Copies::Primary, &|_| {}).await?;
    if findings.is_bad() {
        return Err(LabError::BadCopies);
    }
    Ok(findings.bytes_read)
}
