//! Tasks, timers and the event count of a simulated machine.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use super::rng::Rng;
use crate::env::{Env, Instant, Task, WallTime};

/// 2026-01-01 UTC, when every simulated machine is switched on.
const WALL_START: u64 = 1_767_225_600_000_000_000;

/// Which task: its slot, and a number that no other task of the machine ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) slot: usize,
    pub(super) id: u64,
}

/// The slot of the future that `Sim::run` was given.
pub(super) const MAIN: usize = usize::MAX;

/// What happens at a point in virtual time.
pub(super) enum Event {
    Wake(Waker),
    Io { disk: usize, op: u64 },
}

struct TaskSlot {
    id: u64,
    name: &'static str,
    /// Absent while it is being polled.
    future: Option<Task>,
    waker: Arc<TaskWaker>,
}

/// Puts a task on the ready list, once until it is polled.
pub(super) struct TaskWaker {
    core: Arc<Core>,
    key: Key,
    queued: AtomicBool,
}

impl TaskWaker {
    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// From now on a wake counts again: to be called right before the task is polled.
    pub(super) fn arm(&self) {
        self.queued.store(false, Ordering::Relaxed);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.core.lock().ready.push(self.key);
        }
    }
}

pub(super) struct State {
    pub(super) schedule: Rng,
    chance: Rng,
    trace: u64,
    tasks: Vec<Option<TaskSlot>>,
    free: Vec<usize>,
    next_id: u64,
    ready: Vec<Key>,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    io_events: u64,
    crash_at: Option<u64>,
    crashed: bool,
}

/// What `Sim::run` does next.
pub(super) enum Step {
    Crash,
    Poll(Key),
    Fire(Event),
    Deadlock(Vec<&'static str>),
}

pub(super) struct Core {
    state: Mutex<State>,
    now: AtomicU64,
    /// How far the time of day is off, in nanoseconds.
    pub(super) wall_off: AtomicI64,
    pub(super) seed: u64,
}

impl Core {
    pub(super) fn new(seed: u64) -> Core {
        Core {
            state: Mutex::new(State {
                schedule: Rng::stream(seed, 1),
                chance: Rng::stream(seed, 2),
                trace: seed,
                tasks: Vec::new(),
                free: Vec::new(),
                next_id: 0,
                ready: Vec::new(),
                events: BTreeMap::new(),
                next_event: 0,
                io_events: 0,
                crash_at: None,
                crashed: false,
            }),
            now: AtomicU64::new(0),
            wall_off: AtomicI64::new(0),
            seed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Time goes by and nobody runs.
    pub(super) fn pause(&self, nanos: u64) {
        self.now.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(super) fn trace(&self) -> u64 {
        self.lock().trace
    }

    pub(super) fn io_events(&self) -> u64 {
        self.lock().io_events
    }

    pub(super) fn crash_after(&self, events: Option<u64>) {
        let mut state = self.lock();
        state.crash_at = events.map(|n| state.io_events.saturating_add(n));
        state.crashed |= events == Some(0);
    }

    pub(super) fn crashed(&self) -> bool {
        self.lock().crashed
    }

    pub(super) fn restart(&self) {
        let mut state = self.lock();
        state.crashed = false;
        state.crash_at = None;
    }

    /// Adds `facts` to the trace.
    pub(super) fn note(&self, facts: &[u64]) {
        self.lock().note(facts);
    }

    /// Counts one I/O event, which may be the one the machine stops at.
    pub(super) fn io_event(&self, facts: &[u64]) {
        let mut state = self.lock();
        state.note(facts);
        state.io_events += 1;
        state.crashed |= Some(state.io_events) == state.crash_at;
    }

    /// Has `event` happen `after` nanoseconds from now; gives the key to take it back with.
    pub(super) fn at(&self, when: u64, event: Event) -> (u64, u64) {
        let mut state = self.lock();
        let key = (when, state.next_event);
        state.next_event += 1;
        state.events.insert(key, event);
        key
    }

    fn forget(&self, key: (u64, u64)) {
        let event = self.lock().events.remove(&key);
        drop(event);
    }

    /// A waker for the future of a `Sim::run`, already on the ready list.
    pub(super) fn main_waker(self: &Arc<Self>) -> Arc<TaskWaker> {
        let mut state = self.lock();
        let key = Key { slot: MAIN, id: state.next_id };
        state.next_id += 1;
        state.ready.push(key);
        let queued = AtomicBool::new(true);
        let core = Arc::clone(self);
        Arc::new(TaskWaker { core, key, queued })
    }

    fn spawn(self: &Arc<Self>, name: &'static str, task: Task) {
        // Also after a crash: the task never runs, and whoever waits for it waits, as for anything
        // on a machine without power. It goes with the others when the power is cut.
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        let slot = state.free.pop().unwrap_or_else(|| {
            state.tasks.push(None);
            state.tasks.len() - 1
        });
        let key = Key { slot, id };
        let waker =
            Arc::new(TaskWaker { core: Arc::clone(self), key, queued: AtomicBool::new(true) });
        state.tasks[slot] = Some(TaskSlot { id, name, future: Some(task), waker });
        state.ready.push(key);
    }

    /// Chooses what happens next; moves time on when nothing is ready.
    pub(super) fn step(&self) -> Step {
        let mut state = self.lock();
        if state.crashed {
            return Step::Crash;
        }
        if !state.ready.is_empty() {
            let count = state.ready.len() as u64;
            let pick = if count == 1 { 0 } else { state.schedule.below(count) };
            let key = state.ready.swap_remove(pick as usize);
            state.note(&[key.id]);
            return Step::Poll(key);
        }
        match state.events.pop_first() {
            Some(((when, _), event)) => {
                self.now.fetch_max(when, Ordering::Relaxed);
                state.note(&[when]);
                Step::Fire(event)
            }
            None => Step::Deadlock(state.tasks.iter().flatten().map(|t| t.name).collect()),
        }
    }

    /// Polls a spawned task once, if it is still there.
    pub(super) fn poll(&self, key: Key) {
        let (mut future, waker) = {
            let mut state = self.lock();
            let Some(Some(task)) = state.tasks.get_mut(key.slot) else {
                return;
            };
            if task.id != key.id {
                return;
            }
            let Some(future) = task.future.take() else {
                return;
            };
            (future, Arc::clone(&task.waker))
        };
        waker.arm();
        let waker = Waker::from(waker);
        let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if done {
            // Before its slot goes: what it drops may wake or spawn others.
            drop(future);
            let mut state = self.lock();
            state.tasks[key.slot] = None;
            state.free.push(key.slot);
        } else if let Some(task) = &mut self.lock().tasks[key.slot] {
            task.future = Some(future);
        }
    }

    /// Drops every task and timer. What they drop may add more, which goes too.
    pub(super) fn power_off(&self) {
        loop {
            let mut state = self.lock();
            let tasks = std::mem::take(&mut state.tasks);
            let events = std::mem::take(&mut state.events);
            state.free.clear();
            state.ready.clear();
            drop(state);
            if tasks.is_empty() && events.is_empty() {
                return;
            }
            drop(tasks);
            drop(events);
        }
    }
}

impl State {
    fn note(&mut self, facts: &[u64]) {
        for fact in facts {
            self.trace = (self.trace ^ fact).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        }
    }
}

/// The environment of a simulated machine.
pub(super) struct SimEnv(pub(super) Arc<Core>);

impl Env for SimEnv {
    fn now(&self) -> Instant {
        Instant(self.0.now())
    }

    fn wall(&self) -> WallTime {
        let off = self.0.wall_off.load(Ordering::Relaxed);
        WallTime { unix_nanos: (WALL_START + self.0.now()).saturating_add_signed(off) }
    }

    fn sleep_until(&self, deadline: Instant) -> Task {
        Box::pin(Sleep { core: Arc::clone(&self.0), deadline: deadline.0, timer: None })
    }

    fn spawn(&self, name: &'static str, task: Task) {
        self.0.spawn(name, task);
    }

    fn random(&self) -> u64 {
        self.0.lock().chance.bits()
    }
}

/// Resolves when virtual time has reached `deadline`.
struct Sleep {
    core: Arc<Core>,
    deadline: u64,
    timer: Option<((u64, u64), Waker)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.core.now() >= self.deadline {
            return Poll::Ready(());
        }
        match &self.timer {
            Some((_, waker)) if waker.will_wake(cx.waker()) => {}
            _ => {
                let waker = cx.waker().clone();
                let key = self.core.at(self.deadline, Event::Wake(waker.clone()));
                if let Some((old, _)) = self.timer.replace((key, waker)) {
                    self.core.forget(old);
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((key, _)) = self.timer.take() {
            self.core.forget(key);
        }
    }
}
