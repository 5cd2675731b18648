//! Removal of tables and indexes that the catalog no longer names. An object that was named stays until
//! nobody sees a catalog that names it. Leftovers of a crash are found when the heap is opened: an object
//! that is there then, has no name and is not being made will never have one.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use cellar_heap::{Error as HeapError, Store};
use cellar_io::EnvExt;
use cellar_wait::Session;

use super::catalog_rows::FIRST_NUMBER;
use super::{Heap, State};
use crate::error::Result;

/// How often to check whether somebody still sees what is to go.
const LOOK_AFTER: Duration = Duration::from_millis(200);

/// What is to go from an open heap.
#[derive(Default)]
pub(super) struct Removal {
    /// What existed when it was opened, until somebody has asked which of it has a name.
    found: Vec<u32>,
    /// What is being made for a table, and may have no name yet.
    making: BTreeSet<u32>,
    /// Each with the change of the catalog that took its name.
    leaving: Vec<(u64, u32)>,
    /// The last change of the catalog: where its record begins.
    changed: u64,
    /// A task looks after what is leaving.
    is_watched: bool,
    /// How many have gone that a crash had left.
    swept: usize,
}

/// Numbers of objects that are being made for a table: until this is dropped nobody removes them as
/// leftovers. By then the catalog names them, or they are gone.
pub(crate) struct Making {
    heap: Heap,
    numbers: Vec<u32>,
}

impl Making {
    /// A number for a new table or index, which nothing else ever has.
    ///
    /// # Errors
    /// The heap is not open; those of the log.
    pub async fn new_number(&mut self) -> Result<u32> {
        let number = self.heap.new_number().await?;
        self.heap.removal().making.insert(number);
        self.numbers.push(number);
        Ok(number)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let mut removal = self.heap.removal();
        removal.making.retain(|number| !self.numbers.contains(number));
    }
}

/// Removes the table, index or counter of a number; whether it is gone.
pub(crate) async fn remove_number(store: &Store, session: &Session, number: u32) -> bool {
    match store.drop_object(session, number).await {
        Err(HeapError::WrongObject { .. }) => store.drop_counter(session, number).await.is_ok(),
        dropped => dropped.is_ok(),
    }
}

/// The numbers of the tables, indexes and counters of a store, without those of the catalog.
fn numbers(store: &Store) -> impl Iterator<Item = u32> {
    let objects = store.objects().into_iter().map(|object| object.number);
    objects.chain(store.counters()).filter(|number| i64::from(*number) >= FIRST_NUMBER)
}

impl Heap {
    fn removal(&self) -> MutexGuard<'_, Removal> {
        self.0.removal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is about to be made for a table.
    pub(crate) fn making(&self) -> Making {
        Making { heap: self.clone(), numbers: Vec::new() }
    }

    /// Before anybody makes anything in a store just opened: what is there.
    pub(super) fn find(&self, store: &Store) {
        let mut removal = self.removal();
        removal.found = numbers(store).collect();
        (removal.leaving, removal.changed) = (Vec::new(), 0);
    }

    /// The catalog was changed, by a commit at this LSN.
    pub(super) fn catalog_changed(&self, lsn: u64) {
        let mut removal = self.removal();
        removal.changed = removal.changed.max(lsn);
    }

    /// The numbers of all tables, indexes and counters, without those of the catalog.
    ///
    /// # Errors
    /// 70162 the heap is not open, 70041 it is open read-only.
    pub fn objects(&self) -> Result<Vec<u32>> {
        Ok(numbers(&self.store()?).collect())
    }

    /// How many tables and indexes without a name were removed that a crash had left.
    pub fn swept(&self) -> usize {
        self.removal().swept
    }

    /// What was there when the heap was opened, and is not being made now by who began before that; once. What
    /// of it a catalog names that is read later has a name.
    pub(crate) fn take_found(&self) -> Vec<u32> {
        let mut removal = self.removal();
        let found = std::mem::take(&mut removal.found);
        found.into_iter().filter(|number| !removal.making.contains(number)).collect()
    }

    /// Removes what a crash has left, and nobody has ever seen since.
    pub(crate) async fn sweep(&self, objects: Vec<u32>) {
        let Ok(store) = self.store() else { return };
        for object in objects {
            let gone = remove_number(&store, &self.session(), object).await;
            self.removal().swept += usize::from(gone);
        }
    }

    /// Removes what the catalog has just stopped naming, as soon as nobody sees it. If the heap is closed
    /// before that, it goes at the next opening.
    pub(crate) async fn leave(&self, objects: impl Iterator<Item = u32>) {
        let lsn = self.removal().changed;
        self.removal().leaving.extend(objects.map(|object| (lsn, object)));
        if !self.remove_unseen().await {
            self.watch_leaving();
        }
    }

    /// Removes, soon, what was made and never named.
    pub(crate) fn release(&self, objects: &BTreeSet<u32>) {
        if objects.is_empty() {
            return;
        }
        self.removal().leaving.extend(objects.iter().map(|object| (0, *object)));
        self.watch_leaving();
    }

    fn watch_leaving(&self) {
        if std::mem::replace(&mut self.removal().is_watched, true) {
            return;
        }
        // It does not keep alive a heap that nobody uses any more.
        let (env, heap) = (self.0.env.clone(), Arc::downgrade(&self.0));
        let watch = async move {
            loop {
                env.sleep(LOOK_AFTER).await;
                let Some(inner) = heap.upgrade() else { return };
                if Heap(inner).is_done_watching().await {
                    return;
                }
            }
        };
        self.0.env.spawn("heap removal", Box::pin(watch));
    }

    async fn is_done_watching(&self) -> bool {
        self.remove_unseen().await;
        let mut removal = self.removal();
        removal.is_watched = !removal.leaving.is_empty();
        !removal.is_watched
    }

    /// Removes what is leaving and is seen by nobody. Whether nothing is left.
    async fn remove_unseen(&self) -> bool {
        let store = match &*self.state() {
            State::Open(store) if store.check_running().is_ok() => store.clone(),
            _ => {
                self.removal().leaving.clear();
                return true;
            }
        };
        let oldest = store.oldest_view();
        let gone: Vec<(u64, u32)> =
            self.removal().leaving.extract_if(.., |(lsn, _)| *lsn < oldest).collect();
        for (_, object) in gone {
            // What cannot go now is found at the next opening.
            let _ = remove_number(&store, &self.session(), object).await;
        }
        self.removal().leaving.is_empty()
    }
}
