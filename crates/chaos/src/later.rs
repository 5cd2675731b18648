//! Requests that are answered later: after a delay, or when a hang ends.

#![expect(clippy::disallowed_methods, reason = "a disk outside the program has the real clock")]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Executes a request and answers it.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Waiting {
    due: BTreeMap<(Instant, u64), Job>,
    /// Hanging requests, by file.
    held: BTreeMap<u64, Vec<Job>>,
    count: u64,
    closed: bool,
}

impl Waiting {
    fn add(&mut self, delay: Duration, job: Job) {
        self.count += 1;
        self.due.insert((Instant::now() + delay, self.count), job);
    }
}

/// The waiting requests, and the thread that executes them when due.
pub(crate) struct Later {
    shared: Arc<(Mutex<Waiting>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

fn lock(shared: &(Mutex<Waiting>, Condvar)) -> MutexGuard<'_, Waiting> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Later {
    pub(crate) fn new() -> std::io::Result<Later> {
        let shared: Arc<(Mutex<Waiting>, Condvar)> = Arc::default();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("chaos later".to_owned())
            .spawn(move || run(&of_thread))?;
        Ok(Later { shared, thread: Some(thread) })
    }

    /// Executes it after `delay`.
    pub(crate) fn after(&self, delay: Duration, job: Job) {
        lock(&self.shared).add(delay, job);
        self.shared.1.notify_all();
    }

    /// Executes it when the file is released.
    pub(crate) fn hold(&self, file: u64, job: Job) {
        let mut waiting = lock(&self.shared);
        // Nobody is left to release it.
        if waiting.closed {
            waiting.add(Duration::ZERO, job);
        } else {
            waiting.held.entry(file).or_default().push(job);
        }
        drop(waiting);
        self.shared.1.notify_all();
    }

    /// Executes now the requests that hang on a file, or on all.
    pub(crate) fn release(&self, file: Option<u64>) {
        let mut waiting = lock(&self.shared);
        let held = match file {
            Some(file) => waiting.held.remove(&file).unwrap_or_default(),
            None => std::mem::take(&mut waiting.held).into_values().flatten().collect(),
        };
        for job in held {
            waiting.add(Duration::ZERO, job);
        }
        drop(waiting);
        self.shared.1.notify_all();
    }

    /// The number of requests that hang on a file.
    pub(crate) fn held(&self, file: u64) -> usize {
        lock(&self.shared).held.get(&file).map_or(0, Vec::len)
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        lock(&self.shared).closed = true;
        // A process that waits for an answer could not be killed without one.
        self.release(None);
        // The last user may be a job, and a thread must not wait for itself.
        let own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !own(thread)) {
            // A job that panicked has reported it.
            let _ = thread.join();
        }
    }
}

fn run(shared: &(Mutex<Waiting>, Condvar)) {
    let mut waiting = lock(shared);
    loop {
        let now = Instant::now();
        let next = waiting.due.first_key_value().map(|(key, _)| key.0);
        let due = next.is_some_and(|at| at <= now || waiting.closed);
        waiting = if due {
            let job = waiting.due.pop_first();
            drop(waiting);
            if let Some((_, job)) = job {
                job();
            }
            lock(shared)
        } else if waiting.closed {
            return;
        } else {
            match next {
                Some(at) => {
                    shared
                        .1
                        .wait_timeout(waiting, at - now)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => shared.1.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        };
    }
}
