//! The buffer cache: the frames that are in memory, and how a page gets there.

use std::future::poll_fn;
use std::hash::{BuildHasherDefault, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use cellar_io::{Buffer, Device, Io, IoError, IoErrorKind, SharedEnv};
use cellar_page::{Damage, Kind, PAGE_BYTES, PageMut, check};
use cellar_wait::{Event, Session};
use futures_util::future::join_all;
use quick_cache::sync::{Cache, DefaultLifecycle, PlaceholderGuard};
use quick_cache::{Lifecycle, OptionsBuilder, UnitWeighter};

use super::older::Reread;
use super::{Frame, Image, raw_mut};
use crate::error::Error;
use crate::spilled::Spilled;
use crate::statistics::{CacheStatistics, ObjectStatistics, Statistics};

/// The hash of a page's number: the same each time, so that a seed makes the same cache again.
#[derive(Clone, Copy, Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        // Fibonacci hashing: all bits of the number reach all of the hash.
        let mixed = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A frame that somebody holds is not evicted.
#[derive(Clone, Default)]
pub(crate) struct Held(DefaultLifecycle<u32, Arc<Frame>>);

impl Lifecycle<u32, Arc<Frame>> for Held {
    type RequestState =
        <DefaultLifecycle<u32, Arc<Frame>> as Lifecycle<u32, Arc<Frame>>>::RequestState;

    fn begin_request(&self) -> Self::RequestState {
        self.0.begin_request()
    }

    fn on_evict(&self, state: &mut Self::RequestState, key: u32, value: Arc<Frame>) {
        self.0.on_evict(state, key, value);
    }

    /// The lane and the writer hold every frame that is dirty on disk or whose older images can still be
    /// read. This is checked under the lock of the cache, under which frames are handed out.
    fn is_pinned(&self, _: &u32, frame: &Arc<Frame>) -> bool {
        Arc::strong_count(frame) > 1
    }
}

/// The pages of a store in memory.
pub(crate) struct Frames {
    store: u64,
    env: SharedEnv,
    device: Arc<dyn Device>,
    /// No page on disk has this LSN or a higher one.
    limit: AtomicU64,
    /// Pages that are damaged or cannot be read count as free: nothing is ever written here.
    past_damage: AtomicBool,
    cache: Cache<u32, Arc<Frame>, UnitWeighter, BuildHasherDefault<PageHasher>, Held>,
    statistics: Arc<Statistics>,
    pub(super) spilled: Arc<Spilled>,
    pub(super) reread: Reread,
    /// A page that was never written.
    pub(super) blank: Arc<Image>,
}

/// The right to read a page, while others wait for it.
type Turn<'a> =
    PlaceholderGuard<'a, u32, Arc<Frame>, UnitWeighter, BuildHasherDefault<PageHasher>, Held>;

impl Frames {
    /// A cache for about so many pages, of which older images may be in a file.
    pub fn new(
        store: u64,
        env: SharedEnv,
        device: Arc<dyn Device>,
        pages: usize,
        spilled: Arc<Spilled>,
    ) -> Frames {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(pages)
            .weight_capacity(pages as u64)
            // The rest is for pages that were asked for once: those that a scan holds must find place there.
            .hot_allocation(0.75)
            .build()
            .expect("both capacities are given");
        let cache = Cache::with_options(options, UnitWeighter, Default::default(), Held::default());
        let (limit, statistics) = (AtomicU64::new(u64::MAX), Arc::default());
        let past_damage = AtomicBool::new(false);
        let reread = Reread::new(pages);
        let blank = Arc::new(Image::new(Buffer::zeroed(PAGE_BYTES), 0, None));
        Frames { store, env, device, limit, past_damage, cache, statistics, spilled, reread, blank }
    }

    /// The counts of each object; those still in frames are not included.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// What was done to each object, by its number.
    pub fn object_statistics(&self) -> Vec<ObjectStatistics> {
        self.cache.iter().for_each(|(_, frame)| frame.count());
        self.statistics.all()
    }

    /// Pages that there is memory for.
    pub fn capacity(&self) -> u64 {
        self.cache.capacity()
    }

    /// The contents of the cache, and its counts.
    pub fn cache_statistics(&self) -> CacheStatistics {
        let objects = self.object_statistics();
        let sum = |of: fn(&ObjectStatistics) -> u64| objects.iter().map(of).sum();
        CacheStatistics {
            capacity: self.capacity(),
            used: self.cache.len() as u64,
            logical_reads: sum(|of| of.logical_reads),
            physical_reads: sum(ObjectStatistics::physical_reads),
            physical_writes: sum(|of| of.physical_writes),
            block_changes: sum(|of| of.block_changes),
            buffer_busy_waits: sum(|of| of.buffer_busy_waits),
            ..CacheStatistics::default()
        }
    }

    pub fn store(&self) -> u64 {
        self.store
    }

    /// Older images that are in a file.
    pub fn spilled(&self) -> &Arc<Spilled> {
        &self.spilled
    }

    pub fn env(&self) -> &SharedEnv {
        &self.env
    }

    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Sets the end of the log.
    pub fn set_limit(&self, end: u64) {
        self.limit.store(end, Ordering::SeqCst);
    }

    /// Treats damaged and unreadable pages as free: a reader then sees the others.
    pub fn go_past_damage(&self) {
        self.past_damage.store(true, Ordering::SeqCst);
    }

    /// Whether it skips damaged pages.
    pub fn goes_past_damage(&self) -> bool {
        self.past_damage.load(Ordering::SeqCst)
    }

    /// The frame of a page, if it is in memory.
    pub fn resident(&self, page: u32) -> Option<Arc<Frame>> {
        let frame = self.cache.get(&page)?;
        frame.note_read();
        Some(frame)
    }

    fn frame(&self, page: u32, image: Image) -> Arc<Frame> {
        Arc::new(Frame::new(page, image, &self.statistics))
    }

    /// The frame of a page that is about to be formatted: the contents on disk do not matter.
    pub async fn fresh(&self, page: u32) -> Arc<Frame> {
        let blank = async {
            let image = Image::new(Buffer::zeroed(PAGE_BYTES), 0, None);
            Ok::<_, std::convert::Infallible>(self.frame(page, image))
        };
        match self.cache.get_or_insert_async(&page, blank).await {
            Ok(frame) => frame,
            Err(never) => match never {},
        }
    }

    /// Drops these pages from memory.
    pub fn forget(&self, pages: std::ops::Range<u32>) {
        for page in pages {
            self.cache.remove(&page);
        }
    }

    /// The frame of a page, read from disk if it is not in memory. A caller that asks for a page that is
    /// being read waits for that read.
    pub async fn load(&self, session: &Session, page: u32) -> Result<Arc<Frame>, Error> {
        if let Some(frame) = self.resident(page) {
            return Ok(frame);
        }
        let frame = match self.frame_or_turn(session, page).await {
            Ok(frame) => frame,
            Err(turn) => {
                let frame = self.frame(page, self.read(session, page).await?);
                self.statistics.count(frame.owner(), |of| of.single_page_reads += 1);
                // Nobody else can have inserted it meanwhile.
                let _ = turn.insert(Arc::clone(&frame));
                frame
            }
        };
        frame.note_read();
        Ok(frame)
    }

    /// The frame of a page, or the right to read it. Waits while somebody else has that right.
    async fn frame_or_turn(&self, session: &Session, page: u32) -> Result<Arc<Frame>, Turn<'_>> {
        let mut asked = pin!(self.cache.get_value_or_guard_async(&page));
        let at_once = poll_fn(|context| Poll::Ready(asked.as_mut().poll(context))).await;
        if let Poll::Ready(answer) = at_once {
            return answer;
        }
        let place = [0, u64::from(page), 1];
        let wait = session.begin(Event::READ_BY_OTHER_SESSION, place, self.env.now().0);
        let answer = asked.await;
        wait.end(self.env.now().0);
        if let Ok(frame) = &answer {
            self.statistics.count(frame.owner(), |of| of.buffer_busy_waits += 1);
        }
        answer
    }

    /// The frames of several pages, which are given in ascending order. Missing pages that are adjacent are
    /// read together, in the order of the disk's queue that `io` says.
    pub async fn load_all(
        &self,
        session: &Session,
        io: Io,
        pages: impl IntoIterator<Item = u32>,
    ) -> Result<Vec<Arc<Frame>>, Error> {
        let (mut frames, mut lacking): (_, Vec<Vec<_>>) = (Vec::new(), Vec::new());
        for page in pages {
            // Whoever has the right to read a page waits only for later pages: there is no deadlock.
            match self.frame_or_turn(session, page).await {
                Ok(frame) => frames.push(frame),
                Err(turn) => match lacking.last_mut() {
                    Some(run) if run.last().is_some_and(|(last, _)| *last + 1 == page) => {
                        run.push((page, turn));
                    }
                    _ => lacking.push(vec![(page, turn)]),
                },
            }
        }
        let reads = lacking.into_iter().map(async |run| {
            let first = run[0].0;
            let images = self.read_run(session, io, first, run.len()).await?;
            let mut read: Vec<Arc<Frame>> = Vec::with_capacity(run.len());
            for ((page, turn), bytes) in run.into_iter().zip(images) {
                let frame = self.frame(page, self.checked(page, bytes)?);
                let _ = turn.insert(Arc::clone(&frame));
                read.push(frame);
            }
            let owners = read.iter().map(|frame| frame.owner());
            match read.len() {
                1 => self.statistics.count_each(owners, |of| of.single_page_reads += 1),
                _ => self.statistics.count_each(owners, |of| of.multi_page_reads += 1),
            }
            Ok::<_, Error>(read)
        });
        for read in join_all(reads).await {
            frames.extend(read?);
        }
        frames.sort_unstable_by_key(|frame| frame.number());
        frames.iter().for_each(|frame| frame.note_read());
        Ok(frames)
    }

    async fn read_run(
        &self,
        session: &Session,
        io: Io,
        first: u32,
        count: usize,
    ) -> Result<Vec<Buffer>, Error> {
        let event = match count {
            1 => Event::DB_FILE_SEQUENTIAL_READ,
            _ => Event::DB_FILE_SCATTERED_READ,
        };
        let place = [0, u64::from(first), count as u64];
        let wait = session.begin(event, place, self.env.now().0);
        let offset = u64::from(first) * PAGE_BYTES as u64;
        let buffers = (0..count).map(|_| Buffer::new(PAGE_BYTES)).collect();
        let read = self.device.read(io, offset, buffers).await;
        wait.end(self.env.now().0);
        match read {
            Err(_) if self.goes_past_damage() => Ok(self.read_each(first, count).await),
            Err(IoError { kind: IoErrorKind::Media, .. }) => self.read_named(first, count).await,
            read => Ok(read?),
        }
    }

    /// Reads one page after the other, so that the one that cannot be read is named.
    async fn read_named(&self, first: u32, count: usize) -> Result<Vec<Buffer>, Error> {
        let mut pages = Vec::with_capacity(count);
        for page in (first..).take(count) {
            let offset = u64::from(page) * PAGE_BYTES as u64;
            let buffers = vec![Buffer::new(PAGE_BYTES)];
            match self.device.read(Io::FOREGROUND, offset, buffers).await {
                Ok(read) => pages.extend(read),
                Err(IoError { kind: IoErrorKind::Media, .. }) => {
                    return Err(Error::PageDamaged { page, damage: Damage::Unreadable });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pages)
    }

    /// Reads one page after the other; an unreadable page is treated as never written.
    async fn read_each(&self, first: u32, count: usize) -> Vec<Buffer> {
        let mut pages = Vec::with_capacity(count);
        for page in (first..).take(count) {
            let offset = u64::from(page) * PAGE_BYTES as u64;
            let buffers = vec![Buffer::new(PAGE_BYTES)];
            let read = self.device.read(Io::FOREGROUND, offset, buffers).await.ok();
            pages.push(
                read.and_then(|read| read.into_iter().next())
                    .unwrap_or_else(|| Buffer::zeroed(PAGE_BYTES)),
            );
        }
        pages
    }

    /// A free page.
    fn free_page(&self, page: u32) -> Image {
        let mut bytes = Buffer::zeroed(PAGE_BYTES);
        PageMut::format(raw_mut(&mut bytes), self.store, page, Kind::Free, 0);
        Image::new(bytes, 0, None)
    }

    async fn read(&self, session: &Session, page: u32) -> Result<Image, Error> {
        let read = self.read_run(session, Io::FOREGROUND, page, 1).await?;
        self.checked(page, read.into_iter().next().expect("as many buffers as were given"))
    }

    /// A page as it was read, if it passes the checks.
    fn checked(&self, page: u32, bytes: Buffer) -> Result<Image, Error> {
        let raw = bytes[..].try_into().expect("a page");
        if let Err(damage) = check(raw, self.store, page) {
            return match self.goes_past_damage() {
                true => Ok(self.free_page(page)),
                false => Err(Error::PageDamaged { page, damage }),
            };
        }
        let image = Image::new(bytes, 0, None);
        let (lsn, end) = (image.lsn(), self.limit.load(Ordering::SeqCst));
        match lsn < end {
            true => Ok(image),
            false => Err(Error::Older { what: "the log", other: "the store", end, lsn }),
        }
    }
}
