//! LOCK TABLE: a table of the heap is locked until the transaction ends.

use cellar_instance::catalog::name::shown;
use cellar_instance::heap::TableLock;
use datafusion::common::TableReference;

use super::sequences::bare;
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;

/// Whether a mode conflicts only with dropping or renaming.
fn is_weak(lock: TableLock) -> bool {
    matches!(lock, TableLock::AccessShare | TableLock::RowShare | TableLock::RowExclusive)
}

impl Engine {
    /// Locks tables, one after the other.
    pub(super) async fn lock_whole_tables(
        &self,
        tables: &[TableReference],
        how: (TableLock, bool),
    ) -> Result<Outcome, Error> {
        let in_block = match self.host.rows() {
            Some(rows) => rows.is_in_block().await,
            None => false,
        };
        let Some(rows) = self.host.rows().filter(|_| in_block) else {
            return Err(Error::new(70172, "25P01", "LOCK TABLE outside a transaction")
                .next("begin one: BEGIN; the lock is held until it ends"));
        };
        let mut names = Vec::with_capacity(tables.len());
        for table in tables {
            self.check_own(table)?;
            let name = bare(table)?;
            if rows.table(&name).is_none() && !(self.has_table(&name) && is_weak(how.0)) {
                return Err(self.not_lockable(table, &name).await);
            }
            rows.lock_table(&name, how).await?;
            names.push(shown(&name).into_owned());
        }
        let noun = if names.len() == 1 { "Table" } else { "Tables" };
        Ok(done(format!("{noun} {} locked.", names.join(", "))))
    }

    async fn not_lockable(&self, table: &TableReference, name: &str) -> Error {
        if self.is_view(table).await {
            return Error::not_yet("LOCK TABLE of a view").next("lock the tables that it reads");
        }
        if self.has_table(name) {
            let what =
                format!("LOCK TABLE of \"{name}\", which is no table of the heap, in this mode");
            return Error::not_yet(what).next(format!(
                "lock table {name} in access share mode keeps it from being dropped; rows may be added meanwhile"
            ));
        }
        Error::new(942, "42P01", format!("table \"{name}\" does not exist")).of_name([name])
    }
}
