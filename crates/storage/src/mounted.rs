//! The mounted groups of a database, and the handle by which others find them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_diskgroup::Group;

use crate::disks::{OpenDisks, survives};
use crate::error::{Error, Result};

/// A mounted group and its disks.
#[derive(Clone)]
pub struct Mounted {
    /// Its number in this instance, from 1.
    pub number: u32,
    /// The group.
    pub group: Group,
    /// Its disks as they are open here.
    pub disks: OpenDisks,
}

impl Mounted {
    /// The group's files as an object store, its waits counted on `session`.
    #[cfg(feature = "object-store")]
    pub fn store(&self, session: &cellar_wait::Session) -> Arc<dyn object_store::ObjectStore> {
        let store = cellar_diskgroup::store::GroupStore::new(self.group.clone());
        Arc::new(store.for_session(session.clone()))
    }

    /// Closes the disks that have left the group, and returns their paths.
    pub(crate) fn close_gone(&self) -> Vec<PathBuf> {
        let here: std::collections::BTreeSet<String> =
            self.group.disks().into_iter().filter_map(|d| d.path).collect();
        self.disks.keep(|d| here.contains(&*d.path.to_string_lossy()))
    }

    /// The kind of loss that the group survives: that of a device, of a file, or nothing.
    pub fn survives(&self) -> &'static str {
        if self.group.info().redundancy.copies() < 2 {
            return "nothing";
        }
        let disks: Vec<_> = self
            .group
            .disks()
            .into_iter()
            .filter_map(|d| {
                let path = d.path?;
                let open = self.disks.find(&path)?;
                Some((Some(d.failgroup), open.below))
            })
            .collect();
        survives(&disks)
    }
}

/// The mounted groups by name, as one handle: a mount or dismount is visible to all its holders.
#[derive(Clone, Default)]
pub struct MountedGroups(Arc<Mutex<BTreeMap<String, Mounted>>>);

impl std::fmt::Debug for MountedGroups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

impl MountedGroups {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Mounted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Mounted> {
        self.lock().values().cloned().collect()
    }

    /// The one of this name, in any case.
    ///
    /// # Errors
    /// 15001 with the names of those that are mounted.
    pub fn get(&self, name: &str) -> Result<Mounted> {
        let wanted = name.to_uppercase();
        let mounted = self.lock();
        mounted.get(&wanted).cloned().ok_or_else(|| {
            let known: Vec<&str> = mounted.keys().map(String::as_str).collect();
            Error::new(15001, format!("disk group \"{wanted}\" does not exist or is not mounted"))
                .hint(format!("mounted here: {}", known.join(", ")))
        })
    }

    /// The one that was mounted first: it holds the catalog.
    pub fn first(&self) -> Option<Mounted> {
        self.lock().values().min_by_key(|mounted| mounted.number).cloned()
    }

    /// Adds a group, with the first number that is free.
    pub(crate) fn add(&self, name: &str, group: Group, disks: OpenDisks) -> Mounted {
        let mut all = self.lock();
        let is_free = |number: &u32| all.values().all(|other| other.number != *number);
        let number = (1..).find(is_free).unwrap_or(1);
        let mounted = Mounted { number, group, disks };
        all.insert(name.to_owned(), mounted.clone());
        mounted
    }

    pub(crate) fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

/// What a path of the command line or of a statement names: `+GROUP/path`.
pub fn split_group_path(path: &str) -> Option<(String, String)> {
    let rest = path.strip_prefix('+')?;
    let (group, path) = rest.split_once('/').unwrap_or((rest, ""));
    Some((group.to_uppercase(), path.to_owned()))
}
