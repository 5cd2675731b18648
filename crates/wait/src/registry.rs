//! The counters of all waits: one shard per thread, folded when the thread ends.
//!
//! A shard is written by its thread alone, with plain relaxed loads and stores; readers add up
//! the live shards and what was folded. The lists of shards change under one lock, so a shard is
//! always in exactly one of both.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::events::Event;
use crate::histogram::{BUCKETS, Histogram, bucket_of};
use crate::session::{Session, Sessions};
use crate::slot::{Kind, SessionEventTotals, SessionView};

/// The totals of one event.
#[derive(Clone, Debug)]
pub struct EventTotals {
    /// The event.
    pub event: Event,
    /// The number of waits that ended.
    pub count: u64,
    /// The number of them that timed out.
    pub timeouts: u64,
    /// The total time waited, in nanoseconds.
    pub nanos: u64,
    /// The longest, in nanoseconds.
    pub max: u64,
    /// The distribution of their durations.
    pub histogram: Histogram,
    /// As `count`, of user sessions only.
    pub foreground_count: u64,
    /// As `timeouts`, of user sessions only.
    pub foreground_timeouts: u64,
    /// As `nanos`, of user sessions only.
    pub foreground_nanos: u64,
}

impl EventTotals {
    fn empty(event: Event) -> EventTotals {
        EventTotals {
            event,
            count: 0,
            timeouts: 0,
            nanos: 0,
            max: 0,
            histogram: Histogram::new(),
            foreground_count: 0,
            foreground_timeouts: 0,
            foreground_nanos: 0,
        }
    }
}

/// The counters of one event in one thread.
struct Counters {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
    max: AtomicU64,
    timeouts: AtomicU64,
    foreground_count: AtomicU64,
    foreground_timeouts: AtomicU64,
    foreground_nanos: AtomicU64,
}

impl Counters {
    fn new() -> Box<Counters> {
        Box::new(Counters {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            nanos: AtomicU64::new(0),
            max: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            foreground_count: AtomicU64::new(0),
            foreground_timeouts: AtomicU64::new(0),
            foreground_nanos: AtomicU64::new(0),
        })
    }
}

/// Adds to a counter that only this thread writes: no locked instruction is needed.
#[inline]
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// The counters of one thread, made as they are needed.
struct Shard {
    events: [OnceLock<Box<Counters>>; Event::COUNT],
}

impl Shard {
    fn new() -> Shard {
        Shard { events: [const { OnceLock::new() }; Event::COUNT] }
    }

    /// Only the thread that owns the shard calls this.
    #[inline]
    fn record(&self, event: Event, kind: Kind, nanos: u64, timed_out: bool) {
        let counters = self.events[usize::from(event.number())].get_or_init(Counters::new);
        add(&counters.buckets[bucket_of(nanos)], 1);
        add(&counters.nanos, nanos);
        if nanos > counters.max.load(Relaxed) {
            counters.max.store(nanos, Relaxed);
        }
        if kind == Kind::User {
            add(&counters.foreground_count, 1);
            add(&counters.foreground_nanos, nanos);
        }
        if timed_out {
            add(&counters.timeouts, 1);
            if kind == Kind::User {
                add(&counters.foreground_timeouts, 1);
            }
        }
    }

    fn add_to(&self, totals: &mut BTreeMap<Event, EventTotals>) {
        for event in Event::all() {
            let Some(counters) = self.events[usize::from(event.number())].get() else {
                continue;
            };
            let total = totals.entry(event).or_insert_with(|| EventTotals::empty(event));
            for (bucket, count) in counters.buckets.iter().enumerate() {
                let count = count.load(Relaxed);
                total.histogram.add_bucket(bucket, count);
                // The count is what the histogram holds, so that both always agree.
                total.count += count;
            }
            let (nanos, max) = (counters.nanos.load(Relaxed), counters.max.load(Relaxed));
            total.histogram.add_sum(nanos, max);
            total.nanos = total.nanos.wrapping_add(nanos);
            total.max = total.max.max(max);
            total.timeouts += counters.timeouts.load(Relaxed);
            total.foreground_count += counters.foreground_count.load(Relaxed);
            total.foreground_timeouts += counters.foreground_timeouts.load(Relaxed);
            let nanos = counters.foreground_nanos.load(Relaxed);
            total.foreground_nanos = total.foreground_nanos.wrapping_add(nanos);
        }
    }
}

#[derive(Default)]
struct Shards {
    live: Vec<Arc<Shard>>,
    folded: BTreeMap<Event, EventTotals>,
}

/// The state that [`Waits`] points to.
pub(crate) struct Registry {
    id: u64,
    shards: Mutex<Shards>,
    pub(crate) sessions: Mutex<Sessions>,
}

/// A poisoned lock is as good as any: every change below is complete or harmless.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct LocalShard {
    registry: Weak<Registry>,
    id: u64,
    shard: Arc<Shard>,
}

#[derive(Default)]
struct LocalShards(Vec<LocalShard>);

impl LocalShards {
    #[inline]
    fn find(&self, id: u64) -> Option<&Shard> {
        self.0.iter().find(|local| local.id == id).map(|local| &*local.shard)
    }

    #[cold]
    fn make(&mut self, registry: &Arc<Registry>) -> &Shard {
        self.0.retain(|local| local.registry.strong_count() > 0);
        let shard = Arc::new(Shard::new());
        lock(&registry.shards).live.push(Arc::clone(&shard));
        self.0.push(LocalShard { registry: Arc::downgrade(registry), id: registry.id, shard });
        &self.0[self.0.len() - 1].shard
    }
}

impl Drop for LocalShards {
    fn drop(&mut self) {
        for local in self.0.drain(..) {
            let Some(registry) = local.registry.upgrade() else {
                continue;
            };
            let mut shards = lock(&registry.shards);
            shards.live.retain(|shard| !Arc::ptr_eq(shard, &local.shard));
            local.shard.add_to(&mut shards.folded);
        }
    }
}

thread_local! {
    static LOCAL: RefCell<LocalShards> = RefCell::default();
}

impl Registry {
    #[inline]
    pub(crate) fn record(self: &Arc<Self>, event: Event, kind: Kind, nanos: u64, timed_out: bool) {
        let recorded = LOCAL.try_with(|local| {
            if let Some(shard) = local.borrow().find(self.id) {
                return shard.record(event, kind, nanos, timed_out);
            }
            let mut local = local.borrow_mut();
            local.make(self).record(event, kind, nanos, timed_out);
        });
        if recorded.is_err() {
            // The thread is ending and its shards are folded already.
            let shard = Shard::new();
            shard.record(event, kind, nanos, timed_out);
            shard.add_to(&mut lock(&self.shards).folded);
        }
    }
}

/// The wait events of one instance. Cloning gives another handle on the same counters.
#[derive(Clone)]
pub struct Waits(pub(crate) Arc<Registry>);

impl Default for Waits {
    fn default() -> Waits {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Waits(Arc::new(Registry {
            id: NEXT.fetch_add(1, Relaxed),
            shards: Mutex::default(),
            sessions: Mutex::default(),
        }))
    }
}

impl std::fmt::Debug for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waits").field("id", &self.0.id).finish_non_exhaustive()
    }
}

impl Waits {
    /// A registry that has counted nothing.
    pub fn new() -> Waits {
        Waits::default()
    }

    /// A session that will wait; `name` is for people.
    pub fn session(&self, name: &str, kind: Kind) -> Session {
        Session::open(&self.0, name, kind)
    }

    /// Counts a wait of `nanos` that was measured elsewhere and belongs to no session, such as a
    /// request that a device has completed.
    #[inline]
    pub fn record(&self, event: Event, kind: Kind, nanos: u64) {
        self.0.record(event, kind, nanos, false);
    }

    /// The totals of each event that has ever happened, by event number. Waits that end meanwhile
    /// may be missing.
    pub fn totals(&self) -> Vec<EventTotals> {
        let shards = lock(&self.0.shards);
        let mut totals = shards.folded.clone();
        for shard in &shards.live {
            shard.add_to(&mut totals);
        }
        totals.into_values().filter(|total| total.count > 0).collect()
    }

    /// What each session waits for now, helpers after their session, by session number.
    pub fn sessions(&self) -> Vec<SessionView> {
        crate::session::views(&self.0)
    }

    /// What each session that is still open has waited for so far, by session and event number.
    pub fn session_totals(&self) -> Vec<SessionEventTotals> {
        crate::session::totals(&self.0)
    }
}
