//! Tables in the heap: made, dropped, emptied. What is in the heap is made before the catalog names it, and
//! goes when that names it no more and nobody sees one that does; what a crash leaves between the two is swept
//! at the next opening.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use cellar_io::EnvExt;
use cellar_storage::Progress;
use cellar_wait::Session;

use super::Database;
use crate::catalog::{Catalog, RowTable, Table};
use crate::error::{Error, INTERNAL, Result};
use crate::heap::{Begin, Making, from_heap};

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
        table: Table,
        progress: &Progress<'_>,
    ) -> Result<()> {
        self.use_heap(progress).await?;
        let (this, session) = (self.clone(), session.helper());
        self.to_the_end(async move { this.add_row_table_now(&session, table).await }).await
    }

    /// Whoever asked may go away half-way: what is in memory must be what is kept.
    pub(super) async fn to_the_end(
        &self,
        work: impl Future<Output = Result<()>> + Send + 'static,
    ) -> Result<()> {
        let done = self.env().run("change of a table", work);
        done.await.unwrap_or_else(|| {
            Err(Error::new(INTERNAL, "the change of a table stopped half-way")
                .hint("open the database again: the table is as before, or as after"))
        })
    }

    async fn add_row_table_now(&self, session: &Session, mut table: Table) -> Result<()> {
        self.catalog().known()?.check_free(&table.name)?;
        let mut making = self.heap.making();
        if let Some(rows) = &mut table.rows {
            self.make_objects(session, rows, &mut making).await?;
        }
        let made = table.rows.clone();
        let added = self.catalog().add(table).await;
        if added.is_err()
            && let Some(made) = &made
        {
            self.remove_objects(session, made.objects()).await;
        }
        added
    }

    /// Makes what a table has in the heap, all of it or nothing.
    async fn make_objects(
        &self,
        session: &Session,
        rows: &mut RowTable,
        making: &mut Making,
    ) -> Result<()> {
        let store = self.heap.store()?;
        rows.object = making.new_number().await?;
        for index in &mut rows.indexes {
            index.object = making.new_number().await?;
        }
        let made = async {
            store.create_table(session, rows.object).await?;
            for index in &rows.indexes {
                store.create_index(session, index.object).await?;
            }
            Ok(())
        };
        let made: std::result::Result<(), cellar_heap::Error> = made.await;
        if made.is_err() {
            self.remove_objects(session, rows.objects()).await;
        }
        made.map_err(from_heap)
    }

    /// Takes away what was made for a table and was never named: what cannot be taken now is swept at the next
    /// opening.
    pub(super) async fn remove_objects(
        &self,
        session: &Session,
        objects: impl IntoIterator<Item = u32>,
    ) {
        let Ok(store) = self.heap.store() else { return };
        for object in objects {
            let _ = store.drop_object(session, object).await;
        }
    }

    /// Removes what was in the heap when that was opened, and the catalog does not name. Does nothing where the
    /// catalog cannot be read, or is not in the heap yet: nobody knows then what is named.
    pub(super) async fn sweep_objects(&self) {
        if !self.kept.is_in_heap() {
            return;
        }
        // In this order: what is being made is not among these until the catalogs read below name it.
        let found = self.heap.take_found();
        let Ok(Some(stored)) = self.catalog().stored().await else { return };
        // A change that failed may have got as far as the log: what either names stays.
        let current = self.catalog().current();
        let objects = |catalog: &Catalog| -> Vec<u32> {
            let rows = catalog.tables.iter().filter_map(|table| table.rows.as_ref());
            rows.flat_map(RowTable::objects).collect()
        };
        let named: BTreeSet<u32> =
            [&stored, &*current].iter().flat_map(|catalog| objects(catalog)).collect();
        let unnamed = found.into_iter().filter(|object| !named.contains(object));
        self.heap.sweep(unnamed.collect()).await;
    }

    /// Drops a table of the heap, when nobody uses it any more.
    ///
    /// # Errors
    /// 00942 there is none; 00060, 30006 of locks; those of the log. It is there then.
    #[boxed]
    pub async fn drop_row_table(&self, session: &Session, name: &str, begin: Begin) -> Result<()> {
        let (this, session, name) = (self.clone(), session.helper(), name.to_owned());
        self.to_the_end(async move { this.drop_row_table_now(&session, &name, begin).await }).await
    }

    async fn drop_row_table_now(&self, session: &Session, name: &str, begin: Begin) -> Result<()> {
        let rows = self.row_table(name)?;
        let mut alone = self.heap.begin(session, begin)?;
        alone.lock_alone(&rows).await?;
        self.check_row_table(name, &rows)?;
        self.catalog().drop_table(name).await?;
        self.heap.leave(rows.objects()).await;
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
        let (this, session, name) = (self.clone(), session.helper(), name.to_owned());
        let work = async move { this.truncate_row_table_now(&session, &name, begin).await };
        self.to_the_end(work).await
    }

    async fn truncate_row_table_now(
        &self,
        session: &Session,
        name: &str,
        begin: Begin,
    ) -> Result<()> {
        let rows = self.row_table(name)?;
        let mut alone = self.heap.begin(session, begin)?;
        alone.lock_alone(&rows).await?;
        self.check_row_table(name, &rows)?;
        let mut new = rows.clone();
        let mut making = self.heap.making();
        self.make_objects(session, &mut new, &mut making).await?;
        let replaced = self.catalog().replace_rows(name, &rows, new.clone()).await;
        match &replaced {
            Ok(()) => self.heap.leave(rows.objects()).await,
            Err(_) => self.remove_objects(session, new.objects()).await,
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
