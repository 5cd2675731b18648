//! Temporary tables: what happens to them when a transaction commits, and when the session ends.

use cellar_instance::catalog::Table;

use crate::engine::Engine;
use crate::error::Error;
use crate::rows::{RowTables, Scope, Standing};

/// The option of a table in the catalog.
pub(super) const ON_COMMIT: &str = "on_commit";

/// Values of the option.
pub(super) const DELETE: &str = "delete rows";
pub(super) const DROP: &str = "drop";

/// What becomes of the rows of a temporary table at the end of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OnCommit {
    #[default]
    Stay,
    Delete,
    Drop,
}

impl OnCommit {
    /// What is said of a table.
    pub fn of(table: &Table) -> OnCommit {
        OnCommit::said(table.options.get(ON_COMMIT).map(String::as_str))
    }

    /// What a statement says.
    pub fn said(said: Option<&str>) -> OnCommit {
        match said {
            Some(DELETE) => OnCommit::Delete,
            Some(DROP) => OnCommit::Drop,
            _ => OnCommit::Stay,
        }
    }
}

impl Engine {
    /// Makes the deferred checks of a transaction block, and carries out the ON COMMIT actions of temporary tables.
    ///
    /// # Errors
    /// Those of foreign keys, of locks and of the log.
    pub(super) async fn before_commit(&self, rows: &RowTables) -> Result<(), Error> {
        let has_deferred = rows.has_deferred().await;
        if !has_deferred && (!self.paths.has_temporary() || !rows.is_in_block().await) {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        let scope = match rows.begin_statement().await {
            Ok(scope) => scope,
            // A failed transaction has nothing left to do.
            Err(_) if rows.standing().await == Standing::Failed => return Ok(()),
            Err(error) => return Err(error),
        };
        let in_scope = self.in_scope(scope.clone());
        let checked = if has_deferred { self.check_deferred(&scope).await } else { Ok(()) };
        let done = match checked {
            Ok(()) => self.on_commit(&scope).await,
            Err(error) => Err(error),
        };
        drop(in_scope);
        rows.end_statement(&scope, done.is_ok()).await?;
        done
    }

    /// The same, within a statement.
    ///
    /// # Errors
    /// As of [`Engine::before_commit`].
    pub(super) async fn on_commit(&self, scope: &Scope) -> Result<(), Error> {
        if !self.paths.has_temporary() {
            return Ok(());
        }
        let catalog = self.catalog()?;
        for table in catalog.in_schema(self.paths.temporary()) {
            match table.options.get(ON_COMMIT).map(String::as_str) {
                Some(DROP) => self.drop_rows(&table.name).await?,
                Some(DELETE) if has_rows(scope, table).await? => {
                    self.truncate_rows(&table.name).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether the transaction has put rows into a table.
async fn has_rows(scope: &Scope, table: &Table) -> Result<bool, Error> {
    let Some(rows) = &table.rows else { return Ok(false) };
    Ok(scope.open().await?.has_changed(rows))
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(rows) = self.host.rows().filter(|_| self.paths.has_temporary()) {
            rows.database().leave_temporary(self.paths.temporary().to_owned());
        }
    }
}
