//! Figures of a mounted group for views and status: the group, its disks, its files, and possible losses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::IoErrorKind;

use crate::data::validate::{self, Copies, Findings};
use crate::disk::{Disk, TAKEN_OFFLINE, lock};
use crate::error::Error;
use crate::group::Group;
use crate::meta::attributes::INTERVAL_DEFAULT;
use crate::meta::rules;
use crate::on_disk::Uuid;
use crate::on_disk::label::Redundancy;
use crate::on_disk::layout::{PIECE_BYTES, au_count};
use crate::refused::Refused;
use crate::state::{DiskStatus, FileAttributes, FileState, FileType, GroupState};

/// Files for which FORCE used older images of disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OlderFiles {
    /// When it did so last, seconds since 1970.
    pub at: u64,
    /// Paths of those that are still there.
    pub files: Vec<String>,
    /// How many more there were than are kept by name.
    pub more: u64,
}

/// Figures of a group. Megabytes are MiB.
#[derive(Clone, Debug)]
pub struct GroupInfo {
    /// Name, upper-case.
    pub name: String,
    /// Default copies.
    pub redundancy: Redundancy,
    /// Sector size in bytes.
    pub sector_size: u32,
    /// Allocation unit in bytes.
    pub au_size: u64,
    /// The epoch: it grows with every mount and every change of the disks that take part.
    pub epoch: u64,
    /// All room, without our own metadata.
    pub total_mb: u64,
    /// Free room, all copies counted.
    pub free_mb: u64,
    /// Oracle's figure: what must stay free to mirror again after the worst failure group is lost.
    pub required_mirror_free_mb: u64,
    /// Oracle's figure: (free - required) / copies; may be negative.
    pub usable_file_mb: i64,
    /// What can really be written now, counted in file data.
    pub writable_mb: u64,
    /// What can be written so that every extent can still be mirrored again after the loss of any one
    /// failure group; negative if the group already holds too much.
    pub writable_and_survive_mb: i64,
    /// Whether enough failure groups would be left to mirror again at all.
    pub can_restore: bool,
    /// Disks that are not in sync.
    pub offline_disks: usize,
    /// Disk numbers of the metadata set.
    pub members: Vec<u16>,
    /// Bytes of RAM for extent maps and piece maps.
    pub map_bytes: usize,
    /// Bytes of RAM for checksum blocks.
    pub checksum_bytes: usize,
    /// Why it stopped itself, if it did.
    pub stopped: Option<String>,
}

/// A disk of a group.
#[derive(Clone, Debug)]
pub struct DiskInfo {
    /// Its number.
    pub number: u16,
    /// Its identity, as in its label.
    pub uuid: Uuid,
    /// Whether it failed because it went away or did not answer: then it may come back.
    pub gone: bool,
    /// Its name.
    pub name: String,
    /// Its failure group.
    pub failgroup: String,
    /// Its path; `None` when it is not here.
    pub path: Option<String>,
    /// Its status in the metadata.
    pub status: DiskStatus,
    /// Whether it holds every acknowledged write.
    pub in_sync: bool,
    /// Whether FORCE accepted it as in sync although it was an older image of itself.
    pub aged: bool,
    /// Whether it failed by not answering.
    pub timed_out: bool,
    /// Why it is not used, if it was here and failed.
    pub failure: Option<String>,
    /// Why the mount refused it although it is here.
    pub refused: Option<Refused>,
    /// Whether it is so much slower than the others that reads avoid it.
    pub slow: bool,
    /// The mean time of its reads of late, in microseconds; 0: nothing is known.
    pub mean_us: u64,
    /// Whether it holds a copy of the metadata.
    pub metadata: bool,
    /// Bytes the group uses of it.
    pub bytes: u64,
    /// All AUs of it in MiB, without metadata.
    pub total_mb: u64,
    /// Free AUs in MiB.
    pub free_mb: u64,
    /// Since when it is offline, nanoseconds since 1970; 0 when it is not.
    pub offline_ns: u64,
    /// When it joined, nanoseconds since 1970.
    pub created_ns: u64,
    /// Logical sector in bytes; 0 when it is not here.
    pub logical_sector: u32,
    /// Requests, bytes, errors and nanoseconds since the mount.
    pub counters: BTreeMap<&'static str, u64>,
}

/// A file of a group.
#[derive(Clone, Debug)]
pub struct FileInfo {
    /// Its number.
    pub number: u32,
    /// Incarnation.
    pub incarnation: u32,
    /// Its attributes.
    pub attributes: crate::state::FileAttributes,
    /// Size in bytes, as its owner set it.
    pub size: u64,
    /// Bytes of all AUs that it has, copies included.
    pub space: u64,
    /// When it was made, nanoseconds since 1970.
    pub created_ns: u64,
    /// When its size last changed, nanoseconds since 1970.
    pub modified_ns: u64,
    /// Whether some extents have fewer copies in sync than they should.
    pub redundancy_lowered: bool,
    /// Whether it has no name yet, or none any more.
    pub temporary: bool,
    /// Whether somebody has it open in this process.
    pub in_use: bool,
    /// Paths from the root of the group.
    pub names: Vec<String>,
    /// AUs on each disk.
    pub aus_by_disk: BTreeMap<u16, u64>,
}

/// The consequences of losing one more failure group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The failure group; it has a disk in sync.
    pub failgroup: String,
    /// Whether some extent has its only copy there.
    pub data: bool,
    /// Whether that affects only files that are meant to have one copy, in a group that keeps more copies
    /// of others.
    pub single: bool,
    /// Whether the group would stop, because too little of its metadata is left.
    pub stops: bool,
    /// Whether the group could not be mounted again without FORCE if the loss comes while it is not
    /// mounted: nothing would prove that the metadata left is the newest.
    pub unproven: bool,
}

impl Loss {
    /// Whether nothing at all would be lost.
    pub fn is_harmless(&self) -> bool {
        !self.data && !self.stops && !self.unproven
    }
}

/// Files that have fewer copies in sync than they should.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// How many files have lost a copy of some extent, and have another copy of it.
    pub lowered: usize,
    /// Files that have an extent without any copy: their paths, or number and incarnation.
    pub lost: Vec<String>,
}

/// A resync under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resync {
    /// Bytes of files still to be resynced.
    pub bytes_left: u64,
    /// Bytes of files that the mount found in need of a resync.
    pub bytes_found: u64,
    /// The time since that mount.
    pub since: Duration,
    /// Regions that are not clean.
    pub dirty_regions: usize,
    /// The cap on those of files that [their owners do not recover](crate::File::recovered_by_owner).
    pub dirty_regions_cap: usize,
}

fn failure_words(disk: &Arc<Disk>) -> Option<String> {
    let why = disk.failure()?;
    Some(disk.refused().map_or_else(|| why.kind.to_string(), |refused| refused.to_string()))
}

impl Group {
    /// The group's figures.
    pub fn info(&self) -> GroupInfo {
        let inner = &self.inner;
        let core = lock(&inner.core);
        let state = &core.state;
        let copies = state.header.redundancy.copies();
        // A disk that is absent takes no extents, whether or not an epoch says so already: a read-only
        // mount commits none.
        let here = |no: u16| inner.disk(no).is_some_and(|d| d.is_in_sync() && d.is_alive());
        let usable = core.space.usable_on(copies, state, &here);
        let mb = |aus: u64| (aus * inner.au_size) >> 20;
        let signed_mb = |aus: i64| aus * (inner.au_size >> 20) as i64;
        GroupInfo {
            name: inner.name.clone(),
            redundancy: state.header.redundancy,
            sector_size: inner.sector_size,
            au_size: inner.au_size,
            epoch: state.epoch,
            total_mb: mb(usable.total),
            free_mb: mb(usable.free),
            required_mirror_free_mb: mb(usable.required_mirror_free),
            usable_file_mb: signed_mb(usable.usable_file),
            writable_mb: mb(usable.writable_now),
            writable_and_survive_mb: signed_mb(usable.writable_and_survive),
            can_restore: usable.can_restore,
            offline_disks: state.disks.values().filter(|d| !d.status.is_in_sync()).count(),
            members: state.members.clone(),
            map_bytes: state.map_bytes(),
            checksum_bytes: inner.data.checksums.count() * 4096,
            stopped: inner.check_running().err().map(|e| e.to_string()),
        }
    }

    /// The group's disks, those that are not here included.
    pub fn disks(&self) -> Vec<DiskInfo> {
        let inner = &self.inner;
        let here = inner.disks.all();
        let core = lock(&inner.core);
        core.state
            .disks
            .iter()
            .map(|(no, d)| {
                let here = here.get(no);
                let (total, free) = core.space.of_disk(*no);
                let gone = |h: &&Arc<Disk>| {
                    let kind = h.failure().map(|error| &error.kind);
                    match kind {
                        Some(IoErrorKind::Gone { reason }) => {
                            h.refused().is_none() && *reason != TAKEN_OFFLINE
                        }
                        // It may answer again, as after a reset of its controller.
                        Some(IoErrorKind::Timeout { .. }) => true,
                        _ => false,
                    }
                };
                DiskInfo {
                    number: *no,
                    uuid: d.uuid,
                    gone: here.filter(gone).is_some(),
                    name: d.name.clone(),
                    failgroup: d.failgroup.clone(),
                    path: here.map(|h| h.path.clone()),
                    status: d.status,
                    in_sync: here.is_some_and(|h| h.is_in_sync() && h.is_alive()),
                    aged: here.is_some_and(|h| h.is_aged()),
                    timed_out: here
                        .and_then(|h| h.failure())
                        .is_some_and(|error| matches!(error.kind, IoErrorKind::Timeout { .. })),
                    slow: here.is_some_and(|h| h.is_in_sync() && h.is_alive() && h.is_avoided()),
                    mean_us: here.map_or(0, |h| h.latency.mean() / 1000),
                    failure: here.and_then(failure_words),
                    refused: here.and_then(|h| h.refused()),
                    metadata: core.state.members.contains(no),
                    bytes: d.bytes,
                    total_mb: (u64::from(total) * inner.au_size) >> 20,
                    free_mb: (u64::from(free) * inner.au_size) >> 20,
                    offline_ns: d.offline_ns,
                    created_ns: d.created_ns,
                    logical_sector: here.map_or(0, |h| h.device().geometry().logical_sector),
                    counters: here.map(|h| counters(h)).unwrap_or_default(),
                }
            })
            .collect()
    }

    /// All files.
    pub fn files(&self) -> Vec<FileInfo> {
        let core = lock(&self.inner.core);
        let in_sync = |disk: u16| self.inner.is_in_sync(disk);
        core.state
            .files
            .values()
            .map(|f| {
                let names = core.state.paths_of(f.number);
                let in_use = self.inner.data.in_use(f.number);
                FileInfo { in_use, ..file_info(f, names, self.inner.au_size, &in_sync) }
            })
            .collect()
    }

    /// The failure groups whose loss, now, would lose data: some extent has its only copy there.
    pub fn critical_failgroups(&self) -> Vec<String> {
        let losses = self.losses().into_iter();
        losses.filter(|l| l.data).map(|l| l.failgroup).collect()
    }

    /// What losing each failure group that is still here would cost now, by name. Temporary files do not
    /// count, and for a log file confined to one failure group the log has the other copies elsewhere, or
    /// knows that it has none.
    pub fn losses(&self) -> Vec<Loss> {
        let inner = &self.inner;
        let core = lock(&inner.core);
        let mirrored = core.state.header.redundancy.copies() > 1;
        let disks = inner.disks_in_sync();
        let in_sync: BTreeMap<u16, &str> =
            disks.iter().filter(|d| d.is_alive()).map(|d| (d.no, d.failgroup.as_str())).collect();
        let (mut critical, mut single) = (BTreeSet::new(), BTreeSet::new());
        let files = core.state.files.values();
        let counts =
            |f: &FileAttributes| f.file_type != FileType::Tempfile && !f.is_medium_of_a_log();
        for file in files.filter(|f| counts(&f.attributes)) {
            let lost =
                if mirrored && file.attributes.copies == 1 { &mut single } else { &mut critical };
            for legs in file.legs.chunks(file.attributes.copies.into()) {
                let mut groups = legs.iter().filter_map(|leg| in_sync.get(&leg.disk));
                if let (Some(only), None) = (groups.next(), groups.next()) {
                    lost.insert(*only);
                }
            }
        }
        let members = &core.state.members;
        let failgroups: BTreeSet<&str> = in_sync.values().copied().collect();
        let of = |failgroup: &str| {
            let stays = |no: &&u16| in_sync.get(*no).is_some_and(|own| *own != failgroup);
            let left = members.iter().filter(stays).count();
            let all_stay = left == members.len();
            Loss {
                failgroup: failgroup.to_owned(),
                data: critical.contains(failgroup) || single.contains(failgroup),
                single: single.contains(failgroup) && !critical.contains(failgroup),
                stops: !all_stay && !rules::may_continue(members.len(), left),
                unproven: !rules::is_proven(members.len(), left),
            }
        };
        failgroups.into_iter().map(of).collect()
    }

    /// Files that have fewer copies in sync than they should; log files confined to one failure group are
    /// for the log to report.
    pub fn copied(&self) -> Copied {
        let inner = &self.inner;
        let core = lock(&inner.core);
        let here: BTreeSet<u16> =
            inner.disks_in_sync().into_iter().filter(|d| d.is_alive()).map(|d| d.no).collect();
        let mut copied = Copied::default();
        let files = core.state.files.values();
        for file in files.filter(|file| !file.attributes.is_medium_of_a_log()) {
            let copies = usize::from(file.attributes.copies);
            let left = file.legs.chunks(copies).map(|legs| {
                let present = legs.iter().filter(|leg| here.contains(&leg.disk));
                (present.count(), legs.len())
            });
            let (mut lowered, mut lost) = (false, false);
            for (present, wanted) in left {
                lowered |= present < wanted;
                lost |= present == 0;
            }
            if lost {
                copied.lost.push(core.state.name_of(file));
            } else if lowered {
                copied.lowered += 1;
            }
        }
        copied
    }

    /// Files that FORCE took from older images and that are still there: what was written to them
    /// since may be lost. When that was, their paths, and how many more there were.
    pub fn taken_older(&self) -> OlderFiles {
        let core = lock(&self.inner.core);
        let (note, files) = core.state.taken_older();
        let files: Vec<String> = files.into_iter().map(|file| core.state.name_of(file)).collect();
        OlderFiles { at: note.at, files, more: note.more }
    }

    /// Attributes: those fixed at creation, and those that were set.
    pub fn attributes(&self) -> BTreeMap<String, (String, bool)> {
        let core = lock(&self.inner.core);
        let mut all: BTreeMap<String, (String, bool)> = BTreeMap::new();
        let interval = ("scrub_interval", INTERVAL_DEFAULT);
        let repair_time = ("disk_repair_time", "3.6h");
        for (name, value) in
            [("content.checksum", "true"), ("content.type", "data"), repair_time, interval]
        {
            all.insert(name.to_owned(), (value.to_owned(), false));
        }
        all.insert("au_size".into(), (self.inner.au_size.to_string(), true));
        all.insert("sector_size".into(), (self.inner.sector_size.to_string(), true));
        // Templates are in a list of their own; the others are notes that nobody can set.
        let own = |name: &str| !name.starts_with(super::template::PREFIX) && !name.starts_with('_');
        for (name, value) in core.state.attributes.iter().filter(|(name, _)| own(name)) {
            all.insert(name.clone(), (value.clone(), false));
        }
        all
    }

    /// The resync under way, if any.
    pub fn resync(&self) -> Resync {
        let regions = &self.inner.data.regions;
        let (found, began) = regions.found();
        Resync {
            bytes_left: regions.pieces_to_sync() * PIECE_BYTES,
            bytes_found: found * PIECE_BYTES,
            since: self.inner.env.now().since(began),
            dirty_regions: regions.count(),
            dirty_regions_cap: regions.cap(),
        }
    }

    /// Bytes of file that a [`Group::validate`] of these files will go through.
    pub fn bytes_of(&self, numbers: &[u32]) -> u64 {
        let core = lock(&self.inner.core);
        let files = numbers.iter().filter_map(|n| core.state.files.get(n));
        files.flat_map(|f| &f.pieces).map(|m| u64::from(m.count_ones()) * PIECE_BYTES).sum()
    }

    /// Reads every copy of the given files and compares; writes nothing.
    ///
    /// # Errors
    /// The group has stopped.
    #[boxed]
    pub async fn validate(
        &self,
        numbers: &[u32],
        copies: Copies,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Findings, Error> {
        self.inner.check_running()?;
        validate::validate(&self.inner.data, numbers, copies, progress).await
    }

    /// Checks what must hold of the metadata: no AU has two owners.
    ///
    /// # Errors
    /// What does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let core = lock(&self.inner.core);
        core.state
            .check_no_double_allocation()
            .map_err(|leg| format!("AU {} of disk {} has two owners", leg.au, leg.disk))?;
        core.state.check().map_err(|damage| damage.to_string())
    }
}

fn counters(disk: &Disk) -> BTreeMap<&'static str, u64> {
    let c = &disk.counters;
    [
        ("reads", &c.reads),
        ("writes", &c.writes),
        ("bytes_read", &c.bytes_read),
        ("bytes_written", &c.bytes_written),
        ("read_errs", &c.read_errors),
        ("write_errs", &c.write_errors),
        ("read_timeout", &c.read_timeouts),
        ("write_timeout", &c.write_timeouts),
        ("read_ns", &c.read_ns),
        ("write_ns", &c.write_ns),
        ("checksum_errs", &c.checksum_errors),
        ("differing", &c.differing),
        ("repaired", &c.repaired),
        ("hedged", &c.hedged),
    ]
    .into_iter()
    .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    .collect()
}

/// A file of which a disk has extents without another copy, and how many.
pub(crate) fn single_on(state: &GroupState, disk: u16) -> Option<(String, u64)> {
    let on = |f: &FileState| f.legs.iter().filter(|l| l.disk == disk).count() as u64;
    let mut single = state.files.values().filter(|f| f.attributes.copies == 1);
    let file = single.find(|f| on(f) > 0)?;
    Some((state.name_of(file), on(file)))
}

fn file_info(
    f: &FileState,
    names: Vec<String>,
    au_size: u64,
    in_sync: &dyn Fn(u16) -> bool,
) -> FileInfo {
    let mut aus_by_disk = BTreeMap::new();
    for leg in &f.legs {
        *aus_by_disk.entry(leg.disk).or_insert(0) += 1;
    }
    FileInfo {
        number: f.number,
        incarnation: f.incarnation,
        attributes: f.attributes.clone(),
        size: f.size,
        space: f.legs.len() as u64 * au_size,
        created_ns: f.created_ns,
        modified_ns: f.modified_ns,
        redundancy_lowered: aus_by_disk.keys().any(|d| !in_sync(*d)),
        temporary: f.temporary,
        in_use: false,
        names,
        aus_by_disk,
    }
}

/// AUs that fit a disk of that many bytes; for plans.
pub fn aus_of(bytes: u64, au_size: u64) -> u32 {
    au_count(bytes, au_size)
}
