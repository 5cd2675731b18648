//! The rows of every `v$` view, each a struct whose fields are its columns.
//!
//! Columns keep Oracle's names where the meaning is the same. A column that we cannot fill does
//! not exist; one that a single row cannot fill is NULL there. Each `v$name` is also known as
//! `cellar.name`, for shells eat the dollar sign.

pub(crate) mod asm;
pub(crate) mod comment;
mod health;
mod heap;
pub(crate) mod instance;
mod library;
mod redo;
pub(crate) mod row;
mod scan;
pub(crate) mod waits;
mod work;

pub use asm::{
    VAsmAlias, VAsmAttribute, VAsmDisk, VAsmDiskIostat, VAsmDiskgroup, VAsmFile, VAsmOperation,
    VAsmTemplate, VIostatFile,
};
pub use comment::VComment;
pub use health::VHealth;
pub use heap::{VBufferPoolStatistics, VInstanceRecovery, VSegmentStatistics};
pub use instance::{VMemoryBudget, VParameter, VSession};
pub use library::{VLibrarycache, VSql};
pub use redo::{
    VControlfile, VLog, VLogHistory, VLogfile, VRedoCommit, VRedoMedium, controlfile, log,
    log_history, logfile, redo_commit, redo_medium,
};
pub use row::{Column, Kind, Row, Value, ViewDef, values};
pub use scan::{VCellScan, VCellScanFilter, VSysstat, cell_scan, cell_scan_filter, sysstat};
pub use waits::{
    VEventHistogramMicro, VEventName, VSessionEvent, VSessionWait, VSystemEvent,
    event_histogram_micro, event_name, session_event, session_wait, system_event,
};
pub use work::{WorkRow, in_words, work_rows};

use crate::error::{Error, Result};

/// Every view, by name.
pub const VIEWS: &[&ViewDef] = &[
    VAsmAlias::VIEW,
    VAsmAttribute::VIEW,
    VAsmDisk::VIEW,
    VAsmDiskIostat::VIEW,
    VAsmDiskgroup::VIEW,
    VAsmFile::VIEW,
    VAsmOperation::VIEW,
    VAsmTemplate::VIEW,
    VBufferPoolStatistics::VIEW,
    VCellScan::VIEW,
    VCellScanFilter::VIEW,
    VComment::VIEW,
    VControlfile::VIEW,
    VEventHistogramMicro::VIEW,
    VEventName::VIEW,
    VHealth::VIEW,
    VInstanceRecovery::VIEW,
    VIostatFile::VIEW,
    VLibrarycache::VIEW,
    VLog::VIEW,
    VLogHistory::VIEW,
    VLogfile::VIEW,
    VMemoryBudget::VIEW,
    VParameter::VIEW,
    VRedoCommit::VIEW,
    VRedoMedium::VIEW,
    VSegmentStatistics::VIEW,
    VSession::VIEW,
    VSessionEvent::VIEW,
    VSessionWait::VIEW,
    VSql::VIEW,
    VSysstat::VIEW,
    VSystemEvent::VIEW,
];

/// The view called `v$name` or `cellar.name`, in any case.
///
/// # Errors
/// 00942. For `v`, which is what a shell leaves of `v$name`, it tells that.
pub fn find(name: &str) -> Result<&'static ViewDef> {
    let lower = name.to_ascii_lowercase();
    let short = lower.strip_prefix("cellar.").or_else(|| lower.strip_prefix("v$"));
    let found = short.and_then(|short| VIEWS.iter().find(|view| view.short_name() == short));
    found.copied().ok_or_else(|| {
        let error = Error::new(942, format!("table or view \"{name}\" does not exist"));
        if lower == "v" {
            error.hint("the shell took the $ and what follows: use single quotes, or cellar.name")
        } else if short.is_some() {
            let all: Vec<&str> = VIEWS.iter().map(|view| view.name).collect();
            error.hint(format!("all views: {}", all.join(", ")))
        } else {
            error
        }
    })
}
