//! The catalog: which tables there are, and where.
//!
//! It is one small file, replaced as a whole: a line that tells the kind, length and crc of what
//! follows, then JSON. Where it is kept is up to a [`CatalogStore`].

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use event_listener::Event;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The newest version of the content that this program reads and the one it writes.
pub const VERSION: u32 = 1;

const MAGIC: &str = "cellar catalog";

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// Files in the group or outside, read as they are.
    External,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// As SQL resolves it: lower case unless it was quoted.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// `parquet`, `csv`, ...
    pub format: String,
    /// `+GROUP/path`, a path, or a URL.
    pub location: String,
    /// The columns, in whatever form the SQL layer chose.
    pub schema: String,
    /// Options of the format.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// All tables at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// The version of this form.
    pub version: u32,
    /// Counts the changes.
    pub serial: u64,
    /// By name.
    pub tables: Vec<Table>,
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog { version: VERSION, serial: 0, tables: Vec::new() }
    }
}

impl Catalog {
    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The bytes that [`Catalog::decode`] reads back.
    ///
    /// # Errors
    /// 00600 if the JSON cannot be made, which only a bug can cause.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let body = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::new(crate::error::INTERNAL, format!("catalog: {error}")))?;
        let (length, crc) = (body.len(), crc32c::crc32c(&body));
        let mut bytes = format!("{MAGIC} {VERSION} {length} {crc:08x}\n").into_bytes();
        bytes.extend(body);
        Ok(bytes)
    }

    /// Reads a catalog. Bytes behind it are ignored: a file may be longer than its content.
    ///
    /// # Errors
    /// 70108 damaged, 70109 written by a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Catalog> {
        let end = bytes.iter().take(80).position(|byte| *byte == b'\n');
        let head = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
        let (end, head) = end.zip(head).ok_or_else(|| damaged("it has no first line"))?;
        let head = head.strip_prefix(MAGIC).ok_or_else(|| damaged("it is no catalog"))?;
        let [version, length, crc] = head.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(damaged("its first line is not complete"));
        };
        let version: u32 = version.parse().map_err(|_| damaged("its version is no number"))?;
        if version > VERSION {
            let message =
                format!("the catalog has version {version}, this program knows {VERSION}");
            return Err(Error::new(70109, message).hint("use the program that wrote it, or newer"));
        }
        let length: usize = length.parse().map_err(|_| damaged("its length is no number"))?;
        let crc = u32::from_str_radix(crc, 16).map_err(|_| damaged("its crc is no number"))?;
        let body = bytes[end + 1..].get(..length).ok_or_else(|| damaged("it is cut off"))?;
        if crc32c::crc32c(body) != crc {
            return Err(damaged("its crc is wrong"));
        }
        let catalog: Catalog =
            serde_json::from_slice(body).map_err(|error| damaged(&error.to_string()))?;
        catalog.check()?;
        Ok(catalog)
    }

    fn check(&self) -> Result<()> {
        let mut names: Vec<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
        names.sort_unstable();
        if names.iter().any(|name| name.is_empty()) {
            return Err(damaged("a table has no name"));
        }
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(damaged(&format!("two tables are called \"{}\"", pair[0]))),
            None => Ok(()),
        }
    }

    fn with(&self, table: Table, replace: bool) -> Result<Catalog> {
        let mut next = self.next();
        match next.tables.binary_search_by(|known| known.name.cmp(&table.name)) {
            Ok(at) if replace => next.tables[at] = table,
            Ok(_) => {
                let message = format!("name \"{}\" is already used by a table", table.name);
                return Err(
                    Error::new(955, message).hint("choose another name, or DROP TABLE first")
                );
            }
            Err(at) => next.tables.insert(at, table),
        }
        Ok(next)
    }

    fn without(&self, name: &str) -> Result<Catalog> {
        let mut next = self.next();
        let at = next.tables.iter().position(|table| table.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::new(942, format!("table \"{name}\" does not exist"))
                .hint(format!("tables there are: {known}"))
        })?;
        next.tables.remove(at);
        Ok(next)
    }

    fn next(&self) -> Catalog {
        let mut next = self.clone();
        next.serial += 1;
        next.tables.sort_by(|a, b| a.name.cmp(&b.name));
        next
    }
}

fn damaged(why: &str) -> Error {
    Error::new(70108, format!("the catalog is damaged: {why}")).hint(
        "cellar validate DIR tells whether another copy is whole; tables can be registered anew \
         with CREATE EXTERNAL TABLE, their files are not touched",
    )
}

/// A boxed future of a store.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Where the catalog is kept.
pub trait CatalogStore: Send + Sync + 'static {
    /// The bytes last replaced; `None` if there never were any.
    fn read(&self) -> StoreFuture<'_, Option<Vec<u8>>>;

    /// Makes `bytes` the durable content: after a crash it is the old or the new one, whole.
    fn replace(&self, bytes: Vec<u8>) -> StoreFuture<'_, ()>;
}

struct State {
    current: Arc<Catalog>,
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
        let state = State { current: Arc::new(Catalog::default()), changing: false };
        SharedCatalog { store, state: Mutex::new(state), changed: Event::new() }
    }

    /// Reads what the store holds; nothing means no tables.
    ///
    /// # Errors
    /// As [`Catalog::decode`], or what the store reports.
    pub async fn open(store: Arc<dyn CatalogStore>) -> Result<SharedCatalog> {
        let bytes = store.read().await?;
        let current = bytes.map_or_else(|| Ok(Catalog::default()), |b| Catalog::decode(&b))?;
        let state = State { current: Arc::new(current), changing: false };
        Ok(SharedCatalog { store, state: Mutex::new(state), changed: Event::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables as they are now.
    pub fn current(&self) -> Arc<Catalog> {
        Arc::clone(&self.state().current)
    }

    /// Adds a table. It is durable when this returns.
    ///
    /// # Errors
    /// 00955 if the name is used, or what the store reports; nothing changes then.
    pub async fn add(&self, table: Table) -> Result<()> {
        self.change(|catalog| catalog.with(table, false)).await
    }

    /// Adds a table in the place of one of the same name, if there is one.
    ///
    /// # Errors
    /// What the store reports; nothing changes then.
    pub async fn add_or_replace(&self, table: Table) -> Result<()> {
        self.change(|catalog| catalog.with(table, true)).await
    }

    /// Adds all tables or none.
    ///
    /// # Errors
    /// As [`SharedCatalog::add`].
    pub async fn add_all(&self, tables: Vec<Table>) -> Result<()> {
        let add = |catalog: &Catalog| {
            let serial = catalog.serial + 1;
            let mut all = catalog.clone();
            for table in tables {
                all = all.with(table, false)?;
            }
            Ok(Catalog { serial, ..all })
        };
        self.change(add).await
    }

    /// Forgets a table; its files are not touched.
    ///
    /// # Errors
    /// 00942 if there is none, or what the store reports; nothing changes then.
    pub async fn drop_table(&self, name: &str) -> Result<()> {
        self.change(|catalog| catalog.without(name)).await
    }

    async fn change(&self, next: impl FnOnce(&Catalog) -> Result<Catalog>) -> Result<()> {
        let _turn = self.turn().await;
        let next = next(&self.current())?;
        self.store.replace(next.encode()?).await?;
        self.state().current = Arc::new(next);
        Ok(())
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
