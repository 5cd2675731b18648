//! Tables in the heap: made, dropped, emptied. What is in the heap is made before the catalog names it, and
//! goes when that names it no more; what a crash leaves between the two is swept at the next opening.

use async_recursion::async_recursion as boxed;
use cellar_storage::Progress;
use cellar_wait::Session;

use super::Database;
use crate::catalog::{RowTable, Table};
use crate::error::{Error, Result};
use crate::heap::{Begin, from_heap};

impl Database {
    /// Adds a table to the heap, with numbers of its own in place of those that it and its indexes have.
    /// Durable when it returns.
    ///
    /// # Errors
    /// 00955 the name is used; no room. There is no table then.
    #[boxed]
    pub async fn add_row_table(
        &self,
        session: &Session,
        mut table: Table,
        progress: &Progress<'_>,
    ) -> Result<()> {
        self.use_heap(progress).await?;
        self.catalog().current().check_free(&table.name)?;
        if let Some(rows) = &mut table.rows {
            self.make_objects(session, rows).await?;
        }
        let made = table.rows.clone();
        let added = self.catalog().add(table).await;
        if added.is_err()
            && let Some(made) = &made
        {
            self.remove_objects(session, made).await;
        }
        added
    }

    /// Makes what a table has in the heap.
    async fn make_objects(&self, session: &Session, rows: &mut RowTable) -> Result<()> {
        let store = self.heap.store()?;
        rows.object = self.heap.new_number().await?;
        store.create_table(session, rows.object).await.map_err(from_heap)?;
        for index in &mut rows.indexes {
            index.object = self.heap.new_number().await?;
            store.create_index(session, index.object).await.map_err(from_heap)?;
        }
        Ok(())
    }

    /// Takes away what a table has in the heap: what cannot be taken now is swept at the next opening.
    async fn remove_objects(&self, session: &Session, rows: &RowTable) {
        let Ok(store) = self.heap.store() else { return };
        for object in rows.objects() {
            let _ = store.drop_object(session, object).await;
        }
    }

    /// Drops a table of the heap, when nobody uses it any more.
    ///
    /// # Errors
    /// 00942 there is none; 00060, 30006 of locks; those of the log. It is there then.
    #[boxed]
    pub async fn drop_row_table(&self, session: &Session, name: &str, begin: Begin) -> Result<()> {
        let rows = self.row_table(name)?;
        let mut alone = self.heap.begin(session, begin)?;
        alone.lock_alone(&rows).await?;
        self.check_row_table(name, &rows)?;
        self.catalog().drop_table(name).await?;
        self.remove_objects(session, &rows).await;
        Ok(())
    }

    /// Takes all rows from a table of the heap, when nobody uses it any more.
    ///
    /// # Errors
    /// As [`Database::drop_row_table`].
    #[boxed]
    pub async fn truncate_row_table(
        &self,
        session: &Session,
        name: &str,
        begin: Begin,
    ) -> Result<()> {
        let rows = self.row_table(name)?;
        let mut alone = self.heap.begin(session, begin)?;
        alone.lock_alone(&rows).await?;
        self.check_row_table(name, &rows)?;
        // The table itself at last: an index without its entries is whole with an empty table only.
        let mut new = rows.clone();
        self.make_objects(session, &mut new).await?;
        let replaced = self.catalog().replace_rows(name, &rows, new.clone()).await;
        match &replaced {
            Ok(()) => self.remove_objects(session, &rows).await,
            Err(_) => self.remove_objects(session, &new).await,
        }
        replaced
    }

    fn row_table(&self, name: &str) -> Result<RowTable> {
        let catalog = self.catalog().current();
        let found = catalog.row_table(name).map(|(_, rows)| rows.clone());
        found.ok_or_else(|| Error::new(942, format!("table \"{name}\" does not exist")))
    }

    /// Refuses a table that is not what it was.
    ///
    /// # Errors
    /// 00942.
    pub fn check_row_table(&self, name: &str, rows: &RowTable) -> Result<()> {
        match self.catalog().current().row_table(name).is_some_and(|(_, now)| now == rows) {
            true => Ok(()),
            false => {
                let text = format!("table \"{name}\" was dropped or changed meanwhile");
                Err(Error::new(942, text).hint("run the statement again"))
            }
        }
    }
}
