//! A medium whose writes wait for leave, each by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{
    Buffer, Device, Discard, Durability, EnvExt, Geometry, Io, IoError, IoErrorKind, IoFuture, Op,
    SharedEnv,
};
use cellar_redo::Medium;
use event_listener::Event;

/// Bytes of a header; there is one at each end of a file.
const HEADER: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Waits,
    Passes,
    Fails,
}

/// Which writes wait.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Hold {
    #[default]
    Nothing,
    /// Durable writes of blocks.
    Blocks,
    /// Blocks that are copied.
    Copies,
    Headers,
}

#[derive(Default)]
struct State {
    hold: Hold,
    next: u64,
    /// By the order in which they came.
    writes: BTreeMap<u64, Verdict>,
}

/// What is held of a medium.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Event,
}

impl Gate {
    /// From now on such writes wait; those that wait go on waiting.
    pub fn hold(&self, hold: Hold) {
        self.state.lock().unwrap().hold = hold;
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().unwrap().writes.values().filter(|v| **v == Verdict::Waits).count()
    }

    /// Waits until so many wait.
    pub async fn until(&self, env: &SharedEnv, count: usize) {
        while self.waiting() != count {
            env.sleep(Duration::from_micros(50)).await;
        }
    }

    /// Lets the write go on that is so many behind the oldest that waits.
    pub fn pass(&self, behind: usize) {
        self.judge(behind, Verdict::Passes);
    }

    /// Fails the write that is so many behind the oldest that waits.
    pub fn fail(&self, behind: usize) {
        self.judge(behind, Verdict::Fails);
    }

    fn judge(&self, behind: usize, verdict: Verdict) {
        let mut state = self.state.lock().unwrap();
        let mut waiting = state.writes.values_mut().filter(|v| **v == Verdict::Waits);
        *waiting.nth(behind).expect("it waits") = verdict;
        drop(state);
        self.changed.notify(usize::MAX);
    }

    /// Takes a write in; its number, if it is to wait.
    fn enter(&self, held: Hold) -> Option<u64> {
        let mut state = self.state.lock().unwrap();
        if state.hold != held {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.writes.insert(number, Verdict::Waits);
        Some(number)
    }

    async fn verdict(&self, number: u64) -> Verdict {
        loop {
            let listener = self.changed.listen();
            let verdict = self.state.lock().unwrap().writes[&number];
            if verdict != Verdict::Waits {
                return verdict;
            }
            listener.await;
        }
    }
}

/// A medium with a gate before each of its files.
pub fn gated(medium: Medium) -> (Medium, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let before = |(group, inner)| {
        let file = Gated { inner, gate: Arc::clone(&gate) };
        (group, Arc::new(file) as Arc<dyn Device>)
    };
    let files = medium.files.into_iter().map(before).collect();
    (Medium { name: medium.name, files }, gate)
}

struct Gated {
    inner: Arc<dyn Device>,
    gate: Arc<Gate>,
}

impl Device for Gated {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        self.inner.read(io, offset, buffers)
    }
    fn write(&self, io: Io, offset: u64, data: Vec<Bytes>, how: Durability) -> IoFuture<'_, ()> {
        let is_header = offset < HEADER || offset + HEADER >= self.geometry().size;
        let held = match (is_header, how) {
            (true, _) => Hold::Headers,
            (false, Durability::Durable) => Hold::Blocks,
            (false, Durability::Cached) => Hold::Copies,
        };
        Box::pin(async move {
            if let Some(number) = self.gate.enter(held)
                && self.gate.verdict(number).await == Verdict::Fails
            {
                let name = self.geometry().name;
                return Err(IoError::new(IoErrorKind::NoSpace, &name, Op::Write, offset, 0));
            }
            self.inner.write(io, offset, data, how).await
        })
    }
    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.inner.flush(io)
    }
    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        self.inner.discard(io, offset, length, how)
    }
}
