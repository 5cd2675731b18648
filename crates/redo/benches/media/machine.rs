//! Real disks of a machine that can be switched off, and that can die each on its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{
    Buffer, Device, DeviceExt, Discard, Durability, Geometry, Io, IoError, IoErrorKind, IoFuture,
    Op, SharedEnv,
};
use cellar_redo::Control;
use cellar_redo::on_disk::control::ControlData;
use event_listener::Event;

/// The way in which a medium dies. Requests in flight end like later ones, whether the
/// disk has done them or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Death {
    /// Every write fails with EIO.
    Errors = 1,
    /// Nothing is answered any more.
    Hangs = 2,
    /// The device is gone.
    Goes = 3,
}

/// The state of a medium; of all its files at once.
#[derive(Default)]
pub struct Fate(AtomicU8);

impl Fate {
    pub fn die(&self, death: Death) {
        self.0.store(death as u8, Ordering::SeqCst);
    }

    fn death(&self) -> Option<Death> {
        let is_it = |death: &Death| *death as u8 == self.0.load(Ordering::SeqCst);
        [Death::Errors, Death::Hangs, Death::Goes].into_iter().find(is_it)
    }
}

/// State shared by all disks: when switched off, every request fails as stopped.
pub struct Machine {
    env: SharedEnv,
    off: AtomicBool,
    /// Requests in flight at the disks.
    inside: AtomicUsize,
    /// The longest disk time of a request, in nanoseconds.
    slowest: AtomicU64,
    changed: Event,
}

impl Machine {
    pub fn new(env: SharedEnv) -> Machine {
        Machine {
            env,
            off: AtomicBool::default(),
            inside: AtomicUsize::default(),
            slowest: AtomicU64::default(),
            changed: Event::new(),
        }
    }

    /// The longest disk time of a request since the last call.
    pub fn slowest(&self) -> Duration {
        Duration::from_nanos(self.slowest.swap(0, Ordering::SeqCst))
    }

    /// Accepts no more requests. Returns when the disks have finished those in flight.
    pub async fn switch_off(&self) {
        self.off.store(true, Ordering::SeqCst);
        self.changed.notify(usize::MAX);
        loop {
            let listener = self.changed.listen();
            if self.inside.load(Ordering::SeqCst) == 0 {
                return;
            }
            listener.await;
        }
    }

    async fn is_off(&self) {
        loop {
            let listener = self.changed.listen();
            if self.off.load(Ordering::SeqCst) {
                return;
            }
            listener.await;
        }
    }
}

/// A request at a disk.
struct Inside<'a>(&'a Machine);

impl<'a> Inside<'a> {
    /// `None` when the machine is off.
    fn enter(machine: &'a Machine) -> Option<Inside<'a>> {
        machine.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(machine);
        (!machine.off.load(Ordering::SeqCst)).then_some(inside)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify(usize::MAX);
    }
}

/// A file of a medium that can die.
pub struct Mortal {
    pub inner: Arc<dyn Device>,
    pub fate: Arc<Fate>,
    pub machine: Arc<Machine>,
}

impl Mortal {
    fn error<T>(&self, kind: IoErrorKind, op: Op) -> Result<T, IoError> {
        Err(IoError::new(kind, &self.inner.geometry().name, op, 0, 0))
    }

    /// The answer of a dead medium to a request; none if it is alive.
    async fn verdict(&self, op: Op) -> Result<(), IoError> {
        if self.machine.off.load(Ordering::SeqCst) {
            return self.error(IoErrorKind::Stopped, op);
        }
        match self.fate.death() {
            Some(Death::Errors) if op != Op::Read => self.error(IoErrorKind::Media, op),
            Some(Death::Errors) | None => Ok(()),
            Some(Death::Hangs) => {
                self.machine.is_off().await;
                self.error(IoErrorKind::Stopped, op)
            }
            Some(Death::Goes) => self.error(IoErrorKind::Gone { reason: "it was pulled" }, op),
        }
    }

    async fn pass<'a, T>(
        &'a self,
        op: Op,
        request: impl FnOnce(&'a dyn Device) -> IoFuture<'a, T>,
    ) -> Result<T, IoError> {
        self.verdict(op).await?;
        let result = match Inside::enter(&self.machine) {
            Some(_inside) => {
                let before = self.machine.env.now();
                let result = request(&*self.inner).await;
                let took = self.machine.env.now().since(before);
                self.machine.slowest.fetch_max(took.as_nanos() as u64, Ordering::SeqCst);
                result
            }
            None => return self.error(IoErrorKind::Stopped, op),
        };
        self.verdict(op).await?;
        result
    }
}

impl Device for Mortal {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(self.pass(Op::Read, move |inner| inner.read(io, offset, buffers)))
    }
    fn write(&self, io: Io, offset: u64, data: Vec<Bytes>, d: Durability) -> IoFuture<'_, ()> {
        Box::pin(self.pass(Op::Write, move |inner| inner.write(io, offset, data, d)))
    }
    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        Box::pin(self.pass(Op::Flush, move |inner| inner.flush(io)))
    }
    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        Box::pin(self.pass(Op::Discard, move |inner| inner.discard(io, offset, length, how)))
    }
}

/// Control data in two halves of a file, written durably in turn: the failure of a medium must be
/// recorded before commits do without it.
pub struct FileControl(pub Arc<dyn Device>);

const HALF: usize = 64 << 10;

impl FileControl {
    pub const BYTES: u64 = 2 * HALF as u64;

    /// Removes the leftovers of an earlier trial.
    pub async fn clear(&self) {
        let zeros = Bytes::from(vec![0; 2 * HALF]);
        self.0.write_at(Io::COMMIT, 0, zeros, Durability::Durable).await.unwrap();
    }

    /// The newer half.
    pub async fn data(&self) -> Result<Option<(ControlData, Vec<u8>)>, IoError> {
        let both = self.0.read_at(Io::COMMIT, 0, 2 * HALF).await?;
        let half = |half: &[u8]| {
            let length = u32::from_le_bytes(half[..4].try_into().unwrap()) as usize;
            let bytes = half.get(4..4 + length)?.to_vec();
            Some((ControlData::decode(&bytes).ok()?, bytes))
        };
        let halves = both.chunks(HALF).filter_map(half);
        Ok(halves.max_by_key(|(data, _)| data.generation))
    }
}

impl Control for FileControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async move { Ok(self.data().await?.map(|(_, bytes)| bytes).unwrap_or_default()) })
    }

    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let generation = ControlData::decode(&bytes).unwrap().generation;
            let mut half = (bytes.len() as u32).to_le_bytes().to_vec();
            half.extend(bytes);
            half.resize(half.len().next_multiple_of(4096), 0);
            let at = generation % 2 * HALF as u64;
            self.0.write_at(Io::COMMIT, at, half.into(), Durability::Durable).await
        })
    }
}
