//! Opening a store whose log is lost altogether: it is read from its pages alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, SharedEnv};
use cellar_wait::{Kind, Waits};

use super::ahead::newest_page;
use super::open::{Reader, torn_pages};
use super::read::Pages;
use super::{Header, Options, Store};
use crate::dirty::Dirty;
use crate::doublewrite::Ring;
use crate::error::Error;
use crate::frames::Frames;
use crate::space::Space;

/// The parameters for opening a store without its log.
pub struct OpenWithoutLog {
    /// Clock, chance and tasks.
    pub env: SharedEnv,
    /// Where waits are counted.
    pub waits: Waits,
    /// The file.
    pub device: Arc<dyn Device>,
    /// Parameters.
    pub options: Options,
    /// Gives up the log: from now on the store is read-only, even if the log is found again. Otherwise only a store
    /// that was opened this way before is opened.
    pub gives_log_up: bool,
}

impl Store {
    /// Opens a store to read its pages, each as it was last written. What only the log had is lost, and pages may be
    /// from different moments. `None`: its log has not been given up.
    ///
    /// # Errors
    /// [`Error::HeaderDamaged`]; those of the device.
    #[boxed]
    pub async fn open_alone(open: OpenWithoutLog) -> Result<Option<Reader>, Error> {
        let OpenWithoutLog { env, waits, device, options, gives_log_up } = open;
        let session = waits.session("store recovery", Kind::Background);
        let mut header = Header::read(&*device).await?;
        let Header { store, geometry, checkpoint, .. } = header;
        // What a header says of pages that the file does not have is not believed.
        let extents = header.extents.min(geometry.extents(device.geometry().size));
        if header.ahead == 0 && !gives_log_up {
            return Ok(None);
        }
        let ring = Ring::read(&*device, store, &geometry, checkpoint).await?;
        if header.ahead == 0 {
            let (newest, _) = newest_page(&*device, store).await;
            let ahead = checkpoint.max(newest + 1);
            header = Header { ahead, generation: header.generation + 1, ..header };
            header.write(&*device).await?;
        }
        let cache = options.cache_pages;
        let frames = Arc::new(Frames::new(store, env, Arc::clone(&device), cache, Arc::default()));
        frames.set_limit(u64::MAX);
        frames.go_past_damage();
        let torn = torn_pages(ring, &*device, &frames).await?;
        let space = Space::load(&frames, &session, geometry, extents, header.ahead).await?;
        let pages = Pages { frames, geometry, space, snapshots: Arc::default() };
        let newer = Arc::new((Arc::new(Dirty::default()), torn));
        let (pages, end, counters) = (Arc::new(pages), header.ahead, BTreeMap::new());
        let reader = Reader { pages, end, is_ahead: true, counters, newer };
        Ok(Some(reader.with_counters(&session).await?))
    }
}
