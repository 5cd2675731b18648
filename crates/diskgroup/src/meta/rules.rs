//! Quorum rules of the metadata: which disks hold it, and when a mount may believe what it found. Pure;
//! model-checked in `tests/it/membership.rs` over all orders of up to six events, for one to five disks.
//!
//! A *set* is one, two, three or five disks. One process writes at a time (each disk is locked),
//! so the danger is never two writers at once but two writers one after the other, on disks that
//! did not see each other's records.
//!
//! - A record is committed when every member has it. A member that fails is taken out by a record
//!   that the remaining members have, and there must be enough of them, of the set that is
//!   committed, whatever was written since ([`may_go_on`]).
//! - A mount believes the newest history it finds if enough members of that history's last set
//!   are there ([`is_proven`]): then no later record can exist only on disks that are missing.

use crate::on_disk::label::Redundancy;
use crate::state::GroupState;

/// How many members a group should have, given how many failure groups have a disk in sync.
pub fn target_size(redundancy: Redundancy, failgroups: usize) -> usize {
    let most = if redundancy == Redundancy::High { 5 } else { 3 };
    match failgroups.min(most) {
        0 => 0,
        4 => 3,
        n => n,
    }
}

/// Whether a set of `old` members may go on as the `left` of them that did not fail.
///
/// Three or five need a majority: any two majorities share a disk, so a mount that has a majority
/// of the old set sees the record. A set of two may shrink to one: then the survivor alone knows,
/// and the other one alone is never believed.
pub fn may_continue(old: usize, left: usize) -> bool {
    match old {
        0 | 1 => false,
        2 => left >= 1,
        n => left > n / 2,
    }
}

/// Whether the newest history found is proven newest when `present` of the `members` of its last
/// set can be read.
pub fn is_proven(members: usize, present: usize) -> bool {
    match members {
        0 => false,
        1 | 2 => present == members,
        n => present > n / 2,
    }
}

/// Whether the newest history found is proven newest although nothing shows that its last changes of the
/// set were committed: they may have been interrupted, and an older set may have gone on without the
/// disks that have them. It is proven if every new member has it (`having`), because then it was
/// committed; otherwise only if enough of the last set and of each set before it are here and know
/// nothing newer. Each set is given as its size and the number of its disks that are here.
pub fn is_proven_change(
    before: &[(usize, usize)],
    (new, present): (usize, usize),
    having: usize,
) -> bool {
    let enough = |(members, present): (usize, usize)| is_proven(members, present);
    (new > 0 && having == new) || (enough((new, present)) && before.iter().all(|s| enough(*s)))
}

/// Whether a group may go on with the metadata on `left` alone. `committed` is the set that is
/// committed; after a mount of a history whose last changes may have been cut off, each set that may
/// be. A record that changes the set and did not reach all of it does not count: a set that nobody
/// committed is no majority of anything.
pub fn may_go_on(committed: &[Vec<u16>], left: &[u16]) -> bool {
    let enough = |set: &Vec<u16>| {
        let kept = set.iter().filter(|m| left.contains(m)).count();
        kept == set.len() || may_continue(set.len(), kept)
    };
    !left.is_empty() && committed.iter().all(enough)
}

/// A disk that may hold metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The disk's number.
    pub disk: u16,
    /// Its failure group.
    pub failgroup: String,
}

/// Chooses members from the disks in sync: keeps those of `current` that still are, then adds
/// disks of failure groups that have none yet, lowest number first.
pub fn choose(redundancy: Redundancy, current: &[u16], in_sync: &[Candidate]) -> Vec<u16> {
    let mut groups: Vec<&str> = in_sync.iter().map(|c| c.failgroup.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    let size = target_size(redundancy, groups.len());
    let mut chosen: Vec<&Candidate> = Vec::new();
    let kept = in_sync.iter().filter(|c| current.contains(&c.disk));
    let others = in_sync.iter().filter(|c| !current.contains(&c.disk));
    for candidate in kept.chain(others) {
        let group_taken = chosen.iter().any(|c| c.failgroup == candidate.failgroup);
        if chosen.len() < size && !group_taken {
            chosen.push(candidate);
        }
    }
    let mut members: Vec<u16> = chosen.iter().map(|c| c.disk).collect();
    members.sort_unstable();
    members
}

/// The set that comes after `current`, one step towards the one that [`choose`] gives for the disks that
/// `stay`; `current` itself if there is nothing to change. `go` are its disks in sync that are being
/// dropped: they leave one after the other, and a lone member only after another has joined.
///
/// Whoever finds all of a new set believes it, so the disks that a single record takes out must
/// never be enough of the old one to be believed without the others.
pub fn next_set(
    redundancy: Redundancy,
    current: &[u16],
    stay: &[Candidate],
    go: &[Candidate],
) -> Vec<u16> {
    let (Some((_, go_later)), Some(company)) = (go.split_first(), stay.first()) else {
        let wanted = choose(redundancy, current, stay);
        return if wanted.len() > current.len() { wanted } else { current.to_vec() };
    };
    if let [lone] = current {
        let mut both = vec![*lone, company.disk];
        both.sort_unstable();
        return both;
    }
    let in_sync: Vec<Candidate> = stay.iter().chain(go_later).cloned().collect();
    choose(redundancy, current, &in_sync)
}

/// Whether every file and the metadata are available without these disks; the other copies of a log are
/// on its other media.
pub(crate) fn goes_on_without(state: &GroupState, goes: impl Fn(u16) -> bool) -> bool {
    let stays = |no: u16| state.is_online(no) && !goes(no);
    let left = state.members.iter().filter(|no| stays(**no)).count();
    let goes_on = left == state.members.len() || may_continue(state.members.len(), left);
    goes_on
        && state.files.values().filter(|file| !file.attributes.is_medium_of_a_log()).all(|file| {
            let mut sets = file.legs.chunks(file.attributes.copies.into());
            sets.all(|legs| legs.iter().any(|leg| stays(leg.disk)))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disks(groups: &[&str]) -> Vec<Candidate> {
        (0u16..).zip(groups).map(|(disk, g)| Candidate { disk, failgroup: (*g).into() }).collect()
    }

    #[test]
    fn sets_are_odd_or_two_and_one_per_failure_group() {
        let n = Redundancy::Normal;
        assert_eq!(choose(n, &[], &disks(&["A"])), [0]);
        assert_eq!(choose(n, &[], &disks(&["A", "A", "B"])), [0, 2]);
        assert_eq!(choose(n, &[], &disks(&["A", "B", "C", "D"])), [0, 1, 2]);
        assert_eq!(choose(Redundancy::High, &[], &disks(&["A", "B", "C", "D"])), [0, 1, 2]);
        assert_eq!(choose(Redundancy::High, &[], &disks(&["A", "B", "C", "D", "E"])).len(), 5);
    }

    #[test]
    fn dropped_disks_leave_the_set_one_after_the_other() {
        let n = Redundancy::Normal;
        let all = disks(&["A", "B", "C", "D", "E"]);
        assert_eq!(next_set(n, &[0, 1, 2], &all[2..], &all[..2]), [1, 2, 3]);
        assert_eq!(next_set(n, &[1, 2, 3], &all[2..], &all[1..2]), [2, 3, 4]);
        assert_eq!(next_set(n, &[0], &all[1..2], &all[..1]), [0, 1], "a lone one has company");
        assert_eq!(next_set(n, &[0, 1], &all[1..2], &all[..1]), [1]);
        assert_eq!(next_set(n, &[0, 1], &[], &all[..2]), [0, 1], "somebody must hold it");
        let five = next_set(Redundancy::High, &[0, 1, 2, 3, 4], &all[..4], &all[4..]);
        assert_eq!(five, [0, 1, 2], "four are no set");
    }

    #[test]
    fn a_lost_member_is_replaced_and_the_others_stay() {
        let in_sync = disks(&["A", "B", "C", "D"]).split_off(1);
        assert_eq!(choose(Redundancy::Normal, &[0, 1, 2], &in_sync), [1, 2, 3]);
    }
}
