//! Mounting: which history is the newest, whether that is proven, and what is left to do.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Device, DeviceExt, EnvExt, Io, IoError, IoErrorKind, Op, SharedEnv};
use futures_util::future::{Either, join_all, select};

use crate::data::dirty_found::FoundDirty;
use crate::disk::{Disk, DiskIdentity};
use crate::error::Error;
use crate::group::MountOptions;
use crate::meta::chain::{Chain, History, ReadError};
use crate::meta::commit::MemberState;
use crate::meta::labels::read_labels;
use crate::meta::rules;
use crate::on_disk::label::{Label, LabelStatus, Redundancy};
use crate::on_disk::layout::{AU_START, BLOCK_U64, REGION_BYTES};
use crate::on_disk::superblock::LogPosition;
use crate::on_disk::{Damage, Uuid};
use crate::state::GroupState;

/// A disk that may belong to the group.
#[derive(Clone)]
pub struct FoundDisk {
    /// The disk, opened.
    pub device: Arc<dyn Device>,
    /// Its path.
    pub path: String,
}

/// A disk whose label is the group's.
pub(crate) struct Labelled {
    pub label: Label,
    pub found: FoundDisk,
    pub chain: Option<Chain>,
}

/// What a mount starts from.
pub(crate) struct Start {
    pub state: GroupState,
    pub position: LogPosition,
    /// Disks of the state that are here, in sync or not.
    pub disks: BTreeMap<u16, Arc<Disk>>,
    /// Disks that the state counts on and that are not here.
    pub missing: Vec<u16>,
    /// Members that have the whole history.
    pub members: BTreeMap<u16, MemberState>,
    /// Members that are here but behind: to be brought up to date first.
    pub lagging: Vec<u16>,
    /// The newest superblocks of all disks here: generation, and the checkpoint area it names.
    pub generations: BTreeMap<u16, (u64, u8)>,
    /// The dirty log as it was found.
    pub dirty: FoundDirty,
    /// How many regions can be copied in a second, from how fast the logs could be read.
    pub regions_per_second: f64,
}

/// What `future` says, unless it says nothing for `limit`.
pub(crate) async fn within<T>(
    env: &SharedEnv,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(future), env.sleep(limit)).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

/// Reads the labels of `found` and keeps the disks of the group called `name`.
pub(crate) async fn disks_of(
    env: &SharedEnv,
    name: &str,
    found: Vec<FoundDisk>,
    timeout: Duration,
) -> Result<(Uuid, Vec<Labelled>), Error> {
    let mut labelled: Vec<Labelled> = Vec::new();
    let mut damage = None;
    let scans = found.iter().map(|disk| within(env, timeout, read_labels(&disk.device)));
    let scans = join_all(scans).await;
    for (disk, scan) in found.into_iter().zip(scans) {
        // A disk that does not answer is a disk that is not here.
        let Some(Ok(scan)) = scan else {
            continue;
        };
        match scan.newest() {
            Some(label) if label.group_name == name && label.status != LabelStatus::Former => {
                labelled.push(Labelled { label: label.clone(), found: disk, chain: None });
            }
            Some(_) => {}
            None => damage = damage.or(scan.damage().cloned().map(|d| (disk.path.clone(), d))),
        }
    }
    let Some(group) = labelled.iter().max_by_key(|l| l.label.created_ns).map(|l| l.label.group)
    else {
        let why = match damage {
            Some((path, d)) if !matches!(d, Damage::Blank) => {
                format!("no disk of it was found; the label of {path} cannot be read: {d}")
            }
            _ => "no disk of it was found".to_owned(),
        };
        return Err(Error::NotProven { group: name.to_owned(), why });
    };
    labelled.retain(|l| l.label.group == group);
    labelled.sort_by_key(|l| l.label.disk_no);
    if let Some(pair) = labelled.windows(2).find(|p| p[0].label.disk == p[1].label.disk) {
        return Err(Error::DiskUnusable {
            disk: pair[1].found.path.clone(),
            why: format!("it is the same disk as {}", pair[0].found.path),
            number: 15020,
        });
    }
    Ok((group, labelled))
}

/// Reads the metadata of every disk, of all at once.
async fn read_chains(env: &SharedEnv, group: Uuid, labelled: &mut [Labelled], timeout: Duration) {
    let reads = labelled.iter().map(|l| {
        let chain = Chain::read(&l.found.device, group, l.label.disk);
        within(env, timeout, chain)
    });
    let chains = join_all(reads).await;
    for (l, chain) in labelled.iter_mut().zip(chains) {
        // A disk whose metadata cannot be read counts as one without metadata.
        l.chain = chain.and_then(Result::ok);
    }
}

/// One read of the probe.
const PROBE_STEP: u64 = 512 << 10;
/// Bytes that a round of the probe reads of a disk at most, and of all of them; all at once.
const PROBE_BYTES: u64 = 8 << 20;
const PROBE_BYTES_IN_ALL: u64 = 64 << 20;
/// Rounds of the probe at most; none begins after `PROBE_TIME`.
const PROBE_ROUNDS: u64 = 4;
const PROBE_TIME: Duration = Duration::from_millis(60);

/// How many regions a resync will do in a second: as it does, all disks are read at once, in large
/// pieces. What is read does not matter. The best of some rounds counts: what else goes on just
/// now will not go on then.
async fn probe(env: &SharedEnv, disks: &[&Arc<Disk>], copies: u64) -> f64 {
    let share = PROBE_BYTES_IN_ALL / disks.len().max(1) as u64;
    let each = PROBE_BYTES.min(share).max(PROBE_STEP);
    let began = env.now();
    let mut best = 0.0_f64;
    for round in 0..PROBE_ROUNDS {
        let start = env.now();
        let bytes = read_all(disks, AU_START + round * each, each).await;
        let seconds = env.now().since(start).as_secs_f64().max(1e-6);
        best = best.max(bytes as f64 / seconds);
        if env.now().since(began) > PROBE_TIME {
            break;
        }
    }
    // A fifth is left to what else a resync does, and to whoever works meanwhile.
    0.8 * best / copies as f64 / REGION_BYTES as f64
}

/// Reads `length` bytes of every disk, all at once; how much could be read.
async fn read_all(disks: &[&Arc<Disk>], start: u64, length: u64) -> u64 {
    let reads = disks.iter().flat_map(|disk| {
        let end = disk.device().geometry().size.min(start + length);
        (start..end).step_by(PROBE_STEP as usize).map(move |at| async move {
            let length = (end - at).min(PROBE_STEP) / BLOCK_U64 * BLOCK_U64;
            let read = disk.device().read_at(Io::FOREGROUND, at, length as usize).await;
            read.map_or(0, |read| read.len() as u64)
        })
    });
    join_all(reads).await.into_iter().sum()
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
    read_chains(env, group, &mut labelled, timeout).await;
    if let Some(damage) = labelled.iter().filter_map(|l| l.chain.as_ref()?.too_new()).next() {
        let what = "superblock".to_owned();
        return Err(Error::Damaged { group: name.to_owned(), what, damage: damage.clone() });
    }
    // Two disks may each hold a record of the same place that the other lacks, one of them cut off
    // half-way: the one that can be proven is the one that was committed.
    let mut proven = None;
    for newest in newest_states(env, name, group, &labelled, timeout).await? {
        match prove(name, &newest, &labelled, force) {
            Ok((members, lagging)) => {
                proven = Some(Ok((newest, members, lagging)));
                break;
            }
            Err(error) => proven = proven.or(Some(Err(error))),
        }
    }
    let (newest, members, lagging) = proven.expect("at least one history was read")?;
    let (state, best) = (newest.state, newest.history);
    let generations = labelled
        .iter()
        .filter_map(|l| Some((l.label.disk_no, l.chain.as_ref()?.newest()?)))
        .collect();
    let (disks, missing) = match_disks(env, &state, &labelled);
    check_complete(name, &state, &disks, &missing)?;
    let copies = u64::from(state.header.redundancy.copies());
    let here: Vec<&Arc<Disk>> = disks.values().filter(|d| d.is_in_sync()).collect();
    let regions_per_second = within(env, timeout, probe(env, &here, copies)).await.unwrap_or(0.0);
    let present: Vec<&Arc<Disk>> =
        members.keys().chain(&lagging).filter_map(|no| disks.get(no)).collect();
    let mut dirty = FoundDirty::read(env, group, &present, timeout).await;
    if state.clean {
        dirty.forget();
    }
    Ok(Start {
        state,
        position: best.end,
        disks,
        missing,
        members,
        lagging,
        generations,
        dirty,
        regions_per_second,
    })
}

/// A history that nothing found goes beyond.
struct Newest {
    state: GroupState,
    history: History,
    /// The disk that told it.
    source: u16,
    /// The metadata set before its last record, if that record changed it.
    before: Option<Vec<u16>>,
}

/// The furthest histories whose checkpoints can be read: at least one, and one of each kind.
async fn newest_states(
    env: &SharedEnv,
    name: &str,
    group: Uuid,
    labelled: &[Labelled],
    timeout: Duration,
) -> Result<Vec<Newest>, Error> {
    let mut newest: Vec<Newest> = Vec::new();
    let mut all: Vec<(&Labelled, History)> = Vec::new();
    for l in labelled {
        let histories = l.chain.as_ref().map(|c| c.histories(group)).unwrap_or_default();
        all.extend(histories.into_iter().map(|h| (l, h)));
    }
    all.sort_by_key(|(_, h)| std::cmp::Reverse((h.end.epoch, h.end.lsn)));
    let furthest = all.first().map(|(_, h)| (h.end.epoch, h.end.lsn));
    let (mut damage, mut failure) = (None, None);
    for (l, history) in all {
        // Falling back to a shorter history would forget acknowledged changes.
        if Some((history.end.epoch, history.end.lsn)) != furthest {
            break;
        }
        if newest.iter().any(|n| n.history.is_same_as(&history)) {
            continue;
        }
        let state = history.state(&l.found.device, l.label.au_size.into());
        match within(env, timeout, state).await {
            Some(Ok((state, before))) => {
                let source = l.label.disk_no;
                newest.push(Newest { state, history, source, before });
            }
            Some(Err(ReadError::Damage(d))) => damage = Some((l.found.path.clone(), d)),
            // Another disk may tell the same history.
            Some(Err(ReadError::Io(error))) => failure = Some(error),
            None => {
                let after_ms = timeout.as_millis() as u64;
                let name = &l.found.device.geometry().name;
                let kind = IoErrorKind::Timeout { after_ms };
                failure = Some(IoError::new(kind, name, Op::Read, 0, 0));
            }
        }
    }
    if !newest.is_empty() {
        return Ok(newest);
    }
    if let (None, Some(error)) = (&damage, failure) {
        return Err(Error::Io(error));
    }
    let (what, damage) = match damage {
        Some((path, d)) => (format!("the checkpoint on {path}"), d),
        None => ("the superblocks of every disk found".to_owned(), Damage::Blank),
    };
    Err(Error::Damaged { group: name.to_owned(), what, damage })
}

/// Whether nothing newer can exist on disks that are not here, given how many members of the
/// history's last set can be read, and how many of these have all of it.
fn is_proven(newest: &Newest, labelled: &[Labelled], readable: usize, having: usize) -> bool {
    let Newest { state, history: best, before, .. } = newest;
    let Some(old) = before else {
        return rules::is_proven(state.members.len(), readable);
    };
    let behind = |h: &History| {
        h.is_same_as(best) || (h.end.epoch, h.end.lsn) < (best.end.epoch, best.end.lsn)
    };
    let present = old.iter().filter(|no| {
        let uuid = state.disks.get(no).map(|d| d.uuid);
        let here = labelled.iter().find(|l| Some(l.label.disk) == uuid);
        here.and_then(|l| l.chain.as_ref())
            .and_then(|c| c.histories(state.header.uuid).into_iter().next())
            .is_some_and(|own| behind(&own))
    });
    let all = state.members.len();
    rules::is_proven_change((old.len(), present.count()), (all, readable), having)
}

/// Checks that no newer history can exist elsewhere, and sorts the members here into those that
/// have all of it and those that lag.
fn prove(
    name: &str,
    newest: &Newest,
    labelled: &[Labelled],
    force: bool,
) -> Result<(BTreeMap<u16, MemberState>, Vec<u16>), Error> {
    let Newest { state, history: best, source, .. } = newest;
    let mut members = BTreeMap::new();
    let mut lagging = Vec::new();
    let mut readable = 0;
    for no in &state.members {
        let uuid = state.disks.get(no).map(|d| d.uuid);
        let here = labelled.iter().find(|l| Some(l.label.disk) == uuid);
        let Some(chain) = here.and_then(|l| l.chain.as_ref()) else {
            continue;
        };
        let own = chain.histories(state.header.uuid);
        let Some(own) = own.first() else { continue };
        // A superblock that rotted may have been the one that says this disk went on alone; such a
        // disk proves nothing, unless it ends where the newest history ends.
        let rotten = chain.slots.iter().any(|(_, s)| matches!(s, Err(Damage::Checksum)));
        if rotten && !own.is_same_as(best) {
            continue;
        }
        readable += 1;
        if own.end.epoch == best.end.epoch
            && own.end.lsn == best.end.lsn
            && !own.is_same_as(best)
            && !force
        {
            let why = format!(
                "disks {source} and {no} tell different histories of epoch {}",
                best.end.epoch
            );
            return Err(Error::NotProven { group: name.to_owned(), why });
        }
        if own.is_same_as(best) {
            let s = &own.superblock;
            let member = MemberState {
                log_start: s.position.lsn,
                generation: chain.generation(),
                area: s.area,
            };
            members.insert(*no, member);
        } else {
            lagging.push(*no);
        }
    }
    let proven = is_proven(newest, labelled, readable, members.len());
    if !proven && !force {
        let absent: Vec<&str> = state
            .members
            .iter()
            .filter(|no| !members.contains_key(no) && !lagging.contains(no))
            .filter_map(|no| state.disks.get(no).map(|d| d.name.as_str()))
            .collect();
        let why = format!(
            "{readable} of its {} metadata disks can be read; without {} it cannot be shown that \
             nothing newer was written",
            state.members.len(),
            absent.join(" or ")
        );
        return Err(Error::NotProven { group: name.to_owned(), why });
    }
    Ok((members, lagging))
}

fn match_disks(
    env: &SharedEnv,
    state: &GroupState,
    labelled: &[Labelled],
) -> (BTreeMap<u16, Arc<Disk>>, Vec<u16>) {
    let mut disks = BTreeMap::new();
    let mut missing = Vec::new();
    for (no, d) in &state.disks {
        let here = labelled.iter().find(|l| l.label.disk == d.uuid);
        let large_enough = here.filter(|l| l.found.device.geometry().size >= d.bytes);
        match large_enough {
            Some(l) => {
                let identity = DiskIdentity {
                    no: *no,
                    uuid: d.uuid,
                    name: d.name.clone(),
                    failgroup: d.failgroup.clone(),
                    path: l.found.path.clone(),
                };
                let device = Arc::clone(&l.found.device);
                let disk = Disk::new(identity, device, Arc::clone(env));
                if !state.is_online(*no) {
                    disk.left();
                }
                disks.insert(*no, Arc::new(disk));
            }
            None if state.is_online(*no) => missing.push(*no),
            None => {}
        }
    }
    (disks, missing)
}

/// Every mirrored extent must have a copy in sync here; an external group needs every disk.
fn check_complete(
    name: &str,
    state: &GroupState,
    disks: &BTreeMap<u16, Arc<Disk>>,
    missing: &[u16],
) -> Result<(), Error> {
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> =
        missing.iter().filter_map(|no| state.disks.get(no).map(|d| d.name.as_str())).collect();
    let here = |disk: u16| disks.get(&disk).is_some_and(|d| d.is_in_sync());
    let lost = state.files.values().find(|f| {
        f.attributes.copies > 1
            && f.legs
                .chunks(f.attributes.copies.into())
                .any(|legs| !legs.iter().any(|l| here(l.disk)))
    });
    let why = if state.header.redundancy == Redundancy::External {
        format!("{} not found, and external redundancy keeps one copy", names.join(", "))
    } else if let Some(file) = lost {
        format!("without {} file {} has no whole copy", names.join(", "), file.number)
    } else {
        return Ok(());
    };
    Err(Error::Incomplete { group: name.to_owned(), why })
}

/// How many regions may be dirty so that a resync takes `target` at most.
pub(crate) fn region_cap(regions_per_second: f64, target: Duration) -> usize {
    (regions_per_second * target.as_secs_f64()) as usize
}
