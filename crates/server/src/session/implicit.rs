//! The implicit transaction of statements that come in one text, or before one Sync, without BEGIN.

use std::borrow::Cow;

use cellar_sql::Standing;

use super::command::executed;
use super::{Done, Session};

/// Whether a statement runs in a transaction: all do but those that begin or end one, are about the
/// session, or are about what lies below tables.
fn is_part(tag: &str) -> bool {
    let own = [
        "BEGIN",
        "START TRANSACTION",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT",
        "RELEASE",
        "SET",
        "RESET",
        "SHOW",
        "DISCARD ALL",
        "DEALLOCATE",
        "CLOSE CURSOR",
        "VACUUM",
        "ANALYZE",
        "CHECKPOINT",
        "REINDEX",
        "CLUSTER",
        "CREATE DISKGROUP",
        "ALTER DISKGROUP",
        "DROP DISKGROUP",
        "ALTER DATABASE",
        "ALTER SYSTEM",
        "CREATE DATABASE",
        "DROP DATABASE",
        "ADMINISTER",
        "",
    ];
    !own.contains(&tag)
}

impl Session {
    /// Begins one before a statement that others follow.
    pub(super) async fn begin_implicit(&mut self, tag: &str) -> Done {
        if self.is_implicit || !is_part(tag) || self.standing().await != Standing::Idle {
            return Ok(());
        }
        self.engine.execute("begin").await?;
        self.is_implicit = true;
        Ok(())
    }

    /// The tag of a statement that is about to run: COMMIT takes back a transaction that has failed.
    /// EXECUTE is reported as the statement that it executes.
    pub(super) async fn tag_now<'a>(&mut self, tag: &'a str, sql: &str) -> Cow<'a, str> {
        match tag {
            "COMMIT" if self.standing().await == Standing::Failed => "ROLLBACK".into(),
            "EXECUTE" => {
                let name = executed(sql).and_then(|name| self.engine.statement_named(&name));
                name.map_or(tag.into(), |own| cellar_sql::tag::tag(own.sql()).into())
            }
            tag => tag.into(),
        }
    }

    /// Records that a statement itself began or ended a transaction.
    pub(super) async fn note_transaction(&mut self, tag: &str) {
        if !matches!(tag, "BEGIN" | "START TRANSACTION" | "COMMIT" | "ROLLBACK") {
            return;
        }
        self.is_implicit = false;
        let is_over = self.standing().await == Standing::Idle;
        // COMMIT AND CHAIN is in the next one already; ROLLBACK TO goes on in its own.
        if tag == "COMMIT" || (tag == "ROLLBACK" && is_over) {
            self.end_portals(tag == "COMMIT");
        }
    }

    /// A transaction has ended, and its portals with it; cursors WITH HOLD stay if it has committed.
    pub(super) fn end_portals(&mut self, is_committed: bool) {
        self.portals.retain(|_, portal| portal.is_held && (is_committed || !portal.is_new));
        self.portals.values_mut().for_each(|portal| portal.is_new = false);
    }

    /// Commits it.
    pub(super) async fn end_implicit(&mut self) -> Done {
        if std::mem::take(&mut self.is_implicit) {
            self.engine.execute("commit").await?;
            self.end_portals(true);
        }
        Ok(())
    }
}
