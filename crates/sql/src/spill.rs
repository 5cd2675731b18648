//! Spill files of queries that exceed their memory: DataFusion's, as TEMPFILEs of a disk group.
//!
//! Bytes are gathered into pieces of 1 MiB. A few of those are in flight to the disks while the query
//! goes on; a writer that is further ahead waits. A reader finds pieces that are not on the disks yet in
//! memory: it waits for reads only, and a few of these are issued ahead. Nothing is made durable: nobody
//! needs it after a crash, when files without a name are removed.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use cellar_instance::temp::{BLOCK, TempFile};
use cellar_wait::{Event, Wait};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{Stream, stream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::columnar::tables::Columnar;
use crate::error::Error;

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;
/// Pieces of a file that are in flight at once.
const PIECES: usize = 4;
/// How long a writer waits for pieces of others to be written before it goes on all the same.
/// DataFusion's RepartitionExec holds a lock meanwhile that its readers wait for: if these were the only
/// ones that could write, nothing would ever be written.
const TIMEOUT: Duration = Duration::from_millis(250);
/// Bytes that are read at once: fewer than are written, because a merge reads many files in parallel.
const READ: u64 = 256 << 10;
/// Reads that are issued ahead of a reader.
const AHEAD: usize = 2;
/// Smaller files stay in memory.
const SMALL: usize = 64 << 10;
/// Bytes that a reader is given at once from memory.
const GIVEN: usize = 128 << 10;
/// The space that a file is given at first; later it gets as much again as it has, up to `MORE_ROOM`.
const FIRST_ROOM: u64 = 4 << 20;
const MORE_ROOM: u64 = 64 << 20;

/// Makes spill files in a disk group.
pub struct TempFiles {
    columnar: Columnar,
    on_way: Arc<OnWay>,
}

/// Bytes in flight to the disks, of all files.
struct OnWay {
    bytes: Mutex<usize>,
    less: Condvar,
    most: usize,
}

/// A piece in flight.
struct Counted(Arc<OnWay>, usize);

impl OnWay {
    fn bytes(&self) -> MutexGuard<'_, usize> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self, more: usize) -> bool {
        let bytes = *self.bytes();
        bytes > 0 && bytes + more > self.most
    }

    fn take(self: &Arc<Self>, more: usize) -> Counted {
        *self.bytes() += more;
        Counted(Arc::clone(self), more)
    }

    /// Waits until there is room, but only for a limited time.
    fn wait(&self, more: usize) {
        let is_full = |bytes: &mut usize| *bytes > 0 && *bytes + more > self.most;
        let waited = self.less.wait_timeout_while(self.bytes(), TIMEOUT, is_full);
        drop(waited);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.bytes() -= self.1;
        self.0.less.notify_all();
    }
}

impl TempFiles {
    /// For the groups of a database, with the waits of a session.
    pub fn new(columnar: Columnar) -> TempFiles {
        let budget = columnar.io_buffers() / 4;
        let most = usize::try_from(budget).unwrap_or(usize::MAX).clamp(PIECES * PIECE, 32 * PIECE);
        let on_way = OnWay { bytes: Mutex::new(0), less: Condvar::new(), most };
        TempFiles { columnar, on_way: Arc::new(on_way) }
    }
}

impl TempFileFactory for TempFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let columnar = self.columnar.clone();
        let state = State::default();
        let (on_way, file) = (Arc::clone(&self.on_way), OnceLock::new());
        Ok(Arc::new(Spill(Arc::new(Shared { columnar, on_way, file, state: Mutex::new(state) }))))
    }
}

/// A spill file.
struct Spill(Arc<Shared>);

struct Shared {
    columnar: Columnar,
    on_way: Arc<OnWay>,
    /// Created with the first piece.
    file: OnceLock<TempFile>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes that are not in flight yet, from `tail_at` on.
    tail: Vec<u8>,
    tail_at: u64,
    /// Pieces in flight, by offset.
    under_way: BTreeMap<u64, Bytes>,
    /// The error of a write.
    failed: Option<Error>,
    /// The channel for pieces to be written.
    pieces: Option<UnboundedSender<Piece>>,
    /// The space that the file has.
    allocated: u64,
}

struct Piece {
    at: u64,
    bytes: Bytes,
    _counted: Counted,
}

/// Where a reader finds the next bytes.
enum Part {
    Memory(Bytes),
    /// In whole blocks, of which the first bytes are not wanted.
    Disk {
        at: u64,
        length: u64,
        skip: usize,
    },
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, event: Event, at: u64, length: u64) -> Wait<'static> {
        let number = self.file.get().map_or(0, |file| file.number().into());
        let p = [number, at / BLOCK, length / BLOCK];
        self.columnar.begin_wait(event, p)
    }

    /// Waits for writes in flight, if they are many.
    fn wait_for_room(&self, at: u64, length: usize) {
        if !self.on_way.is_full(length) {
            return;
        }
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        if !matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
            // Nobody else could write meanwhile: so more is put in flight.
            return;
        }
        let wait = self.begin(Event::DIRECT_PATH_WRITE_TEMP, at, length as u64);
        tokio::task::block_in_place(|| self.on_way.wait(length));
        wait.end(self.columnar.now());
    }

    /// Sends the first gathered bytes to be written.
    fn send(self: &Arc<Self>, length: usize) -> io::Result<()> {
        let at = self.state().tail_at;
        self.wait_for_room(at, length);
        let mut state = self.state();
        if let Some(error) = &state.failed {
            return Err(io::Error::other(error.clone()));
        }
        let rest = state.tail.split_off(length);
        let bytes = Bytes::from(std::mem::replace(&mut state.tail, rest));
        state.tail_at += length as u64;
        state.under_way.insert(at, bytes.clone());
        let pieces = match state.pieces.take() {
            Some(pieces) => pieces,
            None => {
                let handle = Handle::try_current().map_err(io::Error::other)?;
                let (pieces, to_write) = unbounded_channel();
                handle.spawn(write_pieces(self.columnar.clone(), Arc::downgrade(self), to_write));
                pieces
            }
        };
        let _counted = self.on_way.take(length);
        if pieces.send(Piece { at, bytes, _counted }).is_err() {
            // The writer task is gone without an error; it may be about to report one.
            let stopped = Error::new(1013, "57014", "the statement was stopped");
            return Err(io::Error::other(state.failed.get_or_insert(stopped).clone()));
        }
        state.pieces = Some(pieces);
        Ok(())
    }

    /// Where the bytes at `at` are; `None` at the end of what was written so far.
    fn part(&self, at: u64) -> Result<Option<Part>> {
        let state = self.state();
        if let Some(error) = &state.failed {
            return Err(external(error.clone()));
        }
        if at >= state.tail_at {
            let from = (at - state.tail_at) as usize;
            let rest = state.tail.get(from..).unwrap_or_default();
            let part = &rest[..rest.len().min(GIVEN)];
            return Ok((!part.is_empty()).then(|| Part::Memory(Bytes::copy_from_slice(part))));
        }
        if let Some((start, bytes)) = state.under_way.range(..=at).next_back()
            && at < start + bytes.len() as u64
        {
            let rest = &bytes[(at - start) as usize..];
            // A copy of a small part; otherwise its holder would keep all of it in memory.
            let part = &rest[..rest.len().min(GIVEN)];
            return Ok(Some(Part::Memory(Bytes::copy_from_slice(part))));
        }
        let after = state.under_way.range(at..).next().map_or(state.tail_at, |(start, _)| *start);
        let first = at / BLOCK * BLOCK;
        let length = (after - first).min(READ);
        Ok(Some(Part::Disk { at: first, length, skip: (at - first) as usize }))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let allocated = self.state().allocated;
        self.columnar.temp().allocated.fetch_sub(allocated, Ordering::Relaxed);
    }
}

/// The error of a write, as the query reports it.
fn no_room(error: &Error) -> Error {
    let text = "what a query has no memory for cannot be written to temporary files";
    Error::new(1652, "53100", text)
        .next("make room in the disk group, or raise memory_target, or ask for less at once")
        .caused_by(error.clone())
}

/// Extends a file up to `end`.
async fn make_room(file: &TempFile, room: &mut u64, end: u64) -> Result<(), Error> {
    if end <= *room {
        return Ok(());
    }
    let more = end.next_multiple_of(FIRST_ROOM).max(*room + (*room).min(MORE_ROOM));
    *room = more;
    // A group without room for that much may have room for what is needed.
    if file.make_room(more).await.is_err() {
        *room = end;
        file.make_room(end).await?;
    }
    Ok(())
}

/// Writes pieces as they come, until nobody needs the file any more or a write fails.
async fn write_pieces(
    columnar: Columnar,
    shared: Weak<Shared>,
    mut pieces: UnboundedReceiver<Piece>,
) {
    let mut writes = FuturesUnordered::new();
    let (mut file, mut room, mut is_open) = (None, 0, true);
    let failed = loop {
        let piece = tokio::select! {
            piece = pieces.recv(), if is_open && writes.len() < PIECES => piece,
            Some(written) = writes.next(), if !writes.is_empty() => {
                match written {
                    Ok(at) => written_to(&columnar, &shared, at),
                    Err(error) => break Some(error),
                }
                continue;
            }
            else => break None,
        };
        let Some(piece) = piece else {
            is_open = false;
            continue;
        };
        if shared.upgrade().is_none() {
            break None;
        }
        let made = match file.take() {
            Some(file) => Ok(file),
            None => columnar.temp_file().await,
        };
        let end = piece.at + piece.bytes.len() as u64;
        let own = match made {
            Ok(own) => make_room(&own, &mut room, end).await.map(|()| own),
            Err(error) => Err(error),
        };
        match own {
            Ok(own) => {
                set_file(&columnar, &shared, &own, room);
                writes.push(write(own.clone(), piece));
                file = Some(own);
            }
            Err(error) => break Some(error),
        }
    };
    if let (Some(error), Some(shared)) = (failed, shared.upgrade()) {
        shared.state().failed = Some(no_room(&error));
    }
}

/// The piece counts as in flight until it is written.
async fn write(file: TempFile, piece: Piece) -> Result<u64, Error> {
    file.write(piece.at, piece.bytes.clone()).await?;
    Ok(piece.at)
}

/// From now on a piece is read from the file.
fn written_to(columnar: &Columnar, shared: &Weak<Shared>, at: u64) {
    let Some(shared) = shared.upgrade() else { return };
    let written = shared.state().under_way.remove(&at);
    let bytes = written.map_or(0, |bytes| bytes.len() as u64);
    columnar.temp().written.fetch_add(bytes, Ordering::Relaxed);
}

fn set_file(columnar: &Columnar, shared: &Weak<Shared>, file: &TempFile, room: u64) {
    let Some(shared) = shared.upgrade() else { return };
    shared.file.get_or_init(|| file.clone());
    let mut state = shared.state();
    let more = room.saturating_sub(state.allocated);
    state.allocated += more;
    columnar.temp().allocated.fetch_add(more, Ordering::Relaxed);
}

/// Appends to a spill file.
struct Writer(Arc<Shared>);

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (gathered, taken) = {
            let mut state = self.0.state();
            if let Some(error) = &state.failed {
                return Err(io::Error::other(error.clone()));
            }
            let tail = &mut state.tail;
            let bytes = &bytes[..bytes.len().min(PIECE - tail.len())];
            // Never room for more than a piece, which doubling might allocate.
            if tail.capacity() - tail.len() < bytes.len() {
                let room = (tail.len() + bytes.len()).max(2 * tail.len()).clamp(4096, PIECE);
                let more = room - tail.len();
                tail.reserve_exact(more);
            }
            tail.extend_from_slice(bytes);
            (tail.len(), bytes.len())
        };
        if gathered >= PIECE {
            self.0.send(gathered)?;
        }
        Ok(taken)
    }

    /// Readers find bytes that are not in flight yet in memory.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        let gathered = self.0.state().tail.len();
        // Whole blocks, so that none is written twice if more is appended.
        let blocks = gathered - gathered % BLOCK as usize;
        if gathered >= SMALL {
            self.0.send(blocks).map_err(|error| external(crate::failure::from_any(&error)))?;
        }
        self.0.state().tail.shrink_to_fit();
        Ok(())
    }
}

impl SpillFile for Spill {
    fn size(&self) -> Option<u64> {
        let state = self.0.state();
        Some(state.tail_at + state.tail.len() as u64)
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let reader = Reader { shared: Arc::clone(&self.0), next: 0, ahead: VecDeque::new() };
        Ok(Box::pin(stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|bytes| (bytes, reader)))
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(Arc::clone(&self.0))))
    }
}

/// Reads a spill file from its beginning.
struct Reader {
    shared: Arc<Shared>,
    /// The offset after what is being read.
    next: u64,
    ahead: VecDeque<Coming>,
}

enum Coming {
    Here(Bytes),
    Read(JoinHandle<Result<Bytes, Error>>, u64),
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.ahead.len() <= AHEAD {
            let Some(part) = self.shared.part(self.next)? else { break };
            let coming = match part {
                Part::Memory(bytes) => {
                    self.next += bytes.len() as u64;
                    Coming::Here(bytes)
                }
                Part::Disk { at, length, skip } => {
                    self.next = at + length;
                    // It exists since the first piece was written; unwritten pieces are in memory.
                    let Some(file) = self.shared.file.get().cloned() else { break };
                    Coming::Read(tokio::spawn(read(file, at, length, skip)), at)
                }
            };
            self.ahead.push_back(coming);
        }
        match self.ahead.pop_front() {
            None => Ok(None),
            Some(Coming::Here(bytes)) => Ok(Some(bytes)),
            Some(Coming::Read(reading, at)) => {
                let wait = self.shared.begin(Event::DIRECT_PATH_READ_TEMP, at, READ);
                let read = reading.await;
                wait.end(self.shared.columnar.now());
                let stopped = |_| Error::new(1013, "57014", "the statement was stopped");
                let bytes = read.unwrap_or_else(|e| Err(stopped(e))).map_err(external)?;
                let length = bytes.len() as u64;
                self.shared.columnar.temp().read.fetch_add(length, Ordering::Relaxed);
                Ok(Some(bytes))
            }
        }
    }
}

async fn read(file: TempFile, at: u64, length: u64, skip: usize) -> Result<Bytes, Error> {
    Ok(file.read(at, length).await?.slice(skip..))
}
