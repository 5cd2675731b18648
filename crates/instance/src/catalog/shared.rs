//! The catalog in use: read from memory, changed one change at a time, each durable at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_recursion::async_recursion as boxed;
use event_listener::Event;

use super::{Catalog, STALE, Segment, Table};
use crate::error::{Error, INTERNAL, Result};

/// A boxed future of a store.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Where the catalog is kept.
pub trait CatalogStore: Send + Sync + 'static {
    /// The catalog as it is kept; `None` if there never was any.
    fn load(&self) -> StoreFuture<'_, Option<Catalog>>;

    /// Replaces the durable content `now` by `next`: after a crash it is one of the two, whole.
    fn replace<'a>(&'a self, now: &'a Catalog, next: &'a Catalog) -> StoreFuture<'a, ()>;
}

struct State {
    current: Arc<Catalog>,
    /// Why the tables are not known; then `current` has none.
    unknown: Option<Error>,
    changing: bool,
}

/// A catalog in use: read from memory, changed one change at a time.
pub struct SharedCatalog {
    store: Arc<dyn CatalogStore>,
    state: Mutex<State>,
    changed: Event,
}

/// The right to change the catalog; given back when dropped, also by a task that is cancelled.
struct Turn<'a>(&'a SharedCatalog);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().changing = false;
        self.0.changed.notify(1);
    }
}

impl SharedCatalog {
    /// A catalog without tables, before its store can be read.
    pub fn empty(store: Arc<dyn CatalogStore>) -> SharedCatalog {
        let state = State { current: Arc::new(Catalog::default()), unknown: None, changing: false };
        SharedCatalog { store, state: Mutex::new(state), changed: Event::new() }
    }

    /// A catalog that cannot be read now: its tables are not known.
    pub(crate) fn unknown(store: Arc<dyn CatalogStore>, why: Error) -> SharedCatalog {
        let catalog = SharedCatalog::empty(store);
        catalog.state().unknown = Some(why);
        catalog
    }

    /// From now on the tables are not known.
    pub(crate) fn forget(&self, why: Error) {
        let mut state = self.state();
        state.current = Arc::default();
        state.unknown = Some(why);
    }

    /// Reads what the store holds; nothing means no tables.
    ///
    /// # Errors
    /// As [`Catalog::decode`], or what the store reports.
    #[boxed]
    pub async fn open(store: Arc<dyn CatalogStore>) -> Result<SharedCatalog> {
        let catalog = SharedCatalog::empty(store);
        let current = catalog.stored().await?.unwrap_or_default();
        catalog.state().current = Arc::new(current);
        Ok(catalog)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables as they are now.
    pub fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.state().current)
    }

    /// The tables as they are now, for callers that must not mistake an unreadable catalog for one
    /// without tables.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn known(&self) -> Result<Arc<Catalog>> {
        let state = self.state();
        match &state.unknown {
            None => Ok(Arc::clone(&state.current)),
            Some(why) => Err(why.clone()),
        }
    }

    /// What the store holds, read anew; `None` if there never was anything.
    ///
    /// # Errors
    /// As [`SharedCatalog::open`].
    pub(crate) async fn stored(&self) -> Result<Option<Catalog>> {
        self.store.load().await
    }

    /// Adds a table. It is durable when this returns.
    ///
    /// # Errors
    /// 00955 if the name is used, or what the store reports; nothing changes then.
    #[boxed]
    pub async fn add(&self, table: Table) -> Result<()> {
        self.change(|catalog| Ok((catalog.with(table, false)?, ()))).await
    }

    /// Adds a table in the place of one of the same name, if there is one.
    ///
    /// # Errors
    /// 00955 if that one is columnar: its rows would go with it. Or what the store reports; nothing
    /// changes then.
    #[boxed]
    pub async fn add_or_replace(&self, table: Table) -> Result<()> {
        self.change(|catalog| Ok((catalog.with(table, true)?, ()))).await
    }

    /// Adds all tables or none.
    ///
    /// # Errors
    /// As [`SharedCatalog::add`].
    #[boxed]
    pub async fn add_all(&self, tables: Vec<Table>) -> Result<()> {
        let add = |catalog: &Catalog| {
            let serial = catalog.serial + 1;
            let mut all = catalog.clone();
            for table in tables {
                all = all.with(table, false)?;
            }
            Ok((Catalog { serial, ..all }, ()))
        };
        self.change(add).await
    }

    /// Adds rows to a columnar table: those of a file that is durable and has its name.
    ///
    /// # Errors
    /// 00942 if the table with this name and id is not there any more, or what the store reports;
    /// nothing changes then.
    #[boxed]
    pub async fn append(&self, name: &str, id: u64, segment: Segment) -> Result<()> {
        self.change(|catalog| Ok((catalog.appended(name, id, segment)?, ()))).await
    }

    /// Replaces the segments that a table ends with by one, and returns whether the table did end with
    /// them. The caller removes their files.
    ///
    /// # Errors
    /// As [`SharedCatalog::append`].
    #[boxed]
    pub async fn merge(
        &self,
        name: &str,
        id: u64,
        gone: &[Segment],
        segment: Segment,
    ) -> Result<bool> {
        self.change(|catalog| {
            Ok(match catalog.merged(name, id, gone, segment)? {
                Some(next) => (next, true),
                None => (catalog.clone(), false),
            })
        })
        .await
    }

    /// Removes all rows of a columnar table. Returns the table as it was: the caller removes its files.
    ///
    /// # Errors
    /// 00942 if there is none, 70118 if it is not columnar, or what the store reports; nothing
    /// changes then.
    #[boxed]
    pub async fn truncate(&self, name: &str) -> Result<Table> {
        self.change(|catalog| catalog.truncated(name)).await
    }

    /// Adds a view, or puts it in the place of one.
    ///
    /// # Errors
    /// 00955 if the name is used, or what the store reports; nothing changes then.
    #[boxed]
    pub async fn put_view(&self, view: Table) -> Result<()> {
        self.change(|catalog| Ok((catalog.with_view(view)?, ()))).await
    }

    /// Forgets a table; its files are not touched. Returns it as it was.
    ///
    /// # Errors
    /// 00942 if there is none, or what the store reports; nothing changes then.
    #[boxed]
    pub async fn drop_table(&self, name: &str) -> Result<Table> {
        self.change(|catalog| catalog.without(name)).await
    }

    /// As [`SharedCatalog::drop_table`], of a columnar table only.
    ///
    /// # Errors
    /// Also 70118 if it is not columnar.
    #[boxed]
    pub async fn drop_columnar(&self, name: &str) -> Result<Table> {
        self.change(|catalog| {
            catalog.columnar(name)?;
            catalog.without(name)
        })
        .await
    }

    async fn change<T>(&self, next: impl FnOnce(&Catalog) -> Result<(Catalog, T)>) -> Result<T> {
        let _turn = self.turn().await;
        let now = self.known()?;
        let (next, answer) = next(&now)?;
        let next = self.checked(next)?;
        let replaced = self.store.replace(&now, &next).await;
        self.replaced(next, replaced).await?;
        Ok(answer)
    }

    /// As the other changes; it is made durable by `replace`, which gets the catalog as it is and as it is to be.
    ///
    /// # Errors
    /// Those of `next` and `replace`; nothing changes then.
    pub(crate) async fn change_by<F, T>(
        &self,
        next: impl FnOnce(&Arc<Catalog>) -> Result<Catalog>,
        replace: impl FnOnce(Arc<Catalog>, Arc<Catalog>) -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<T>>,
    {
        let _turn = self.turn().await;
        let now = self.known()?;
        let next = self.checked(next(&now)?)?;
        let (kept, replaced) = match replace(now, Arc::clone(&next)).await {
            Ok(kept) => (Some(kept), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let replaced = self.replaced(next, replaced).await;
        // While the turn is held: the next holder finds these locks free.
        drop(kept);
        replaced
    }

    fn checked(&self, mut next: Catalog) -> Result<Arc<Catalog>> {
        // What is committed others may use.
        let labels = next.tables.iter_mut().filter_map(|table| table.labels.as_mut());
        labels.flat_map(|own| &mut own.labels).for_each(|label| label.is_new = false);
        let next = Catalog { version: next.version_needed(), ..next };
        match next.fault() {
            None => Ok(Arc::new(next)),
            Some(fault) => {
                Err(Error::new(INTERNAL, format!("the catalog would be damaged: {fault}")))
            }
        }
    }

    /// Has what was to be durable in use, if it is.
    async fn replaced(&self, next: Arc<Catalog>, replaced: Result<()>) -> Result<()> {
        if let Err(error) = replaced
            && !self.holds(&next).await
        {
            if error.has(STALE)
                && let Ok(Some(stored)) = self.store.load().await
            {
                self.state().current = Arc::new(stored);
            }
            return Err(error);
        }
        self.state().current = next;
        Ok(())
    }

    /// Whether the store holds this content although it reported a failure: then only a step after the
    /// replacement failed, such as freeing the space of the old one.
    async fn holds(&self, next: &Catalog) -> bool {
        matches!(self.store.load().await, Ok(Some(stored)) if stored == *next)
    }

    /// Does something while nobody changes it, with what it is.
    pub(crate) async fn unchanged<T, F>(&self, work: impl FnOnce(Arc<Catalog>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let _turn = self.turn().await;
        work(self.known()?).await
    }

    /// Waits until a change under way is over: a commit releases its locks a little before its change is
    /// visible.
    #[boxed]
    pub async fn settled(&self) {
        drop(self.turn().await);
    }

    /// Reads again what the store holds.
    ///
    /// # Errors
    /// As [`SharedCatalog::open`].
    pub(crate) async fn reload(&self) -> Result<()> {
        let _turn = self.turn().await;
        let current = self.stored().await?.unwrap_or_default();
        let mut state = self.state();
        (state.current, state.unknown) = (Arc::new(current), None);
        Ok(())
    }

    /// Whether it is being changed.
    pub(crate) fn is_changing(&self) -> bool {
        self.state().changing
    }

    async fn turn(&self) -> Turn<'_> {
        loop {
            // Listen before looking, or a change that ends in between is not heard.
            let listener = self.changed.listen();
            if !std::mem::replace(&mut self.state().changing, true) {
                return Turn(self);
            }
            listener.await;
        }
    }
}
