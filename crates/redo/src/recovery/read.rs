//! Blocks from all media at once, in large reads, ahead of the walk.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Buffer, Device, DeviceExt, EnvExt, Handle, Io, SharedEnv};
use cellar_wait::{Event as WaitEvent, Session};
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::writer::offset_of;

/// Bytes of one read.
const READ_BYTES: u64 = 1 << 20;
/// Chunks that are read ahead.
const AHEAD: usize = 3;
/// The smallest piece to which a failing read is divided.
const PIECE: u64 = 4096;
/// How often an unreadable piece is retried, and the pause before each retry.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(5);

/// The last medium left is waited for this many times as long.
pub(crate) const LAST: u32 = 15;

/// The result of `future`, unless it takes too long.
pub(crate) async fn in_time<T>(
    env: &SharedEnv,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(future), env.sleep(limit)).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}

/// The files of one medium, by place of the group; absent where the medium is not read.
pub(crate) type Files = Vec<Option<Arc<dyn Device>>>;

/// Where to read: blocks of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub group: usize,
    /// Number of the group's first block.
    pub first: u64,
    /// Numbers of the blocks.
    pub blocks: Range<u64>,
}

/// One range of blocks, as read from every medium.
pub(crate) struct ReadBlocks {
    pub place: Place,
    block_size: usize,
    media: Vec<Column>,
}

/// What one medium gave.
#[derive(Default)]
struct Column {
    bytes: Option<Buffer>,
    /// Bytes that cannot be read.
    bad: Vec<Range<u64>>,
    /// It did not answer in time.
    late: bool,
}

/// One copy of a block.
pub(crate) enum Copy<'a> {
    /// The medium is not read.
    Absent,
    Unreadable,
    Bytes(&'a [u8]),
}

impl ReadBlocks {
    /// The copy of block `abn` on `medium`.
    pub fn copy(&self, medium: usize, abn: u64) -> Copy<'_> {
        let column = &self.media[medium];
        let Some(bytes) = &column.bytes else { return Copy::Absent };
        let at = (abn - self.place.blocks.start) as usize * self.block_size;
        let range = at as u64..(at + self.block_size) as u64;
        match column.bad.iter().any(|bad| bad.start < range.end && range.start < bad.end) {
            true => Copy::Unreadable,
            false => Copy::Bytes(&bytes[at..at + self.block_size]),
        }
    }
}

/// Reads places in order, some of them ahead.
pub(crate) struct Reader {
    pub env: SharedEnv,
    pub session: Session,
    pub block_size: u32,
    /// By medium.
    pub files: Vec<Files>,
    /// A medium that has not answered by then is not read any more, if another has answered. If
    /// none has, they are waited for [`LAST`] times as long.
    pub read_timeout: Duration,
    /// Media that are not read any more.
    pub late: BTreeSet<usize>,
    places: VecDeque<Place>,
    ahead: VecDeque<Handle<ReadBlocks>>,
}

impl Reader {
    pub fn new(
        env: SharedEnv,
        session: Session,
        block_size: u32,
        files: Vec<Files>,
        read_timeout: Duration,
    ) -> Reader {
        let (places, ahead) = (VecDeque::new(), VecDeque::new());
        Reader {
            env,
            session,
            block_size,
            files,
            read_timeout,
            late: BTreeSet::new(),
            places,
            ahead,
        }
    }

    /// Reads these blocks next; what was read ahead is dropped.
    pub fn go(&mut self, places: impl IntoIterator<Item = Place>) {
        self.ahead.clear();
        self.places.clear();
        let step = READ_BYTES / u64::from(self.block_size);
        for place in places {
            let mut from = place.blocks.start;
            while from < place.blocks.end {
                let to = (from + step).min(place.blocks.end);
                self.places.push_back(Place { blocks: from..to, ..place.clone() });
                from = to;
            }
        }
    }

    /// The next blocks; `None` at the end of the places.
    pub async fn next(&mut self) -> Option<ReadBlocks> {
        while self.ahead.len() < AHEAD
            && let Some(place) = self.places.pop_front()
        {
            let (files, env) = (self.files_of(place.group), Arc::clone(&self.env));
            let (block_size, read_timeout) = (u64::from(self.block_size), self.read_timeout);
            let read = async move { read_all(&files, &env, place, block_size, read_timeout).await };
            self.ahead.push_back(self.env.run("redo read", read));
        }
        let handle = self.ahead.pop_front()?;
        let wait =
            self.session.begin(WaitEvent::LOG_FILE_SEQUENTIAL_READ, [0; 3], self.env.now().0);
        let blocks = handle.await;
        wait.end(self.env.now().0);
        match blocks {
            Some(blocks) => {
                let late = |(medium, column): (usize, &Column)| column.late.then_some(medium);
                for medium in blocks.media.iter().enumerate().filter_map(late) {
                    self.files[medium].fill(None);
                    self.late.insert(medium);
                }
                Some(blocks)
            }
            // The machine stops: nothing more will happen here.
            None => std::future::pending().await,
        }
    }

    fn files_of(&self, group: usize) -> Files {
        self.files.iter().map(|files| files[group].clone()).collect()
    }
}

async fn read_all(
    files: &Files,
    env: &SharedEnv,
    place: Place,
    block_size: u64,
    read_timeout: Duration,
) -> ReadBlocks {
    let offset = offset_of(place.blocks.start - place.first, block_size);
    let length = (place.blocks.end - place.blocks.start) * block_size;
    let there =
        files.iter().enumerate().filter_map(|(medium, file)| Some((medium, file.as_ref()?)));
    let mut reads: FuturesUnordered<_> =
        there
            .map(|(medium, file)| async move {
                (medium, read_column(&**file, env, offset, length).await)
            })
            .collect();
    let mut media: Vec<Column> = files.iter().map(|_| Column::default()).collect();
    let start = env.now();
    let (soon, last) = (start.plus(read_timeout), start.plus(read_timeout * LAST));
    let mut answered = false;
    while !reads.is_empty() {
        // Somebody must answer; for that there is more time.
        let limit = if answered { soon } else { last };
        match select(reads.next(), env.sleep_until(limit)).await {
            Either::Left((Some((medium, column)), _)) => {
                media[medium] = column;
                answered = true;
            }
            Either::Left((None, _)) => break,
            Either::Right(_) => {
                let columns = media.iter_mut().zip(files);
                let missing = columns.filter(|(c, file)| file.is_some() && c.bytes.is_none());
                missing.for_each(|(column, _)| column.late = true);
                break;
            }
        }
    }
    ReadBlocks { place, block_size: block_size as usize, media }
}

async fn read_column(file: &dyn Device, env: &SharedEnv, offset: u64, length: u64) -> Column {
    if let Ok(bytes) = file.read_at(Io::SCAN, offset, length as usize).await {
        return Column { bytes: Some(bytes), ..Column::default() };
    }
    // There is an error somewhere: the range is read piece by piece, so that the rest is not lost
    // with it.
    let mut bytes = Buffer::zeroed(length as usize);
    let mut bad = Vec::new();
    let mut at = 0;
    while at < length {
        let piece = PIECE.min(length - at);
        // For a medium that is bad all over the pauses are not worth it.
        let tries = if bad.len() < 8 { TRIES } else { 1 };
        match read_piece(file, env, offset + at, piece as usize, tries).await {
            Some(read) => bytes[at as usize..(at + piece) as usize].copy_from_slice(&read),
            None => bad.push(at..at + piece),
        }
        at += piece;
    }
    Column { bytes: Some(bytes), bad, late: false }
}

async fn read_piece(
    file: &dyn Device,
    env: &SharedEnv,
    offset: u64,
    length: usize,
    tries: u32,
) -> Option<Buffer> {
    for tried in 1..=tries {
        match file.read_at(Io::SCAN, offset, length).await {
            Ok(bytes) => return Some(bytes),
            Err(error) if !crate::writer::may_pass(&error) => return None,
            Err(_) if tried < tries => env.sleep(PAUSE).await,
            Err(_) => {}
        }
    }
    None
}
