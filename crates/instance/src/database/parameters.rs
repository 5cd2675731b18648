//! ALTER SYSTEM SET and RESET of a parameter, with what it means for an open database.

use async_recursion::async_recursion as boxed;

use super::Database;
use crate::error::Result;
use crate::parameters::definitions::{self, DISK_STRING};
use crate::parameters::{Altered, Scope, Value};

impl Database {
    /// `ALTER SYSTEM SET`, as [`crate::Instance::alter_system_set`] does it.
    ///
    /// # Errors
    /// Also 15014: a disk_string that no longer finds a disk of a mounted group; 15001 and 00096: a
    /// log_archive_dest that will not do.
    #[boxed]
    pub async fn alter_system_set(
        &self,
        name: &str,
        value: &str,
        scope: Option<Scope>,
    ) -> Result<Altered> {
        // Whose disk joins just now is in no list yet.
        let _one_at_a_time = self.storage.finder().changing().lock().await;
        if name.eq_ignore_ascii_case(DISK_STRING)
            && let Some(Ok(Value::List(list))) = definitions::find(name).map(|d| d.parse(value))
        {
            self.storage.finder().check_finds_all(&list, self.storage.groups().mounted())?;
        }
        self.storage.redo().check_archive_parameter(name, Some(value))?;
        let mut altered = self.instance.alter_system_set(name, value, scope)?;
        self.heap.obey_parameters();
        self.redo_obeys(&mut altered).await?;
        Ok(altered)
    }

    /// `ALTER SYSTEM RESET`, as [`crate::Instance::alter_system_reset`] does it.
    ///
    /// # Errors
    /// Also 15014 and 00096, as [`Database::alter_system_set`].
    #[boxed]
    pub async fn alter_system_reset(&self, name: &str, scope: Option<Scope>) -> Result<Altered> {
        let _one_at_a_time = self.storage.finder().changing().lock().await;
        if name.eq_ignore_ascii_case(DISK_STRING) {
            self.storage.finder().check_finds_all(&[], self.storage.groups().mounted())?;
        }
        self.storage.redo().check_archive_parameter(name, None)?;
        let mut altered = self.instance.alter_system_reset(name, scope)?;
        self.heap.obey_parameters();
        self.redo_obeys(&mut altered).await?;
        Ok(altered)
    }

    /// Has the redo log do what a changed parameter means for it.
    async fn redo_obeys(&self, altered: &mut Altered) -> Result<()> {
        let is_set = |value: &Value| !matches!(value, Value::Text(text) if text.is_empty());
        let is_set = is_set(&altered.in_force) || is_set(&altered.after_restart);
        let notice = self.storage.redo().parameter_changed(altered.name, is_set).await?;
        altered.notices.extend(notice);
        Ok(())
    }
}
