//! The transaction that statements have together which come in one text, or before one Sync, without BEGIN.

use cellar_sql::Standing;

use super::{Done, Session};

/// Whether a statement may be part of a transaction: what rows are read and changed by.
fn is_of_rows(tag: &str) -> bool {
    matches!(tag, "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "COPY" | "FETCH" | "DECLARE CURSOR")
}

impl Session {
    /// Begins one before a statement that others follow.
    pub(super) async fn begin_implicit(&mut self, tag: &str) -> Done {
        if self.is_implicit || !is_of_rows(tag) || self.standing().await != Standing::Idle {
            return Ok(());
        }
        self.engine.execute("begin").await?;
        self.is_implicit = true;
        Ok(())
    }

    /// The tag of a statement that is about to run: COMMIT takes back a transaction that has failed.
    pub(super) async fn tag_now<'a>(&mut self, tag: &'a str) -> &'a str {
        match tag {
            "COMMIT" if self.standing().await == Standing::Failed => "ROLLBACK",
            tag => tag,
        }
    }

    /// Notes what a statement did that begins or ends transactions itself.
    pub(super) async fn note_transaction(&mut self, tag: &str) {
        if self.is_implicit {
            let is_over = self.standing().await == Standing::Idle;
            self.is_implicit = !is_over && !matches!(tag, "BEGIN" | "START TRANSACTION");
        }
    }

    /// Commits it.
    pub(super) async fn end_implicit(&mut self) -> Done {
        if std::mem::take(&mut self.is_implicit) {
            self.portals.retain(|_, portal| portal.is_held);
            self.engine.execute("commit").await?;
        }
        Ok(())
    }
}
