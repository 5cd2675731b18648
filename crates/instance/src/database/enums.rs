//! Enum types that a transaction makes, alters and drops.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;

use super::Definitions;
use crate::catalog::{EnumType, Table};
use crate::error::{Error, Result};
use crate::heap::Transaction;

impl Definitions {
    /// Adds an enum type.
    ///
    /// # Errors
    /// 00955 the name is used; 00060, 30006 of locks.
    #[boxed]
    pub async fn create_enum(
        &self,
        transaction: &mut Transaction,
        name: String,
        labels: EnumType,
    ) -> Result<()> {
        self.lock_names(transaction, BTreeSet::from([name.clone()])).await?;
        self.define(|catalog| catalog.with(Table::of_enum(name, labels), false))
    }

    /// Waits until nobody alters a type, keeps it so until the transaction ends, and returns the type as
    /// it is then.
    ///
    /// # Errors
    /// 00902 there is none; 00060, 30006 of locks.
    #[boxed]
    pub async fn lock_enum(&self, transaction: &mut Transaction, name: &str) -> Result<Table> {
        self.lock_names(transaction, BTreeSet::from([name.to_owned()])).await?;
        // A commit releases its locks before its change is visible.
        self.settle().await;
        let catalog = self.catalog()?;
        let found = catalog.enum_type(name).map(|(table, _)| table.clone());
        found.ok_or_else(|| Error::new(902, format!("type \"{name}\" does not exist")))
    }

    /// Replaces a type that is [locked](Definitions::lock_enum): with other labels, or another name.
    ///
    /// # Errors
    /// 00955 the name is used; 00060, 30006 of locks.
    #[boxed]
    pub async fn alter_enum(
        &self,
        transaction: &mut Transaction,
        was: &Table,
        table: Table,
    ) -> Result<()> {
        if table.name != was.name {
            self.lock_names(transaction, BTreeSet::from([table.name.clone()])).await?;
        }
        self.define(|catalog| catalog.altered(was, table))
    }
}
