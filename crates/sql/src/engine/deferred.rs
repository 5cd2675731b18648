//! Deferred foreign keys: SET CONSTRAINTS, and their check at commit.

use cellar_instance::catalog::{Catalog, Check, Deferral, Index, name};
use datafusion::common::TableReference;

use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::rows::{References, Scope};

/// Foreign keys, each by the catalog key of its table and its name.
type Keys = Vec<(String, String)>;

/// Refuses DDL on a table with pending foreign key checks.
///
/// # Errors
/// 55006.
pub(super) fn refuse_unchecked(scope: &Scope, table: &str) -> Result<(), Error> {
    scope.deferred().map_or(Ok(()), |deferred| deferred.refuse_definition(table))
}

/// The constraints with a name in a schema: for each its table, and whether it is deferrable.
fn named<'a>(
    catalog: &'a Catalog,
    schema: &'a str,
    wanted: &'a str,
) -> impl Iterator<Item = (&'a str, Deferral)> {
    catalog.in_schema(schema).filter_map(move |table| {
        let rows = table.rows.as_ref()?;
        let is_key = |own: &Index| own.constraint.is_some() && name::parts(&own.name).1 == wanted;
        let is_check = |own: &Check| own.name == wanted;
        let deferral = match rows.foreign.iter().find(|key| key.name == wanted) {
            Some(key) => key.deferral,
            None if rows.indexes.iter().any(is_key) || rows.checks.iter().any(is_check) => {
                Deferral::Never
            }
            None => return None,
        };
        Some((table.name.as_str(), deferral))
    })
}

impl Engine {
    /// SET CONSTRAINTS: constraints that are no longer deferred are checked.
    pub(super) async fn set_constraints(
        &self,
        names: &[TableReference],
        is_deferred: bool,
    ) -> Result<Outcome, Error> {
        let scope = self.scope();
        let Some(deferred) = scope.as_ref().and_then(Scope::deferred) else {
            let message = "Nothing is set.".to_owned();
            let notices = vec!["SET CONSTRAINTS has effect in a transaction alone".to_owned()];
            return Ok(Outcome::Done { message, notices });
        };
        let mut keys = Vec::new();
        for own in names {
            keys.extend(self.deferrable(own, is_deferred)?);
        }
        match names.is_empty() {
            true => deferred.set_all(is_deferred),
            false => deferred.set(keys, is_deferred),
        }
        if let (false, Some(scope)) = (is_deferred, &scope) {
            self.settle_deferred(scope).await?;
        }
        let when = if is_deferred { "when the transaction commits" } else { "at once" };
        Ok(done(format!("Foreign keys that are DEFERRABLE are checked {when}.")))
    }

    /// The foreign keys with a name, in the first schema of the search path that has such constraints.
    fn deferrable(&self, wanted: &TableReference, is_deferred: bool) -> Result<Keys, Error> {
        let catalog = self.catalog()?;
        let schemas = match wanted.schema() {
            Some(schema) => vec![self.paths.schema(schema).to_owned()],
            None => self.paths.schemas(&catalog, true),
        };
        let wanted = wanted.table();
        for schema in schemas {
            let found: Vec<_> = named(&catalog, &schema, wanted).collect();
            if found.is_empty() {
                continue;
            }
            let mut keys = Keys::new();
            for (table, deferral) in found {
                if deferral == Deferral::Never && is_deferred {
                    let table = name::shown(table);
                    let text = format!("constraint \"{wanted}\" of {table} is not DEFERRABLE");
                    return Err(Error::new(2447, "42809", text)
                        .next("it is checked at the end of each statement"));
                }
                keys.push((table.to_owned(), wanted.to_owned()));
            }
            return Ok(keys);
        }
        let text = format!("there is no constraint \"{wanted}\"");
        Err(Error::new(2443, "42704", text).next("information_schema.table_constraints has all"))
    }

    /// Checks everything that the transaction has deferred: it is about to commit.
    ///
    /// # Errors
    /// 02291, 02292 a foreign key is violated; those of locks.
    pub(super) async fn check_deferred(&self, scope: &Scope) -> Result<(), Error> {
        if let Some(deferred) = scope.deferred() {
            deferred.set_all(false);
        }
        self.settle_deferred(scope).await
    }

    async fn settle_deferred(&self, scope: &Scope) -> Result<(), Error> {
        let state = self.state();
        Box::pin(References::new(&state, scope).settle_deferred()).await
    }
}
