//! Requests: what a statement or a command asks of the groups and of the redo log, as plain values.
//!
//! The SQL parser and the command line build them; one place carries each of them out. Names of groups,
//! disks and failure groups are taken in any case; a path is used as it is.

use std::collections::BTreeMap;

use cellar_diskgroup::{Redundancy, ScrubPower, TemplateWords};

/// `CREATE DISKGROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRequest {
    /// The group's name.
    pub name: String,
    /// Copies by default.
    pub redundancy: Redundancy,
    /// Attributes, `au_size` and `sector_size` among them, names in lower case.
    pub attributes: BTreeMap<String, String>,
    /// Disks in order.
    pub disks: Vec<DiskRequest>,
}

/// A disk that is to join a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// Its path, or a pattern that matches several.
    pub path: String,
    /// `NAME`.
    pub name: Option<String>,
    /// `FAILGROUP`.
    pub failgroup: Option<String>,
    /// `SIZE` in bytes: use fewer than it has, or make a file of that size.
    pub size: Option<u64>,
    /// `FORCE`: it may be of another group.
    pub force: bool,
    /// `ERASE`: gives up what is on the disk with this serial number.
    pub erase: Option<String>,
}

/// What `DROP DISKGROUP` may do to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Refuse if there are any.
    Excluding,
    /// Drop them too.
    Including {
        /// Also for a group that cannot be mounted.
        force: bool,
    },
}

/// The groups that an `ALTER DISKGROUP` is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupSelection {
    /// `ALL`.
    All,
    /// These; at least one.
    Named(Vec<String>),
}

/// What an `ALTER DISKGROUP` changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAction {
    /// `MOUNT [FORCE]`.
    Mount {
        /// With disks missing.
        force: bool,
    },
    /// `DISMOUNT [FORCE]`.
    Dismount {
        /// With files open.
        force: bool,
    },
    /// `ADD DIRECTORY 'd', ...`.
    AddDirectory(Vec<String>),
    /// `DROP DIRECTORY 'd' [FORCE]`.
    DropDirectory {
        /// Path of the directory.
        path: String,
        /// With what is in it.
        force: bool,
    },
    /// `RENAME DIRECTORY 'a' TO 'b'`.
    RenameDirectory {
        /// Its path.
        from: String,
        /// Its new path.
        to: String,
    },
    /// `ADD ALIAS 'a' FOR 'f'`.
    AddAlias {
        /// Path of the alias.
        alias: String,
        /// The file it names.
        file: String,
    },
    /// `DROP ALIAS 'a'`.
    DropAlias(String),
    /// `RENAME ALIAS 'a' TO 'b'`.
    RenameAlias {
        /// Its path.
        from: String,
        /// Its new path.
        to: String,
    },
    /// `DROP FILE 'f', ...`.
    DropFile(Vec<String>),
    /// `ADD TEMPLATE t ATTRIBUTES (...), ...`: each by its name.
    AddTemplates(Vec<(String, TemplateWords)>),
    /// `MODIFY TEMPLATE t ATTRIBUTES (...), ...`: each by its name.
    ModifyTemplates(Vec<(String, TemplateWords)>),
    /// `DROP TEMPLATE t, ...`.
    DropTemplates(Vec<String>),
    /// `SET ATTRIBUTE 'n' = 'v'`.
    SetAttribute {
        /// The attribute, lower-case.
        name: String,
        /// Its new value.
        value: String,
    },
    /// `CHECK [REPAIR | NOREPAIR]`.
    Check {
        /// Also mend what can be mended.
        repair: bool,
    },
    /// `ADD DISK ... DROP DISK ... RESIZE ...`: all of it is one change and one rebalance.
    Disks(ChangeRequest),
    /// `UNDROP DISKS`.
    UndropDisks(Rebalance),
    /// `RENAME DISK 'a' TO 'b', ...`: present and new names.
    RenameDisks(Vec<(String, String)>),
    /// `OFFLINE DISK ...`.
    Offline(OfflineRequest),
    /// `ONLINE DISK ...`.
    Online(OnlineRequest),
    /// `REPLACE DISK ... WITH ...`.
    Replace(ReplaceRequest),
    /// `SCRUB ...`.
    Scrub(ScrubRequest),
    /// `SCRUB STOP`.
    StopScrub,
    /// `REBALANCE [POWER n] [WAIT | NOWAIT]`.
    Rebalance(Rebalance),
    /// `REBALANCE MODIFY POWER [n]`.
    ModifyPower(Option<u32>),
}

/// The disks that come and go in one `ALTER DISKGROUP`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeRequest {
    /// `ADD DISK`. A path where nothing is yet becomes a file of its `SIZE`.
    pub add: Vec<DiskRequest>,
    /// `DROP DISK` and `DROP DISKS IN FAILGROUP`.
    pub drop: Vec<DropRequest>,
    /// `RESIZE`. A file that is to be larger than it is is made so.
    pub resize: Vec<ResizeRequest>,
    /// The rebalance that follows.
    pub rebalance: Rebalance,
}

/// A `DROP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRequest {
    /// Which disks.
    pub target: DiskTarget,
    /// `FORCE`: the disk is not here, and what it held is made again.
    pub force: bool,
}

/// One disk, or those of a failure group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskTarget {
    /// `DISK name`.
    Disk(String),
    /// `DISKS IN FAILGROUP name`.
    FailGroup(String),
}

/// A `RESIZE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeRequest {
    /// Which disks; `None` is `ALL`.
    pub target: Option<DiskTarget>,
    /// `SIZE` in bytes; `None` takes all that each disk has.
    pub size: Option<u64>,
}

/// `OFFLINE DISK d, ... | DISKS IN FAILGROUP f, ... [DROP AFTER time]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflineRequest {
    /// Which disks.
    pub disks: Vec<DiskTarget>,
    /// `DROP AFTER`, in seconds.
    pub drop_after: Option<u32>,
}

/// `ONLINE DISK d, ... | DISKS IN FAILGROUP f, ... | ALL [FORCE] [POWER n] [WAIT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlineRequest {
    /// Which disks; `None` is `ALL` that are offline.
    pub disks: Option<Vec<DiskTarget>>,
    /// `FORCE`: all of them is copied anew.
    pub force: bool,
    /// `POWER` and `WAIT`.
    pub rebalance: Rebalance,
}

/// `REPLACE DISK d WITH 'path' ..., ... [POWER n] [WAIT]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplaceRequest {
    /// Each disk that is replaced, and what comes in its place.
    pub disks: Vec<(String, DiskRequest)>,
    /// `POWER` and `WAIT`.
    pub rebalance: Rebalance,
}

/// `SCRUB [FILE 'f' | DISK d] [REPAIR] [POWER p] [WAIT] [FORCE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubRequest {
    /// What is read.
    pub target: ScrubTarget,
    /// Whether what is wrong is made right.
    pub repair: bool,
    /// How it makes way for others.
    pub power: ScrubPower,
    /// `WAIT`: the statement ends when the scrub does.
    pub wait: bool,
    /// `FORCE`: also beside a rebalance.
    pub force: bool,
}

/// What a scrub reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScrubTarget {
    /// The whole group.
    Group,
    /// A file, by its path.
    File(String),
    /// A disk, by its name.
    Disk(String),
}

/// How a rebalance is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebalance {
    /// `POWER n`; the parameter asm_power_limit where the request does not say.
    pub power: Option<u32>,
    /// `WAIT`: the statement ends when the rebalance does.
    pub wait: bool,
}

impl Rebalance {
    /// One at this power that nobody waits for.
    pub fn at(power: Option<u32>) -> Rebalance {
        Rebalance { power, wait: false }
    }
}

/// `EXPLAIN WORK FOR ALTER DISKGROUP name ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The group.
    pub group: String,
    /// What would change; of a rebalance alone no disk.
    pub change: ChangeRequest,
    /// `PROBE n SECONDS` and `NO PROBE`: how long the disks are tried.
    pub probe: Probe,
}

/// How long EXPLAIN WORK tries the disks, to estimate the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// As long as usual.
    #[default]
    Usual,
    /// Not at all.
    No,
    /// For so many milliseconds.
    For(u64),
}

/// What is done with the redo log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedoAction {
    /// `ALTER DATABASE ADD LOGFILE`.
    AddLogfiles(Vec<NewLogfile>),
    /// `ALTER DATABASE DROP LOGFILE GROUP n, ...`.
    DropLogfiles(Vec<u32>),
    /// `ALTER DATABASE CLEAR [UNARCHIVED] LOGFILE GROUP n, ...`.
    ClearLogfiles {
        /// The groups.
        numbers: Vec<u32>,
        /// Also where they were not archived.
        unarchived: bool,
    },
    /// `ALTER DATABASE ADD LOGFILE MEMBER 'm', ...`.
    AddMembers {
        /// The new members: disk groups or directories.
        members: Vec<String>,
        /// Files that are there already are taken.
        reuse: bool,
        /// `TO GROUP n, ...`: they must be there, and a medium has a file for every group.
        groups: Vec<u32>,
    },
    /// `ALTER DATABASE DROP LOGFILE MEMBER 'm', ...`.
    DropMembers(Vec<String>),
    /// `ALTER DATABASE DROP LOGFILE ALL`: the whole log.
    DropLog,
    /// `ALTER DATABASE RECOVER FORCE`: opens a log of which media are missing.
    RecoverForce,
    /// `ALTER SYSTEM SWITCH LOGFILE`.
    Switch,
    /// `ALTER SYSTEM CHECKPOINT`.
    Checkpoint,
    /// `ALTER SYSTEM ARCHIVE LOG CURRENT`.
    ArchiveCurrent,
}

/// A log group of `ALTER DATABASE ADD LOGFILE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewLogfile {
    /// `GROUP n`; else the first number that is free.
    pub number: Option<u32>,
    /// Where its files are to be; empty: where those of the others are.
    pub media: Vec<String>,
    /// `SIZE` in bytes.
    pub size: Option<u64>,
    /// `BLOCKSIZE`.
    pub block_size: Option<u32>,
    /// `REUSE`: files that are there already are taken.
    pub reuse: bool,
}

impl GroupAction {
    /// The disks that are to join, by paths that may be relative to the user's working directory.
    pub fn new_disks(&mut self) -> Vec<&mut DiskRequest> {
        match self {
            GroupAction::Disks(change) => change.add.iter_mut().collect(),
            GroupAction::Replace(replace) => {
                replace.disks.iter_mut().map(|(_, with)| with).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl RedoAction {
    /// The directories of media that it names, which may be relative to where the user works; what
    /// begins with `+` is in a disk group.
    pub fn directories(&mut self) -> Vec<&mut String> {
        let places: Vec<&mut String> = match self {
            RedoAction::AddLogfiles(new) => {
                new.iter_mut().flat_map(|logfile| &mut logfile.media).collect()
            }
            RedoAction::AddMembers { members, .. } | RedoAction::DropMembers(members) => {
                members.iter_mut().collect()
            }
            _ => Vec::new(),
        };
        places.into_iter().filter(|place| !place.starts_with('+')).collect()
    }
}
