//! Rows that a transaction loads by the direct path, with errors as users see them.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
pub use cellar_heap::MayShare;
use cellar_heap::{LoadIndex, RowRef};

use super::transaction::change_error;
use super::{ChangeError, IndexKey, Transaction, from_heap};
use crate::catalog::RowTable;
use crate::error::{Error, Result};

/// Memory for sorting the entries of indexes.
const SORT_BYTES: usize = 64 << 20;

/// The number of the error of a transaction that is too large.
const TOO_LARGE: u32 = 70207;

impl Transaction {
    /// Begins to load rows into a table by the direct path. Before the commit nobody sees them, not even
    /// this transaction. Nobody else changes the table until the transaction ends.
    ///
    /// # Errors
    /// 00060, 30006 of locks; 70208 it has loaded before.
    #[boxed]
    pub async fn begin_load(&mut self, table: &RowTable, may_share: MayShare) -> Result<()> {
        let index = |index: &crate::catalog::Index| LoadIndex {
            index: index.object,
            is_unique: index.is_unique,
        };
        let indexes: Vec<LoadIndex> = table.indexes.iter().map(index).collect();
        let begun = self.0.begin_load(table.object, &indexes, SORT_BYTES, may_share).await;
        begun.map_err(from_heap)
    }

    /// Adds a row to the load, with a key for each index.
    ///
    /// # Errors
    /// 70207 the entries of indexes that have others are too many; no room; the disk reports one.
    pub async fn load_row(&mut self, row: Bytes, keys: Vec<IndexKey>) -> Result<()> {
        let keys: Vec<Option<Bytes>> = keys.into_iter().map(|key| Some(key.bytes)).collect();
        self.0.load_row(row, &keys).await.map_err(from_heap)
    }

    /// Makes all that was loaded durable: the commit makes it part of the table.
    ///
    /// # Errors
    /// [`ChangeError::Duplicate`]; no room; the disk reports one.
    #[boxed]
    pub async fn close_load(&mut self, table: &RowTable) -> std::result::Result<(), ChangeError> {
        self.0.close_load().await.map_err(|error| change_error(table, error))
    }

    /// A row as it is now, also one that was just loaded, for a message.
    ///
    /// # Errors
    /// The page is damaged; the disk reports one.
    #[boxed]
    pub async fn row_now(&self, table: &RowTable, row: u64) -> Result<Option<Bytes>> {
        let Some(row) = RowRef::from_u64(row) else { return Ok(None) };
        self.0.row_now(table.object, row).await.map_err(from_heap)
    }

    /// Refuses to go on if there is already more than a commit takes.
    ///
    /// # Errors
    /// 70207.
    pub fn check_size(&self) -> Result<()> {
        let (bytes, most) = (self.0.changed_bytes(), self.0.bytes_max());
        if bytes <= most {
            return Ok(());
        }
        let text = format!(
            "a transaction with {bytes} bytes of changes is too large: {most} are the most"
        );
        Err(Error::new(TOO_LARGE, text).hint(
            "add fewer rows at a time: long values take redo; a redo log of larger groups takes more: ALTER DATABASE \
             ADD LOGFILE",
        ))
    }

    /// About how many bytes of rows and keys it has changed.
    pub fn changed_bytes(&self) -> u64 {
        self.0.changed_bytes()
    }

    /// About how many bytes of changes one commit takes at most.
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max()
    }
}
