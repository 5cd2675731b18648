//! Growth of a store's file while it is open: whoever finds no free extent starts it, and all others that need
//! one wait for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cellar_io::{EnvExt, Instant};
use cellar_page::PAGE_BYTES;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};

use super::checkpoint::Ended;
use super::{Inner, objects};
use crate::error::Error;
use crate::geometry::Geometry;
use crate::space::allocate::Use;
use crate::space::map;

/// Makes the file of a store longer.
pub trait Growth: Send + Sync {
    /// Makes the file this long, in bytes, and returns how long it is when that is durable: the device must
    /// have this size then, and after a crash. An error where there is no room: it is as long as before.
    fn grow(&self, to_bytes: u64) -> BoxFuture<'_, Result<u64, GrowthError>>;
}

/// Why a file could not be made longer: users read it.
pub type GrowthError = Box<dyn std::error::Error + Send + Sync>;

/// What came of a growth: `Some` says why there was none.
type Grown = Result<Option<Arc<str>>, Error>;

/// The growth of a store's file.
pub(super) struct Growing {
    growth: Option<Arc<dyn Growth>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The one that is under way.
    current: Option<Shared<BoxFuture<'static, Grown>>>,
    /// When the last one came to nothing, and why.
    failed: Option<(Instant, Arc<str>)>,
}

/// A failed growth is retried after this time.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A file grows by this part of its size,
const SHARE: u32 = 8;

/// by so many bytes at least,
const BYTES_LEAST: u64 = 16 << 20;

/// and by so many at most; where there is not so much room, by half of it, a quarter, .., an extent.
const BYTES_MOST: u64 = 1 << 30;

impl Growing {
    pub fn new(growth: Option<Arc<dyn Growth>>) -> Growing {
        Growing { growth, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Takes a free extent for an object; what that is for, and whether it is its first. Where there is none the
    /// file grows.
    pub(super) async fn take_extent(
        self: &Arc<Self>,
        object: u32,
    ) -> Result<(u32, Use, bool), Error> {
        loop {
            match self.pages.space.take_extent(object, self.oldest()) {
                Err(full @ Error::Full { .. }) => self.make_room(full).await?,
                taken => return taken,
            }
        }
    }

    /// Makes the file grow for a caller that found it full; returns when there may be room. An error: there is
    /// none, and why.
    pub(super) async fn make_room(self: &Arc<Self>, full: Error) -> Result<(), Error> {
        let Error::Full { object, extents, .. } = full else { return Err(full) };
        let Some(growth) = &self.growing.growth else { return Err(full) };
        let full = |cause| Error::Full { object, extents, cause: Some(cause) };
        let current = {
            let mut state = self.growing.lock();
            if self.pages.space.file_extents() != extents {
                return Ok(());
            }
            let now = self.env.now();
            if let Some((at, why)) = &state.failed
                && now.since(*at) < RETRY_AFTER
            {
                return Err(full(Arc::clone(why)));
            }
            let begin = || self.begin_growth(Arc::clone(growth));
            state.current.get_or_insert_with(begin).clone()
        };
        match current.await? {
            None => Ok(()),
            Some(why) => Err(full(why)),
        }
    }

    /// To its end, also where nobody waits for that.
    fn begin_growth(
        self: &Arc<Self>,
        growth: Arc<dyn Growth>,
    ) -> Shared<BoxFuture<'static, Grown>> {
        let inner = Arc::clone(self);
        let task = async move {
            let grown = inner.grow(&*growth).await;
            let mut state = inner.growing.lock();
            state.current = None;
            state.failed = match &grown {
                Ok(Some(why)) => Some((inner.env.now(), Arc::clone(why))),
                _ => None,
            };
            drop(state);
            grown
        };
        let task = self.env.run("store growth", task);
        task.map(|grown| grown.ok_or_else(objects::ended).flatten()).boxed().shared()
    }

    async fn grow(&self, growth: &dyn Growth) -> Grown {
        let (geometry, known) = (self.pages.geometry, self.pages.space.file_extents());
        let wanted = wanted(geometry, known);
        if wanted.is_empty() {
            return Ok(Some(format!("a store has {} pages at most", u32::MAX).into()));
        }
        let mut why: Arc<str> = "it was not made longer".into();
        for extents in wanted {
            let bytes = u64::from(extents) * extent_bytes(geometry);
            match growth.grow(bytes).await.map(|bytes| geometry.extents(bytes)) {
                Ok(extents) if extents > known => return self.adopt(known, extents).await,
                Ok(_) => {}
                Err(error) => why = error.to_string().into(),
            }
        }
        Ok(Some(why))
    }

    /// Adds the extents of a grown file: their map becomes durable, then the header, then they are used. A crash
    /// before the last step leaves a file that is longer than its header says, which opening handles.
    async fn adopt(&self, known: u32, extents: u32) -> Grown {
        let turn = self.turn().await;
        self.check_running()?;
        let (frames, geometry) = (&self.pages.frames, self.pages.geometry);
        let made = map::make(&**frames.device(), frames.store(), geometry, known, extents).await;
        if let Err(error) = made {
            return Ok(Some(error.to_string().into()));
        }
        let ended = Ended(self);
        let header = {
            let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
            (header.extents, header.generation) = (extents, header.generation + 1);
            *header
        };
        let written = header.write(&**frames.device()).await;
        std::mem::forget(ended);
        if let Err(error) = &written {
            self.stop(error);
        }
        drop(turn);
        written?;
        self.pages.space.adopt(known, extents);
        Ok(None)
    }
}

fn extent_bytes(geometry: Geometry) -> u64 {
    u64::from(geometry.extent_pages) * PAGE_BYTES as u64
}

/// How many extents a file of so many is to have: what is wanted, and what is, where that is refused.
fn wanted(geometry: Geometry, extents: u32) -> Vec<u32> {
    let of_bytes = |bytes: u64| bytes.div_ceil(extent_bytes(geometry)) as u32;
    let (least, most) = (of_bytes(BYTES_LEAST), of_bytes(BYTES_MOST));
    let room = geometry.extents(u64::MAX).saturating_sub(extents);
    let first = (extents / SHARE).clamp(least, most).min(room);
    let halves = std::iter::successors(Some(first), |more| Some(more / 2));
    halves.take_while(|more| *more > 0).map(|more| extents + more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_grows_by_an_eighth_within_limits_or_by_what_there_is_room_for() {
        // Of 512 KB.
        let geometry = Geometry::default();
        assert_eq!(wanted(geometry, 20), [52, 36, 28, 24, 22, 21]);
        assert_eq!(wanted(geometry, 8000)[..3], [9000, 8500, 8250]);
        assert_eq!(wanted(geometry, 1_000_000)[0], 1_002_048);
        let most = geometry.extents(u64::MAX);
        assert_eq!(wanted(geometry, most - 10), [most, most - 5, most - 8, most - 9]);
        assert!(wanted(geometry, most).is_empty());
        // Of 64 MB.
        let large = Geometry { extent_pages: 8144, ..geometry };
        assert_eq!(wanted(large, 3), [4]);
    }
}
