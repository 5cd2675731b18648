//! Scrub of a stretch: every copy is read, and what is wrong is repaired.
//!
//! First all copies are read while writes go on. Where they are not all right and equal, they are read
//! again unit by unit, with the range locked and after a resync: no write is under way then, so a
//! mismatch is real. The right version of a unit ([`decide`]) is written over the others, flushed, and
//! read again: a medium that does not keep it is reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cellar_io::Io;
use futures_util::future::join_all;

use crate::data::Data;
use crate::data::arbitrate::{CopyFault, Verdict, decide};
use crate::data::checksum::{Checksums, Entries};
use crate::data::file::FileRuntime;
use crate::data::read::expected;
use crate::data::relocate::{parts_of, written_runs};
use crate::data::resync::{
    Copy, ensure_synced, is_in_part, make_known, read_copies, spread, unit_copies, units,
};
use crate::data::validate::{self, BadPlace, Copies, Findings};
use crate::data::write::{legs_of, pieces_of};
use crate::error::Error;
use crate::on_disk::checksum::UNKNOWN;
use crate::on_disk::layout::BLOCK_U64;
use crate::state::Stretch;

/// The number of places that are kept.
const PLACES_MAX: usize = 100;

/// What was wrong on one disk: units of files, and blocks of our own structures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// Units without their checksums.
    pub checksum: u64,
    /// Units that could not be read.
    pub unreadable: u64,
    /// Units that are not what the other copies hold.
    pub differs: u64,
    /// Blocks of labels, superblocks, log, checkpoint, dirty log and checksum blocks.
    pub own: u64,
}

impl DiskFaults {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.checksum + self.unreadable + self.differs + self.own
    }
}

/// What scrubbing found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes of copies that were read.
    pub bytes_read: u64,
    /// Bytes of copies on disks that are not there.
    pub absent_bytes: u64,
    /// What was wrong, by the number of the disk.
    pub faults: BTreeMap<u16, DiskFaults>,
    /// Of these, what is right again.
    pub repaired: u64,
    /// Of these, what is still wrong.
    pub left: u64,
    /// The first places where something was wrong, for people.
    pub places: Vec<BadPlace>,
}

impl Scrubbed {
    /// Everything that was wrong.
    pub fn wrong(&self) -> DiskFaults {
        self.faults.values().fold(DiskFaults::default(), |all, one| DiskFaults {
            checksum: all.checksum + one.checksum,
            unreadable: all.unreadable + one.unreadable,
            differs: all.differs + one.differs,
            own: all.own + one.own,
        })
    }

    pub(crate) fn add(&mut self, other: Scrubbed) {
        self.bytes_read += other.bytes_read;
        self.absent_bytes += other.absent_bytes;
        self.repaired += other.repaired;
        self.left += other.left;
        for (disk, faults) in other.faults {
            let all = self.faults.entry(disk).or_default();
            all.checksum += faults.checksum;
            all.unreadable += faults.unreadable;
            all.differs += faults.differs;
            all.own += faults.own;
        }
        let room = PLACES_MAX.saturating_sub(self.places.len());
        self.places.extend(other.places.into_iter().take(room));
    }

    fn of_disk(&mut self, disk: u16) -> &mut DiskFaults {
        self.faults.entry(disk).or_default()
    }

    /// So many of our own blocks on a disk are wrong, and so many of them still are.
    pub(crate) fn own(&mut self, disk: u16, wrong: u64, left: u64) {
        if wrong > 0 {
            self.of_disk(disk).own += wrong;
            self.repaired += wrong - left;
            self.left += left;
        }
    }
}

/// Scrubs a stretch inside an extent; it consists of whole pieces, some of them written. `head`: it is
/// the first of its extent, and the checksum blocks of its AUs are checked too.
pub(crate) async fn step(
    data: Arc<Data>,
    file: Arc<FileRuntime>,
    s: Stretch,
    head: bool,
    repair: bool,
) -> Result<Scrubbed, Error> {
    let mut out = Scrubbed::default();
    // Deleted meanwhile: nothing is left to look at.
    let Ok(_entered) = file.enter().await else { return Ok(out) };
    if head && file.attributes.checksums {
        checksum_blocks(&data, &file, &s, repair, &mut out).await?;
    }
    let Findings { bytes_read, absent_bytes, .. } = {
        let found = validate::look(&data, &file, Io::BACKGROUND, &s, Copies::All).await?;
        if found.is_bad() {
            mend(&data, &file, &s, repair, &mut out).await?;
        }
        found
    };
    out.bytes_read += bytes_read;
    out.absent_bytes += absent_bytes;
    Ok(out)
}

/// Checks the written parts of a stretch again while nobody writes, and repairs them.
async fn mend(
    data: &Arc<Data>,
    file: &Arc<FileRuntime>,
    s: &Stretch,
    repair: bool,
    out: &mut Scrubbed,
) -> Result<(), Error> {
    for (region, pieces) in pieces_of(s.offset, s.offset + s.length) {
        ensure_synced(data, file, file.key(region), pieces).await?;
    }
    let _held = file.locks.lock(s.offset, s.offset + s.length).await;
    for part in written(data, file, s) {
        mend_run(data, file, &part, repair, out).await?;
    }
    Ok(())
}

/// The runs of a stretch that hold data, but those that wait for a resync.
fn written(data: &Data, file: &FileRuntime, s: &Stretch) -> Vec<Stretch> {
    let synced = |run: &Stretch| {
        let mut touched = pieces_of(run.offset, run.offset + run.length).into_iter();
        touched.all(|(region, pieces)| data.regions.to_sync(&file.key(region)) & pieces == 0)
    };
    written_runs(data, file, s).into_iter().filter(synced).collect()
}

/// Decides about each unit of a run, and repairs what it can. The caller holds the range.
async fn mend_run(
    data: &Arc<Data>,
    file: &FileRuntime,
    s: &Stretch,
    repair: bool,
    out: &mut Scrubbed,
) -> Result<(), Error> {
    let unit = u64::from(file.attributes.unit);
    // The extent may have gone, when the file was cut.
    let Ok(mut copies) = read_copies(data, file, Io::BACKGROUND, s).await else { return Ok(()) };
    // A disk that died meanwhile leaves; that is no fault of what it holds.
    copies.retain(|copy| copy.bytes.is_some() || copy.disk.is_alive());
    if s.length > unit && is_in_part(&copies) {
        // One bad sector must not decide for its neighbours.
        for part in units(s, unit) {
            Box::pin(mend_run(data, file, &part, repair, out)).await?;
        }
        return Ok(());
    }
    let mut sums = Vec::new();
    for copy in &copies {
        sums.push(match file.attributes.checksums {
            true => expected(data, &copy.disk, copy.leg, s).await,
            false => vec![UNKNOWN; (s.length / BLOCK_U64) as usize],
        });
    }
    let told: Vec<(Stretch, Verdict)> = units(s, unit)
        .map(|part| {
            let verdict = decide(&unit_copies(s, &part, &copies, &sums));
            (part, verdict)
        })
        .collect();
    let mut at = 0;
    while at < told.len() {
        let is_bad = |(_, verdict): &&(Stretch, Verdict)| !verdict.is_good();
        let run: Vec<&(Stretch, Verdict)> = told[at..].iter().take_while(is_bad).collect();
        let bad = run.len();
        tell(file, &run, &copies, out);
        for run in run.chunk_by(|a, b| a.1.right.is_some() == b.1.right.is_some()) {
            let part = joined(run.iter().map(|(part, _)| part));
            let right: Option<Vec<&[u8]>> = run.iter().map(|(_, v)| v.right.as_deref()).collect();
            match right.filter(|_| repair) {
                Some(right) => {
                    let right = Bytes::from(right.concat());
                    write(data, file, (s, &part), &copies, run, &right, out).await?;
                }
                None => out.left += faults_of(run).count() as u64,
            }
        }
        at += bad.max(1);
    }
    Ok(())
}

/// Neighbouring parts as one.
fn joined<'a>(mut parts: impl Iterator<Item = &'a Stretch>) -> Stretch {
    let first = *parts.next().expect("a run has a unit");
    let length = first.length + parts.map(|part| part.length).sum::<u64>();
    Stretch { length, ..first }
}

fn faults_of<'a>(run: &'a [&'a (Stretch, Verdict)]) -> impl Iterator<Item = CopyFault> + 'a {
    run.iter().flat_map(|(_, verdict)| verdict.faults.iter().flatten().copied())
}

/// Counts what is wrong, disk by disk.
fn tell(file: &FileRuntime, run: &[&(Stretch, Verdict)], copies: &[Copy], out: &mut Scrubbed) {
    for (part, verdict) in run {
        for (copy, fault) in copies.iter().zip(&verdict.faults) {
            let Some(fault) = fault else { continue };
            let (disk, faults) = (&copy.disk, out.of_disk(copy.disk.no));
            let what = match fault {
                CopyFault::Checksum => {
                    faults.checksum += 1;
                    disk.counters.checksum_errors.fetch_add(1, Ordering::Relaxed);
                    "checksum is wrong"
                }
                CopyFault::Unreadable => {
                    faults.unreadable += 1;
                    "unreadable"
                }
                CopyFault::Differs => {
                    faults.differs += 1;
                    disk.counters.differing.fetch_add(1, Ordering::Relaxed);
                    match verdict.right {
                        Some(_) => "differs from the other copies",
                        None => "copies differ, and nothing tells which is right",
                    }
                }
            };
            if out.places.len() < PLACES_MAX {
                let (number, offset) = (file.number, part.offset);
                out.places.push(BadPlace { file: number, offset, disk: disk.name.clone(), what });
            }
        }
    }
}

/// Writes what is right over the copies that are not, and reads it again.
async fn write(
    data: &Arc<Data>,
    file: &FileRuntime,
    (whole, part): (&Stretch, &Stretch),
    copies: &[Copy],
    run: &[&(Stretch, Verdict)],
    right: &Bytes,
    out: &mut Scrubbed,
) -> Result<(), Error> {
    let of_part: Vec<Copy> = copies.iter().map(|copy| copy.part(whole, part)).collect();
    spread(data, file, Io::BACKGROUND, part, &of_part, right).await?;
    if file.attributes.checksums {
        let (first, count) = (part.au_offset / BLOCK_U64, part.length / BLOCK_U64);
        let entries = of_part.iter().map(|copy| Entries { leg: copy.leg, first, count });
        Checksums::write_back(data, &entries.collect::<Vec<_>>()).await?;
    }
    let Ok(now) = read_copies(data, file, Io::BACKGROUND, part).await else { return Ok(()) };
    for (i, copy) in copies.iter().enumerate() {
        let faults = run.iter().filter(|(_, v)| v.faults[i].is_some()).count() as u64;
        // A disk that did not take it has left, and what was wrong there with it.
        let Some(again) = now.iter().find(|c| c.leg == copy.leg).filter(|_| faults > 0) else {
            continue;
        };
        if again.bytes.as_ref() == Some(right) {
            out.repaired += faults;
            copy.disk.counters.repaired.fetch_add(faults, Ordering::Relaxed);
        } else {
            out.left += faults;
        }
    }
    Ok(())
}

/// Checks the checksum blocks of the AUs of an extent as they are on the disks; recreates those that
/// are not what was written.
async fn checksum_blocks(
    data: &Arc<Data>,
    file: &Arc<FileRuntime>,
    s: &Stretch,
    repair: bool,
    out: &mut Scrubbed,
) -> Result<(), Error> {
    let Ok(legs) = legs_of(data, file, s) else { return Ok(()) };
    let runs: Vec<Stretch> =
        all_of(data, file, s.extent).flat_map(|part| written(data, file, &part)).collect();
    let here = legs.into_iter().filter_map(|leg| {
        let disk = data.disk(leg.disk)?;
        let of = |run: &Stretch| {
            let (first, count) = (run.au_offset / BLOCK_U64, run.length / BLOCK_U64);
            Entries { leg, first, count }
        };
        let here = disk.is_in_sync() && disk.is_alive();
        here.then(|| (disk, runs.iter().map(of).collect::<Vec<_>>()))
    });
    let looks = here.map(|(disk, entries)| async move {
        let bad = Checksums::bad_on_disk(data, &disk, &entries, repair).await;
        (disk, entries, bad)
    });
    for (disk, entries, bad) in join_all(looks).await {
        // One that died meanwhile leaves; that is no fault of what it holds.
        if bad == 0 || !disk.is_alive() {
            continue;
        }
        let mut left = bad;
        if repair {
            make_all_known(data, file, s.extent, out).await?;
            Checksums::write_back(data, &entries).await?;
            if let Err(error) = disk.flush(Io::BACKGROUND).await {
                data.leg_failed(&disk, error).await?;
            }
            left = Checksums::bad_on_disk(data, &disk, &entries, false).await.min(bad);
        }
        disk.counters.checksum_errors.fetch_add(bad, Ordering::Relaxed);
        disk.counters.repaired.fetch_add(bad - left, Ordering::Relaxed);
        out.own(disk.no, bad, left);
    }
    Ok(())
}

fn all_of(data: &Data, file: &FileRuntime, extent: u64) -> impl Iterator<Item = Stretch> {
    parts_of(file.attributes.striping, data.au_size, extent, validate::STEP)
}

/// Gives back checksums to every written piece of an extent that lost them.
async fn make_all_known(
    data: &Arc<Data>,
    file: &Arc<FileRuntime>,
    extent: u64,
    out: &mut Scrubbed,
) -> Result<(), Error> {
    for part in all_of(data, file, extent) {
        // Any other fault there is reported before it is corrected.
        mend(data, file, &part, true, out).await?;
        let _held = file.locks.lock(part.offset, part.offset + part.length).await;
        for run in written(data, file, &part) {
            make_known(data, file, Io::BACKGROUND, &run).await?;
        }
    }
    Ok(())
}
