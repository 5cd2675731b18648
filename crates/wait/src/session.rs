//! Sessions and their helpers: the handles on which waits begin.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use crate::events::Event;
use crate::registry::{Registry, lock};
use crate::slot::{Kind, SessionEventTotals, SessionView, Slot};

#[derive(Default)]
pub(crate) struct Sessions {
    /// By session number. An entry leaves with the last handle of its session.
    open: BTreeMap<u32, Weak<SessionInner>>,
    serial: u32,
}

/// What all handles of one session share.
struct SessionInner {
    registry: Arc<Registry>,
    sid: u32,
    serial: u32,
    name: String,
    kind: Kind,
    helpers: AtomicU32,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    /// By helper number, 0 is the session itself.
    live: BTreeMap<u32, Arc<Slot>>,
    /// The counts of helpers that have ended.
    folded: BTreeMap<Event, SessionEventTotals>,
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        let mut sessions = lock(&self.registry.sessions);
        // The number may have been reused once nobody could be found under it.
        if sessions.open.get(&self.sid).is_some_and(|found| found.strong_count() == 0) {
            sessions.open.remove(&self.sid);
        }
    }
}

/// One slot of a session; it leaves the session when dropped.
struct Handle {
    session: Arc<SessionInner>,
    slot: Arc<Slot>,
    helper: u32,
}

impl Handle {
    fn new(session: &Arc<SessionInner>) -> Arc<Handle> {
        let slot = Arc::new(Slot::new());
        let helper = session.helpers.fetch_add(1, Relaxed);
        lock(&session.slots).live.insert(helper, Arc::clone(&slot));
        Arc::new(Handle { session: Arc::clone(session), slot, helper })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut slots = lock(&self.session.slots);
        slots.live.remove(&self.helper);
        self.session.count_slot(&self.slot, &mut slots.folded);
    }
}

impl SessionInner {
    fn count_slot(&self, slot: &Slot, totals: &mut BTreeMap<Event, SessionEventTotals>) {
        for (event, counters) in slot.counters() {
            let count = counters.count.load(Relaxed);
            if count == 0 {
                continue;
            }
            let total = totals.entry(event).or_insert(SessionEventTotals {
                sid: self.sid,
                serial: self.serial,
                event,
                count: 0,
                timeouts: 0,
                nanos: 0,
                max: 0,
            });
            total.count += count;
            total.timeouts += counters.timeouts.load(Relaxed);
            total.nanos = total.nanos.wrapping_add(counters.nanos.load(Relaxed));
            total.max = total.max.max(counters.max.load(Relaxed));
        }
    }
}

/// A handle on which waits begin. Clones share one slot; a task that waits beside its session
/// should have its own, from [`helper`](Session::helper). The session ends with its last handle,
/// helpers included.
#[derive(Clone)]
pub struct Session(Arc<Handle>);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = &self.0.session;
        f.debug_struct("Session")
            .field("sid", &inner.sid)
            .field("serial", &inner.serial)
            .field("helper", &self.0.helper)
            .field("name", &inner.name)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn open(registry: &Arc<Registry>, name: &str, kind: Kind) -> Session {
        let mut sessions = lock(&registry.sessions);
        let sid = (1..).find(|sid| !sessions.open.contains_key(sid)).unwrap_or(u32::MAX);
        sessions.serial = sessions.serial.wrapping_add(1);
        let inner = Arc::new(SessionInner {
            registry: Arc::clone(registry),
            sid,
            serial: sessions.serial,
            name: name.to_owned(),
            kind,
            helpers: AtomicU32::new(0),
            slots: Mutex::default(),
        });
        sessions.open.insert(sid, Arc::downgrade(&inner));
        drop(sessions);
        Session(Handle::new(&inner))
    }

    /// The number of the session, from 1.
    pub fn sid(&self) -> u32 {
        self.0.session.sid
    }

    /// The serial number: it tells apart the sessions that had the same `sid`.
    pub fn serial(&self) -> u32 {
        self.0.session.serial
    }

    /// The kind of waiter: user or background.
    pub fn kind(&self) -> Kind {
        self.0.session.kind
    }

    /// A handle with a slot of its own, for a task that works beside the session.
    pub fn helper(&self) -> Session {
        Session(Handle::new(&self.0.session))
    }

    /// Begins a wait at `now`. If another wait of this handle has not ended, this one is shown
    /// in a slot of its own.
    #[inline]
    pub fn begin(&self, event: Event, p: [u64; 3], now: u64) -> Wait<'_> {
        if self.0.slot.enter() {
            self.0.slot.begin(event, p, now);
            let on = On::Borrowed(&self.0);
            return Wait { on, event, since: now, over: false };
        }
        self.begin_beside(event, p, now)
    }

    /// As [`begin`](Session::begin); the wait holds the session.
    pub fn begin_owned(&self, event: Event, p: [u64; 3], now: u64) -> Wait<'static> {
        if self.0.slot.enter() {
            self.0.slot.begin(event, p, now);
            let on = On::Owned(Arc::clone(&self.0));
            return Wait { on, event, since: now, over: false };
        }
        self.begin_beside(event, p, now)
    }

    #[cold]
    fn begin_beside(&self, event: Event, p: [u64; 3], now: u64) -> Wait<'static> {
        let handle = Handle::new(&self.0.session);
        assert!(handle.slot.enter(), "nobody else knows a new slot");
        handle.slot.begin(event, p, now);
        Wait { on: On::Owned(handle), event, since: now, over: false }
    }
}

enum On<'a> {
    Borrowed(&'a Handle),
    Owned(Arc<Handle>),
}

/// A wait that has begun. Dropped without an end it counts nothing: a task that is cancelled has
/// not waited for anything.
#[must_use = "a wait that is dropped is not counted"]
pub struct Wait<'a> {
    on: On<'a>,
    event: Event,
    since: u64,
    over: bool,
}

impl Wait<'_> {
    /// Counts the wait, which is over at `now`, and returns how long it took in nanoseconds.
    #[inline]
    pub fn end(self, now: u64) -> u64 {
        self.finish(now, false)
    }

    /// As [`end`](Wait::end), for a wait that timed out.
    #[inline]
    pub fn end_timeout(self, now: u64) -> u64 {
        self.finish(now, true)
    }

    /// When the wait began.
    pub fn since(&self) -> u64 {
        self.since
    }

    #[inline]
    fn handle(&self) -> &Handle {
        match &self.on {
            On::Borrowed(handle) => handle,
            On::Owned(handle) => handle,
        }
    }

    #[inline]
    fn finish(mut self, now: u64, timed_out: bool) -> u64 {
        self.over = true;
        let nanos = now.saturating_sub(self.since);
        let handle = self.handle();
        let session = &handle.session;
        session.registry.record(self.event, session.kind, nanos, timed_out);
        handle.slot.end(self.event, nanos, now, timed_out);
        nanos
    }
}

impl Drop for Wait<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.over {
            self.handle().slot.abandon();
        }
    }
}

impl std::fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wait").field("event", &self.event).field("since", &self.since).finish()
    }
}

/// The open sessions. They are upgraded under the lock but dropped without it, for the last
/// handle of a session takes the same lock.
fn open(registry: &Registry) -> Vec<Arc<SessionInner>> {
    lock(&registry.sessions).open.values().filter_map(Weak::upgrade).collect()
}

pub(crate) fn views(registry: &Registry) -> Vec<SessionView> {
    let mut views = Vec::new();
    for session in open(registry) {
        let slots = lock(&session.slots);
        for (&helper, slot) in &slots.live {
            let (state, event, p, seq) = slot.read();
            views.push(SessionView {
                sid: session.sid,
                serial: session.serial,
                helper,
                name: session.name.clone(),
                kind: session.kind,
                state,
                event,
                p,
                seq,
            });
        }
        drop(slots);
    }
    views
}

pub(crate) fn totals(registry: &Registry) -> Vec<SessionEventTotals> {
    let mut all = Vec::new();
    for session in open(registry) {
        let slots = lock(&session.slots);
        let mut totals = slots.folded.clone();
        for slot in slots.live.values() {
            session.count_slot(slot, &mut totals);
        }
        drop(slots);
        all.extend(totals.into_values());
    }
    all
}
