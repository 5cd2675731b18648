//! A group with one file, read in the ways that an experiment compares.

mod read;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group, Redundancy};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io, SharedEnv};
use futures_util::{StreamExt, TryStreamExt};

use self::read::{Reader, steps};
use crate::content::{STEP, noise, stamped};
use crate::control::Control;
use crate::counters::DeviceUse;
use crate::error::LabError;
use crate::group::{mounted, settle};
use crate::place::Disk;
use crate::place::part::Part;
use crate::sample::{Done, Sample};
use crate::table_scan::scanner::Scanner;
use crate::table_scan::table::Spec;

/// One random read, in bytes.
pub(crate) const BLOCK: u64 = 8192;
/// Space on each disk besides the file: metadata, checksums, spare AUs.
pub(crate) const SPARE: u64 = 128 << 20;
/// A way of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// From start to end, with this many 1 MB reads in flight.
    Scan { in_flight: usize },
    /// As a cell does: this many reads in flight, the next one when any completes. They begin `shift`
    /// bytes, less than 1 MB, after each MB of the file. With `tasks` each is a task, so that all
    /// processors work on the data.
    Regions { in_flight: usize, shift: u64, tasks: bool },
    /// This many concurrent scans, each of a separate part, with one read in flight.
    Scans { count: usize },
    /// As `cellar validate` does.
    Validate,
    /// The additional table, summed up by a cell.
    Table,
    /// Blocks at random places, this many in flight.
    Random { in_flight: usize, reads: u64, seed: u64 },
}

/// Part of a disk: its number, start and length; in bytes.
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

/// Groups with one file each, read at the same time.
pub(crate) struct Bench {
    env: SharedEnv,
    disks: Arc<Vec<Disk>>,
    /// The disks that are used.
    used: Vec<usize>,
    parts: Vec<Arc<Part>>,
    stands: Vec<Stand>,
    au_size: u64,
    stop: Arc<AtomicBool>,
}

/// The definition of a bench.
pub(crate) struct Plan<'a> {
    pub(crate) name: &'a str,
    /// The parts of each group.
    pub(crate) groups: &'a [Vec<Slot>],
    pub(crate) au_size: u64,
    /// Bytes of all files together.
    pub(crate) bytes: u64,
    /// Additional tables, if any.
    pub(crate) table: Option<Tables>,
}

/// Additional tables, one in each group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    /// Total size of all of them.
    pub(crate) spec: Spec,
    /// Reads in flight for each disk, and tasks for all tables together.
    pub(crate) depth: usize,
    pub(crate) workers: usize,
}

impl Bench {
    /// Creates the groups and writes the files. After an error the caller wipes the disks.
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
                // The first error is the one reported.
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
        // After any later failure, the group is released before the disks are wiped.
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

    /// Groups read at the same time.
    pub(crate) fn groups(&self) -> usize {
        self.stands.len()
    }

    /// Disks of each group.
    pub(crate) fn disks_each(&self) -> usize {
        self.parts.len() / self.stands.len().max(1)
    }

    /// Reads all files concurrently, in one way.
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

    /// Releases the groups, and removes all traces of them from the disks.
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

/// Writes the file and waits until the group is idle.
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

/// Reads a range of each device in `STEP`-byte reads, this many in flight per device: the rate of
/// the disks alone.
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
}
