//! Tables in the heap, each made, dropped or emptied in a transaction of its own; and the sweep of what a crash
//! has left.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use cellar_io::EnvExt;
use cellar_storage::Progress;
use cellar_wait::Session;

use super::{Database, Definitions};
use crate::catalog::{Catalog, Sequence, Table};
use crate::error::{Error, INTERNAL, Result};
use crate::heap::{Begin, Transaction};

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
        let (definitions, mut own) = self.defining(session, Begin::default())?;
        let created = definitions.create_table(&mut own, session, table).await;
        self.end(definitions, own, created).await
    }

    /// Adds sequences, and a table that they are for, to the heap: the first of them that there are. Durable when
    /// it returns.
    ///
    /// # Errors
    /// As [`Database::add_row_table`].
    #[boxed]
    pub async fn add_with_sequences(
        &self,
        session: &Session,
        sequences: Vec<(String, Sequence)>,
        table: Option<Table>,
        progress: &Progress<'_>,
    ) -> Result<()> {
        self.use_heap(progress).await?;
        let (definitions, mut own) = self.defining(session, Begin::default())?;
        let created = async {
            for (name, sequence) in sequences {
                definitions.create_sequence(&mut own, session, name, sequence).await?;
            }
            match table {
                Some(table) => definitions.create_table(&mut own, session, table).await,
                None => Ok(()),
            }
        };
        let created = created.await;
        self.end(definitions, own, created).await
    }

    /// The caller may go away half-way: memory must match what is stored.
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

    /// A transaction that defines something, alone.
    pub(super) fn defining(
        &self,
        session: &Session,
        begin: Begin,
    ) -> Result<(Definitions, Transaction)> {
        Ok((self.definitions(), self.heap.begin(session, begin)?))
    }

    pub(super) async fn end(
        &self,
        definitions: Definitions,
        transaction: Transaction,
        done: Result<()>,
    ) -> Result<()> {
        match done {
            Ok(()) => definitions.commit(transaction).await,
            Err(error) => {
                definitions.roll_back(Some(transaction)).await;
                Err(error)
            }
        }
    }

    /// Drops a table of the heap, when nobody uses it any more.
    ///
    /// # Errors
    /// 00942 there is none; 00060, 30006 of locks; those of the log. It is there then.
    #[boxed]
    pub async fn drop_row_table(&self, session: &Session, name: &str, begin: Begin) -> Result<()> {
        let (definitions, mut own) = self.defining(session, begin)?;
        let dropped = definitions.drop_table(&mut own, name).await;
        self.end(definitions, own, dropped).await
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
        let (definitions, mut own) = self.defining(session, begin)?;
        let emptied = definitions.truncate_table(&mut own, session, name).await;
        self.end(definitions, own, emptied).await
    }

    /// Removes heap objects that existed when the heap was opened and that the catalog does not name.
    /// Does nothing if the catalog cannot be read, or is not in the heap yet: then it is not known what
    /// is named.
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
            catalog.tables.iter().flat_map(Table::objects).collect()
        };
        let named: BTreeSet<u32> =
            [&stored, &*current].iter().flat_map(|catalog| objects(catalog)).collect();
        let unnamed = found.into_iter().filter(|object| !named.contains(object));
        self.heap.sweep(unnamed.collect()).await;
    }
}
