//! Mounting: which history is the newest, whether that is proven, and what is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_io::{Device, DeviceExt, EnvExt, Io, IoError, IoErrorKind, Op, SharedEnv};
use futures_util::future::{Either, join_all, select};

use crate::data::dirty_found::FoundDirty;
use crate::disk::{Disk, DiskIdentity, lock};
use crate::error::Error;
use crate::group::MountOptions;
use crate::group::watch::goes_on_without;
use crate::meta::chain::{Chain, History, ReadError, Told};
use crate::meta::commit::{Lagging, MemberState};
use crate::meta::labels::{Patience, read_labels};
use crate::meta::marks::{self, Marks, OUT_OF_DATE};
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
    /// The life of a mount that was cut off before its first record, as labels tell; 0: none.
    pub tried: u64,
    /// How many regions a resync can do in a second; 0 for a mount that does none.
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
    // A CREATE of the same name that was cut off early must not hide a group that is whole.
    let whole = |l: &&Labelled| (l.label.status == LabelStatus::Member, l.label.created_ns);
    let Some(group) = labelled.iter().max_by_key(whole).map(|l| l.label.group) else {
        let why = match damage {
            Some((path, d)) if !matches!(d, Damage::Blank) => {
                format!("no disk of it was found; the label of {path} cannot be read: {d}")
            }
            _ => "no disk of it was found".to_owned(),
        };
        return Err(Error::NotProven { group: name.to_owned(), why });
    };
    labelled.retain(|l| l.label.group == group);
    labelled.sort_by_key(|l| (l.label.disk_no, l.label.disk));
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
        // A disk whose metadata cannot be read, or not in time, counts as one without metadata.
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
/// A disk that takes longer does not count.
const PROBE_LIMIT: Duration = Duration::from_secs(3);

/// How many regions a resync will do in a second: as it does, all disks are read at once, in large
/// pieces. What is read does not matter. The best of some rounds counts: what else goes on just
/// now will not go on then.
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
    // A fifth is left to what else a resync does, and to whoever works meanwhile.
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
    let candidates = newest_states(env, name, group, &labelled, timeout).await?;
    let (newest, proof) = choose(name, candidates, &labelled, force)?;
    let (best, Told { state, .. }) = (newest.history, newest.told);
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
    let members_once = labelled.iter().filter(|l| l.label.status == LabelStatus::Member);
    let former = members_once.filter(|l| !is_of(l)).map(|l| {
        let label = Label { status: LabelStatus::Former, ..l.label.clone() };
        (Arc::clone(&l.found.device), label)
    });
    let former = former.collect();
    let marks = Marks::of(labelled.iter().map(|l| &l.label), best.end.previous_life);
    let (disks, missing) = usable_disks(env, name, &state, &labelled, &marks, options)?;
    // A disk may tell its history and yet be of no use, because it became too small.
    // Nor is an older image of itself a member.
    let is_used = |no: &u16| disks.get(no).is_some_and(|disk| disk.is_in_sync());
    members.retain(|no, _| is_used(no));
    lagging.retain(|l| is_used(&l.no));
    let copies = u64::from(state.header.redundancy.copies());
    let here: Vec<&Arc<Disk>> = disks.values().filter(|d| d.is_in_sync()).collect();
    // Who writes nothing makes no region dirty.
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
        members,
        lagging,
        committed,
        creating,
        holds_catalog: labelled.iter().any(|l| l.label.holds_catalog),
        former,
        generations,
        dirty,
        regions_per_second,
        tried: marks::tried(labelled.iter().map(|l| &l.label), best.end.previous_life),
    })
}

/// What a mount has seen of the group.
struct Seen<'a> {
    state: &'a GroupState,
    missing: &'a [u16],
    committed: &'a [Vec<u16>],
    disks: &'a BTreeMap<u16, Arc<Disk>>,
}

impl Seen<'_> {
    /// Whether nothing is lost if no other members answer. Where a disk was taken by FORCE, or is
    /// taken for what it is not, another may hold what is newer, and is waited for.
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
    let patience = Patience::new(env, options.disk_timeout).sooner(options.detach_timeout, &may);
    FoundDirty::read(group, present, patience, &answered).await
}

/// A history that nothing found goes beyond.
struct Newest {
    told: Told,
    history: History,
    /// The disk that told it.
    source: Uuid,
}

/// Picks the history to go on from. Two disks may each hold a record of the same place that the
/// other lacks, one of them cut off half-way: the one that can be proven is the one that was
/// committed. FORCE takes one that cannot, but does not choose between two.
fn choose(
    name: &str,
    candidates: Vec<Newest>,
    labelled: &[Labelled],
    force: bool,
) -> Result<(Newest, Proof), Error> {
    let only = candidates.len() == 1;
    let mut refusal = None;
    for newest in candidates {
        match prove(name, &newest, labelled, force && only) {
            Ok(proof) => return Ok((newest, proof)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.expect("at least one history was read"))
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
    let place = |h: &History| (h.end.epoch, h.end.lsn);
    let furthest = all.iter().map(|(_, h)| place(h)).max();
    for (l, history) in &all {
        if let (Some(damage), true) = (&history.refused, Some(place(history)) == furthest) {
            return Err(Error::Damaged {
                group: name.to_owned(),
                what: format!("a log record on {} that this version cannot read", l.found.path),
                damage: damage.clone(),
            });
        }
    }
    all.sort_by_key(|(_, h)| std::cmp::Reverse((h.end.epoch, h.end.lsn)));
    let (mut damage, mut failure) = (None, None);
    for (l, history) in all {
        // Falling back to a shorter history would forget acknowledged changes.
        if Some(place(&history)) != furthest {
            break;
        }
        if newest.iter().any(|n| n.history.is_same_as(&history)) {
            continue;
        }
        let state = history.state(&l.found.device, l.label.au_size.into());
        match within(env, timeout, state).await {
            Some(Ok(told)) => {
                newest.push(Newest { told, history, source: l.label.disk });
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

/// What a disk that is here says of a history.
enum Says {
    /// It ends there too.
    Has(MemberState),
    /// It knows less; this is what it lacks.
    Behind(Lagging),
    /// It ends at the same place, with other records.
    Differs,
}

/// What the disk with that number says of `newest`; `None`: it is not here, or proves nothing.
fn says(newest: &Newest, labelled: &[Labelled], no: u16) -> Option<Says> {
    let Newest { told, history: best, source } = newest;
    let uuid = told.state.disks.get(&no)?.uuid;
    let chain = labelled.iter().find(|l| l.label.disk == uuid)?.chain.as_ref()?;
    let own = chain.histories(told.state.header.uuid).into_iter().next()?;
    let (generation, area) = chain.newest()?;
    let member = MemberState { log_start: own.superblock.position.lsn, generation, area };
    if own.is_same_as(best) {
        return Some(Says::Has(member));
    }
    // A superblock that rotted may have been the one that says this disk went on alone, and so may
    // a record of a later version; such a disk proves nothing.
    let rotten = chain.slots.iter().any(|(_, s)| matches!(s, Err(Damage::Checksum)));
    if rotten || own.refused.is_some() {
        return None;
    }
    if (own.end.epoch, own.end.lsn) == (best.end.epoch, best.end.lsn) {
        return Some(Says::Differs);
    }
    let source = labelled.iter().find(|l| l.label.disk == *source)?;
    let lacks = best.lacked_by(&own, &source.chain.as_ref()?.ring)?;
    Some(Says::Behind(Lagging { no, member, lacks }))
}

/// The members here: those that have all of a history, and those that lag.
struct Proof {
    members: BTreeMap<u16, MemberState>,
    lagging: Vec<Lagging>,
    /// Each set that may be the committed one; none if nothing is proven.
    committed: Vec<Vec<u16>>,
}

/// Checks that no newer history can exist elsewhere, and sorts the members here into those that
/// have all of it and those that lag.
fn prove(name: &str, newest: &Newest, labelled: &[Labelled], force: bool) -> Result<Proof, Error> {
    let Newest { told: Told { state, before, .. }, history: best, source } = newest;
    let refuse = |why: String| Err(Error::NotProven { group: name.to_owned(), why });
    let told_by = labelled.iter().find(|l| l.label.disk == *source);
    let told_by = told_by.map_or("", |l| l.label.disk_name.as_str());
    let mut members = BTreeMap::new();
    let mut lagging = Vec::new();
    for no in &state.members {
        match says(newest, labelled, *no) {
            None => {}
            Some(Says::Has(member)) => {
                members.insert(*no, member);
            }
            Some(Says::Behind(lag)) => lagging.push(lag),
            Some(Says::Differs) => {
                return refuse(format!(
                    "{told_by} and disk {no} tell different histories of epoch {}",
                    best.end.epoch
                ));
            }
        }
    }
    let readable = members.len() + lagging.len();
    let of = |set: &Vec<u16>| {
        let knows_no_more = |no: &&u16| {
            matches!(says(newest, labelled, **no), Some(Says::Has(_) | Says::Behind(_)))
        };
        (set.len(), set.iter().filter(knows_no_more).count())
    };
    let all = state.members.len();
    let olds: Vec<(usize, usize)> = before.iter().map(of).collect();
    let committed = if members.len() == all {
        vec![state.members.clone()]
    } else {
        before.iter().chain([&state.members]).cloned().collect()
    };
    if rules::is_proven_change(&olds, (all, readable), members.len()) {
        return Ok(Proof { members, lagging, committed });
    }
    // FORCE gives up what disks may know that are not here, not what one here says that it knows.
    let refused = |l: &Labelled| {
        let histories = l.chain.as_ref().map(|c| c.histories(state.header.uuid));
        histories.unwrap_or_default().iter().any(|h| h.refused.is_some())
    };
    match labelled.iter().find(|l| refused(l)) {
        None if force => return Ok(Proof { members, lagging, committed: Vec::new() }),
        None => {}
        Some(l) => {
            let path = &l.found.path;
            return refuse(format!("{path} has a log record that this version cannot read"));
        }
    }
    let absent: Vec<&str> = state
        .members
        .iter()
        .filter(|no| !members.contains_key(no) && !lagging.iter().any(|l| l.no == **no))
        .filter_map(|no| state.disks.get(no).map(|d| d.name.as_str()))
        .collect();
    let what = match absent.as_slice() {
        [] => "it cannot be shown that its last change of them was committed".to_owned(),
        names => {
            let names = names.join(" or ");
            format!("without {names} it cannot be shown that nothing newer was written")
        }
    };
    refuse(format!("{readable} of its {all} metadata disks can be read; {what}"))
}

/// The disks of the group that are here by number, and the numbers of those that are missing.
type Here = (BTreeMap<u16, Arc<Disk>>, Vec<u16>);

/// Picks the disks that can be used; refuses a group that is not whole with them.
fn usable_disks(
    env: &SharedEnv,
    name: &str,
    state: &GroupState,
    labelled: &[Labelled],
    marks: &Marks,
    options: &MountOptions,
) -> Result<Here, Error> {
    let (disks, missing) = match_disks(env, state, labelled, Some(marks));
    if let Some(rescue) = options.rescue.as_ref().filter(|_| options.read_only) {
        for disk in rescue.leave_out.iter().filter_map(|no| disks.get(no)) {
            disk.left();
            disk.fail(out_of_date(disk));
        }
        return Ok((disks, missing));
    }
    let Err(refused) = check_complete(name, state, &disks, &missing) else {
        return Ok((disks, missing));
    };
    // FORCE takes an older image for what it is where there is nothing newer.
    let (disks, missing) = match_disks(env, state, labelled, None);
    check_complete(name, state, &disks, &missing).map_err(|_| refused.clone())?;
    if !options.force {
        return Err(Error::NotProven { group: name.to_owned(), why: words_of(refused) });
    }
    // Some extent is nowhere else; of all others the newer copy counts.
    for label in labelled.iter().map(|l| &l.label).filter(|label| !marks.is_current(label)) {
        let disk = disks.get(&label.disk_no).filter(|disk| disk.uuid == label.disk);
        disk.into_iter().for_each(|disk| disk.age());
    }
    Ok((disks, missing))
}

fn match_disks(
    env: &SharedEnv,
    state: &GroupState,
    labelled: &[Labelled],
    marks: Option<&Marks>,
) -> Here {
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
                } else if marks.is_some_and(|marks| !marks.is_current(&l.label)) {
                    disk.left();
                    disk.fail(out_of_date(&disk));
                    missing.push(*no);
                }
                disks.insert(*no, Arc::new(disk));
            }
            None if state.is_online(*no) => missing.push(*no),
            None => {}
        }
    }
    (disks, missing)
}

/// What is wrong with a group that is not whole, in words.
fn words_of(error: Error) -> String {
    match error {
        Error::Incomplete { why, .. } => why,
        other => other.to_string(),
    }
}

/// Whether a disk was taken for an older image of itself at the mount.
pub(crate) fn is_out_of_date(disk: &Disk) -> bool {
    let kind = disk.failure().map(|error| &error.kind);
    matches!(kind, Some(IoErrorKind::Gone { reason }) if *reason == OUT_OF_DATE)
}

fn out_of_date(disk: &Disk) -> IoError {
    let kind = IoErrorKind::Gone { reason: OUT_OF_DATE };
    IoError::new(kind, &disk.device().geometry().name, Op::Open, 0, 0)
}

/// Every mirrored extent must have a copy in sync here; an external group needs every disk that
/// holds anything.
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
    let external = state.header.redundancy == Redundancy::External;
    let lost = state.files.values().find(|f| {
        (external || f.attributes.copies > 1)
            && !f.attributes.is_medium_of_a_log()
            && f.legs
                .chunks(f.attributes.copies.into())
                .any(|legs| !legs.iter().any(|l| here(l.disk)))
    });
    let names = names.join(", ");
    let what = match missing.iter().any(|no| disks.contains_key(no)) {
        true => format!("not found or {OUT_OF_DATE}"),
        false => "not found".to_owned(),
    };
    let why = match lost {
        None => return Ok(()),
        Some(_) if external => {
            format!("{names} {what}; external redundancy keeps one copy")
        }
        Some(file) => format!("without {names} file {} has no whole copy", file.number),
    };
    Err(Error::Incomplete { group: name.to_owned(), why })
}

/// How many regions may be dirty so that a resync takes `target` at most.
pub(crate) fn region_cap(regions_per_second: f64, target: Duration) -> usize {
    (regions_per_second * target.as_secs_f64()) as usize
}
