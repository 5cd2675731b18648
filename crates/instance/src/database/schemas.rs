//! Schemas that a transaction makes, drops and renames, and tables that it moves from one to another.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;

use super::{Database, Definitions};
use crate::catalog::{Catalog, Comments, Table, name};
use crate::error::{Error, Result};
use crate::heap::{Begin, Transaction};

impl Database {
    /// Drops objects that were to last as long as a session: those of a session that has ended, or
    /// (`None`) all that existed before the database was opened.
    ///
    /// # Errors
    /// 00060, 30006 of locks; those of the log. It is there then, and nobody sees it.
    #[boxed]
    pub async fn drop_temporary(&self, schema: Option<&str>) -> Result<()> {
        let is_gone = |table: &Table| {
            let own = name::parts(&table.name).0;
            name::is_temporary(own) && schema.is_none_or(|schema| schema == own)
        };
        let catalog = self.catalog().known()?;
        let gone: Vec<Table> = catalog.tables.iter().filter(|t| is_gone(t)).cloned().collect();
        if gone.is_empty() || !self.heap().is_open() || self.is_read_only() {
            return Ok(());
        }
        let session = self.heap().session();
        let (definitions, mut own) = self.defining(&session, Begin::default())?;
        let dropped = async {
            for table in gone.iter().filter(|table| table.rows.is_some()) {
                definitions.lock_table(&mut own, &table.name).await?;
            }
            let all = |catalog: &Catalog| {
                let drop = |catalog: Catalog, table: &Table| match catalog.table(&table.name) {
                    // Sequences go with their tables.
                    None => Ok(catalog),
                    Some(_) => Ok(catalog.without(&table.name)?.0),
                };
                gone.iter().try_fold(catalog.clone(), drop)
            };
            definitions.define(all)
        };
        let dropped = dropped.await;
        self.end(definitions, own, dropped).await
    }

    /// The same in a task of its own: the session does not wait for it.
    pub fn leave_temporary(self: &Arc<Self>, schema: String) {
        let database = Arc::clone(self);
        let work = async move {
            // The next opening drops what stays.
            let _ = database.drop_temporary(Some(&schema)).await;
        };
        self.env().spawn("end of a session", Box::pin(work));
    }
}

impl Definitions {
    /// Adds a schema.
    ///
    /// # Errors
    /// 01920 there is one; 00060, 30006 of locks.
    #[boxed]
    pub async fn create_schema(&self, transaction: &mut Transaction, schema: &str) -> Result<()> {
        self.lock_names(transaction, BTreeSet::from([name::schema_key(schema)])).await?;
        self.define(|catalog| catalog.with_schema(schema))
    }

    /// Waits until nobody makes anything in a schema, keeps it so until the transaction ends, and returns
    /// what is in it then.
    ///
    /// # Errors
    /// 00060, 30006 of locks.
    #[boxed]
    pub async fn lock_schema(
        &self,
        transaction: &mut Transaction,
        schema: &str,
    ) -> Result<Vec<Table>> {
        self.lock_names(transaction, BTreeSet::from([name::schema_key(schema)])).await?;
        Ok(self.catalog()?.in_schema(schema).cloned().collect())
    }

    /// Drops a schema that is [locked](Definitions::lock_schema) and empty.
    ///
    /// # Errors
    /// 01435 there is none; 01922 something is in it.
    pub fn drop_schema(&self, schema: &str) -> Result<()> {
        self.define(|catalog| catalog.without_schema(schema))
    }

    /// Gives a schema another name, when nobody uses a table in it any more. `of`: what becomes of an object.
    ///
    /// # Errors
    /// 01435 there is none; 01920 there is one of the new name; 00060, 30006 of locks.
    #[boxed]
    pub async fn rename_schema(
        &self,
        transaction: &mut Transaction,
        (old, new): (&str, &str),
        of: &(dyn Fn(&Table) -> Table + Sync),
    ) -> Result<()> {
        let names = [old, new].map(name::schema_key);
        self.lock_names(transaction, BTreeSet::from(names)).await?;
        let tables: Vec<String> = {
            let catalog = self.catalog()?;
            let rows = catalog.in_schema(old).filter(|table| table.rows.is_some());
            rows.map(|table| table.name.clone()).collect()
        };
        for table in tables {
            self.lock_table(transaction, &table).await?;
        }
        self.define(|catalog| catalog.with_schema_renamed(old, new, of))
    }

    /// Changes the comments on an object.
    ///
    /// # Errors
    /// 00942 it is gone meanwhile; 00060, 30006 of locks.
    #[boxed]
    pub async fn comment(
        &self,
        transaction: &mut Transaction,
        key: &str,
        change: &(dyn Fn(&mut Comments) + Sync),
    ) -> Result<()> {
        if self.catalog()?.row_table(key).is_some() {
            self.lock_table(transaction, key).await?;
        } else {
            self.lock_names(transaction, BTreeSet::from([key.to_owned()])).await?;
        }
        self.define(|catalog| {
            let Some(was) = catalog.table(key) else {
                let mut schema = Table::of_schema(name::PUBLIC);
                if schema.name != key {
                    let text = format!("\"{key}\" was dropped meanwhile");
                    return Err(Error::new(942, text));
                }
                change(&mut schema.comments);
                return catalog.with(schema, false);
            };
            let mut table = was.clone();
            change(&mut table.comments);
            catalog.altered(was, table)
        })
    }

    /// Replaces a table and its sequences by the same ones under other names. `names`: their new keys,
    /// and those of its indexes.
    ///
    /// # Errors
    /// 00942 it is another one meanwhile; 00955 a name is used; 00060, 30006 of locks.
    #[boxed]
    pub async fn move_table(
        &self,
        transaction: &mut Transaction,
        was: &Table,
        names: BTreeSet<String>,
        moved: Vec<(String, Table)>,
    ) -> Result<()> {
        self.lock_names(transaction, names).await?;
        self.define(|catalog: &Catalog| catalog.moved(was, moved))
    }
}
