//! A group with one file, read in the ways that an experiment compares.

mod read;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    CreateGroup, File, FileSpec, FoundDisk, Group, MountOptions, NewDisk, Redundancy, create,
};
use cellar_io::{Buffer, Device, DeviceExt, Durability, EnvExt, Io, SharedEnv};
use cellar_wait::{Kind, Waits};
use futures_util::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use self::read::{Reader, steps};
use crate::control::Control;
use crate::error::LabError;
use crate::place::Disk;
use crate::place::counters::DeviceUse;
use crate::place::part::Part;
use crate::smart_scan::scanner::{Scanner, Spec};

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// How many of each size in bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<u64, u64>,
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
    /// Nanoseconds that all reads took together; 0 where they are not timed singly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_ns: u64,
    /// Reads that lie in two AUs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub crossed: u64,
    /// Reads of each size in bytes, where not all are of one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<u64, u64>,
    /// What each disk was asked.
    pub disks: Vec<DiskUse>,
    /// What the kernel handed to the devices below; one of two disks that are on one device.
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

    /// Of loads that ran at the same time.
    fn of(done: Vec<Done>) -> Sample {
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

/// What one load did, on the clock of its environment in nanoseconds.
#[derive(Debug, Default)]
struct Done {
    start: u64,
    end: u64,
    bytes: u64,
    reads: u64,
    /// Of each read, where they are timed singly.
    times: Vec<u64>,
    /// Reads that lie in two AUs.
    crossed: u64,
    /// Reads of each size.
    sizes: BTreeMap<u64, u64>,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// From start to end, so many 1 MB reads in flight.
    Scan { in_flight: usize },
    /// As a cell does: so many reads in flight, the next one when any is there. They begin `shift`
    /// bytes, less than 1 MB, behind each MB of the file. With `tasks` each is a task, so that all
    /// processors work on what comes.
    Regions { in_flight: usize, shift: u64, tasks: bool },
    /// So many scans at once, each of its own part, each with one read in flight.
    Scans { count: usize },
    /// As `cellar validate` does.
    Validate,
    /// The table beside the file, summed up by a cell.
    Table,
    /// Blocks at random places, so many in flight.
    Random { in_flight: usize, reads: u64, seed: u64 },
}

/// Part of a disk: which, where it begins, how long it is; in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) disk: usize,
    pub(crate) start: u64,
    pub(crate) size: u64,
}

/// A mounted group with a file of known content, and perhaps a table.
struct Stand {
    group: Group,
    file: File,
    scanner: Option<Arc<Scanner>>,
}

/// Groups with a file each, to be read at the same time.
pub(crate) struct Bench {
    env: SharedEnv,
    disks: Arc<Vec<Disk>>,
    /// Which of the disks are used.
    used: Vec<usize>,
    parts: Vec<Arc<Part>>,
    stands: Vec<Stand>,
    au_size: u64,
    stop: Arc<AtomicBool>,
}

/// What a bench is made of.
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    /// The parts of each group.
    pub(crate) groups: &'a [Vec<Slot>],
    pub(crate) au_size: u64,
    /// Bytes of all files together.
    pub(crate) bytes: u64,
    /// Tables beside the files, if there are to be any.
    pub(crate) table: Option<Tables>,
}

/// Tables beside the files, one in each group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    /// All of them together.
    pub(crate) spec: Spec,
    /// Reads in flight for each disk, and tasks that work on all tables together.
    pub(crate) depth: usize,
    pub(crate) workers: usize,
}

impl Bench {
    /// Makes the groups and writes the files. Whoever gets an error wipes the disks.
    pub(crate) async fn new(
        env: SharedEnv,
        disks: Arc<Vec<Disk>>,
        plan: &Plan<'_>,
        control: &Control<'_>,
    ) -> Result<Bench, LabError> {
        let mut used: Vec<usize> = plan.groups.iter().flatten().map(|slot| slot.disk).collect();
        used.sort_unstable();
        used.dedup();
        let (parts, stands) = (Vec::new(), Vec::new());
        let (au_size, stop) = (plan.au_size, control.flag());
        let mut bench = Bench { env, disks, used, parts, stands, au_size, stop };
        let each = plan.bytes / plan.groups.len() as u64;
        for (i, slots) in plan.groups.iter().enumerate() {
            let made = bench.stand(plan, i, slots, each, control).await;
            if let Err(error) = made {
                // What went wrong first is what is told.
                let _ = bench.close().await;
                return Err(error);
            }
        }
        Ok(bench)
    }

    async fn stand(
        &mut self,
        plan: &Plan<'_>,
        number: usize,
        slots: &[Slot],
        bytes: u64,
        control: &Control<'_>,
    ) -> Result<(), LabError> {
        let first = self.parts.len();
        for (i, slot) in slots.iter().enumerate() {
            let disk = &self.disks[slot.disk];
            let name = format!("{}#{}{number}{i}", disk.path, plan.name);
            let device = Arc::clone(&disk.device);
            self.parts.push(Arc::new(Part::new(device, &name, slot.start, slot.size)));
        }
        let parts = &self.parts[first..];
        let group = mounted(&self.env, parts, plan.au_size, Redundancy::External).await?;
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await?;
        // Whatever fails from here on, the group is let go of before the disks are wiped.
        self.stands.push(Stand { group: group.clone(), file: file.clone(), scanner: None });
        file.set_size(bytes).await?;
        fill(&self.env, &group, &file, control).await?;
        if let Some(Tables { spec, depth, workers }) = plan.table {
            let groups = plan.groups.len();
            let spec = Spec { bytes: spec.bytes / groups as u64, ..spec };
            let by = (depth * slots.len(), (workers / groups).max(1));
            let scanner = Scanner::new(&self.env, &group, &spec, by, control).await?;
            if let Some(stand) = self.stands.last_mut() {
                stand.scanner = Some(Arc::new(scanner));
            }
        }
        Ok(())
    }

    /// Groups that are read at the same time.
    pub(crate) fn groups(&self) -> usize {
        self.stands.len()
    }

    /// Disks of each group.
    pub(crate) fn disks_each(&self) -> usize {
        self.parts.len() / self.stands.len().max(1)
    }

    /// Reads the files in one way, all of them at once.
    pub(crate) async fn measure(&self, load: Load) -> Result<Sample, LabError> {
        let used = || self.used.iter().map(|i| &self.disks[*i]);
        for disk in used() {
            disk.meter.take();
        }
        let mut names: Vec<&str> = used().filter_map(|d| d.block.as_deref()).collect();
        names.dedup();
        let counters = || names.iter().filter_map(|n| DeviceUse::now(n)).collect::<Vec<_>>();
        let before = counters();
        // In tasks, so that on a real machine they run where the disks are driven.
        let tasks: Vec<_> = self
            .stands
            .iter()
            .map(|stand| {
                let (env, stop) = (Arc::clone(&self.env), Arc::clone(&self.stop));
                let (group, file) = (stand.group.clone(), stand.file.clone());
                let (au_size, scanner) = (self.au_size, stand.scanner.clone());
                let reader = Reader { env, file, scanner, au_size, stop };
                self.env.run("lab", async move { reader.perform(&group, load).await })
            })
            .collect();
        let mut done = Vec::new();
        for task in tasks {
            done.push(task.await.ok_or(LabError::Stopped)??);
        }
        let devices = counters().iter().zip(&before).map(|(now, old)| now.since(old)).collect();
        let disks = used().map(|d| d.meter.take()).collect();
        Ok(Sample { disks, devices, ..Sample::of(done) })
    }

    /// Lets go of the groups, and takes away what says that the disks were in them.
    pub(crate) async fn close(self) -> Result<(), LabError> {
        let mut result = Ok(());
        for Stand { group, file, scanner } in self.stands {
            drop((file, scanner));
            result = result.and(group.dismount().await.map_err(LabError::from));
        }
        for part in &self.parts {
            result = result.and(part.wipe().await.map_err(LabError::from));
        }
        result
    }
}

/// Makes a group of these parts, with sectors of 4096 bytes, and mounts it.
pub(crate) async fn mounted(
    env: &SharedEnv,
    parts: &[Arc<Part>],
    au_size: u64,
    redundancy: Redundancy,
) -> Result<Group, LabError> {
    let device = |part: &Arc<Part>| Arc::clone(part) as Arc<dyn Device>;
    let path = |part: &Arc<Part>| part.geometry().name.to_string();
    let new = parts.iter().map(|part| NewDisk {
        device: device(part),
        path: path(part),
        name: None,
        failgroup: None,
        size: None,
        force: false,
    });
    let spec = CreateGroup {
        name: "LAB".to_owned(),
        redundancy,
        au_size,
        sector_size: Some(4096),
        attributes: Default::default(),
        holds_catalog: false,
        disks: new.collect(),
    };
    for part in parts {
        part.wipe().await?;
    }
    create(env, spec).await?;
    let found = parts.iter().map(|p| FoundDisk { device: device(p), path: path(p) });
    let session = Waits::new().session("group LAB", Kind::Background);
    Ok(Group::mount(env, session, "LAB", found.collect(), MountOptions::default()).await?)
}

/// Writes the file and waits until the group has nothing more to do for it.
async fn fill(
    env: &SharedEnv,
    group: &Group,
    file: &File,
    control: &Control<'_>,
) -> Result<(), LabError> {
    let noise = noise(STEP as usize);
    let writes = (0..file.size() / STEP).map(|i| {
        let (file, data) = (file.clone(), stamped(&noise, i * STEP));
        async move { file.write_at(Io::SCAN, i * STEP, data, Durability::Cached).await }
    });
    let mut writes = futures_util::stream::iter(writes).buffer_unordered(8);
    while let Some(written) = writes.next().await {
        written?;
        control.check()?;
    }
    file.flush(Io::COMMIT).await?;
    settle(env, group).await;
    Ok(())
}

/// Waits until the group has nothing more to do, or is not done soon: its lazy work would be measured
/// with the first arm.
pub(crate) async fn settle(env: &SharedEnv, group: &Group) {
    let end = env.now().plus(QUIET_WITHIN);
    while group.resync().dirty_regions > 0 && env.now() < end {
        env.sleep(Duration::from_millis(100)).await;
    }
}

/// Reads of `STEP` bytes of devices from `start` to `end` of each, so many in flight for each:
/// what the disks give when nothing is above them.
pub(crate) async fn raw(
    env: &SharedEnv,
    devices: Vec<(Arc<dyn Device>, Range<u64>)>,
    in_flight: usize,
) -> Result<Sample, LabError> {
    let tasks: Vec<_> = devices
        .into_iter()
        .map(|(device, range)| {
            let clock = Arc::clone(env);
            env.run("lab raw", async move {
                let start = clock.now();
                let reads = steps(range).map(|at| {
                    let (device, clock) = (Arc::clone(&device), Arc::clone(&clock));
                    async move {
                        let start = clock.now();
                        device.read_at(Io::SCAN, at, STEP as usize).await?;
                        Ok::<_, LabError>(clock.now().0.saturating_sub(start.0))
                    }
                });
                let times: Vec<u64> =
                    futures_util::stream::iter(reads).buffered(in_flight).try_collect().await?;
                let reads = times.len() as u64;
                let (start, end) = (start.0, clock.now().0);
                let bytes = reads * STEP;
                Ok::<_, LabError>(Done { start, end, bytes, reads, times, ..Done::default() })
            })
        })
        .collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.ok_or(LabError::Stopped)??);
    }
    Ok(Sample::of(done))
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

/// Splitmix64: the same numbers on every machine.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// One of `0..end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::read::{check, parts};
    use super::*;

    #[test]
    fn the_wrong_block_is_noticed() {
        let data = stamped(&noise(1 << 20), 3 << 20);
        assert!(check(&data, 3 << 20).is_ok());
        let error = check(&data, 4 << 20).unwrap_err();
        assert!(matches!(error, LabError::WrongBytes { found, .. } if found == 3 << 20));
    }

    #[test]
    fn shifted_reads_cover_every_byte_once() {
        assert_eq!(parts(2 * STEP, 0), [(0, STEP), (STEP, STEP)]);
        let half = STEP / 2;
        assert_eq!(parts(2 * STEP, half), [(0, half), (half, STEP), (STEP + half, half)]);
        assert_eq!(parts(2 * STEP, 3 * STEP), parts(2 * STEP, 0), "whole reads are no shift");
    }

    #[test]
    fn percentiles_are_exact() {
        let done = |times: Vec<u64>, start| {
            let reads = times.len() as u64;
            let (end, bytes) = (1_000_000_000, reads * STEP);
            Done { start, end, bytes, reads, times, ..Done::default() }
        };
        let sample =
            Sample::of(vec![done((1..=100).rev().collect(), 0), done((101..=200).collect(), 9)]);
        assert_eq!((sample.p50_ns, sample.p99_ns), (Some(100), Some(198)));
        assert!((sample.mb_per_second() - 209.7152).abs() < 1e-9, "both together");
        assert_eq!(Sample::of(vec![done(vec![], 0)]).p99_ns, None);
    }
}
