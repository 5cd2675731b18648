//! The statements about the redo log as calls of the instance, and what they did in words.

use super::waiting::What;
use super::{InstanceHost, done};
use crate::error::Error;
use crate::host::Reply;
use crate::statement::RedoAction;

impl InstanceHost {
    pub(super) async fn redo(&self, action: RedoAction) -> Result<Reply, Error> {
        match action {
            RedoAction::AddLogfiles(new) => {
                let making = self.waiting.for_what(What::Making(0, 0));
                let wrote = |done, total| making.now(What::Making(done, total));
                let notices = self.database.add_logfiles(&new, &wrote).await?;
                drop(making);
                let mut reply = done("Database altered.")?;
                reply.notices = notices;
                Ok(reply)
            }
            RedoAction::DropLogfiles(numbers) => {
                let notices = self.database.drop_logfiles(&numbers).await?;
                Ok(Reply { notices, ..done("Database altered.")? })
            }
            RedoAction::ClearLogfiles { numbers, unarchived } => {
                let notices = self.database.clear_logfiles(&numbers, unarchived).await?;
                Ok(Reply { notices, ..done("Database altered.")? })
            }
            RedoAction::AddMembers { members, reuse, groups } => {
                self.database.check_log_groups(&groups)?;
                let making = self.waiting.for_what(What::Making(0, 0));
                let wrote = |done, total| making.now(What::Making(done, total));
                self.database.add_log_members(&members, reuse, &wrote).await?;
                done("Database altered.")
            }
            RedoAction::DropMembers(members) => {
                let notices = self.database.drop_log_members(&members).await?;
                Ok(Reply { notices, ..done("Database altered.")? })
            }
            RedoAction::DropLog => {
                self.database.drop_log().await?;
                done("Database altered: it has no redo log now.")
            }
            RedoAction::RecoverForce => {
                let log = self.database.open_redo_forced().await?;
                let report = log.report();
                let lost = if report.forced { "; what only missing media had is lost" } else { "" };
                let (end, records) = (report.end, report.records);
                let mut text = format!("Database altered: the redo log is open from LSN {end} on,");
                text += &format!(" {records} records were found{lost}.");
                done(text)
            }
            RedoAction::Switch => {
                let next = self.database.switch_logfile(&self.session).await?;
                done(format!("System altered: the next log group begins at LSN {next}."))
            }
            RedoAction::Checkpoint => {
                let lsn = self.database.checkpoint_redo().await?;
                done(format!("System altered: recovery begins at LSN {lsn}."))
            }
            RedoAction::ArchiveCurrent => {
                let archived = self.database.archive_log_current(&self.session).await?;
                let gaps: Vec<String> =
                    self.database.redo()?.gaps().iter().map(u64::to_string).collect();
                let mut text =
                    format!("System altered: log sequences up to {archived} are archived");
                if !gaps.is_empty() {
                    text +=
                        &format!(", without {}, which CLEAR UNARCHIVED gave up", gaps.join(", "));
                }
                done(text + ".")
            }
        }
    }
}
