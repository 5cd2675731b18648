//! Mounting: which history is the newest, whether that is proven, and what is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_io::{Device, DeviceExt, Io, SharedEnv};
use futures_util::future::join_all;

use crate::base::request_timeout::RequestTimeout;
use crate::base::request_timeout::within;
use crate::data::dirty_recovery::FoundDirty;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::meta::chain::Replayed;
use crate::meta::commit::{Lagging, MemberState};
use crate::meta::found::{FoundDisk, Labelled, disks_of, read_chains};
use crate::meta::mount_history;
use crate::meta::options::MountOptions;
use crate::meta::proof::{Chosen, Proof, choose, newest_states};
use crate::meta::rules;
use crate::meta::rules::goes_on_without;
use crate::meta::usable::{Found, Here};
use crate::on_disk::Uuid;
use crate::on_disk::label::{Label, LabelStatus};
use crate::on_disk::layout::{AU_START, BLOCK_U64, REGION_BYTES};
use crate::on_disk::superblock::LogPosition;
use crate::state::{DiskStatus, GroupState, Op};

/// What a mount starts from.
pub(crate) struct Start {
    pub state: GroupState,
    pub position: LogPosition,
    /// Disks of the state that are here, in sync or not.
    pub disks: BTreeMap<u16, Arc<Disk>>,
    /// Disks that the state counts on and that are absent.
    pub missing: Vec<u16>,
    /// Disks that are away, missed nothing, and hold the only copy of something: they come back before
    /// any user is served.
    pub current: Vec<u16>,
    /// Members that have the whole history.
    pub members: BTreeMap<u16, MemberState>,
    /// Members that are here but behind: to be brought up to date first.
    pub lagging: Vec<Lagging>,
    /// Each set that may be the committed one; none if the mount is forced.
    pub committed: Vec<Vec<u16>>,
    /// Disks whose label still says that the group is being created.
    pub creating: Vec<u16>,
    /// An instance keeps its catalog here.
    pub holds_catalog: bool,
    /// Disks that left the group, and whose labels do not say so yet.
    pub former: Vec<(Arc<dyn Device>, Label)>,
    /// The newest superblocks of all disks here: generation, and the checkpoint area it names.
    pub generations: BTreeMap<u16, (u64, u8)>,
    /// The dirty log as it was found.
    pub dirty: FoundDirty,
    /// The id of a mount that was cut off before its first record, as labels tell; 0: none.
    pub tried: u64,
    /// How many regions a resync can do in a second; 0 for a mount that does none.
    pub regions_per_second: f64,
}

/// One read of the probe.
const PROBE_STEP: u64 = 512 << 10;
/// Bytes that a round of the probe reads of a disk at most, and of all of them; all at once.
const PROBE_BYTES: u64 = 8 << 20;
const PROBE_BYTES_IN_ALL: u64 = 64 << 20;
/// Rounds of the probe at most; none begins after `PROBE_TIME`.
const PROBE_ROUNDS: u64 = 4;
const PROBE_TIME: Duration = Duration::from_millis(60);
/// A disk that takes longer does not count.
const PROBE_LIMIT: Duration = Duration::from_secs(3);

/// How many regions a resync can do in a second, measured as it works: all disks are read at once, in
/// large pieces. What is read does not matter. The best of some rounds counts, because other load at
/// this moment will not last.
async fn probe(env: &SharedEnv, disks: &[&Arc<Disk>], copies: u64) -> f64 {
    let share = PROBE_BYTES_IN_ALL / disks.len().max(1) as u64;
    let each = PROBE_BYTES.min(share).max(PROBE_STEP);
    let began = env.now();
    let mut best = 0.0_f64;
    for round in 0..PROBE_ROUNDS {
        let (bytes, took) = read_all(env, disks, AU_START + round * each, each).await;
        best = best.max(bytes as f64 / took.as_secs_f64().max(1e-6));
        if env.now().since(began) > PROBE_TIME {
            break;
        }
    }
    // A fifth is left for the rest of a resync, and for other work meanwhile.
    0.8 * best / copies as f64 / REGION_BYTES as f64
}

/// Reads `length` bytes of every disk, all at once; how much could be read, and how long it took those
/// that answered.
async fn read_all(
    env: &SharedEnv,
    disks: &[&Arc<Disk>],
    start: u64,
    length: u64,
) -> (u64, Duration) {
    let began = env.now();
    let reads = disks.iter().flat_map(|disk| {
        let end = disk.device().geometry().size.min(start + length);
        (start..end).step_by(PROBE_STEP as usize).map(move |at| async move {
            let length = (end - at).min(PROBE_STEP) / BLOCK_U64 * BLOCK_U64;
            let read = disk.device().read_at(Io::FOREGROUND, at, length as usize);
            let read = within(env, PROBE_LIMIT, read).await;
            read.and_then(Result::ok).map(|read| (read.len() as u64, env.now().since(began)))
        })
    });
    let done = join_all(reads).await.into_iter().flatten();
    done.fold((0, Duration::ZERO), |all, one| (all.0 + one.0, all.1.max(one.1)))
}

/// The disks whose labels still count them in although they have left, and their new labels.
fn former_of(labelled: &[Labelled], state: &GroupState) -> Vec<(Arc<dyn Device>, Label)> {
    let is_of =
        |l: &&Labelled| state.disks.get(&l.label.disk_no).is_some_and(|d| d.uuid == l.label.disk);
    let members_once = labelled.iter().filter(|l| l.label.status == LabelStatus::Member);
    let former = members_once.filter(|l| !is_of(l)).map(|l| {
        let label = Label { status: LabelStatus::Former, ..l.label.clone() };
        (Arc::clone(&l.found.device), label)
    });
    former.collect()
}

/// Returns disks that missed nothing to the state, as the first mount that may write does.
fn come_back(
    state: &mut GroupState,
    disks: &[u16],
    mount_id: u64,
) -> Result<(), crate::on_disk::Damage> {
    for disk in disks.iter().copied() {
        if state.disks.get(&disk).is_some_and(|d| d.status == DiskStatus::Offline) {
            state.apply(&Op::DiskReturning { disk, mount_id })?;
        }
        state.apply(&Op::DiskOnline { disk })?;
    }
    Ok(())
}

/// Finds the newest provable state among the disks found.
///
/// # Errors
/// Too little is here, or what is here is damaged.
pub(crate) async fn start(
    env: &SharedEnv,
    name: &str,
    found: Vec<FoundDisk>,
    options: &MountOptions,
) -> Result<Start, Error> {
    let (force, timeout) = (options.force, options.disk_timeout);
    let (group, mut labelled) = disks_of(env, name, found, timeout).await?;
    read_chains(env, group, &mut labelled, timeout).await?;
    if let Some(damage) = labelled.iter().filter_map(|l| l.chain.as_ref()?.too_new()).next() {
        let what = "superblock".to_owned();
        return Err(Error::Damaged { group: name.to_owned(), what, damage: damage.clone() });
    }
    let candidates = newest_states(env, name, group, &labelled, timeout).await?;
    let Chosen { newest, proof, refused } = choose(name, candidates, &labelled, force)?;
    let (best, Replayed { mut state, .. }) = (newest.history, newest.told);
    let Proof { mut members, mut lagging, committed } = proof;
    // A disk that left may have the number of one that came after it.
    let generations = labelled
        .iter()
        .filter(|l| state.disks.get(&l.label.disk_no).is_some_and(|d| d.uuid == l.label.disk))
        .filter_map(|l| Some((l.label.disk_no, l.chain.as_ref()?.newest()?)))
        .collect();
    let is_of =
        |l: &&Labelled| state.disks.get(&l.label.disk_no).is_some_and(|d| d.uuid == l.label.disk);
    let creating = labelled.iter().filter(|l| l.label.status == LabelStatus::Creating);
    let creating = creating.filter(is_of).map(|l| l.label.disk_no).collect();
    let former = former_of(&labelled, &state);
    let found = Found { env, name, state: &state, labelled: &labelled, refused: &refused };
    let Here { disks, missing, mut current } = found.usable(options)?;
    if options.read_only {
        let back = std::mem::take(&mut current);
        come_back(&mut state, &back, best.end.previous_mount).map_err(|d| misfit(name, d))?;
        back.iter().filter_map(|no| disks.get(no)).for_each(|here| here.caught_up());
    }
    // A disk may have its history and yet be unusable.
    let is_used = |no: &u16| disks.get(no).is_some_and(|disk| disk.is_in_sync());
    members.retain(|no, _| is_used(no));
    lagging.retain(|l| is_used(&l.no));
    let copies = u64::from(state.header.redundancy.copies());
    let here: Vec<&Arc<Disk>> = disks.values().filter(|d| d.is_in_sync()).collect();
    // A mount that writes nothing makes no region dirty.
    let regions_per_second = match options.read_only {
        true => 0.0,
        false => probe(env, &here, copies).await,
    };
    let present: Vec<&Arc<Disk>> = members
        .keys()
        .chain(lagging.iter().map(|l| &l.no))
        .filter_map(|no| disks.get(no))
        .collect();
    let seen = Seen { state: &state, missing: &missing, committed: &committed, disks: &disks };
    let mut dirty = read_dirty(env, group, &present, &seen, options).await;
    if state.clean {
        dirty.forget();
    }
    Ok(Start {
        state,
        position: best.end,
        disks,
        missing,
        current,
        members,
        lagging,
        committed,
        creating,
        holds_catalog: labelled.iter().any(|l| l.label.holds_catalog),
        former,
        generations,
        dirty,
        regions_per_second,
        tried: mount_history::tried(labelled.iter().map(|l| &l.label), best.end.previous_mount),
    })
}

fn misfit(group: &str, damage: crate::on_disk::Damage) -> Error {
    let what = "what is known of a disk that is away".to_owned();
    Error::Damaged { group: group.to_owned(), what, damage }
}

/// What a mount has found of the group.
struct Seen<'a> {
    state: &'a GroupState,
    missing: &'a [u16],
    committed: &'a [Vec<u16>],
    disks: &'a BTreeMap<u16, Arc<Disk>>,
}

impl Seen<'_> {
    /// Whether nothing is lost if no other members answer. If a disk was taken by FORCE, or is taken
    /// for what it is not, another disk may hold something newer, and is waited for.
    fn goes_on_with(&self, members: &[&Arc<Disk>], answered: &BTreeSet<u16>) -> bool {
        let silent = |no| members.iter().any(|disk| disk.no == no) && !answered.contains(&no);
        let answered: Vec<u16> = answered.iter().copied().collect();
        !answered.is_empty()
            && !self.committed.is_empty()
            && !self.disks.values().any(|disk| disk.is_aged())
            && rules::may_go_on(self.committed, &answered)
            && goes_on_without(self.state, |no| self.missing.contains(&no) || silent(no))
    }
}

/// Reads the dirty logs of the members that are `present`. One that does not answer is let go of as
/// soon as on the data path, if the group goes on without it and those that are missing.
async fn read_dirty(
    env: &SharedEnv,
    group: Uuid,
    present: &[&Arc<Disk>],
    seen: &Seen<'_>,
    options: &MountOptions,
) -> FoundDirty {
    let answered: Mutex<BTreeSet<u16>> = Mutex::default();
    let may = || seen.goes_on_with(present, &lock(&answered));
    let request_timeout =
        RequestTimeout::new(env, options.disk_timeout).sooner(options.detach_timeout, &may);
    FoundDirty::read(group, present, request_timeout, &answered).await
}

/// How many regions may be dirty so that a resync takes `target` at most.
pub(crate) fn region_cap(regions_per_second: f64, target: Duration) -> usize {
    (regions_per_second * target.as_secs_f64()) as usize
}
