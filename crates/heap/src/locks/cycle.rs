//! Deadlock detection: the search for a cycle of waits, from the one that has begun to wait.

#[cfg(test)]
use std::collections::BTreeMap;
use std::collections::{HashMap, HashSet};

use super::{Hasher, Line, Locks, Owner, Resource, SHARDS, Shard, leave, place};
use crate::sync::MutexGuard;

/// All lines as they are at one moment.
struct Lines<'a> {
    shards: Vec<MutexGuard<'a, Shard>>,
    waiting: MutexGuard<'a, HashMap<Owner, Resource, Hasher>>,
    twins: MutexGuard<'a, HashMap<Owner, Owner, Hasher>>,
}

/// A place in a line.
#[derive(Clone, Copy)]
struct At<'a> {
    resource: Resource,
    line: &'a Line,
    place: usize,
}

impl Lines<'_> {
    /// Where somebody stands; `None`: nowhere.
    fn find(&self, owner: Owner) -> Option<At<'_>> {
        let twin = || self.waiting.get(self.twins.get(&owner)?);
        let resource = *self.waiting.get(&owner).or_else(twin)?;
        let line = self.shards[place(&resource)].get(&resource)?;
        let place = line.waiters.iter().position(|waiter| self.are_one(waiter.owner, owner))?;
        Some(At { resource, line, place })
    }

    /// Whether two owners are one user.
    fn are_one(&self, one: Owner, other: Owner) -> bool {
        one == other || self.twins.get(&one) == Some(&other)
    }

    /// Whether `owner` waits for itself: through those in its way, those in theirs, and so on. Returns the one
    /// directly in its way in that cycle. The cost depends on the waiters on the path, not on the number of locks.
    fn cycle(&self, owner: Owner) -> Option<Owner> {
        let own = self.find(owner)?;
        let mut seen: HashSet<Owner, Hasher> = HashSet::default();
        // How many of a line were taken up: those before them were too.
        let mut taken: HashMap<Resource, usize, Hasher> = HashMap::default();
        taken.insert(own.resource, own.place);
        let mode = own.line.waiters[own.place].mode;
        let holders = own.line.conflicting(owner, mode).map(|holder| (holder, None));
        let direct = holders.chain(before(own, 0).map(|(waiter, at)| (waiter, Some(at))));
        let mut next: Vec<(Owner, Option<At<'_>>)> = Vec::new();
        for first in direct {
            next.push(first);
            while let Some((who, at)) = next.pop() {
                if self.are_one(who, owner) {
                    return Some(first.0);
                }
                if !seen.insert(who) {
                    continue;
                }
                let Some(at) = at.or_else(|| self.find(who)) else { continue };
                let mode = at.line.waiters[at.place].mode;
                next.extend(at.line.conflicting(who, mode).map(|holder| (holder, None)));
                let taken = taken.entry(at.resource).or_default();
                next.extend(before(at, *taken).map(|(waiter, at)| (waiter, Some(at))));
                *taken = at.place.max(*taken);
            }
        }
        None
    }
}

impl Locks {
    fn lines(&self) -> Lines<'_> {
        let shards = (0..SHARDS).map(|place| self.shard(place)).collect();
        Lines { shards, waiting: self.waiting(), twins: self.twins() }
    }

    /// Removes `owner` from this line if it waits for itself. Returns the one directly in its way in that cycle.
    /// Both happen in one step: otherwise all who close a cycle at once would be refused.
    pub(super) fn leave_circle(&self, owner: Owner, resource: Resource) -> Option<Owner> {
        let mut lines = self.lines();
        let holder = lines.cycle(owner)?;
        leave(&mut lines.shards[place(&resource)], owner, resource);
        Some(holder)
    }

    #[cfg(test)]
    pub(crate) fn cycle(&self, owner: Owner) -> Option<Owner> {
        self.lines().cycle(owner)
    }

    /// Who waits for whom, of all lines.
    #[cfg(test)]
    pub(crate) fn edges(&self) -> BTreeMap<Owner, Vec<Owner>> {
        let mut edges = BTreeMap::new();
        for line in self.lines().shards.iter().flat_map(|shard| shard.values()) {
            for (place, waiter) in line.waiters.iter().enumerate() {
                edges.insert(waiter.owner, line.blockers(waiter.owner, waiter.mode, place));
            }
        }
        edges
    }
}

/// Those that stand before a place, from another place on.
fn before(at: At<'_>, from: usize) -> impl Iterator<Item = (Owner, At<'_>)> {
    let waiters = at.line.waiters.iter().enumerate().take(at.place).skip(from);
    waiters.map(move |(place, waiter)| (waiter.owner, At { place, ..at }))
}
