//! Errors of the log, sorted by who must act, with Oracle's numbers.

use std::sync::Arc;

use cellar_io::IoError;

use crate::lsn::{Abn, Lsn};
use crate::on_disk::Damage;

/// A failure of the log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// User: a record is longer than the log can ever take.
    #[error("a record of {bytes} bytes is too long: this log takes {max}")]
    RecordTooLong {
        /// Its length in bytes.
        bytes: u64,
        /// The longest that fits, in bytes.
        max: u64,
    },
    /// User: a value is out of its range.
    #[error("{what} {value} is not allowed: {allowed}")]
    BadValue {
        /// The parameter.
        what: &'static str,
        /// The refused value.
        value: u64,
        /// What is possible.
        allowed: String,
    },
    /// User: the block size is smaller than a sector of a medium.
    #[error("log block size {block_size} is smaller than the sectors of {medium}, {sector} bytes")]
    BlockSize {
        /// Bytes of a block.
        block_size: u32,
        /// The medium.
        medium: String,
        /// Its logical sector in bytes.
        sector: u32,
    },
    /// User: the files of a group differ in size, or have another size than before.
    #[error("file of group {group} on {medium} has {found} bytes, {expected} are needed")]
    FileSize {
        /// The group.
        group: u32,
        /// The medium.
        medium: String,
        /// Its size in bytes.
        found: u64,
        /// What it must be.
        expected: u64,
    },
    /// User: no such group.
    #[error("log group {group} does not exist")]
    NoGroup {
        /// Its number.
        group: u32,
    },
    /// User: the number is taken.
    #[error("log group {group} already exists")]
    GroupExists {
        /// Its number.
        group: u32,
    },
    /// User: the log is being written to the group.
    #[error("log group {group} is the current one")]
    GroupCurrent {
        /// Its number.
        group: u32,
    },
    /// User: recovery needs what is in the group.
    #[error("log group {group} is needed for crash recovery")]
    GroupNeeded {
        /// Its number.
        group: u32,
    },
    /// User: the group was not archived.
    #[error("log group {group}, sequence {sequence}, needs to be archived")]
    NotArchived {
        /// Its number.
        group: u32,
        /// Its sequence.
        sequence: u64,
    },
    /// User: a log has at least two groups.
    #[error("dropping log group {group} would leave less than 2 groups")]
    TooFewGroups {
        /// Its number.
        group: u32,
    },
    /// User: the log was opened too often without a checkpoint.
    #[error("the log was opened {openings} times since its checkpoint, which is all it can keep")]
    TooManyOpenings {
        /// How often.
        openings: usize,
    },
    /// User: no such medium.
    #[error("redo medium \"{medium}\" does not exist")]
    NoMedium {
        /// Its name.
        medium: String,
    },
    /// User: there is a medium of that name.
    #[error("redo medium \"{medium}\" already exists")]
    MediumExists {
        /// Its name.
        medium: String,
    },
    /// User: the medium is in use, is joining, or still has unanswered requests.
    #[error(
        "redo medium \"{medium}\" cannot join now: it takes part, is owed an answer, or another joins"
    )]
    MediumBusy {
        /// Its name.
        medium: String,
    },
    /// User: the log cannot go on without the medium.
    #[error("dropping redo medium \"{medium}\" would leave too few media for the quorum")]
    LastMedium {
        /// Its name.
        medium: String,
    },
    /// Operator: a medium failed while it joined.
    #[error("redo medium \"{medium}\" failed before it was whole")]
    MediumLost {
        /// Its name.
        medium: String,
    },
    /// Operator: the log stopped itself; nothing is known to be lost.
    #[error("the log has stopped: {why}")]
    Stopped {
        /// Why.
        why: Arc<str>,
    },
    /// Operator: the log stopped before it was known whether a record is durable.
    #[error("outcome unknown: the log has stopped: {why}")]
    OutcomeUnknown {
        /// Why.
        why: Arc<str>,
    },
    /// Operator: the control data is unusable.
    #[error("control data of the log: {damage}")]
    ControlDamaged {
        /// What is wrong with it.
        damage: Damage,
    },
    /// Operator: the media record an opening that the control data lacks.
    #[error("the log on {medium} is more recent than the control data ({found} after {known})")]
    ControlOld {
        /// The medium.
        medium: String,
        /// The incarnation in its header.
        found: u32,
        /// The incarnation in the control data.
        known: u32,
    },
    /// Operator: a file belongs to another database, group or medium.
    #[error("file of group {group} on {medium} belongs elsewhere: {what}")]
    Foreign {
        /// The group.
        group: u32,
        /// The medium.
        medium: String,
        /// What does not match.
        what: &'static str,
    },
    /// Operator: so few media can be read that acknowledged records may be missing.
    #[error(
        "redo from LSN {from} on may have been acknowledged and be on {} alone, which cannot be \
         read{}{}", media.join(", "), until(*known_until), because(causes)
    )]
    MediaMissing {
        /// The end of what was found.
        from: Lsn,
        /// Everything below this was acknowledged, where that is more than was found.
        known_until: Option<Lsn>,
        /// The media that cannot be read there.
        media: Vec<String>,
        /// What is wrong with the media that are present.
        causes: Vec<String>,
    },
    /// Operator: acknowledged redo is damaged on every medium.
    #[error("acknowledged redo from LSN {from} to {to} is damaged or missing on every medium")]
    Damaged {
        /// The first block that is bad.
        from: Lsn,
        /// Everything below was acknowledged.
        to: Lsn,
        /// Media that acknowledged writes and lost them.
        lost_writes: Vec<String>,
    },
    /// Operator: two media hold different blocks that both look right.
    #[error("the log is divergent at LSN {at}: {what}")]
    Divergent {
        /// The block.
        at: Lsn,
        /// What differs.
        what: String,
    },
    /// Operator: a block is whole, but its contents are impossible.
    #[error("block {abn} of the log contradicts itself: {damage}")]
    Corrupt {
        /// The block.
        abn: Abn,
        /// What is wrong.
        damage: Damage,
    },
    /// User: the log is not archived.
    #[error("the log is not in archiving mode")]
    NotArchiving,
    /// Operator: the store of archives failed.
    #[error("archive {archive}: {error}")]
    Archive {
        /// The archive.
        archive: String,
        /// What the store said.
        error: IoError,
    },
    /// Operator: an archive is missing: its group was cleared before it was archived, or somebody
    /// removed it.
    #[error("archive {archive} of log sequence {sequence} is not there")]
    ArchiveMissing {
        /// The archive.
        archive: String,
        /// The sequence.
        sequence: u64,
    },
    /// Operator: an archive is damaged.
    #[error("archive {archive} is damaged at byte {offset}: {damage}")]
    ArchiveDamaged {
        /// The archive.
        archive: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong.
        damage: Damage,
    },
    /// Operator: an archive is whole but is not the one expected here.
    #[error("archive {archive} does not belong here: {what}")]
    ArchiveForeign {
        /// The archive.
        archive: String,
        /// What does not match.
        what: &'static str,
    },
    /// A device failed, and there was no other to use.
    #[error(transparent)]
    Io(#[from] IoError),
}

fn until(lsn: Option<Lsn>) -> String {
    lsn.map_or(String::new(), |lsn| format!("; it was, up to LSN {lsn}"))
}

fn because(causes: &[String]) -> String {
    if causes.is_empty() { String::new() } else { format!(": {}", causes.join("; ")) }
}

impl Error {
    /// Oracle's number for it, or one of ours from 70001 on.
    pub fn number(&self) -> u32 {
        match self {
            Error::RecordTooLong { .. } => 70150,
            Error::BadValue { .. } => 70151,
            Error::BlockSize { .. } => 1378,
            Error::FileSize { .. } => 336,
            Error::NoGroup { .. } => 359,
            Error::GroupExists { .. } => 1184,
            Error::GroupCurrent { .. } => 1623,
            Error::GroupNeeded { .. } => 1624,
            Error::NotArchived { .. } => 350,
            Error::TooFewGroups { .. } => 1567,
            Error::NoMedium { .. } => 360,
            Error::Stopped { .. } => 340,
            Error::OutcomeUnknown { .. } => 70152,
            Error::TooManyOpenings { .. } => 70154,
            Error::MediumExists { .. } => 1577,
            Error::MediumBusy { .. } => 70155,
            Error::MediumLost { .. } => 70156,
            Error::LastMedium { .. } => 361,
            Error::ControlDamaged { .. } => 227,
            Error::ControlOld { .. } => 338,
            Error::Foreign { .. } => 341,
            Error::MediaMissing { .. } => 313,
            Error::Damaged { .. } => 353,
            Error::Divergent { .. } => 70153,
            Error::Corrupt { .. } => 354,
            Error::NotArchiving => 258,
            Error::Archive { .. } => 272,
            Error::ArchiveMissing { .. } => 308,
            Error::ArchiveDamaged { .. } => 334,
            Error::ArchiveForeign { .. } => 363,
            Error::Io(_) => 345,
        }
    }

    /// What the reader can do next.
    pub fn next_step(&self) -> String {
        match self {
            Error::RecordTooLong { .. } => "commit in smaller parts, or add log groups".into(),
            Error::BadValue { allowed, .. } => format!("use {allowed}"),
            Error::BlockSize { sector, .. } => format!("use block size {sector}"),
            Error::FileSize { expected, .. } => format!("give a file of {expected} bytes"),
            Error::NoGroup { .. } | Error::NoMedium { .. } => "see which there are: v$log".into(),
            Error::MediumExists { .. } => "choose another name".into(),
            Error::MediumBusy { .. } => "wait, and try again; or open the log anew".into(),
            Error::LastMedium { .. } => "add a medium first".into(),
            Error::MediumLost { .. } => "see the device, and have it return".into(),
            Error::GroupExists { .. } => "choose another number".into(),
            Error::GroupCurrent { .. } => "ALTER SYSTEM SWITCH LOGFILE first".into(),
            Error::GroupNeeded { .. } => "ALTER SYSTEM CHECKPOINT first".into(),
            Error::NotArchived { group, .. } => {
                let clear = format!("ALTER DATABASE CLEAR UNARCHIVED LOGFILE GROUP {group}");
                format!("archive it first; if that cannot be, {clear} gives it up")
            }
            Error::TooFewGroups { .. } => "add a group first".into(),
            Error::Stopped { .. } | Error::OutcomeUnknown { .. } => {
                "open the log again: recovery decides which records are there".into()
            }
            Error::ControlDamaged { .. } | Error::ControlOld { .. } => {
                "use the newest copy of the control data".into()
            }
            Error::Foreign { .. } => "give the file that belongs here: cellar inspect FILE".into(),
            Error::MediaMissing { media, .. } => format!(
                "bring {} back; force opens without, and what only they have is lost",
                media.join(", ")
            ),
            Error::Damaged { from, .. } => {
                format!("restore, and recover until LSN {from}; see cellar inspect")
            }
            Error::Divergent { .. } | Error::Corrupt { .. } => {
                "see both copies: cellar inspect; keep the files, and report it".into()
            }
            Error::TooManyOpenings { .. } => "replay it, and say so before it is opened".into(),
            Error::NotArchiving => "create the log with archiving".into(),
            Error::Archive { .. } => "see the place of the archives: is it full?".into(),
            Error::ArchiveMissing { archive, .. } => {
                format!("bring {archive} back; if there is none, what follows needs a newer backup")
            }
            Error::ArchiveDamaged { archive, .. } => {
                format!("use another copy of {archive}; see cellar inspect")
            }
            Error::ArchiveForeign { archive, .. } => format!("give the right {archive}"),
            Error::Io(_) => "see the device: cellar disks, dmesg".into(),
        }
    }
}
