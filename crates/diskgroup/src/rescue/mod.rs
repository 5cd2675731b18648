//! Getting files out of a group whose disks have lost their labels or superblocks, or of which too
//! few are here to mount it. Nothing is written.
//!
//! What stood at the ends of a disk is put together again from what lies further in ([`search`]) and
//! shown to an ordinary mount by a device that answers those places from RAM ([`patched`]). So files
//! are read as always: from copies in sync, held against their checksums, mended from another copy in
//! RAM.

mod copy;
mod patched;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::{Device, SharedEnv};
use cellar_wait::Session;
use futures_util::future::join_all;

use crate::error::Error;
use crate::group::{Group, MountOptions};
use crate::meta::chain::{Chain, History, follow};
use crate::meta::create::label_of;
use crate::meta::mount::{FoundDisk, within};
use crate::on_disk::Uuid;
use crate::on_disk::label::{Label, LabelStatus};
use crate::on_disk::layout::LABEL_HEAD;
use crate::state::GroupState;
pub use copy::read_what_is_there;
use patched::Patched;
use search::{Loose, Seen, look, superblocks_of};

/// How a disk was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// Its label.
    Label,
    /// A superblock; no label can be read.
    Superblock,
    /// Its checksum blocks; the first and the last MiB are gone.
    Checksums,
    /// It is the only one left for the only place left.
    Elimination,
}

/// A disk that was looked at.
#[derive(Clone, Debug)]
pub struct RescueDisk {
    /// Its path.
    pub path: String,
    /// The group, the disk's name and how that was told; `None`: it is of no group that is here.
    pub of: Option<(String, String, ToldBy)>,
    /// Why it is not read, if it is not.
    pub unused: Option<String>,
}

/// A group that files can be read from.
#[derive(Clone, Debug)]
pub struct RescuedGroup {
    /// Mounted, only to be read.
    pub group: Group,
    /// Disks that it counts on, and that are not here.
    pub missing: Vec<String>,
    /// The disk whose log and checkpoint tell what the group is.
    pub told_on: String,
    /// Whether no superblock names that checkpoint any more.
    pub loose: bool,
    /// Whether it is shown that nothing newer was written to disks that are not here, or that have
    /// lost their metadata.
    pub proven: bool,
}

impl RescuedGroup {
    /// Bytes of a file of which no copy is on the disks here, as the map of its extents tells: whole
    /// extents, whether or not anything was ever written there.
    pub fn lost_of(&self, path: &str) -> u64 {
        let inner = &self.group.inner;
        let Ok(file) = self.group.open(path) else { return 0 };
        let core = crate::disk::lock(&inner.core);
        let Some(state) = core.state.files.get(&file.number()) else { return 0 };
        let sets = state.legs.chunks(usize::from(state.attributes.copies));
        let gone = sets.filter(|legs| !legs.iter().any(|leg| inner.is_in_sync(leg.disk)));
        (gone.count() as u64 * inner.au_size).min(state.size)
    }
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

/// Looks what groups the disks hold, and mounts each to be read as far as it can be.
pub async fn rescue(
    env: &SharedEnv,
    session: &Session,
    found: Vec<FoundDisk>,
    options: &MountOptions,
) -> Rescue {
    let paths: Vec<String> = found.iter().map(|f| f.path.clone()).collect();
    let limit = options.disk_timeout * 4;
    let looks = found.into_iter().map(|disk| within(env, limit, look(disk)));
    let mut disks: Vec<RescueDisk> =
        paths.into_iter().map(|path| RescueDisk { path, of: None, unused: None }).collect();
    let mut seen: Vec<(usize, Seen)> = Vec::new();
    for (at, looked) in join_all(looks).await.into_iter().enumerate() {
        match looked {
            Some(Ok(disk)) => seen.push((at, disk)),
            Some(Err(error)) => disks[at].unused = Some(error.to_string()),
            None => disks[at].unused = Some("it does not answer".to_owned()),
        }
    }
    let mut out = Rescue::default();
    let groups: BTreeSet<u128> =
        seen.iter().flat_map(|(_, s)| s.groups.iter().map(|group| group.0)).collect();
    for group in groups.into_iter().map(Uuid) {
        let Some(told) = told_of(&seen, group, options, env).await else {
            let label =
                seen.iter().find_map(|(_, s)| s.label.as_ref().filter(|l| l.group == group));
            let name = label.map_or_else(|| group.to_string(), |l| l.group_name.clone());
            out.failed.push((
                name.clone(),
                Error::NotProven { group: name, why: "no disk here has its metadata".to_owned() },
            ));
            continue;
        };
        let name = told.state.header.name.clone();
        match mount(env, session, &seen, group, &told, options, &mut disks).await {
            Ok(group) => out.groups.push(group),
            Err(error) => out.failed.push((name, error)),
        }
    }
    for (at, seen) in &seen {
        let disk = &mut disks[*at];
        if disk.of.is_none() && disk.unused.is_none() {
            disk.unused = Some(match seen.low {
                _ if !seen.groups.is_empty() => {
                    "it is a second image of a disk that is here, or one that left its group"
                        .to_owned()
                }
                Some(_) => "it is a disk of a group, but of none that is known here".to_owned(),
                None => "nothing of a group is found on it".to_owned(),
            });
        }
    }
    out.disks = disks;
    out
}

/// The furthest history of a group that any of the disks tells.
struct ToldBest {
    state: GroupState,
    history: History,
    /// The disk that tells it, by its place in what was seen; whether no superblock names it.
    source: usize,
    loose: bool,
}

async fn told_of(
    seen: &[(usize, Seen)],
    group: Uuid,
    options: &MountOptions,
    env: &SharedEnv,
) -> Option<ToldBest> {
    let mut all: Vec<(usize, bool, u64, History)> = Vec::new();
    for (at, (_, s)) in seen.iter().enumerate() {
        for l in s.loose.iter().filter(|l| l.is_of(group)) {
            let history = follow(&s.ring, group, l.superblock.clone());
            all.push((at, true, l.state.header.au_size.into(), history));
        }
        let Some((_, disk)) = s.named.filter(|(of, _)| *of == group) else { continue };
        let read = Chain::read(&s.found.device, group, disk);
        let Some(Ok(chain)) = within(env, options.disk_timeout, read).await else { continue };
        let au_size = s.label.as_ref().map(|l| u64::from(l.au_size));
        for history in chain.histories(group) {
            // Without a label the size of an AU is found by trying.
            let sizes = (20..=26).map(|bits| 1u64 << bits);
            for size in sizes.filter(|size| au_size.is_none_or(|known| known == *size)) {
                all.push((at, false, size, history.clone()));
            }
        }
    }
    // Of those that go equally far one that a superblock names.
    all.sort_by_key(|(_, loose, _, h)| (std::cmp::Reverse((h.end.epoch, h.end.lsn)), *loose));
    for (source, loose, au_size, history) in all {
        let told = history.state(&seen[source].1.found.device, au_size).await;
        if let Ok(told) = told
            && u64::from(told.state.header.au_size) == au_size
        {
            return Some(ToldBest { state: told.state, history, source, loose });
        }
    }
    None
}

/// Which disk of the group each of those that were seen is.
fn who(seen: &[(usize, Seen)], group: Uuid, state: &GroupState) -> BTreeMap<usize, (u16, ToldBy)> {
    let mut out: BTreeMap<usize, (u16, ToldBy)> = BTreeMap::new();
    for (at, (_, s)) in seen.iter().enumerate() {
        let label = s.label.as_ref().map(|l| (l.group, l.disk, ToldBy::Label));
        let named = s.named.map(|(group, disk)| (group, disk, ToldBy::Superblock));
        let by = match label.or(named) {
            Some((of, disk, by)) if of == group => {
                state.disks.iter().find(|(_, d)| d.uuid == disk).map(|(no, _)| (*no, by))
            }
            Some(_) => None,
            None => s.low.and_then(|low| {
                let is = |d: &crate::state::DiskState| d.uuid.0 as u64 == low;
                let no = state.disks.iter().find(|(_, d)| is(d)).map(|(no, _)| *no);
                no.map(|no| (no, ToldBy::Checksums))
            }),
        };
        if let Some(by) = by.filter(|(no, _)| out.values().all(|(other, _)| other != no)) {
            out.insert(at, by);
        }
    }
    let places: Vec<u16> = state
        .disks
        .keys()
        .filter(|no| out.values().all(|(other, _)| other != *no))
        .copied()
        .collect();
    let unknown = |(at, (_, s)): &(usize, &(usize, Seen))| {
        let nobodys = s.label.is_none() && s.named.is_none() && s.low.is_none();
        !out.contains_key(at) && nobodys && s.groups.contains(&group)
    };
    let left: Vec<usize> = seen.iter().enumerate().filter(unknown).map(|(at, _)| at).collect();
    if let ([no], [at]) = (places.as_slice(), left.as_slice()) {
        out.insert(*at, (*no, ToldBy::Elimination));
    }
    out
}

/// A label for a disk that has none.
fn label_for(state: &GroupState, no: u16, life: u64) -> Option<Label> {
    let disk = state.disks.get(&no)?;
    let label = label_of(&state.header, no, disk, false);
    Some(Label { generation: 1, status: LabelStatus::Member, lives: [life, 0], ..label })
}

async fn mount(
    env: &SharedEnv,
    session: &Session,
    seen: &[(usize, Seen)],
    group: Uuid,
    told: &ToldBest,
    options: &MountOptions,
    disks: &mut [RescueDisk],
) -> Result<RescuedGroup, Error> {
    let state = &told.state;
    let who = who(seen, group, state);
    let mut found: Vec<FoundDisk> = Vec::new();
    for (at, (no, by)) in &who {
        let (index, s) = &seen[*at];
        let name = state.disks.get(no).map_or_else(String::new, |d| d.name.clone());
        disks[*index].of = Some((state.header.name.clone(), name, *by));
        let mut blocks: BTreeMap<u64, Bytes> = BTreeMap::new();
        if s.label.is_none()
            && let Some(label) = label_for(state, *no, told.history.end.previous_life)
        {
            blocks.insert(LABEL_HEAD[0], Bytes::from(label.encode().0.to_vec()));
        }
        if told.loose && told.source == *at {
            let uuid = state.disks.get(no).map_or(Uuid(0), |d| d.uuid);
            let of: Vec<Loose> = s.loose.iter().filter(|l| l.is_of(group)).cloned().collect();
            blocks.extend(superblocks_of(&of, uuid));
        }
        let device: Arc<dyn Device> = match blocks.is_empty() {
            true => Arc::clone(&s.found.device),
            false => Arc::new(Patched::new(Arc::clone(&s.found.device), blocks)),
        };
        found.push(FoundDisk { device, path: s.found.path.clone() });
    }
    let options = MountOptions { read_only: true, incomplete: true, ..options.clone() };
    let name = &state.header.name;
    let as_it_is = Group::mount(env, session.clone(), name, found.clone(), options.clone()).await;
    let proven = !told.loose && as_it_is.is_ok();
    let mounted = match as_it_is {
        Err(Error::NotProven { .. }) => {
            let forced = MountOptions { force: true, ..options };
            Group::mount(env, session.clone(), name, found, forced).await?
        }
        mounted => mounted?,
    };
    let mut missing = Vec::new();
    for disk in mounted.disks() {
        let at = who.iter().find(|(_, (no, _))| *no == disk.number).map(|(at, _)| seen[*at].0);
        match (at, disk.in_sync) {
            (None, _) => missing.push(disk.name.clone()),
            (Some(at), false) => {
                let why = disk.failure.unwrap_or_else(|| "it was out of sync".to_owned());
                disks[at].unused = Some(why);
            }
            (Some(_), true) => {}
        }
    }
    let told_on = seen[told.source].1.found.path.clone();
    Ok(RescuedGroup { group: mounted, missing, told_on, loose: told.loose, proven })
}
