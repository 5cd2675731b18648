//! The statements that DataFusion does not know: disk groups, parameters.
//!
//! Group, disk and failure group names are upper-cased here; file paths keep their case.

use cellar_diskgroup::ScrubPower;
use cellar_instance::database::NewLogfile;

use crate::explain::options::ExplainOptions;

/// A statement, read and sorted by who carries it out.
#[derive(Clone, Debug)]
pub enum Statement {
    /// For the instance: disk groups and parameters.
    Command(Command),
    /// `SHOW PARAMETER [pattern]`.
    ShowParameter(Option<String>),
    /// `EXPLAIN WORK FOR ALTER DISKGROUP ...`: tells what would be done, and does nothing.
    ExplainWork(ExplainWork),
    /// `EXPLAIN` of a statement for DataFusion.
    Explain(ExplainOptions, Box<datafusion::sql::parser::Statement>),
    /// For DataFusion.
    Query(Box<datafusion::sql::parser::Statement>),
}

/// A statement that the instance carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `CREATE DISKGROUP`.
    CreateDiskgroup(CreateDiskgroup),
    /// `DROP DISKGROUP`.
    DropDiskgroup {
        /// The group, upper-case.
        name: String,
        /// What is to happen to files in it.
        contents: Contents,
    },
    /// `ALTER DISKGROUP`.
    AlterDiskgroup {
        /// Which groups.
        groups: Groups,
        /// What is to change.
        action: GroupAction,
    },
    /// `ALTER SYSTEM SET name = value`.
    SetParameter {
        /// The parameter, lower-case.
        name: String,
        /// Its new value as text, without quotes.
        value: String,
        /// Where it is to hold.
        scope: Scope,
        /// `COMMENT 'text'`.
        comment: Option<String>,
    },
    /// `ALTER SYSTEM RESET name`.
    ResetParameter {
        /// The parameter, lower-case.
        name: String,
        /// Where it is to hold.
        scope: Scope,
    },
    /// `ALTER SYSTEM FLUSH what`: `CELL_CACHE`, `BUFFER_CACHE`.
    Flush {
        /// What is to be emptied, upper-case.
        what: String,
    },
    /// `ALTER DATABASE ... LOGFILE`, and what `ALTER SYSTEM` does with the redo log.
    Redo(RedoAction),
}

/// What a statement does with the redo log.
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

/// `CREATE DISKGROUP name redundancy { FAILGROUP fg DISK ... } ATTRIBUTE ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateDiskgroup {
    /// The group, upper-case.
    pub name: String,
    /// Copies of every extent; normal if the statement does not say.
    pub redundancy: Redundancy,
    /// The disks, in the order of the statement.
    pub disks: Vec<DiskClause>,
    /// Name in lower case and value, in the order of the statement.
    pub attributes: Vec<(String, String)>,
}

/// How many copies a group keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// One: the disks below do it, or nobody.
    External,
    /// Two.
    Normal,
    /// Three.
    High,
}

/// One disk of a `CREATE DISKGROUP` or of an `ADD DISK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskClause {
    /// The path, which may be a pattern.
    pub path: String,
    /// `NAME`, upper-case.
    pub name: Option<String>,
    /// `FAILGROUP`, upper-case.
    pub failgroup: Option<String>,
    /// `SIZE` in bytes.
    pub size: Option<u64>,
    /// `FORCE` (true), `NOFORCE` or nothing (false).
    pub force: bool,
    /// `ERASE 'serial'`: gives up what is on the disk with this serial.
    pub erase: Option<String>,
}

/// What `DROP DISKGROUP` may do to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Refuse if there are any (the default).
    Excluding,
    /// Drop them too.
    Including {
        /// Also for a group that cannot be mounted.
        force: bool,
    },
}

/// Which groups an `ALTER DISKGROUP` is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// `ALL`.
    All,
    /// These, upper-case; at least one.
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
    /// `ADD TEMPLATE t ATTRIBUTES (...), ...`.
    AddTemplates(Vec<TemplateClause>),
    /// `MODIFY TEMPLATE t ATTRIBUTES (...), ...`.
    ModifyTemplates(Vec<TemplateClause>),
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
    Disks(ChangeDisks),
    /// `UNDROP DISKS`.
    UndropDisks(Rebalance),
    /// `RENAME DISK 'a' TO 'b', ...`: present and new names, upper-case.
    RenameDisks(Vec<(String, String)>),
    /// `OFFLINE DISK ...`.
    Offline(OfflineDisks),
    /// `ONLINE DISK ...`.
    Online(OnlineDisks),
    /// `REPLACE DISK ... WITH ...`.
    Replace(ReplaceDisks),
    /// `SCRUB ...`.
    Scrub(Scrub),
    /// `SCRUB STOP`.
    StopScrub,
    /// `REBALANCE [POWER n] [WAIT | NOWAIT]`.
    Rebalance(Rebalance),
    /// `REBALANCE MODIFY POWER [n]`.
    ModifyPower(Option<u32>),
}

/// `OFFLINE DISK d, ... | DISKS IN FAILGROUP f, ... [DROP AFTER time]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflineDisks {
    /// Which; upper-case.
    pub disks: Vec<Dropped>,
    /// `DROP AFTER`, in seconds.
    pub drop_after: Option<u32>,
}

/// `ONLINE DISK d, ... | DISKS IN FAILGROUP f, ... | ALL [FORCE] [POWER n] [WAIT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlineDisks {
    /// Which: `None` is `ALL`. Upper-case.
    pub disks: Option<Vec<Dropped>>,
    /// `FORCE`: all of them is copied anew.
    pub force: bool,
    /// `POWER` and `WAIT`.
    pub rebalance: Rebalance,
}

/// `REPLACE DISK d WITH 'path' ..., ... [POWER n] [WAIT]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplaceDisks {
    /// The disks that are replaced, upper-case.
    pub names: Vec<String>,
    /// What comes in the place of each.
    pub with: Vec<DiskClause>,
    /// `POWER` and `WAIT`.
    pub rebalance: Rebalance,
}

/// `SCRUB [FILE 'f' | DISK d] [REPAIR] [POWER p] [WAIT] [FORCE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrub {
    /// What is read.
    pub what: ScrubWhat,
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
pub enum ScrubWhat {
    /// The whole group.
    Group,
    /// A file, by its path.
    File(String),
    /// A disk, by its name, upper-case.
    Disk(String),
}

/// The disks that come and go in one `ALTER DISKGROUP`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeDisks {
    /// `ADD DISK`, in the order of the statement.
    pub add: Vec<DiskClause>,
    /// `DROP DISK` and `DROP DISKS IN FAILGROUP`, in the order of the statement.
    pub drop: Vec<DropClause>,
    /// `RESIZE ALL`, `RESIZE DISK` and `RESIZE DISKS IN FAILGROUP`.
    pub resize: Vec<ResizeClause>,
    /// The rebalance that follows.
    pub rebalance: Rebalance,
}

/// What an `ALTER DISKGROUP ... DROP` takes out of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropClause {
    /// The disk, or the failure group whose disks are all meant; upper-case.
    pub what: Dropped,
    /// `FORCE`: the disk is not here, and what it held is made again.
    pub force: bool,
}

/// What a statement says of a template; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateClause {
    /// Its name, upper-case.
    pub name: String,
    /// `unprotected`, `mirror` or `high`.
    pub protection: Option<String>,
    /// `coarse` or `fine`.
    pub striping: Option<String>,
    /// `UNIT n`, in bytes.
    pub unit: Option<u64>,
    /// `CHECKSUM` or `NOCHECKSUM`.
    pub checksums: Option<bool>,
    /// `FAILGROUP name`; empty is `ANY FAILGROUP`.
    pub failgroup: Option<String>,
}

/// A size that an `ALTER DISKGROUP ... RESIZE` gives to disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeClause {
    /// Which disks: `None` is `ALL`. Upper-case.
    pub what: Option<Dropped>,
    /// `SIZE n` in bytes; without it all that each disk has.
    pub size: Option<u64>,
}

/// One disk, or those of a failure group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// `DISK name`.
    Disk(String),
    /// `DISKS IN FAILGROUP name`.
    FailGroup(String),
}

/// How a rebalance is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebalance {
    /// `POWER n`; the parameter asm_power_limit where the statement does not say.
    pub power: Option<u32>,
    /// `WAIT`: the statement ends when the rebalance does.
    pub wait: bool,
}

/// `EXPLAIN WORK FOR ALTER DISKGROUP name ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainWork {
    /// The group, upper-case.
    pub group: String,
    /// What would change.
    pub action: GroupAction,
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

impl Command {
    /// The disks that it wants to take in: their paths are as the user typed them.
    pub fn new_disks(&mut self) -> &mut [DiskClause] {
        match self {
            Command::CreateDiskgroup(create) => &mut create.disks,
            Command::AlterDiskgroup { action, .. } => action.new_disks(),
            _ => &mut [],
        }
    }

    /// The directories of redo media that it names, as the user typed them; what begins with `+` is in
    /// a disk group.
    pub fn directories(&mut self) -> Vec<&mut String> {
        let places: Vec<&mut String> = match self {
            Command::Redo(RedoAction::AddLogfiles(new)) => {
                new.iter_mut().flat_map(|logfile| &mut logfile.media).collect()
            }
            Command::Redo(
                RedoAction::AddMembers { members, .. } | RedoAction::DropMembers(members),
            ) => members.iter_mut().collect(),
            _ => Vec::new(),
        };
        places.into_iter().filter(|place| !place.starts_with('+')).collect()
    }
}

impl GroupAction {
    /// The disks that it wants to take in: their paths are as the user typed them.
    pub fn new_disks(&mut self) -> &mut [DiskClause] {
        match self {
            GroupAction::Disks(change) => &mut change.add,
            GroupAction::Replace(replace) => &mut replace.with,
            _ => &mut [],
        }
    }
}

/// Where `ALTER SYSTEM` puts a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The statement does not say: both, if the parameter can be changed now.
    Default,
    /// Now, until the restart.
    Memory,
    /// From the next start on.
    Spfile,
    /// Now and from the next start on.
    Both,
}
