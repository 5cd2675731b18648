//! Long values in a transaction.

use async_recursion::async_recursion as boxed;
use bytes::Bytes;

use super::Transaction;
use crate::error::Error;
use crate::locks::{Mode, Resource};

impl Transaction {
    /// Puts a value into pages of its own, for a row of this table that names them: see
    /// [`cellar_page::row::Value::Overflow`]. Returns the first of them. A value that no row names when the
    /// transaction is committed must be freed.
    ///
    /// # Errors
    /// [`Error::ValueTooLong`], [`Error::WrongObject`], [`Error::Full`]; those of the log.
    #[boxed]
    pub async fn put_long(&mut self, table: u32, value: Bytes) -> Result<u32, Error> {
        self.lock(Resource::Table(table), Mode::RowExclusive).await?;
        let taken = self.store.pages_for_long(&self.session, table, value.len()).await?;
        let page = self.own.put_long(taken, value);
        page.ok_or(Error::NoValue { page: 0 })
    }

    /// A long value, as a row that this transaction sees has it: its first page, and its length in bytes.
    ///
    /// # Errors
    /// [`Error::NoValue`], [`Error::PageDamaged`]; those of the device.
    #[boxed]
    pub async fn long(&mut self, table: u32, page: u32, length: u32) -> Result<Bytes, Error> {
        if let Some(value) = self.own.changes().long(page) {
            return Ok(value);
        }
        let session = self.session.clone();
        self.view().await?.long(&session, table, page, length).await
    }

    /// Frees a long value of a row that this transaction has locked, and has deleted or made not name it.
    ///
    /// # Errors
    /// [`Error::Lock`], [`Error::NoValue`], [`Error::PageDamaged`]; those of the device.
    #[boxed]
    pub async fn free_long(&mut self, table: u32, page: u32) -> Result<(), Error> {
        self.lock(Resource::Table(table), Mode::RowExclusive).await?;
        if self.own.drop_long(page) {
            return Ok(());
        }
        let session = self.session.clone();
        let view = self.store.newest();
        let pages = view.long_pages(&session, table, page).await?;
        self.saw(&view);
        self.own.free_long(table, pages);
        Ok(())
    }
}
