//! Errors of the store as users see them.

use cellar_heap::{Error as HeapError, TooMuch};

use crate::error::{Error, NextStep};

/// An error of the store, with the next step.
pub(crate) fn from_heap(error: HeapError) -> Error {
    let told = Error::new(error.number(), error.to_string());
    let hint = match &error {
        HeapError::Log(error) => return Error::from(error.clone()),
        HeapError::Io(_) => return told,
        HeapError::Full { .. } => "add a disk to the group, or delete rows, tables or files",
        HeapError::TransactionTooLarge { what: TooMuch::Redo(_), .. } => {
            "change fewer rows at a time; a redo log of larger groups takes more of them: ALTER DATABASE ADD \
             LOGFILE"
        }
        HeapError::TransactionTooLarge { what: TooMuch::Pages(_), .. } => {
            "change fewer rows at a time, or raise memory_target and open the database anew"
        }
        HeapError::PageDamaged { .. } | HeapError::HeaderDamaged { .. } => {
            let mends = "a scrub with REPAIR mends what another copy still has; see more: ";
            return told.hint(NextStep::from(mends).cellar("validate", ""));
        }
        HeapError::Older { .. } => {
            let back = NextStep::from("bring back the newer image of what is older; ");
            return told.hint(back.cellar("status", "").then(" tells which disks there are"));
        }
        HeapError::OtherDatabase { .. } => "bring back the log or the group of the other database",
        HeapError::SnapshotTooOld { .. } => {
            "run the transaction again, or raise memory_target: older images of pages may take eight times the buffer \
             cache, where the disk group has room for them"
        }
        HeapError::Serialization { .. } => "run the transaction again",
        HeapError::Spill { .. } => {
            "run the transaction again; cellar status DIR tells which disks are missing"
        }
        HeapError::Stopped { .. } => "end this command: the next one opens the database anew",
        HeapError::Lock(_) => "run the transaction again when the other one has ended",
        HeapError::RowTooLong { .. } => {
            "make some columns text: long values have pages of their own"
        }
        HeapError::KeyTooLong { .. } => "index shorter columns",
        HeapError::ValueTooLong { .. } => "store it in several rows",
        HeapError::LoadBroken { .. } => "run the load again: nothing of it was stored",
        HeapError::SortDamaged { .. } => {
            "run the statement again; if it fails again, test the memory and the disks of this machine"
        }
        HeapError::RedoUnfit { .. } => {
            let back = NextStep::from("bring back the disks and the log that belong together; ");
            return told.hint(back.cellar("status", "").then(" tells which disks there are"));
        }
        _ => return told,
    };
    told.hint(hint)
}
