//! A metering device: it counts the reads that go through it, and the time that the disk was busy.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use cellar_io::{Buffer, Device, Discard, Durability, Geometry, Io, IoFuture, SharedEnv};

use crate::sample::DiskUse;

/// A device that counts the reads that go through it.
pub struct Meter {
    inner: Arc<dyn Device>,
    env: SharedEnv,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: DiskUse,
    in_flight: u32,
    busy_since: u64,
}

/// A read in flight.
struct Reading<'a>(&'a Meter);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let now = self.0.env.now().0;
        let mut state = self.0.lock();
        state.in_flight -= 1;
        if state.in_flight == 0 {
            state.seen.busy_ns += now.saturating_sub(state.busy_since);
        }
    }
}

impl Meter {
    /// Counts requests to `inner`, by the clock of `env`.
    pub fn new(inner: Arc<dyn Device>, env: SharedEnv) -> Meter {
        Meter { inner, env, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The counts since the last call. Meant to be called when no read is in flight.
    pub fn take(&self) -> DiskUse {
        std::mem::take(&mut self.lock().seen)
    }

    fn enter(&self, bytes: u64) -> Reading<'_> {
        let now = self.env.now().0;
        let mut state = self.lock();
        if state.in_flight == 0 {
            state.busy_since = now;
        }
        state.in_flight += 1;
        let in_flight = state.in_flight;
        let seen = &mut state.seen;
        seen.requests += 1;
        seen.bytes += bytes;
        *seen.sizes.entry(bytes).or_default() += 1;
        seen.request_max = seen.request_max.max(bytes);
        seen.in_flight_max = seen.in_flight_max.max(in_flight);
        drop(state);
        Reading(self)
    }
}

impl Device for Meter {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        let bytes = buffers.iter().map(|b| b.len() as u64).sum();
        Box::pin(async move {
            let _reading = self.enter(bytes);
            self.inner.read(io, offset, buffers).await
        })
    }

    fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        self.inner.write(io, offset, data, durability)
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.inner.flush(io)
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        self.inner.discard(io, offset, length, how)
    }
}
