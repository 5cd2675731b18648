//! Foreign key checks deferred to the end of the transaction.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Action, Deferral, ForeignKey, Reference};

use super::statement_end::{Part, References, refuses, together};
use crate::error::Error;
use crate::rows::deferred::{Check, Deferred};
use crate::rows::pending::{Gone, New};
use crate::rows::refusals::changed;

impl References<'_> {
    /// Whether the check of a foreign key that refers to these removed keys is deferred.
    pub(super) fn puts_off(&self, deferred: &Deferred, gone: &Gone) -> Result<bool, Error> {
        let catalog = self.scope.definitions.catalog()?;
        let (_, rows) = catalog.row_table(&gone.table).ok_or_else(|| changed(&gone.table))?;
        let mut keys = catalog.references_to(rows).filter(|(_, index)| index.name == gone.index);
        Ok(keys.any(|(Reference { table, key, .. }, _)| {
            deferred.puts_off_loss(&table.name, key, gone.action(key))
        }))
    }

    /// Makes the checks that the transaction had deferred and no longer defers.
    ///
    /// # Errors
    /// 02291, 02292 a foreign key is violated; those of locks.
    #[boxed]
    pub async fn settle_deferred(&self) -> Result<(), Error> {
        let Some(deferred) = self.scope.deferred() else { return Ok(()) };
        let (mut settled, mut new, mut gone) = (Vec::new(), Vec::<New>::new(), Vec::new());
        // For each index, whether any check of its keys stays deferred.
        let mut stays: BTreeMap<(String, bool), bool> = BTreeMap::new();
        for (place, check) in deferred.unsettled() {
            match check {
                Check::New(own) if deferred.puts_off(&own.table, &own.key) => continue,
                Check::New(own) => match new.iter_mut().find(|new| new.is_of(&own.table, &own.key))
                {
                    Some(known) => known.append(&own)?,
                    None => new.push(own),
                },
                Check::Gone(own) => {
                    let of = (own.index.clone(), own.new.is_some());
                    let stays = match stays.get(&of) {
                        Some(stays) => *stays,
                        None => *stays.entry(of).or_insert(self.puts_off(deferred, &own)?),
                    };
                    gone.push(own);
                    if stays {
                        continue;
                    }
                }
            }
            settled.push(place);
        }
        for own in together(gone)? {
            self.follow(&own, Part::Deferred).await?;
        }
        for own in new {
            self.check(&own).await?;
        }
        deferred.settle(&settled);
        Ok(())
    }

    /// Whether this part acts on a foreign key that refers to a removed key.
    pub(super) fn is_of(
        &self,
        part: Part,
        (table, key): (&str, &ForeignKey),
        action: Action,
    ) -> bool {
        let is_put_off = |own: &Deferred| own.puts_off_loss(table, key, action);
        let is_put_off = self.scope.deferred().is_some_and(is_put_off);
        match part {
            Part::Changes => !refuses(action),
            Part::Refuses => refuses(action) && !is_put_off,
            Part::Deferred => {
                action == Action::Nothing && key.deferral != Deferral::Never && !is_put_off
            }
        }
    }
}
