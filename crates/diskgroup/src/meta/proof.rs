//! The choice of the history that a mount continues, and the proof that nothing newer was written.
//!
//! A disk tells a history by its checkpoint and its log. A history that another disk's history passed
//! through is part of that one. Where two histories have diverged, as when a copy of the group was used
//! apart, the one that enough disks of its own metadata set tell counts. A disk that is refused (cut
//! off, an older image, used apart) proves nothing: it counts as missing.

use std::collections::BTreeMap;
use std::time::Duration;

use cellar_io::{IoError, IoErrorKind, Op, SharedEnv};

use crate::base::request_timeout::within;
use crate::error::Error;
use crate::meta::chain::{History, ReadError, Replayed};
use crate::meta::commit::{Lagging, MemberState};
use crate::meta::found::Labelled;
use crate::meta::mount_history::Marks;
use crate::meta::rules;
use crate::on_disk::{Damage, Uuid};
use crate::refused::Refused;

/// A history that nothing found extends, or that another one diverged from.
pub(super) struct Newest {
    pub told: Replayed,
    pub history: History,
    /// The disk that has it.
    source: Uuid,
}

/// The members here: those that have all of a history, and those that lag.
pub(super) struct Proof {
    pub members: BTreeMap<u16, MemberState>,
    pub lagging: Vec<Lagging>,
    /// Each set that may be the committed one; none if nothing is proven.
    pub committed: Vec<Vec<u16>>,
}

/// The history to go on from.
pub(super) struct Chosen {
    pub newest: Newest,
    pub proof: Proof,
    /// Why disks of the group that are here are not used.
    pub refused: BTreeMap<u16, Refused>,
}

/// Picks the history to continue. Two disks may each hold a record at the same place that the other
/// lacks, one of them interrupted: the one that can be proven is the one that was committed. FORCE
/// accepts one that cannot be proven, but does not choose between two.
pub(super) fn choose(
    name: &str,
    candidates: Vec<Newest>,
    labelled: &[Labelled],
    force: bool,
) -> Result<Chosen, Error> {
    let candidates = rivals(candidates, labelled);
    let only = candidates.len() == 1;
    let (mut proven, mut refusal): (Vec<Chosen>, Option<Error>) = (Vec::new(), None);
    let tellers: Vec<String> = candidates.iter().map(|n| tellers(n, labelled)).collect();
    for newest in candidates {
        let refused = refusals(&newest, labelled);
        match prove(name, &newest, labelled, &refused, force && only) {
            Ok(proof) => proven.push(Chosen { newest, proof, refused }),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    let disagree = || Error::Disagree { group: name.to_owned(), why: tellers.join("; ") };
    let having = |chosen: &Chosen| chosen.proof.members.len();
    let most = proven.iter().map(having).max().unwrap_or(0);
    let ends_alike = |all: &[Chosen]| {
        let place = |c: &Chosen| (c.newest.history.end.epoch, c.newest.history.end.lsn);
        all.windows(2).all(|pair| place(&pair[0]) == place(&pair[1]))
    };
    let alike = ends_alike(&proven);
    let best = proven.into_iter().filter(|chosen| having(chosen) == most).collect::<Vec<_>>();
    match (best.len(), refusal) {
        (0, refusal) if only => Err(refusal.unwrap_or_else(disagree)),
        (0, _) => Err(disagree()),
        (1, _) => Ok(best.into_iter().next().ok_or_else(disagree)?),
        // At the same place: the records in doubt there were never acknowledged.
        (_, _) if alike => Ok(best.into_iter().next().ok_or_else(disagree)?),
        (_, _) => Err(disagree()),
    }
}

/// The candidates without shorter ones whose disks the furthest history can use or has released: an
/// interrupted record that reached only such a disk is no rival.
fn rivals(candidates: Vec<Newest>, labelled: &[Labelled]) -> Vec<Newest> {
    let Some(first) = candidates.first() else { return candidates };
    let place = |n: &Newest| (n.history.end.epoch, n.history.end.lsn);
    let (furthest, refused) = (place(first), refusals(first, labelled));
    let state = &first.told.state;
    let parted = |l: &Labelled| {
        let no = l.label.disk_no;
        let known = state.disks.get(&no).is_some_and(|d| d.uuid == l.label.disk);
        known && state.is_online(no) && refused.contains_key(&no)
    };
    let tells = |n: &Newest, l: &Labelled| l.history().is_some_and(|own| own.end == n.history.end);
    let kept: Vec<bool> = candidates
        .iter()
        .map(|n| {
            let mut tellers = labelled.iter().filter(|l| tells(n, l));
            place(n) == furthest || tellers.all(parted)
        })
        .collect();
    candidates.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(n, _)| n).collect()
}

/// Who tells a history, for people.
fn tellers(newest: &Newest, labelled: &[Labelled]) -> String {
    let tells = |l: &&Labelled| l.history().is_some_and(|own| own.end == newest.history.end);
    let names: Vec<String> = labelled
        .iter()
        .filter(tells)
        .map(|l| format!("{} ({})", l.label.disk_name, l.found.path))
        .collect();
    let end = &newest.history.end;
    format!("{} up to record {} of epoch {}", names.join(", "), end.lsn, end.epoch)
}

/// The histories that may be continued, the furthest first: those that nothing here extends, and those
/// that all further ones have diverged from. At least one.
pub(super) async fn newest_states(
    env: &SharedEnv,
    name: &str,
    group: Uuid,
    labelled: &[Labelled],
    timeout: Duration,
) -> Result<Vec<Newest>, Error> {
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
    all.sort_by_key(|(_, h)| std::cmp::Reverse(place(h)));
    let mut newest: Vec<Newest> = Vec::new();
    let (mut damage, mut failure) = (None, None);
    for (l, history) in &all {
        let is_furthest = Some(place(history)) == furthest;
        // Falling back to a shorter history would forget acknowledged changes, unless it is part of
        // none that goes further.
        if !is_furthest && (newest.is_empty() || !has_parted(history, &all)) {
            continue;
        }
        if newest.iter().any(|n| n.history.is_same_as(history)) {
            continue;
        }
        let state = history.state(&l.found.device, l.label.au_size.into());
        match within(env, timeout, state).await {
            Some(Ok(told)) => {
                newest.push(Newest { told, history: history.clone(), source: l.label.disk });
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

/// Whether every longer history here is shown to be a different one: it covers the place where this one
/// ends, and did not pass through it.
fn has_parted(history: &History, all: &[(&Labelled, History)]) -> bool {
    let place = |h: &History| (h.end.epoch, h.end.lsn);
    let further = || all.iter().filter(|(_, h)| place(h) > place(history)).map(|(_, h)| h);
    further().all(|one| {
        // One disk tells its history from several checkpoints; the oldest shows most.
        let same = further().filter(|h| h.is_same_as(one));
        let shown: Vec<bool> = same.filter_map(|h| h.passed(&history.end)).collect();
        shown.contains(&false) && !shown.contains(&true)
    })
}

/// The relation of a disk that is here to a history.
enum Says {
    /// It ends there too.
    Has(MemberState),
    /// It knows less; this is what it lacks.
    Behind(Lagging),
    /// It ends at the same place, with other records.
    Differs,
}

/// The relation of the disk with that number to `newest`; `None`: it is absent, or proves nothing.
fn says(newest: &Newest, labelled: &[Labelled], no: u16) -> Option<Says> {
    let Newest { told, history: best, source } = newest;
    let uuid = told.state.disks.get(&no)?.uuid;
    let here = labelled.iter().find(|l| l.label.disk == uuid)?;
    let chain = here.chain.as_ref()?;
    let own = here.history()?;
    let (generation, area) = chain.newest()?;
    let member = MemberState { log_start: own.superblock.position.lsn, generation, area };
    if own.is_same_as(best) {
        return Some(Says::Has(member));
    }
    // A rotten superblock may have been the one that shows that this disk went on alone, and so may a
    // record of a later version; such a disk proves nothing.
    let rotten = chain.slots.iter().any(|(_, s)| matches!(s, Err(Damage::Checksum)));
    if rotten || own.refused.is_some() {
        return None;
    }
    let place = |h: &History| (h.end.epoch, h.end.lsn);
    if place(&own) == place(best) {
        return Some(Says::Differs);
    }
    if place(&own) > place(best) {
        return None;
    }
    let source = labelled.iter().find(|l| l.label.disk == *source)?;
    let lacks = best.lacked_by(&own, &source.chain.as_ref()?.ring)?;
    Some(Says::Behind(Lagging { no, member, lacks }))
}

/// The disks of the group here that are of no use to that history, and why.
fn refusals(newest: &Newest, labelled: &[Labelled]) -> BTreeMap<u16, Refused> {
    let best = &newest.history;
    let marks = Marks::of(labelled.iter().map(|l| &l.label), best.end.previous_mount);
    let mut out = BTreeMap::new();
    for (no, disk) in &newest.told.state.disks {
        let Some(l) = labelled.iter().find(|l| l.label.disk == disk.uuid) else { continue };
        let bytes = l.found.device.geometry().size;
        let own = l.history();
        let further = own
            .as_ref()
            .is_some_and(|own| (own.end.epoch, own.end.lsn) > (best.end.epoch, best.end.lsn));
        let why = if bytes < disk.bytes {
            Refused::CutOff { bytes, due: disk.bytes }
        } else if further {
            Refused::Apart
        } else if marks.is_current(&l.label) {
            continue;
        } else {
            match own.and_then(|own| best.passed(&own.end)) {
                Some(true) => Refused::Older,
                Some(false) => Refused::Apart,
                None => Refused::OutOfDate,
            }
        };
        out.insert(*no, why);
    }
    out
}

/// Checks that no newer history can exist elsewhere, and sorts the members here into those that
/// have all of it and those that lag. What is refused is as good as missing.
fn prove(
    name: &str,
    newest: &Newest,
    labelled: &[Labelled],
    refused: &BTreeMap<u16, Refused>,
    force: bool,
) -> Result<Proof, Error> {
    let Newest { told: Replayed { state, before, .. }, history: best, source } = newest;
    let members_of_set = state.members.len();
    let refuse = |why: String| {
        Err(Error::NotProven { group: name.to_owned(), why, members: members_of_set })
    };
    let told_by = labelled.iter().find(|l| l.label.disk == *source);
    let told_by = told_by.map_or("", |l| l.label.disk_name.as_str());
    let said = |no: u16| match refused.contains_key(&no) {
        true => None,
        false => says(newest, labelled, no),
    };
    let mut members = BTreeMap::new();
    let mut lagging = Vec::new();
    for no in &state.members {
        match said(*no) {
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
        let knows_no_more = |no: &&u16| matches!(said(**no), Some(Says::Has(_) | Says::Behind(_)));
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
    // FORCE gives up what absent disks may know, not what a disk that is here shows that it knows.
    let later = |l: &Labelled| {
        let histories = l.chain.as_ref().map(|c| c.histories(state.header.uuid));
        histories.unwrap_or_default().iter().any(|h| h.refused.is_some())
    };
    match labelled.iter().find(|l| later(l)) {
        None if force => return Ok(Proof { members, lagging, committed: Vec::new() }),
        None => {}
        Some(l) => {
            let path = &l.found.path;
            return refuse(format!("{path} has a log record that this version cannot read"));
        }
    }
    let absent = state
        .members
        .iter()
        .filter(|no| !members.contains_key(no) && !lagging.iter().any(|l| l.no == **no));
    let absent: Vec<u16> = absent.copied().collect();
    refuse(unproven(newest, labelled, refused, (readable, &absent)))
}

/// What is missing for a proof, in words: which disks, and why for those that are refused.
fn unproven(
    newest: &Newest,
    labelled: &[Labelled],
    refused: &BTreeMap<u16, Refused>,
    (readable, absent): (usize, &[u16]),
) -> String {
    let state = &newest.told.state;
    let all = state.members.len();
    let named = |no: &u16| {
        let disk = state.disks.get(no)?;
        let path = labelled.iter().find(|l| l.label.disk == disk.uuid).map(|l| &l.found.path);
        Some(match (refused.get(no), path) {
            (Some(why), Some(path)) => format!("{} ({path}: {why})", disk.name),
            _ => disk.name.clone(),
        })
    };
    let names: Vec<String> = absent.iter().filter_map(named).collect();
    let what = match names.as_slice() {
        [] => "it cannot be shown that its last change of them was committed".to_owned(),
        names => {
            let names = names.join(" or ");
            format!("without {names} it cannot be shown that nothing newer was written")
        }
    };
    let images = absent.iter().filter_map(|no| refused.get(no)).any(|r| r.is_of_another_time());
    let newest = match images {
        true => format!(
            ". The newest state was read from {}; if that is a copy which was used elsewhere, move it \
             away, and the others open without it",
            tellers(newest, labelled)
        ),
        false => String::new(),
    };
    let is_here = |no: u16| {
        let disk =
            state.disks.get(&no).filter(|_| state.is_online(no) && !refused.contains_key(&no));
        disk.is_some_and(|disk| labelled.iter().any(|l| l.label.disk == disk.uuid))
    };
    let lost = state.without_copy(&is_here);
    let lost = match lost.is_empty() {
        true => String::new(),
        false => format!("; with FORCE {} no whole copy that is current", state.named_files(&lost)),
    };
    format!("{readable} of its {all} metadata disks can be believed; {what}{newest}{lost}")
}
