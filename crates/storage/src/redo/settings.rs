//! ALTER SYSTEM SET and RESET of parameters about the log, and log_archive_dest when it is opened.

use async_recursion::async_recursion as boxed;

use super::RedoManager;
use super::log::RedoLog;
use super::open::decoded;
use super::statements::archive_dest;
use crate::error::{Error, Result};
use crate::mounted::split_group_path;
use crate::settings::{LOG_ARCHIVE_DEST, LOG_BLOCK_SIZE, REDO_QUORUM};

/// The longest log_archive_dest: of a thousand archives each may be in another place, and the control
/// file has room for their names.
const DEST_BYTES_MAX: usize = 128;

impl RedoManager {
    /// Refuses a log_archive_dest that no log can be archived to, and none for a log that is archived.
    /// A value that is not legal is refused by whoever sets it.
    ///
    /// # Errors
    /// 15001 no such group is mounted, or 00096, under 02097.
    pub fn check_archive_parameter(&self, name: &str, value: Option<&str>) -> Result<()> {
        if !name.eq_ignore_ascii_case(LOG_ARCHIVE_DEST) {
            return Ok(());
        }
        let checked = match value.filter(|value| !value.is_empty()) {
            Some(value) => self.check_archive_dest(value),
            None if self.is_redo_archived() => {
                let text = "log_archive_dest cannot be empty: the redo log is archived";
                Err(Error::new(96, text).hint(
                    "name another disk group, or make the log anew: ALTER DATABASE DROP LOGFILE \
                     ALL, ALTER SYSTEM RESET log_archive_dest, ALTER DATABASE ADD LOGFILE",
                ))
            }
            None => Ok(()),
        };
        let message = "parameter cannot be modified because the value is not valid";
        checked.map_err(|error| error.under(2097, message))
    }

    fn check_archive_dest(&self, dest: &str) -> Result<()> {
        let Some((group, _)) = split_group_path(dest) else { return Ok(()) };
        if dest.len() > DEST_BYTES_MAX {
            let text = format!("log_archive_dest has {} bytes", dest.len());
            return Err(Error::new(96, format!("{text}, {DEST_BYTES_MAX} is the most"))
                .hint("choose a shorter directory"));
        }
        self.group(&group).map(drop)
    }

    /// Whether groups of the log are archived, be it open or not.
    fn is_redo_archived(&self) -> bool {
        let redo = self.shared();
        match (redo.log(), redo.seen()) {
            (Some(log), _) => log.is_archived(),
            (None, seen) => seen.is_some_and(|(data, _)| data.archiving),
        }
    }

    /// Applies a changed parameter to the log, and returns a notice of what the change does not affect.
    /// `is_set`: it has a value that is not empty, now or after the next start.
    ///
    /// # Errors
    /// The control file cannot be written.
    #[boxed]
    pub async fn parameter_changed(&self, name: &str, is_set: bool) -> Result<Option<String>> {
        let redo = self.shared();
        let is_later = match name {
            LOG_ARCHIVE_DEST => {
                if let Some(log) = redo.log() {
                    self.apply_archive_dest(&log).await?;
                }
                is_set && redo.is_there() && !self.is_redo_archived()
            }
            REDO_QUORUM | LOG_BLOCK_SIZE => redo.is_there(),
            _ => false,
        };
        let now = match name {
            LOG_ARCHIVE_DEST => "the redo log is not archived, and stays so",
            _ => "the redo log stays as it was made",
        };
        Ok(is_later.then(|| {
            format!(
                "{now}: {name} is in force for one made afterwards (ALTER DATABASE DROP LOGFILE ALL, \
                 then ALTER DATABASE ADD LOGFILE)"
            )
        }))
    }

    /// Lets a log that is archived go on in the place that log_archive_dest names, if that is mounted.
    /// The parameter may have been changed for the next start, or for the last one alone.
    ///
    /// # Errors
    /// That group is not mounted; the control file cannot be written.
    pub(crate) async fn apply_archive_dest(&self, log: &RedoLog) -> Result<()> {
        let set = self.settings().text(LOG_ARCHIVE_DEST);
        if set.is_empty() || !log.is_archived() {
            return Ok(());
        }
        self.check_archive_dest(&set)?;
        log.archive_to(archive_dest(&set, decoded(log.control())?.database)).await
    }
}
