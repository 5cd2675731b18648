//! Work in progress: segments that have a name and are not in the catalog yet, and groups that are being
//! dropped. The sweep leaves such segments alone, and neither gets in the way of the other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

#[derive(Default)]
struct State {
    /// Group and path.
    files: BTreeSet<(String, String)>,
    dropping: BTreeSet<String>,
}

/// What is half done in an open database.
#[derive(Default)]
pub(crate) struct UnderWay {
    state: Mutex<State>,
    swept: AtomicUsize,
}

impl UnderWay {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file of `group` gets the name `path`; the catalog names it before this is dropped, or
    /// never.
    pub(super) fn publish(self: &Arc<Self>, group: &str, path: &str) -> Result<Publishing> {
        let mut state = self.state();
        if state.dropping.contains(group) {
            let text = format!("disk group \"{group}\" is being dropped");
            return Err(Error::new(15001, text).hint("keep the table in another disk group"));
        }
        let file = (group.to_owned(), path.to_owned());
        state.files.insert(file.clone());
        Ok(Publishing { of: Arc::clone(self), file })
    }

    /// The group is dropped, or stays, before this is dropped: no table gets rows there meanwhile.
    pub(super) fn drop_group(self: &Arc<Self>, group: &str) -> Result<Dropping> {
        let mut state = self.state();
        if state.files.iter().any(|(of, _)| of == group) {
            let text = format!("a table is being loaded in disk group \"{group}\"");
            return Err(Error::new(15028, text).hint("wait until it is loaded, or cancel that"));
        }
        if !state.dropping.insert(group.to_owned()) {
            let text = format!("disk group \"{group}\" is being dropped already");
            return Err(Error::new(15028, text).hint("wait until that is done"));
        }
        Ok(Dropping { of: Arc::clone(self), group: group.to_owned() })
    }

    /// The files that have a name and may not be in the catalog yet: group and path.
    pub(super) fn files(&self) -> BTreeSet<(String, String)> {
        self.state().files.clone()
    }

    pub(super) fn count_swept(&self, count: usize) {
        self.swept.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn swept(&self) -> usize {
        self.swept.load(Ordering::Relaxed)
    }
}

/// See [`UnderWay::publish`].
pub(super) struct Publishing {
    of: Arc<UnderWay>,
    file: (String, String),
}

impl Drop for Publishing {
    fn drop(&mut self) {
        self.of.state().files.remove(&self.file);
    }
}

/// See [`UnderWay::drop_group`].
pub(crate) struct Dropping {
    of: Arc<UnderWay>,
    group: String,
}

impl Drop for Dropping {
    fn drop(&mut self) {
        self.of.state().dropping.remove(&self.group);
    }
}
