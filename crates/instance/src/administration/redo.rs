//! The statements about the redo log as calls of storage, and what they did in words.

use cellar_storage::request::RedoAction;

use super::waiting::What;
use super::{Administrator, Reply, done};
use crate::error::{Error, Result};
use crate::heap::ahead;

/// Media of the log are missing.
const MEDIA_MISSING: u32 = 313;

/// What is told after RECOVER FORCE.
const ONLY_READ: &str = "tables can only be read: pages have changes that the log has lost; copy them out (pg_dump, \
                         or COPY .. TO), look them over, and load them into a new database";

impl Administrator {
    pub(super) async fn redo(&self, action: RedoAction) -> Result<Reply> {
        let redo = self.database.storage().redo();
        match action {
            RedoAction::AddLogfiles(new) => {
                let making = self.waiting.for_what(What::Making(0, 0));
                let wrote = |done, total| making.now(What::Making(done, total));
                let notices = redo.add_logfiles(&new, &wrote).await?;
                drop(making);
                let mut reply = done("Database altered.");
                reply.notices = notices;
                Ok(reply)
            }
            RedoAction::DropLogfiles(numbers) => {
                let notices = redo.drop_logfiles(&numbers).await?;
                Ok(Reply { notices, ..done("Database altered.") })
            }
            RedoAction::ClearLogfiles { numbers, unarchived } => {
                let notices = redo.clear_logfiles(&numbers, unarchived).await?;
                Ok(Reply { notices, ..done("Database altered.") })
            }
            RedoAction::AddMembers { members, reuse, groups } => {
                redo.check_log_groups(&groups)?;
                let making = self.waiting.for_what(What::Making(0, 0));
                let wrote = |done, total| making.now(What::Making(done, total));
                redo.add_log_members(&members, reuse, &wrote).await?;
                Ok(done("Database altered."))
            }
            RedoAction::DropMembers(members) => {
                let notices = redo.drop_log_members(&members).await?;
                Ok(Reply { notices, ..done("Database altered.") })
            }
            RedoAction::DropLog => {
                redo.drop_log().await?;
                Ok(done("Database altered: it has no redo log now."))
            }
            RedoAction::RecoverForce => self.recover_by_force().await,
            RedoAction::Switch | RedoAction::Checkpoint | RedoAction::ArchiveCurrent
                if self.database.heap().is_ahead() =>
            {
                // The log has no records of the tables any more, and its recovery stays where it begins.
                Err(ahead())
            }
            RedoAction::Switch => {
                let next = redo.switch_logfile(self.session.waits()).await?;
                Ok(done(format!("System altered: the next log group begins at LSN {next}.")))
            }
            RedoAction::Checkpoint => {
                let lsn = redo.checkpoint().await?;
                Ok(done(format!("System altered: recovery begins at LSN {lsn}.")))
            }
            RedoAction::ArchiveCurrent => {
                let archived = redo.archive_log_current(self.session.waits()).await?;
                let gaps: Vec<String> = redo.log()?.gaps().iter().map(u64::to_string).collect();
                let mut text =
                    format!("System altered: log sequences up to {archived} are archived");
                if !gaps.is_empty() {
                    text +=
                        &format!(", without {}, which CLEAR UNARCHIVED gave up", gaps.join(", "));
                }
                Ok(done(text + "."))
            }
        }
    }

    /// Opens a log that does not open as it is.
    async fn recover_by_force(&self) -> Result<Reply> {
        let log = match self.database.storage().redo().open_forced().await {
            Ok(log) => log,
            Err(why) => return self.recover_without_log(why).await,
        };
        self.database.find_catalog().await?;
        let report = log.report();
        let lost = if report.forced { "; what only missing media had is lost" } else { "" };
        let (end, records) = (report.end, report.records);
        let mut text = format!("Database altered: the redo log is open from LSN {end} on,");
        text += &format!(" {records} records were found{lost}.");
        let mut reply = done(text);
        if self.database.heap().is_ahead() {
            reply.notices.push(ONLY_READ.to_owned());
        }
        Ok(reply)
    }

    /// No medium of the log is left: tables are read as their pages have them.
    async fn recover_without_log(&self, why: Error) -> Result<Reply> {
        if !why.has(MEDIA_MISSING) || !self.database.is_catalog_in_heap() {
            return Err(why);
        }
        self.database.heap().open_alone(true).await?;
        self.database.find_catalog().await?;
        let text = "Database altered: no medium of the redo log can be read, so tables are as their pages have them; \
                    what only the log had is lost.";
        Ok(Reply { notices: vec![ONLY_READ.to_owned()], ..done(text) })
    }
}
