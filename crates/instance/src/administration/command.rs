//! The statements that administer a database: disk groups, parameters, the redo log.

use cellar_storage::request::{
    Contents, DiskRequest, GroupAction, GroupRequest, GroupSelection, RedoAction,
};

use crate::parameters::Scope;

/// A statement that the instance carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `CREATE DISKGROUP`.
    CreateDiskgroup(GroupRequest),
    /// `DROP DISKGROUP`.
    DropDiskgroup {
        /// The group.
        name: String,
        /// What is to happen to files in it.
        contents: Contents,
    },
    /// `ALTER DISKGROUP`.
    AlterDiskgroup {
        /// Which groups.
        groups: GroupSelection,
        /// What is to change.
        action: GroupAction,
    },
    /// `ALTER SYSTEM SET name = value`.
    SetParameter {
        /// The parameter, lower-case.
        name: String,
        /// Its new value as text, without quotes.
        value: String,
        /// Where it takes effect; by default in both, if it can be changed now.
        scope: Option<Scope>,
        /// `COMMENT 'text'`.
        comment: Option<String>,
    },
    /// `ALTER SYSTEM RESET name`.
    ResetParameter {
        /// The parameter, lower-case.
        name: String,
        /// Where it is to hold.
        scope: Option<Scope>,
    },
    /// `ALTER SYSTEM FLUSH what`: `CELL_CACHE`, `BUFFER_CACHE`.
    Flush {
        /// What is to be emptied, upper-case.
        what: String,
    },
    /// `ALTER SYSTEM KILL SESSION`, `ALTER SYSTEM DISCONNECT SESSION`.
    EndSession {
        /// The number of the session.
        sid: u32,
        /// Which of those that have had the number.
        serial: u32,
        /// Whether its transaction may end first.
        waits: bool,
    },
    /// `ALTER DATABASE ... LOGFILE`, and what `ALTER SYSTEM` does with the redo log.
    Redo(RedoAction),
}

impl Command {
    /// The disks that are to join, by paths that may be relative to the user's working directory.
    pub fn new_disks(&mut self) -> Vec<&mut DiskRequest> {
        match self {
            Command::CreateDiskgroup(create) => create.disks.iter_mut().collect(),
            Command::AlterDiskgroup { action, .. } => action.new_disks(),
            _ => Vec::new(),
        }
    }

    /// The directories of redo media that it names, which may be relative to where the user works.
    pub fn directories(&mut self) -> Vec<&mut String> {
        match self {
            Command::Redo(action) => action.directories(),
            _ => Vec::new(),
        }
    }
}
