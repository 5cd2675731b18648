//! Work done one piece at a time, in order of arrival: whoever comes first leads, and does the work that others
//! bring meanwhile.

use std::sync::PoisonError;

use futures_channel::oneshot;

use crate::sync::{Mutex, MutexGuard};

/// How the leader works. It never waits.
pub(crate) trait Leader {
    /// What only the leader has.
    type State;
    /// A piece of work.
    type Work;
    /// What comes of it.
    type Answer;

    /// Does a piece of work.
    fn work(&self, state: &mut Self::State, work: Self::Work) -> Self::Answer;

    /// Called when all queued work is done.
    fn pause(&self, state: &mut Self::State);
}

/// Work whose owner does not lead.
struct Entry<W, A> {
    work: W,
    answer: oneshot::Sender<A>,
}

struct Queue<W, A> {
    entries: Vec<Entry<W, A>>,
    /// Somebody is at work, and checks the queue before leaving.
    is_led: bool,
    /// A leader has ended in the middle of its work.
    is_broken: bool,
}

/// The outcome of queued work.
enum Place<W, A> {
    Behind(oneshot::Receiver<A>),
    Leads(W),
    Broken(W),
}

/// A leader once stopped in the middle of its work: nothing is done any more.
#[derive(Debug)]
pub(crate) struct Broken<W> {
    /// The work itself, if it is certain that nobody has begun it.
    pub work: Option<W>,
}

/// The work that waits, and the state of who leads.
pub(crate) struct Handover<L: Leader> {
    queue: Mutex<Queue<L::Work, L::Answer>>,
    state: Mutex<L::State>,
}

/// Leads, until it is dropped.
struct Lead<'a, L: Leader>(&'a Handover<L>);

impl<L: Leader> Drop for Lead<'_, L> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = lock(&self.0.queue);
            queue.is_broken = true;
            queue.entries.clear();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L: Leader> Handover<L> {
    pub fn new(state: L::State) -> Handover<L> {
        let queue = Queue { entries: Vec::new(), is_led: false, is_broken: false };
        Handover { queue: Mutex::new(queue), state: Mutex::new(state) }
    }

    /// Does work: at once if nobody leads, else the current leader does it. It is completed even if nobody waits
    /// for it.
    pub async fn apply(&self, leader: &L, work: L::Work) -> Result<L::Answer, Broken<L::Work>> {
        if self.may_lead() {
            return Ok(self.lead(leader, |state| leader.work(state, work)));
        }
        match self.queue_behind_leader(work) {
            Place::Behind(answer) => answer.await.map_err(|_| Broken { work: None }),
            Place::Leads(work) => Ok(self.lead(leader, |state| leader.work(state, work))),
            Place::Broken(work) => Err(Broken { work: Some(work) }),
        }
    }

    /// As if somebody had come without work, where nobody leads.
    pub fn visit(&self, leader: &L, visit: impl FnOnce(&mut L::State)) {
        if self.may_lead() {
            self.lead(leader, visit);
        }
    }

    /// Whether a leader has ended in the middle of its work.
    pub fn is_broken(&self) -> bool {
        lock(&self.queue).is_broken
    }

    /// Whether the caller leads from now on.
    fn may_lead(&self) -> bool {
        let mut queue = lock(&self.queue);
        !queue.is_broken && !std::mem::replace(&mut queue.is_led, true)
    }

    /// Queues work, unless its owner leads from now on.
    fn queue_behind_leader(&self, work: L::Work) -> Place<L::Work, L::Answer> {
        let mut queue = lock(&self.queue);
        if queue.is_broken {
            return Place::Broken(work);
        }
        if !std::mem::replace(&mut queue.is_led, true) {
            return Place::Leads(work);
        }
        let (answer, receiver) = oneshot::channel();
        queue.entries.push(Entry { work, answer });
        Place::Behind(receiver)
    }

    /// Does one's own work, then that of others until none is left. The caller leads.
    fn lead<T>(&self, leader: &L, own: impl FnOnce(&mut L::State) -> T) -> T {
        let _lead = Lead(self);
        let mut state = lock(&self.state);
        let answer = own(&mut state);
        let mut entries = Vec::new();
        loop {
            leader.pause(&mut state);
            {
                let mut queue = lock(&self.queue);
                if queue.entries.is_empty() {
                    // Before the next leader may come.
                    drop(state);
                    queue.is_led = false;
                    return answer;
                }
                // Both keep their memory.
                std::mem::swap(&mut entries, &mut queue.entries);
            }
            for Entry { work, answer } in entries.drain(..) {
                // Who asked may have gone: it is done all the same.
                let _ = answer.send(leader.work(&mut state, work));
            }
        }
    }
}
