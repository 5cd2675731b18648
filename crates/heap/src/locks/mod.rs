//! Locks of rows, keys and tables: who holds what, who waits in line, and who waits for each other.
//!
//! A request for a lock that others hold, or wait for, stands in line, first come first served. A holder that wants
//! a stronger mode goes before those that wait for the lock, as in PostgreSQL. When a wait begins, those in its way
//! are examined, then those that they wait for, and so on: a request that would close a cycle is refused at once,
//! with what is in its way.

mod cycle;
mod mode;
mod session;
mod wait;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, PoisonError};

use futures_channel::oneshot;
use smallvec::SmallVec;

use crate::row_id::RowId;
use crate::statistics::Statistics;
use crate::sync::{Mutex, MutexGuard};
pub use mode::Mode;
pub use session::SessionLocks;
pub use wait::{LockError, LockTimeout};

/// What can be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// A table, by its number.
    Table(u32),
    /// A row of a table.
    Row(u32, RowId),
    /// A key of an index, by its hash: two keys with the same one wait for each other.
    Key(u32, u64),
    /// An advisory lock: a number, or two of them in one.
    Advisory(bool, u64),
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Resource::Table(_) => f.write_str("the table"),
            Resource::Row(_, row) => write!(f, "{row}"),
            Resource::Key(..) => f.write_str("the key of a row"),
            Resource::Advisory(false, number) => {
                write!(f, "advisory lock {}", number.cast_signed())
            }
            Resource::Advisory(true, both) => {
                let [high, low] = [(both >> 32) as u32, *both as u32].map(u32::cast_signed);
                write!(f, "advisory lock ({high}, {low})")
            }
        }
    }
}

/// A transaction, by its number.
pub type Owner = u64;

/// The locks of a store.
pub(crate) struct Locks {
    shards: Vec<Mutex<Shard>>,
    /// The line in which each owner stands. It is locked after the shards.
    waiting: Mutex<HashMap<Owner, Resource, Hasher>>,
    /// Owners that count as one user, in pairs: a waiter acts as one of them, and holds what the other does. It is
    /// locked last of all.
    twins: Mutex<HashMap<Owner, Owner, Hasher>>,
    statistics: Arc<Statistics>,
}

type Shard = HashMap<Resource, Line, Hasher>;

/// Fast, and seeded by chance.
type Hasher = quick_cache::DefaultHashBuilder;

/// The same each time: locks are released in an order that a seed gives again.
type FixedHasher = BuildHasherDefault<DefaultHasher>;

/// The locks of one thing.
#[derive(Default)]
struct Line {
    /// Mostly one.
    holders: SmallVec<[(Owner, Mode); 1]>,
    waiters: VecDeque<Waiter>,
}

/// Somebody who stands in line.
struct Waiter {
    owner: Owner,
    /// What it will hold.
    mode: Mode,
    granted: oneshot::Sender<()>,
}

/// The locks of a transaction: they are released when this is dropped.
pub(crate) struct Held {
    locks: Arc<Locks>,
    owner: Owner,
    resources: HashMap<Resource, Mode, FixedHasher>,
}

impl Held {
    pub fn new(locks: Arc<Locks>, owner: Owner) -> Held {
        Held { locks, owner, resources: HashMap::default() }
    }

    /// Notes a lock that was granted.
    pub fn add(&mut self, resource: Resource, mode: Mode) {
        let held = self.resources.entry(resource).or_insert(mode);
        *held = held.with(mode);
    }

    /// Releases a lock.
    pub fn release(&mut self, resource: Resource) {
        self.resources.remove(&resource);
        self.locks.release(self.owner, resource);
    }

    /// How a lock is held; `None`: not at all.
    pub fn mode(&self, resource: &Resource) -> Option<Mode> {
        self.resources.get(resource).copied()
    }

    /// Whether the rights of this mode are held.
    pub fn has(&self, resource: &Resource, mode: Mode) -> bool {
        self.resources.get(resource).is_some_and(|held| held.covers(mode))
    }

    pub fn owner(&self) -> Owner {
        self.owner
    }

    pub fn count(&self) -> usize {
        self.resources.len()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.release_all(self.owner, self.resources.drain().map(|(resource, _)| resource));
    }
}

/// What came of asking for a lock.
pub(crate) enum LockOutcome {
    Granted,
    /// Stands in line; `is_held`: and holds it already, less strongly.
    Waits {
        granted: oneshot::Receiver<()>,
        is_held: bool,
    },
    /// Others have it, and the caller does not wait.
    Busy(Vec<Owner>),
}

const SHARDS: usize = 64;

impl Locks {
    /// No locks; waits for those of rows and keys are counted.
    pub fn new(statistics: Arc<Statistics>) -> Locks {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Locks { shards, waiting: Mutex::default(), twins: Mutex::default(), statistics }
    }

    fn shard(&self, place: usize) -> MutexGuard<'_, Shard> {
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Owner, Resource, Hasher>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn twins(&self) -> MutexGuard<'_, HashMap<Owner, Owner, Hasher>> {
        self.twins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes two owners one user; `None`: the first is alone again.
    pub(crate) fn join(&self, owner: Owner, twin: Option<Owner>) {
        let mut twins = self.twins();
        if let Some(before) = twins.remove(&owner) {
            twins.remove(&before);
        }
        if let Some(twin) = twin {
            twins.insert(owner, twin);
            twins.insert(twin, owner);
        }
    }

    /// Asks for a lock; stands in line where others have it and `waits`.
    pub(crate) fn ask(
        &self,
        owner: Owner,
        resource: Resource,
        mode: Mode,
        waits: bool,
    ) -> LockOutcome {
        let mut shard = self.shard(place(&resource));
        let line = shard.entry(resource).or_default();
        let held = line.holders.iter().find(|(holder, _)| *holder == owner).map(|(_, mode)| *mode);
        if held.is_some_and(|held| held.covers(mode)) {
            return LockOutcome::Granted;
        }
        let wanted = held.map_or(mode, |held| held.with(mode));
        // Before the first that waits for what it holds. If all before that place are compatible it need not wait.
        let waits_for = |waiter: &Waiter| held.is_some_and(|held| !held.bears(waiter.mode));
        let place = line.waiters.iter().position(waits_for).unwrap_or(line.waiters.len());
        let is_next = line.waiters.iter().take(place).all(|waiter| wanted.bears(waiter.mode));
        if is_next && line.may_grant(owner, wanted) {
            line.grant(owner, wanted);
            return LockOutcome::Granted;
        }
        if !waits {
            let busy = line.blockers(owner, wanted, line.waiters.len());
            if line.is_empty() {
                shard.remove(&resource);
            }
            return LockOutcome::Busy(busy);
        }
        let (granted, receiver) = oneshot::channel();
        let waiter = Waiter { owner, mode: wanted, granted };
        line.waiters.insert(place, waiter);
        self.waiting().insert(owner, resource);
        LockOutcome::Waits { granted: receiver, is_held: held.is_some() }
    }

    /// Releases a lock.
    pub fn release(&self, owner: Owner, resource: Resource) {
        release_in(&mut self.shard(place(&resource)), owner, resource);
    }

    /// Reverts a lock to the mode it had before a stronger one was asked for.
    pub fn weaken(&self, owner: Owner, resource: Resource, before: Option<Mode>) {
        let Some(before) = before else { return self.release(owner, resource) };
        let mut shard = self.shard(place(&resource));
        if let Some(line) = shard.get_mut(&resource) {
            line.grant(owner, before);
            line.advance();
        }
    }

    /// Lets go of locks, those of a shard together.
    pub(crate) fn release_all(&self, owner: Owner, resources: impl Iterator<Item = Resource>) {
        let mut all: Vec<_> = resources.map(|of| (place(&of), of)).collect();
        // As they came within a shard: that order is the same each time.
        all.sort_by_key(|(place, _)| *place);
        for together in all.chunk_by(|(one, _), (other, _)| one == other) {
            let mut shard = self.shard(together[0].0);
            for (_, resource) in together {
                release_in(&mut shard, owner, *resource);
            }
        }
    }

    /// Leaves the line. True: the lock had been granted meanwhile, and is held.
    pub(crate) fn leave(&self, owner: Owner, resource: Resource) -> bool {
        leave(&mut self.shard(place(&resource)), owner, resource)
    }

    /// How many things are locked or waited for.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|s| s.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}

/// The shard that has a thing.
fn place(resource: &Resource) -> usize {
    let number = match *resource {
        Resource::Table(table) => u64::from(table),
        Resource::Row(table, id) => u64::from(table) ^ u64::from(id.page) << 3 ^ u64::from(id.slot),
        Resource::Key(index, hash) => u64::from(index) ^ hash,
        Resource::Advisory(is_pair, number) => u64::from(is_pair) ^ number,
    };
    // Fibonacci hashing: the upper bits depend on all.
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize
}

fn release_in(shard: &mut Shard, owner: Owner, resource: Resource) {
    let Entry::Occupied(mut line) = shard.entry(resource) else { return };
    line.get_mut().holders.retain(|(holder, _)| *holder != owner);
    line.get_mut().advance();
    if line.get().is_empty() {
        line.remove();
    }
}

/// Leaves the line of a thing. True: the lock had been granted meanwhile, and is held.
fn leave(shard: &mut Shard, owner: Owner, resource: Resource) -> bool {
    let Entry::Occupied(mut line) = shard.entry(resource) else { return false };
    let waiting = line.get().waiters.len();
    line.get_mut().waiters.retain(|waiter| waiter.owner != owner);
    if line.get().waiters.len() == waiting {
        return line.get().holders.iter().any(|(holder, _)| *holder == owner);
    }
    line.get_mut().advance();
    if line.get().is_empty() {
        line.remove();
    }
    false
}

impl Line {
    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    /// Whether nobody else holds what conflicts.
    fn may_grant(&self, owner: Owner, mode: Mode) -> bool {
        self.holders.iter().all(|(holder, held)| *holder == owner || mode.bears(*held))
    }

    fn grant(&mut self, owner: Owner, mode: Mode) {
        match self.holders.iter_mut().find(|(holder, _)| *holder == owner) {
            Some((_, held)) => *held = mode,
            None => self.holders.push((owner, mode)),
        }
    }

    /// Grants those at the head of the line what they may have.
    fn advance(&mut self) {
        while self.waiters.front().is_some_and(|next| self.may_grant(next.owner, next.mode)) {
            let Some(Waiter { owner, mode, granted }) = self.waiters.pop_front() else { return };
            self.grant(owner, mode);
            // Who has gone meanwhile leaves the line, and finds that it holds the lock.
            let _ = granted.send(());
        }
    }

    /// Who else holds what conflicts.
    fn conflicting(&self, owner: Owner, mode: Mode) -> impl Iterator<Item = Owner> {
        let holders = self.holders.iter().filter(move |(_, held)| !mode.bears(*held));
        holders.map(|(holder, _)| *holder).filter(move |holder| *holder != owner)
    }

    /// Those in the way of who stands at `place` in the line.
    fn blockers(&self, owner: Owner, mode: Mode, place: usize) -> Vec<Owner> {
        let before = self.waiters.iter().take(place).map(|waiter| waiter.owner);
        self.conflicting(owner, mode).chain(before).collect()
    }
}
