//! Sequences and views that a transaction defines. The values of sequences are outside transactions.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use cellar_wait::Session;

use super::Definitions;
use crate::catalog::{Catalog, Sequence, Table};
use crate::error::{Error, Result};
use crate::heap::{Transaction, from_heap};

impl Definitions {
    /// Adds a sequence, with a counter of its own, which begins with its start.
    ///
    /// # Errors
    /// 00955 the name is used; 00060, 30006 of locks; no room.
    #[boxed]
    pub async fn create_sequence(
        &self,
        transaction: &mut Transaction,
        session: &Session,
        name: String,
        mut sequence: Sequence,
    ) -> Result<()> {
        self.lock_names(transaction, BTreeSet::from([name.clone()])).await?;
        self.catalog()?.check_free(&name)?;
        sequence.counter = self.new_counter(session, sequence.start).await?;
        sequence.id = sequence.counter;
        self.define(|catalog| catalog.with(Table::of_sequence(name, sequence), false))
    }

    /// Replaces a sequence; if it is to continue with another value, with a counter of its own.
    ///
    /// # Errors
    /// 02289 it is another one meanwhile; 00060, 30006 of locks; no room.
    #[boxed]
    pub async fn alter_sequence(
        &self,
        transaction: &mut Transaction,
        session: &Session,
        name: &str,
        (mut sequence, next): (Sequence, Option<i64>),
    ) -> Result<()> {
        self.lock_names(transaction, BTreeSet::from([name.to_owned()])).await?;
        let catalog = self.catalog()?;
        let was = catalog.table(name).filter(|table| {
            table.sequence.as_ref().is_some_and(|known| known.counter == sequence.counter)
        });
        let Some(was) = was else {
            let text = format!("sequence \"{name}\" was dropped or changed meanwhile");
            return Err(Error::new(2289, text).hint("run the statement again"));
        };
        if let Some(next) = next {
            sequence.counter = self.new_counter(session, next).await?;
        }
        let table = Table { sequence: Some(sequence), ..was.clone() };
        self.define(|catalog| catalog.altered(was, table))
    }

    /// Adds or replaces a view.
    ///
    /// # Errors
    /// 00955 the name is used; 00060, 30006 of locks.
    #[boxed]
    pub async fn create_view(&self, transaction: &mut Transaction, view: Table) -> Result<()> {
        self.lock_names(transaction, BTreeSet::from([view.name.clone()])).await?;
        self.define(|catalog| catalog.with_view(view))
    }

    /// Drops objects that have a name and no rows: sequences, views.
    ///
    /// # Errors
    /// 00942 there is none of a name; 00060, 30006 of locks.
    #[boxed]
    pub async fn drop_names(
        &self,
        transaction: &mut Transaction,
        names: BTreeSet<String>,
    ) -> Result<()> {
        self.lock_names(transaction, names.clone()).await?;
        self.define(|catalog| {
            let gone = |catalog: Catalog, name: &String| Ok(catalog.without(name)?.0);
            names.iter().try_fold(catalog.clone(), gone)
        })
    }

    async fn new_counter(&self, session: &Session, first: i64) -> Result<u32> {
        let number = self.new_number().await?;
        let store = self.database().heap().store()?;
        store.create_counter(session, number, first).await.map_err(from_heap)?;
        Ok(number)
    }
}
