//! The compared writes, on a disk as an instance opens it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::Group;
use cellar_io::real::{EffectiveAccess, EngineChoice, OpenOptions, Runtime, io_mode, open_disk};
use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::{Buffer, Device, DeviceExt, Durability, Io, SharedEnv};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::group;
use super::job::Job;
use super::setting::Setting;
use crate::content::noise;
use crate::error::LabError;

/// A block of a table, in bytes.
pub(super) const BLOCK: u64 = 8192;
/// Blocks that the database writer submits at once: the queue depth of an instance's disk.
pub(super) const BATCH: u64 = 64;
/// The log writer's largest write, in bytes.
const LOG_UNIT: u64 = 1 << 20;

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// This many batches of scattered 8 KB blocks, each made durable before the next, as the
    /// database writer does.
    Batches(u64),
    /// This many sequential writes, each durable before the next, as the log writer does.
    Log { bytes: u64, writes: u64 },
    /// The writes of the job of the post: its redo, then its blocks.
    Job(Job),
}

/// The result of a load.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds until the writes had returned, excluding the flushes.
    pub sent_ns: u64,
    /// Nanoseconds until everything was durable.
    pub durable_ns: u64,
    /// Nanoseconds of each wait for durability: of a batch, or of a write of the log.
    pub waits: Vec<u64>,
}

impl Done {
    /// A percentile of the waits (`part` of 100), in nanoseconds.
    pub(super) fn percentile(&self, part: usize) -> u64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let index = (waits.len() * part).div_ceil(100).saturating_sub(1);
        waits.get(index).copied().unwrap_or(0)
    }
}

/// The target of the writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// The scratch file.
    pub path: &'a Path,
    /// Whether it is the disk of a group, whose file is written.
    pub in_group: bool,
    /// Bytes that are written.
    pub bytes: u64,
}

/// A file, opened as an instance with these parameters opens it.
#[derive(Clone)]
pub(super) struct Rig {
    env: SharedEnv,
    /// The disk, or the file of the group on it.
    device: Arc<dyn Device>,
    group: Option<Group>,
    /// The I/O engine.
    pub effective: EffectiveAccess,
    unit: Bytes,
    block: Bytes,
    size: u64,
    stride: u64,
}

/// Opens the scratch file as an instance opens a disk.
pub(super) fn open(
    runtime: &Runtime,
    path: &Path,
    setting: &Setting,
) -> Result<(Arc<dyn Device>, EffectiveAccess), LabError> {
    let (mode, access) = io_mode(setting.options, setting.asynch, false);
    // `disk_io_engine` chooses among the asynchronous ones.
    let engine = if mode == EngineChoice::Sync { mode } else { setting.engine };
    let options = OpenOptions { engine, access, ..OpenOptions::default() };
    let disk = open_disk(runtime.real_env(), path, &options)?;
    let effective = disk.effective().clone();
    let options = ScheduleOptions::default();
    Ok((Arc::new(Scheduled::new(disk, runtime.env(), options, None)), effective))
}

/// Noise for the largest write.
pub(super) fn unit() -> Bytes {
    let noise = noise(LOG_UNIT as usize);
    Buffer::copy_of(&noise, noise.len()).freeze()
}

impl Rig {
    /// Opens the file, and mounts the group that is on it.
    pub(super) fn open(
        runtime: &Runtime,
        target: &Target<'_>,
        setting: &Setting,
    ) -> Result<Rig, LabError> {
        let (disk, effective) = open(runtime, target.path, setting)?;
        let env = runtime.env();
        let (device, group) = if target.in_group {
            let (group, file) = runtime.block_on(group::open(&env, &disk))?;
            (Arc::new(file) as Arc<dyn Device>, Some(group))
        } else {
            (disk, None)
        };
        let unit = unit();
        let block = unit.slice(..BLOCK as usize);
        let size = target.bytes;
        let stride = stride(size / BLOCK);
        Ok(Rig { env, device, group, effective, unit, block, size, stride })
    }

    /// Dismounts the group, if there is one.
    pub(super) async fn close(self) -> Result<(), LabError> {
        let Rig { group, device, .. } = self;
        drop(device);
        match group {
            Some(group) => Ok(group.dismount().await?),
            None => Ok(()),
        }
    }

    /// Runs `work` to its end, or until `limit` has passed.
    pub(super) async fn run(&self, work: Work, limit: Duration) -> Result<Done, LabError> {
        let mut done = Done::default();
        let end = self.env.now().plus(limit);
        match work {
            Work::Batches(count) => {
                for n in 0..count {
                    self.batch(n * BATCH, BATCH, &mut done).await?;
                    if self.env.now() >= end {
                        break;
                    }
                }
            }
            Work::Log { bytes, writes } => {
                for n in 0..writes {
                    self.log(n * bytes, bytes, &mut done).await?;
                    if self.env.now() >= end {
                        break;
                    }
                }
            }
            Work::Job(job) => self.job(job, &mut done).await?,
        }
        Ok(done)
    }

    async fn job(&self, job: Job, done: &mut Done) -> Result<(), LabError> {
        let mut at = 0;
        while at < job.redo_bytes() {
            let bytes = LOG_UNIT.min(job.redo_bytes() - at);
            self.log(at, bytes, done).await?;
            at += bytes;
        }
        let mut block = 0;
        while block < job.blocks() {
            let count = BATCH.min(job.blocks() - block);
            self.batch(block, count, done).await?;
            block += count;
        }
        Ok(())
    }

    /// Blocks from number `first` on in scattered order, all at once, then durable.
    async fn batch(&self, first: u64, count: u64, done: &mut Done) -> Result<(), LabError> {
        let start = self.env.now();
        let write = |n: u64| {
            let at = n.wrapping_mul(self.stride) % (self.size / BLOCK) * BLOCK;
            self.device.write_at(Io::BACKGROUND, at, self.block.clone(), Durability::Cached)
        };
        let mut writes: FuturesUnordered<_> = (first..first + count).map(write).collect();
        while let Some(written) = writes.next().await {
            written?;
        }
        let sent = self.env.now().0.saturating_sub(start.0);
        self.device.flush(Io::BACKGROUND).await?;
        self.count(start.0, Some(sent), count, count * BLOCK, done);
        Ok(())
    }

    /// One durable write, at `at` of a log that wraps around at the end of the file.
    async fn log(&self, at: u64, bytes: u64, done: &mut Done) -> Result<(), LabError> {
        let start = self.env.now();
        let at = at % (self.size - self.size % LOG_UNIT);
        let data = self.unit.slice(..bytes as usize);
        self.device.write_at(Io::COMMIT, at, data, Durability::Durable).await?;
        self.count(start.0, None, 1, bytes, done);
        Ok(())
    }

    fn count(&self, start: u64, sent: Option<u64>, writes: u64, bytes: u64, done: &mut Done) {
        let durable = self.env.now().0.saturating_sub(start);
        done.writes += writes;
        done.bytes += bytes;
        done.sent_ns += sent.unwrap_or(durable);
        done.durable_ns += durable;
        done.waits.push(durable);
    }
}

/// A stride that visits each of `blocks` once, never two neighbours in a row: their golden section,
/// or the next number above that is coprime to `blocks`.
fn stride(blocks: u64) -> u64 {
    let wanted = (blocks as f64 * 0.618_034) as u64;
    (wanted.max(1)..).find(|s| common_divisor(*s, blocks) <= 1).unwrap_or(1)
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn scattered_blocks_are_all_met_once_and_never_neighbours() {
        for blocks in [2048_u64, 2049, 4000, 32768] {
            let step = stride(blocks);
            let met: Vec<u64> = (0..blocks).map(|n| n * step % blocks).collect();
            assert_eq!(met.iter().collect::<BTreeSet<_>>().len(), met.len());
            assert!(met.windows(2).all(|two| two[0].abs_diff(two[1]) > 1), "{blocks}");
        }
    }

    #[test]
    fn percentiles_are_of_what_was_waited() {
        let done = Done { waits: (1..=200).rev().collect(), ..Done::default() };
        assert_eq!((done.percentile(50), done.percentile(99)), (100, 198));
        assert_eq!(Done::default().percentile(99), 0);
    }
}
