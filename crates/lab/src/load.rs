//! A group with one file, read in the ways that an experiment compares.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    Copies, CreateGroup, File, FileSpec, FoundDisk, Group, MountOptions, NewDisk, Redundancy,
    create,
};
use cellar_io::{Buffer, Device, DeviceExt, Durability, EnvExt, Io, SharedEnv};
use cellar_wait::{Kind, Waits};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::place::Disk;

/// One read of a scan, in bytes.
pub(crate) const STEP: u64 = 1 << 20;
/// One random read, in bytes.
pub(crate) const BLOCK: u64 = 8192;
/// Each of these begins with its offset in the file.
pub(crate) const STAMPED: usize = 4096;
/// Room on each disk beside the file: metadata, checksums, spare AUs.
pub(crate) const SPARE: u64 = 128 << 20;
/// How long to wait until the group has nothing more to write.
const QUIET_WITHIN: Duration = Duration::from_secs(30);

/// What one disk was asked to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Reads.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The largest, in bytes.
    pub request_max: u64,
    /// Most in flight at once.
    pub in_flight_max: u32,
    /// Nanoseconds with at least one in flight.
    pub busy_ns: u64,
}

/// What a load did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Bytes read and checked.
    pub bytes: u64,
    /// From the first read to the last answer.
    pub nanos: u64,
    /// Reads.
    pub reads: u64,
    /// Half the reads took at most so many nanoseconds; absent where reads are not timed singly.
    pub p50_ns: Option<u64>,
    /// 99 of 100 took at most so many.
    pub p99_ns: Option<u64>,
    /// What each disk did.
    pub disks: Vec<DiskUse>,
}

impl Sample {
    /// Megabytes (of 1000) a second.
    pub fn mb_per_second(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.nanos.max(1) as f64
    }

    fn of(mut times: Vec<u64>, read_bytes: u64, nanos: u64) -> Sample {
        times.sort_unstable();
        let at = |part: usize| {
            let index = (times.len() * part).div_ceil(100).saturating_sub(1);
            times.get(index).copied()
        };
        Sample {
            bytes: times.len() as u64 * read_bytes,
            nanos,
            reads: times.len() as u64,
            p50_ns: at(50),
            p99_ns: at(99),
            disks: Vec::new(),
        }
    }
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// From start to end, so many 1 MB reads in flight.
    Scan { in_flight: usize },
    /// So many scans at once, each of its own part, each with one read in flight.
    Scans { count: usize },
    /// As `cellar validate` does.
    Validate,
    /// Blocks at random places, so many in flight.
    Random { in_flight: usize, reads: u64, seed: u64 },
}

/// A mounted group over some disks with a file of known content.
pub(crate) struct Bench {
    env: SharedEnv,
    disks: Vec<Disk>,
    group: Group,
    file: File,
    bytes: u64,
}

impl Bench {
    /// Makes the group and writes the file.
    pub(crate) async fn new(
        env: SharedEnv,
        disks: Vec<Disk>,
        au_size: u64,
        bytes: u64,
    ) -> Result<Bench, LabError> {
        let new = disks.iter().map(|disk| NewDisk {
            device: Arc::clone(&disk.device),
            path: disk.path.clone(),
            name: None,
            failgroup: None,
            size: None,
            force: false,
        });
        let spec = CreateGroup {
            name: "LAB".to_owned(),
            redundancy: Redundancy::External,
            au_size,
            sector_size: Some(4096),
            attributes: Default::default(),
            holds_catalog: false,
            disks: new.collect(),
        };
        create(&env, spec).await?;
        let found = disks
            .iter()
            .map(|disk| FoundDisk { device: Arc::clone(&disk.device), path: disk.path.clone() });
        let session = Waits::new().session("group LAB", Kind::Background);
        let options = MountOptions::default();
        let group = Group::mount(&env, session, "LAB", found.collect(), options).await?;
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await?;
        file.set_size(bytes).await?;
        let bench = Bench { env, disks, group, file, bytes };
        bench.fill().await?;
        Ok(bench)
    }

    /// Writes the file and waits until the group has nothing more to do for it.
    async fn fill(&self) -> Result<(), LabError> {
        let noise = noise(STEP as usize);
        let writes = (0..self.bytes / STEP).map(|i| {
            let (file, data) = (self.file.clone(), stamped(&noise, i * STEP));
            async move { file.write_at(Io::SCAN, i * STEP, data, Durability::Cached).await }
        });
        let mut writes = futures_util::stream::iter(writes).buffer_unordered(8);
        while let Some(written) = writes.next().await {
            written?;
        }
        self.file.flush(Io::COMMIT).await?;
        // Lazy work of the group would be measured with the first arm.
        let end = self.env.now().plus(QUIET_WITHIN);
        while self.group.resync().dirty_regions > 0 && self.env.now() < end {
            self.env.sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Reads the file in one way.
    pub(crate) async fn measure(&self, load: Load) -> Result<Sample, LabError> {
        for disk in &self.disks {
            disk.meter.take();
        }
        let (env, file, group, bytes) =
            (Arc::clone(&self.env), self.file.clone(), self.group.clone(), self.bytes);
        // In a task, so that on a real machine it runs where the disks are driven.
        let task = self.env.run("lab", async move {
            match load {
                Load::Scan { in_flight } => scan(&env, &file, 0..bytes, in_flight).await,
                Load::Scans { count } => scans(&env, &file, bytes, count).await,
                Load::Validate => validate(&env, &group, &file).await,
                Load::Random { in_flight, reads, seed } => {
                    random(&env, &file, in_flight, reads, seed).await
                }
            }
        });
        let mut sample = task.await.ok_or(LabError::Stopped)??;
        sample.disks = self.disks.iter().map(|d| d.meter.take()).collect();
        Ok(sample)
    }

    /// Lets go of the group; the disks go with it.
    pub(crate) async fn close(self) -> Result<(), LabError> {
        let Bench { group, file, .. } = self;
        drop(file);
        Ok(group.dismount().await?)
    }
}

/// Bytes that no disk can shorten.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    let mut random = Chance(4);
    for chunk in buffer.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes());
    }
    buffer
}

/// The content of the file from `offset` on.
pub(crate) fn stamped(noise: &[u8], offset: u64) -> Bytes {
    let mut buffer = Buffer::copy_of(noise, noise.len());
    for (i, block) in buffer.chunks_exact_mut(STAMPED).enumerate() {
        let at = offset + (i * STAMPED) as u64;
        block[..8].copy_from_slice(&at.to_le_bytes());
    }
    buffer.freeze()
}

/// Whether these are the bytes that were written there. The group has compared each block with its
/// checksum; this tells that they are the right blocks.
fn check(buffer: &[u8], offset: u64) -> Result<(), LabError> {
    for (i, block) in buffer.chunks_exact(STAMPED).enumerate() {
        let at = offset + (i * STAMPED) as u64;
        let found = block.first_chunk().map_or(u64::MAX, |b| u64::from_le_bytes(*b));
        if found != at {
            return Err(LabError::WrongBytes { offset: at, found });
        }
    }
    Ok(())
}

/// Splitmix64: the same numbers on every machine.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// One read; gives the nanoseconds that it took.
async fn read(env: &SharedEnv, file: &File, at: u64, bytes: u64) -> Result<u64, LabError> {
    let start = env.now();
    let class = if bytes < STEP { Io::FOREGROUND } else { Io::SCAN };
    let buffer = file.read_at(class, at, bytes as usize).await?;
    let took = env.now().0.saturating_sub(start.0);
    check(&buffer, at)?;
    Ok(took)
}

async fn times_of(
    env: &SharedEnv,
    file: &File,
    offsets: impl Iterator<Item = u64>,
    bytes: u64,
    in_flight: usize,
) -> Result<Vec<u64>, LabError> {
    let reads = offsets.map(|at| read(env, file, at, bytes));
    let mut reads = futures_util::stream::iter(reads).buffered(in_flight);
    let mut times = Vec::new();
    while let Some(took) = reads.next().await {
        times.push(took?);
    }
    Ok(times)
}

fn steps(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    range.step_by(STEP as usize)
}

async fn scan(
    env: &SharedEnv,
    file: &File,
    range: std::ops::Range<u64>,
    in_flight: usize,
) -> Result<Sample, LabError> {
    let start = env.now();
    let times = times_of(env, file, steps(range), STEP, in_flight).await?;
    Ok(Sample::of(times, STEP, env.now().0.saturating_sub(start.0)))
}

async fn scans(env: &SharedEnv, file: &File, bytes: u64, count: usize) -> Result<Sample, LabError> {
    let start = env.now();
    let part = bytes / count as u64;
    let tasks: Vec<_> = (0..count as u64)
        .map(|i| {
            let (clock, file) = (Arc::clone(env), file.clone());
            let range = i * part..(i + 1) * part;
            env.run("lab scan", async move { times_of(&clock, &file, steps(range), STEP, 1).await })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.ok_or(LabError::Stopped)??);
    }
    Ok(Sample::of(times, STEP, env.now().0.saturating_sub(start.0)))
}

async fn validate(env: &SharedEnv, group: &Group, file: &File) -> Result<Sample, LabError> {
    let start = env.now();
    let findings = group.validate(&[file.number()], Copies::Primary, &|_| {}).await?;
    let nanos = env.now().0.saturating_sub(start.0);
    if findings.is_bad() {
        return Err(LabError::BadCopies);
    }
    let bytes = findings.bytes_read;
    Ok(Sample { bytes, nanos, reads: bytes.div_ceil(STEP), ..Sample::default() })
}

async fn random(
    env: &SharedEnv,
    file: &File,
    in_flight: usize,
    reads: u64,
    seed: u64,
) -> Result<Sample, LabError> {
    let start = env.now();
    let blocks = file.size() / BLOCK;
    let mut chance = Chance(seed);
    let offsets = (0..reads).map(|_| chance.next() % blocks * BLOCK);
    let times = times_of(env, file, offsets, BLOCK, in_flight).await?;
    Ok(Sample::of(times, BLOCK, env.now().0.saturating_sub(start.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrong_block_is_noticed() {
        let data = stamped(&noise(1 << 20), 3 << 20);
        assert!(check(&data, 3 << 20).is_ok());
        let error = check(&data, 4 << 20).unwrap_err();
        assert!(matches!(error, LabError::WrongBytes { found, .. } if found == 3 << 20));
    }

    #[test]
    fn percentiles_are_exact() {
        let sample = Sample::of((1..=200).rev().collect(), STEP, 1_000_000_000);
        assert_eq!((sample.p50_ns, sample.p99_ns), (Some(100), Some(198)));
        assert!((sample.mb_per_second() - 209.7152).abs() < 1e-9);
        assert_eq!(Sample::of(vec![], STEP, 0).p99_ns, None);
    }
}
