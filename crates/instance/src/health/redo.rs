//! The redo log as `status` shows it.

use cellar_io::shell;
use cellar_storage::Mounted;
use cellar_storage::redo::{Redo, RedoLog};

use super::Finding;
use crate::error::{Error, NextStep};
use crate::views;

/// Where the log is and what a commit waits for; `None`: there is no log, or another group reports it.
pub fn words(mounted: &Mounted, redo: &Redo) -> Option<String> {
    let groups = views::log(redo);
    let group = groups.first().filter(|_| mounted.number == 1)?;
    let (count, members) = (groups.len(), group.members);
    let files = match members {
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    };
    let media = views::redo_medium(redo);
    let waits = media.first().map_or(String::new(), |medium| {
        format!("; a commit is on {} of {} media", medium.quorum, medium.media)
    });
    let (block, why) = (group.block_size, &group.block_size_reason);
    Some(format!("{count} groups of {files}{waits}; block {block} ({why})"))
}

/// What of it needs attention.
pub fn finding(mounted: &Mounted, redo: &Redo) -> Option<Finding> {
    if mounted.number != 1 {
        return None;
    }
    if let Some(problem) = redo.problem() {
        let words = problem.stack().iter().map(|entry| entry.message.as_str());
        return Some(Finding {
            state: "DAMAGED",
            words: words.collect::<Vec<_>>().join(": "),
            action: action(&problem, "see cellar inspect"),
        });
    }
    let missing = redo.missing();
    if !missing.is_empty() {
        return Some(Finding {
            state: "DEGRADED",
            words: format!("redo is missing in {}", missing.join(", ")),
            action: "bring it back before the database is opened to write: the log goes on \
                     without it if enough other media are here"
                .into(),
        });
    }
    if let Some(finding) = redo.log().and_then(|log| of_open(&log)) {
        return Some(finding);
    }
    let mut media: Vec<(String, bool)> =
        views::logfile(redo).into_iter().map(|f| (f.medium, f.status.is_none())).collect();
    media.sort();
    media.dedup();
    let failed: Vec<&str> =
        media.iter().filter(|(_, active)| !active).map(|(name, _)| name.as_str()).collect();
    (!failed.is_empty()).then(|| Finding {
        state: "DEGRADED",
        words: format!(
            "redo is on {} of {} media, without {}",
            media.len() - failed.len(),
            media.len(),
            failed.join(", ")
        ),
        action: instead(failed.first().unwrap_or(&""), mounted.group.name()),
    })
}

/// What to do about a medium that has failed.
fn instead(medium: &str, group: &str) -> NextStep {
    let statements = format!(
        "alter database drop logfile member '{medium}'; alter database add logfile member '+{group}'"
    );
    NextStep::from(format!("bring {medium} back, or give it up and add another: "))
        .cellar("sql", &format!("-c {}", shell::quoted(&statements)))
}

/// What to do about an error.
fn action(error: &Error, otherwise: &str) -> NextStep {
    error.next_step().cloned().unwrap_or_else(|| otherwise.into())
}

/// What an open log itself has to say.
fn of_open(log: &RedoLog) -> Option<Finding> {
    if let Some(why) = log.log().stopped() {
        return Some(Finding {
            state: "STOPPED",
            words: format!("the redo log has stopped: {why}"),
            action: "end the commands that have the database open: the next one opens the log \
                     again"
                .into(),
        });
    }
    let error = log.archive_error()?;
    Some(Finding {
        state: "DEGRADED",
        words: format!("redo is not archived: {}", error.stack()[0].message),
        action: action(&error, "make room where archives are kept"),
    })
}
