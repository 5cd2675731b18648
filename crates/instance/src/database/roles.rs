//! Roles that a transaction makes, changes and drops.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;

use super::Definitions;
use crate::catalog::{Catalog, Role, name};
use crate::error::Result;
use crate::heap::Transaction;

impl Definitions {
    /// Locks roles until the transaction ends: nobody else changes or drops them meanwhile.
    ///
    /// # Errors
    /// 00060, 30006 of locks.
    #[boxed]
    pub async fn lock_roles(&self, transaction: &mut Transaction, roles: &[String]) -> Result<()> {
        let names: BTreeSet<String> = roles.iter().map(|role| name::role_key(role)).collect();
        self.lock_names(transaction, names).await
    }

    /// Adds or replaces a role, which is [locked](Definitions::lock_roles).
    ///
    /// # Errors
    /// Those of the catalog.
    pub fn put_role(&self, role: &str, now: Role) -> Result<()> {
        self.define(|catalog| catalog.with_role(role, now))
    }

    /// Drops [locked](Definitions::lock_roles) roles.
    ///
    /// # Errors
    /// 01918 there is none of a name.
    pub fn drop_roles(&self, roles: &[String]) -> Result<()> {
        self.define(|catalog| {
            let gone = |catalog: Catalog, role: &String| catalog.without_role(role);
            roles.iter().try_fold(catalog.clone(), gone)
        })
    }

    /// Gives a role another name; both are [locked](Definitions::lock_roles).
    ///
    /// # Errors
    /// 01918 there is none; 00955 there is one of the new name.
    pub fn rename_role(&self, role: &str, to: &str) -> Result<()> {
        self.define(|catalog| catalog.with_role_renamed(role, to))
    }
}
