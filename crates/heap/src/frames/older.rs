//! Older images of pages, as snapshots read them: from memory, or from the spill file.

use std::hash::BuildHasherDefault;
use std::pin::pin;
use std::sync::Arc;

use cellar_io::Buffer;
use cellar_page::{PAGE_BYTES, check};
use cellar_wait::{Event, Session};
use futures_util::{StreamExt, stream};
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::cache::PageHasher;
use super::{Frame, Frames, Image};
use crate::error::Error;
use crate::spilled::{Entry, SpillError, offset_of};

/// The share of a cache of this many pages that is for images that were read back.
const SHARE: usize = 32;

/// The page and the LSN of an image: it never changes.
type Key = (u32, u64);

type Hash = BuildHasherDefault<PageHasher>;

/// Images that were read back: inner pages are asked for again and again.
pub(super) struct Reread(
    Cache<Key, Arc<Image>, UnitWeighter, Hash, DefaultLifecycle<Key, Arc<Image>>>,
);

impl Reread {
    /// For a cache of so many pages.
    pub fn new(pages: usize) -> Reread {
        let most = (pages / SHARE).max(16);
        let lifecycle = DefaultLifecycle::default();
        let hasher = BuildHasherDefault::default();
        Reread(Cache::with(most, most as u64, UnitWeighter, hasher, lifecycle))
    }
}

/// Pages that are read back at once, where they follow each other in the file,
const RUN: usize = 64;

/// and how many such reads are under way beside each other.
const RUNS: usize = 4;

/// An image that is in the file: of which page, and where.
type InFile = (u32, Entry);

impl Frames {
    /// The image of a page that a snapshot at this point sees.
    ///
    /// # Errors
    /// [`Error::Spill`]: it is in a file that cannot be read.
    pub async fn image_at(
        &self,
        session: &Session,
        frame: &Frame,
        point: u64,
    ) -> Result<Arc<Image>, Error> {
        let entry = match self.image_or_entry(frame, point) {
            Ok(image) => return Ok(image),
            Err(entry) => entry,
        };
        let key = (frame.number(), entry.lsn);
        if let Some(image) = self.reread.0.get(&key) {
            return Ok(image);
        }
        let images = self.read_back(session, vec![(frame.number(), entry)]).await?;
        let (_, image) = images.into_iter().next().expect("one is read");
        // A scan reads each page once; a lookup by key comes back.
        self.reread.0.insert(key, Arc::clone(&image));
        Ok(image)
    }

    /// As [`Frames::image_at`], of many pages, in their order.
    ///
    /// # Errors
    /// As [`Frames::image_at`].
    pub async fn images_at(
        &self,
        session: &Session,
        frames: &[Arc<Frame>],
        point: u64,
    ) -> Result<Vec<(u32, Arc<Image>)>, Error> {
        let (mut images, mut in_file) = (Vec::with_capacity(frames.len()), Vec::new());
        for frame in frames {
            match self.image_or_entry(frame, point) {
                Ok(image) => images.push((frame.number(), image)),
                Err(entry) => in_file.push((frame.number(), entry)),
            }
        }
        if in_file.is_empty() {
            return Ok(images);
        }
        in_file.sort_unstable_by_key(|(_, entry)| entry.slot);
        let follows = |(_, last): &InFile, (_, next): &InFile| last.slot + 1 == next.slot;
        let runs =
            in_file.chunk_by(follows).flat_map(|run| run.chunks(RUN)).map(<[InFile]>::to_vec);
        let reads = runs.map(|run| self.read_back(session, run)).collect::<Vec<_>>();
        let mut reads = pin!(stream::iter(reads).buffered(RUNS));
        while let Some(read) = reads.next().await {
            images.extend(read?);
        }
        images.sort_unstable_by_key(|(page, _)| *page);
        Ok(images)
    }

    /// An image that is in memory, or where in the file it is.
    fn image_or_entry(&self, frame: &Frame, point: u64) -> Result<Arc<Image>, Entry> {
        let here = match frame.at(point) {
            Some((image, true)) => return Ok(image),
            here => here.map(|(image, _)| image),
        };
        // Checked after memory: an image is in the file before it leaves memory.
        let spilled = self.spilled.find(frame.number(), point);
        match (here, spilled) {
            (Some(here), Some(entry)) if entry.lsn > here.lsn() => Err(entry),
            (Some(here), _) => Ok(here),
            (None, Some(entry)) => Err(entry),
            // The image is no longer kept.
            (None, None) if self.goes_past_damage() => Ok(frame.newest()),
            // It was never written before, or the snapshot is over.
            (None, None) => Ok(Arc::clone(&self.blank)),
        }
    }

    /// Reads images that follow each other in the file.
    async fn read_back(
        &self,
        session: &Session,
        run: Vec<InFile>,
    ) -> Result<Vec<(u32, Arc<Image>)>, Error> {
        let (page, first) = (run[0].0, run[0].1.slot);
        let file = self.spilled.file().expect("what is spilled is in a file");
        let place = [0, first, run.len() as u64];
        let wait = session.begin(Event::DIRECT_PATH_READ_TEMP, place, self.env().now().0);
        let read = file.read(offset_of(first), run.len() * PAGE_BYTES).await;
        wait.end(self.env().now().0);
        let failed = |page, why: SpillError| Error::Spill { page, why: why.to_string().into() };
        let bytes = read.map_err(|why| failed(page, why))?;
        let images = run.iter().zip(bytes.chunks(PAGE_BYTES)).map(|((page, entry), bytes)| {
            let image = self.image_of(*page, entry.lsn, bytes).map_err(|why| failed(*page, why))?;
            Ok((*page, Arc::new(image)))
        });
        images.collect()
    }

    fn image_of(&self, page: u32, lsn: u64, bytes: &[u8]) -> Result<Image, SpillError> {
        check(bytes.try_into()?, self.store(), page).map_err(|damage| damage.to_string())?;
        let mut buffer = Buffer::new(PAGE_BYTES);
        buffer.copy_from_slice(bytes);
        let image = Image::new(buffer, 0, None);
        match image.lsn() == lsn {
            true => Ok(image),
            false => Err(format!("it has an image of LSN {}, not of {lsn}", image.lsn()).into()),
        }
    }
}
