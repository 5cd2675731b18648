//! Rescue of files from a group whose disks have lost their labels or superblocks, or of which too few
//! disks are here to mount it. Nothing is written.
//!
//! The structures at the ends of a disk are rebuilt from what lies further in (`search`), and shown to
//! an ordinary mount by devices that answer those places from RAM (`patched`). So files are read as
//! always: from copies in sync, checked against their checksums.
//!
//! There are two such mounts. The first reads only from disks that are shown to be current, by their
//! label or by the last record in their own log, and nothing that contradicts a known checksum. What it
//! cannot read is read from the second, which uses all disks, and is reported as doubtful.

mod copy;
mod patched;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::SharedEnv;
use cellar_wait::Session;
use futures_util::future::join_all;

pub use copy::{Unsure, read_what_is_older, read_what_is_there};

use crate::base::request_timeout::within;
use crate::error::Error;
use crate::group::{DiskInfo, Group};
use crate::meta::chain::History;
use crate::meta::create::label_of;
use crate::meta::found::FoundDisk;
use crate::meta::labels::label_offsets;
use crate::meta::lineage::diverged;
use crate::meta::options::{MountOptions, RescueMount};
use crate::meta::rules;
use crate::on_disk::Uuid;
use crate::on_disk::label::{Label, LabelStatus};
use crate::on_disk::layout::{BLOCK, PIECE_BYTES, PIECES_PER_REGION, REGION_BYTES, SUPERBLOCKS};
use crate::on_disk::superblock::Superblock;
use crate::refused::Refused;
use crate::state::{DiskStatus, GroupState, Stale, stretches};
use patched::Patched;
use search::{Seen, look};

/// How long a disk may take to be looked at.
const LOOK_WITHIN: Duration = Duration::from_secs(600);
/// How long a request may take: a slow disk may be the best that is left.
const TIMEOUT: Duration = Duration::from_secs(300);

/// How a disk was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToldBy {
    /// Its label.
    Label,
    /// A superblock; no label can be read.
    Superblock,
    /// Its checksum blocks; the first and the last MiB are gone.
    Checksums,
    /// It is the only disk left for the only place left.
    Elimination,
}

/// A disk that was looked at.
#[derive(Clone, Debug)]
pub struct RescueDisk {
    /// Its path.
    pub path: String,
    /// The group, the disk's name and how that was identified; `None`: it belongs to no group that is
    /// here.
    pub of: Option<(String, String, ToldBy)>,
    /// Whether it is shown to be current; what only other disks have is doubtful.
    pub sure: bool,
    /// Why it is not read, if it is not.
    pub unused: Option<String>,
}

/// A group that files can be read from.
#[derive(Clone, Debug)]
pub struct RescuedGroup {
    /// Mounted read-only, from the disks that are shown to be current.
    pub group: Group,
    /// Mounted read-only, from all disks.
    pub doubtful: Group,
    /// Disks that were away and missed later writes; `None`: there is none.
    pub stale: Option<StaleDisks>,
    /// Disks that it counts on, and that are not here.
    pub missing: Vec<String>,
    /// The disk whose log and checkpoint tell what the group is.
    pub told_on: String,
    /// Whether it is proven that nothing newer was written to disks that are absent, or that have lost
    /// their metadata.
    pub proven: bool,
}

/// Disks that were away, or are older images of themselves.
#[derive(Clone, Debug)]
pub struct StaleDisks {
    /// Mounted, only to be read, with their copies.
    pub group: Group,
    /// Their names, and when they left, in nanoseconds since 1970; 0: that is not known.
    pub disks: Vec<(String, u64)>,
}

impl RescuedGroup {
    /// Bytes of a file that are only on disks that missed later writes.
    pub fn stale_of(&self, path: &str) -> u64 {
        let Some(stale) = &self.stale else { return 0 };
        let all = without_copy(&self.doubtful, path);
        all.saturating_sub(without_copy(&stale.group, path))
    }

    /// Bytes of a file of which no disk here has a copy, and those of which only disks that are not
    /// shown to be current have one; of the pieces that were ever written, according to the maps.
    pub fn lost_of(&self, path: &str) -> (u64, u64) {
        let all = without_copy(&self.doubtful, path);
        (all, without_copy(&self.group, path).saturating_sub(all))
    }
}

fn without_copy(group: &Group, path: &str) -> u64 {
    let inner = &group.inner;
    let Ok(file) = group.open(path) else { return 0 };
    let core = crate::disk::lock(&inner.core);
    let Some(state) = core.state.files.get(&file.number()) else { return 0 };
    let mut bytes = 0;
    let written = (0u64..).zip(&state.pieces).filter(|(_, pieces)| **pieces != 0);
    for (region, pieces) in written {
        let start = region * REGION_BYTES;
        let end = (start + REGION_BYTES).min(state.allocated(inner.au_size));
        let striping = state.attributes.striping;
        for s in stretches(striping, inner.au_size, start, end.saturating_sub(start)) {
            if state.legs_of(s.extent).iter().any(|leg| inner.is_in_sync(leg.disk)) {
                continue;
            }
            for at in (s.offset..s.offset + s.length).step_by(PIECE_BYTES as usize) {
                let was_written = pieces >> (at / PIECE_BYTES % PIECES_PER_REGION) & 1 == 1;
                let whole = (at + PIECE_BYTES).min(state.size).saturating_sub(at);
                bytes += if was_written { whole } else { 0 };
            }
        }
    }
    bytes
}

/// What the disks hold.
#[derive(Debug, Default)]
pub struct Rescue {
    /// The groups.
    pub groups: Vec<RescuedGroup>,
    /// Every disk, in the order given.
    pub disks: Vec<RescueDisk>,
    /// Groups that cannot be read, and why.
    pub failed: Vec<(String, Error)>,
}

/// Finds the groups on the disks, and mounts each to be read as far as possible.
#[boxed]
pub async fn rescue(env: &SharedEnv, session: &Session, found: Vec<FoundDisk>) -> Rescue {
    let mut out = Rescue::default();
    out.disks.extend(found.iter().map(|f| RescueDisk {
        path: f.path.clone(),
        of: None,
        sure: false,
        unused: None,
    }));
    let looks = found.into_iter().map(|disk| within(env, LOOK_WITHIN, look(disk)));
    let mut seen: Vec<(usize, Seen)> = Vec::new();
    for (at, looked) in join_all(looks).await.into_iter().enumerate() {
        out.disks[at].unused = match looked {
            Some(Ok(disk)) => {
                seen.push((at, disk));
                None
            }
            Some(Err(error)) if matches!(error.kind, cellar_io::IoErrorKind::OutOfRange { .. }) => {
                Some("it is too small to be a disk of a group".to_owned())
            }
            Some(Err(error)) => Some(error.to_string()),
            None => Some("it does not answer".to_owned()),
        };
    }
    let groups: BTreeSet<Uuid> = seen.iter().flat_map(|(_, s)| s.groups.iter().copied()).collect();
    let mut told: Vec<(Uuid, ToldBest)> = Vec::new();
    for group in groups {
        match told_of(&seen, group).await {
            Some(best) => told.push((group, best)),
            None => out.failed.extend(unknown(&seen, group)),
        }
    }
    // The remains of an earlier group are no group: the latest one owns the disk.
    told.sort_by_key(|(_, t)| std::cmp::Reverse(t.state.header.created_ns));
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for (group, told) in told {
        let name = told.state.header.name.clone();
        let mounted = match who(&seen, &taken, group, &told) {
            Ok(who) if who.is_empty() => continue,
            Ok(who) => {
                taken.extend(who.keys());
                mount(env, session, &seen, &who, &told, &mut out.disks).await
            }
            Err(error) => Err(error),
        };
        match mounted {
            Ok(group) => out.groups.push(group),
            Err(error) => out.failed.push((name, error)),
        }
    }
    for (at, seen) in &seen {
        let disk = &mut out.disks[*at];
        if disk.of.is_none() && disk.unused.is_none() {
            disk.unused = Some(why_unused(seen));
        }
    }
    out
}

/// A group that a disk names, but that no disk describes.
fn unknown(seen: &[(usize, Seen)], group: Uuid) -> Option<(String, Error)> {
    let label = seen.iter().find_map(|(_, s)| s.label.as_ref().filter(|l| l.group == group))?;
    let why = "no disk here has its metadata".to_owned();
    let name = label.group_name.clone();
    Some((name.clone(), Error::NotProven { group: name, why, members: 0 }))
}

fn why_unused(seen: &Seen) -> String {
    match (&seen.former, &seen.label) {
        (Some(label), _) => {
            format!("it left group {}, or that was dropped", label.group_name)
        }
        (None, Some(label)) => format!(
            "it is {} of {}, and what that group is stands on other disks, or it is its disk no more",
            label.disk_name, label.group_name
        ),
        (None, None) if !seen.lows.is_empty() || !seen.groups.is_empty() => {
            "it is a disk of a group, and which one cannot be told, or another is it, too"
                .to_owned()
        }
        (None, None) => "nothing of a group is found on it".to_owned(),
    }
}

/// The furthest history of a group that any of the disks tells.
struct ToldBest {
    state: GroupState,
    history: History,
    /// The disk that tells it, by its place in what was seen.
    source: usize,
    /// A further one is here, and what it begins with cannot be read.
    is_shorter: bool,
}

async fn told_of(seen: &[(usize, Seen)], group: Uuid) -> Option<ToldBest> {
    let mut all: Vec<(usize, bool, Option<u64>, History)> = Vec::new();
    for (at, (_, s)) in seen.iter().enumerate() {
        let au_size = s.label.as_ref().map(|l| u64::from(l.au_size));
        for (named, history) in s.histories(group) {
            all.push((at, named, au_size, history));
        }
    }
    // Of those that go equally far one that a superblock names.
    all.sort_by_key(|(_, named, _, h)| (std::cmp::Reverse((h.end.epoch, h.end.lsn)), !*named));
    let furthest = all.first().map(|(.., h)| h.end);
    for (source, _, au_size, history) in all {
        // Without a label the size of an AU is found by trying.
        let sizes = (20..=26).map(|bits| 1u64 << bits);
        for size in sizes.filter(|size| au_size.is_none_or(|known| known == *size)) {
            let told = history.state(&seen[source].1.found.device, size).await;
            if let Ok(told) = told
                && u64::from(told.state.header.au_size) == size
            {
                let is_shorter = Some(history.end) != furthest;
                return Some(ToldBest { state: told.state, history, source, is_shorter });
            }
        }
    }
    None
}

/// A disk of the group, by its place in what was seen.
#[derive(Clone, Copy, PartialEq)]
struct Member {
    no: u16,
    by: ToldBy,
    /// It is shown to be current.
    sure: bool,
}

/// Whether a disk is shown to be current, as the chosen history sees it: by the mark of the newest
/// record in its label, or, if the label does not show that, by that record in its own log.
fn is_sure(seen: &Seen, group: Uuid, told: &ToldBest) -> bool {
    let mount_id = told.history.end.previous_mount;
    let ends = seen.has_end_of(&told.history, group);
    match &seen.label {
        Some(label) if mount_id != 0 && label.mount_ids[0] == mount_id => true,
        // It has a later mount: was that interrupted before its first record, or are its records
        // elsewhere?
        Some(label) => label.mount_ids.contains(&mount_id) && ends,
        // One that names several groups or disks was used before; then it cannot be told.
        None => ends && seen.lows.len() <= 1,
    }
}

/// Whether a disk that was away nevertheless has what the others have: it is as it left, the group was
/// dismounted cleanly, and nothing on it was written since.
fn missed_nothing(seen: &Seen, group: Uuid, told: &ToldBest, no: u16) -> bool {
    let state = &told.state;
    let Some(disk) = state.disks.get(&no) else { return false };
    let mapped = disk.status == DiskStatus::Offline && disk.stale == Stale::Mapped;
    let Some(label) = seen.label.as_ref().filter(|_| mapped && state.clean) else { return false };
    let ends = seen.histories(group).into_iter().map(|(_, history)| history.end.epoch).max();
    state.stale_pieces(no) == 0 && diverged(&disk.offline, label, ends).is_none()
}

/// How a disk may be one of the group, if it may.
fn claim(seen: &Seen, group: Uuid, disk: Uuid) -> Option<ToldBy> {
    match (&seen.label, seen.superblocks.first()) {
        _ if seen.former.is_some() => None,
        (Some(l), _) => ((l.group, l.disk) == (group, disk)).then_some(ToldBy::Label),
        (None, Some(b)) => ((b.group, b.disk) == (group, disk)).then_some(ToldBy::Superblock),
        (None, None) => seen.lows.contains(&(disk.0 as u64)).then_some(ToldBy::Checksums),
    }
}

/// Finds which disk of the group each of the inspected ones is. If several claim to be one disk, the
/// current one wins, then one with a label, a superblock, checksum blocks.
fn who(
    seen: &[(usize, Seen)],
    taken: &BTreeSet<usize>,
    group: Uuid,
    told: &ToldBest,
) -> Result<BTreeMap<usize, Member>, Error> {
    let state = &told.state;
    let free = || seen.iter().enumerate().filter(|(at, _)| !taken.contains(at));
    let ends = |s: &Seen| s.has_end_of(&told.history, group);
    let mut out: BTreeMap<usize, Member> = BTreeMap::new();
    for (no, disk) in &state.disks {
        let mut claims: Vec<(bool, ToldBy, usize)> = free()
            .filter(|(at, _)| !out.contains_key(at))
            .filter_map(|(at, (_, s))| {
                let sure = is_sure(s, group, told) || missed_nothing(s, group, told, *no);
                Some((!sure, claim(s, group, disk.uuid)?, at))
            })
            .collect();
        claims.sort();
        match claims.as_slice() {
            [] => {}
            [(unsure, by, one), (unsure_too, by_too, other), ..]
                if (unsure, by) == (unsure_too, by_too) =>
            {
                return Err(Error::DiskUnusable {
                    disk: seen[*other].1.found.path.clone(),
                    why: format!("it is the same disk as {}", seen[*one].1.found.path),
                    number: 15020,
                });
            }
            [(unsure, by, at), ..] => {
                out.insert(*at, Member { no: *no, by: *by, sure: !*unsure });
            }
        }
    }
    let places: Vec<u16> =
        state.disks.keys().filter(|no| out.values().all(|m| m.no != **no)).copied().collect();
    // Only one whose own log goes to the end: it was a disk of the group to the last.
    let unknown = free().filter(|(at, (_, s))| {
        !out.contains_key(at)
            && s.label.is_none()
            && s.superblocks.is_empty()
            && s.lows.is_empty()
            && ends(s)
    });
    let left: Vec<usize> = unknown.map(|(at, _)| at).collect();
    if let ([no], [at]) = (places.as_slice(), left.as_slice()) {
        out.insert(*at, Member { no: *no, by: ToldBy::Elimination, sure: false });
    }
    if !out.is_empty() && !out.contains_key(&told.source) {
        let why = format!("{} tells it, and is none of its disks", seen[told.source].1.found.path);
        let members = state.members.len();
        return Err(Error::NotProven { group: state.header.name.clone(), why, members });
    }
    if !is_anchored(seen, group, told, &out) {
        // Old maps over newer contents would return data of other files.
        out.values_mut().for_each(|member| member.sure = false);
    }
    Ok(out)
}

/// Whether enough of the metadata set have the end of the history in their own logs: otherwise it may
/// be an old one, and no mount mark shows how far that mount went.
fn is_anchored(
    seen: &[(usize, Seen)],
    group: Uuid,
    told: &ToldBest,
    who: &BTreeMap<usize, Member>,
) -> bool {
    let set = &told.state.members;
    let has = who.iter().filter(|(at, member)| {
        set.contains(&member.no) && seen[**at].1.has_end_of(&told.history, group)
    });
    !told.is_shorter && rules::is_proven(set.len(), has.count())
}

/// A device on which this mount finds what it needs: the label of that disk, and superblocks only where
/// the history is stored.
fn patched(seen: &Seen, member: Member, told: &ToldBest, is_source: bool) -> Option<FoundDisk> {
    let state = &told.state;
    let disk = state.disks.get(&member.no)?;
    let mount_id = told.history.end.previous_mount;
    let made = Label {
        generation: 1,
        status: LabelStatus::Member,
        mount_ids: [mount_id, 0],
        ..label_of(&state.header, member.no, disk, false)
    };
    let label = seen.label.clone().unwrap_or(made);
    let size = disk.bytes.max(seen.found.device.geometry().size);
    let zeros = Bytes::from(vec![0; BLOCK]);
    let places = label_offsets(size).into_iter().chain(SUPERBLOCKS);
    let mut blocks: BTreeMap<u64, Bytes> = places.map(|at| (at, zeros.clone())).collect();
    blocks.insert(label_offsets(size)[0], Bytes::from(label.encode().0.to_vec()));
    if is_source {
        let superblock = Superblock { disk: disk.uuid, ..told.history.superblock.clone() };
        blocks.insert(SUPERBLOCKS[0], Bytes::from(superblock.encode().0.to_vec()));
    }
    let device = Patched::new(Arc::clone(&seen.found.device), blocks, size);
    Some(FoundDisk { device: Arc::new(device), path: seen.found.path.clone() })
}

fn options(force: bool, leave_out: BTreeSet<u16>, strict: bool) -> MountOptions {
    MountOptions {
        read_only: true,
        force,
        rescue: Some(RescueMount { leave_out, strict, stale: false }),
        disk_timeout: TIMEOUT,
        detach_timeout: TIMEOUT,
        ..MountOptions::default()
    }
}

/// Whether a mount without such help comes to the same result, and sees every disk here as what it is.
async fn is_proven(
    env: &SharedEnv,
    session: &Session,
    seen: &[(usize, Seen)],
    who: &BTreeMap<usize, Member>,
    told: &ToldBest,
) -> bool {
    let state = &told.state;
    let labelled = who.keys().map(|at| &seen[*at].1).filter(|s| s.label.is_some());
    let found: Vec<FoundDisk> = labelled.map(|s| s.found.clone()).collect();
    let plain = options(false, BTreeSet::new(), false);
    let mounted = Group::mount(env, session.clone(), &state.header.name, found, plain).await;
    let Ok(mounted) = mounted else { return false };
    // A later mount may have written, and its records be elsewhere.
    let mount_id = told.history.end.previous_mount;
    // The label of a disk that is away is of when it left, as is known.
    let as_it_left = |at: usize, no: u16| {
        let label = seen[at].1.label.as_ref();
        let away = state.disks.get(&no).filter(|d| d.status == DiskStatus::Offline);
        away.zip(label).is_some_and(|(d, label)| diverged(&d.offline, label, None).is_none())
    };
    let later = who.iter().filter(|(at, member)| !as_it_left(**at, member.no));
    let later = later.filter_map(|(at, _)| seen[*at].1.label.as_ref());
    if told.is_shorter || later.into_iter().any(|label| label.mount_ids[0] != mount_id) {
        return false;
    }
    let newer = |why: Refused| why.is_of_another_time();
    let disks = mounted.disks();
    let same = crate::disk::lock(&mounted.inner.core).state == *state;
    mounted.abandon();
    same && !disks.iter().any(|d| d.refused.is_some_and(newer))
}

async fn mount(
    env: &SharedEnv,
    session: &Session,
    seen: &[(usize, Seen)],
    who: &BTreeMap<usize, Member>,
    told: &ToldBest,
    disks: &mut [RescueDisk],
) -> Result<RescuedGroup, Error> {
    let state = &told.state;
    let name = &state.header.name;
    let proven = is_proven(env, session, seen, who, told).await;
    let found = || -> Vec<FoundDisk> {
        let of = |(at, member): (&usize, &Member)| {
            patched(&seen[*at].1, *member, told, *at == told.source)
        };
        who.iter().filter_map(of).collect()
    };
    let unsure: BTreeSet<u16> = who.values().filter(|m| !m.sure).map(|m| m.no).collect();
    let sure = options(true, unsure, true);
    let group = Group::mount(env, session.clone(), name, found(), sure).await?;
    let all = options(true, BTreeSet::new(), false);
    let doubtful = Group::mount(env, session.clone(), name, found(), all).await?;
    let stale = mount_stale(env, session, &doubtful, found()).await;
    for mounted in [&group, &doubtful] {
        if crate::disk::lock(&mounted.inner.core).state != *state {
            let why = "its disks tell different histories".to_owned();
            let members = state.members.len();
            return Err(Error::NotProven { group: name.clone(), why, members });
        }
    }
    let mut missing = Vec::new();
    for disk in doubtful.disks() {
        let here = who.iter().find(|(_, member)| member.no == disk.number);
        let Some((at, member)) = here else {
            missing.push(disk.name.clone());
            continue;
        };
        let told_disk = &mut disks[seen[*at].0];
        told_disk.of = Some((name.clone(), disk.name.clone(), member.by));
        told_disk.sure = member.sure;
        if !disk.in_sync {
            told_disk.unused = Some(match (disk.refused, disk.failure) {
                (Some(why), _) if why.is_of_another_time() => {
                    "it is older or newer than what is read".to_owned()
                }
                (_, Some(why)) => why,
                (_, None) => "it was out of sync".to_owned(),
            });
        }
    }
    let told_on = seen[told.source].1.found.path.clone();
    Ok(RescuedGroup { group, doubtful, stale, missing, told_on, proven })
}

/// Mounts a group once more, with the disks that the previous mount excludes because they were away or
/// are older images.
async fn mount_stale(
    env: &SharedEnv,
    session: &Session,
    before: &Group,
    found: Vec<FoundDisk>,
) -> Option<StaleDisks> {
    let is_stale = |d: &DiskInfo| {
        let usable = d.failure.is_none() || d.refused.is_some_and(|why| why.is_of_another_time());
        !d.in_sync && d.path.is_some() && usable
    };
    let disks = before.disks().into_iter().filter(is_stale);
    let disks: Vec<(String, u64)> = disks.map(|d| (d.name, d.offline_ns)).collect();
    if disks.is_empty() {
        return None;
    }
    let mut with = options(true, BTreeSet::new(), false);
    with.rescue = Some(RescueMount { stale: true, ..RescueMount::default() });
    // If this fails, the rest is reported all the same.
    let group = Group::mount(env, session.clone(), before.name(), found, with).await.ok()?;
    Some(StaleDisks { group, disks })
}
