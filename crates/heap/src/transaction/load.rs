//! Rows that a transaction loads by the direct path: many of them take no redo and no memory. It does not see them
//! itself, nor does anybody else, before it commits.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;

use super::Transaction;
use crate::error::Error;
use crate::locks::{Mode, Resource};
use crate::row_id::RowRef;
use crate::store::{Load, LoadIndex, Loaded, MayShare};

/// How far a load is.
#[derive(Default)]
pub(super) enum State {
    /// There is none.
    #[default]
    None,
    /// Rows are added.
    Open(u32, Box<Load>),
    /// All of it is durable, and nobody's.
    Closed(Box<Loaded>),
}

impl State {
    /// What is to be committed.
    pub fn loaded(self) -> Result<Option<Box<Loaded>>, Error> {
        match self {
            State::None => Ok(None),
            State::Open(table, _) => Err(Error::LoadBroken { table }),
            State::Closed(loaded) => Ok(Some(loaded)),
        }
    }
}

impl Transaction {
    /// Whether it has loaded rows, or is about to: going back takes them back.
    pub fn has_loaded(&self) -> bool {
        !matches!(self.load, State::None)
    }

    /// Begins to load rows into a table, with entries of these indexes, which are all that it has. Until the
    /// transaction ends nobody else changes the table. `may_share`: which keys of unique indexes several rows
    /// may have.
    ///
    /// # Errors
    /// [`Error::Lock`], [`Error::WrongObject`]; [`Error::LoadBroken`] where it has loaded before.
    #[boxed]
    pub async fn begin_load(
        &mut self,
        table: u32,
        indexes: &[LoadIndex],
        memory: usize,
        may_share: MayShare,
    ) -> Result<(), Error> {
        if !matches!(self.load, State::None) {
            return Err(Error::LoadBroken { table });
        }
        self.lock(Resource::Table(table), Mode::ShareRowExclusive).await?;
        let session = self.session.clone();
        let what = (table, indexes);
        let load = self.store.begin_load_into(&session, what, memory, may_share).await?;
        self.load = State::Open(table, Box::new(load));
        Ok(())
    }

    /// Adds a row, with a key for each index, or none.
    ///
    /// # Errors
    /// As [`Load::row`]; [`Error::LoadBroken`] where no load was begun.
    pub async fn load_row(&mut self, row: Bytes, keys: &[Option<Bytes>]) -> Result<(), Error> {
        match &mut self.load {
            State::Open(_, load) => load.row(row, keys).await.map(|_| ()),
            State::None | State::Closed(_) => Err(Error::LoadBroken { table: 0 }),
        }
    }

    /// Has all that was loaded be durable, and looks whether keys are there twice. The commit makes it the table's.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::Full`]; those of the log and of the device. There is no load then.
    #[boxed]
    pub async fn close_load(&mut self) -> Result<(), Error> {
        match std::mem::take(&mut self.load) {
            State::Open(_, load) => {
                self.load = State::Closed(Box::new(load.close().await?));
                Ok(())
            }
            other => {
                self.load = other;
                Ok(())
            }
        }
    }

    /// A row as it is now, also one that was just loaded, for a message.
    ///
    /// # Errors
    /// [`Error::PageDamaged`]; those of the device.
    #[boxed]
    pub async fn row_now(&self, table: u32, row: RowRef) -> Result<Option<Bytes>, Error> {
        self.store.row_now(&self.session, table, row).await
    }

    /// About how many bytes of rows and keys it has changed.
    pub fn changed_bytes(&self) -> u64 {
        self.own.bytes()
    }

    /// About how many bytes of changes a commit takes at most.
    pub fn bytes_max(&self) -> u64 {
        self.store.transaction_bytes_max()
    }
}
