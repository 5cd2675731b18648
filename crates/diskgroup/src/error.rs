//! Errors of disk groups, sorted by who must act, with Oracle's numbers.

use std::sync::Arc;

use cellar_io::{IoError, NextStep};

use crate::on_disk::Damage;

/// A failure of an operation on a disk group.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// User: the disk group is not mounted here.
    #[error("disk group \"{group}\" does not exist or is not mounted")]
    NotMounted {
        /// The group.
        group: String,
    },
    /// User: the name is taken.
    #[error("\"{name}\" already exists")]
    Exists {
        /// The name.
        name: String,
    },
    /// User: no such file, directory or alias.
    #[error("\"{name}\" does not exist")]
    NoSuchFile {
        /// The name.
        name: String,
    },
    /// User: no such template.
    #[error("template \"{name}\" does not exist")]
    NoSuchTemplate {
        /// The name.
        name: String,
    },
    /// User: a template has the name.
    #[error("template \"{name}\" already exists")]
    TemplateExists {
        /// The name.
        name: String,
    },
    /// User: each file type has a template.
    #[error("template \"{name}\" is that of a file type and cannot be dropped")]
    SystemTemplate {
        /// The name.
        name: String,
    },
    /// User: a name is not legal.
    #[error("\"{name}\" is not a legal name: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// User: a directory still holds something.
    #[error("directory \"{name}\" is not empty")]
    NotEmpty {
        /// The directory.
        name: String,
    },
    /// User: there is no such attribute.
    #[error("unknown attribute {name}; there are {known}")]
    UnknownAttribute {
        /// The attribute asked for.
        name: String,
        /// The attributes that can be set.
        known: &'static str,
    },
    /// User: a value is out of its range.
    #[error("{what} {value} is not allowed: {allowed}")]
    BadValue {
        /// The attribute or parameter.
        what: &'static str,
        /// The refused value.
        value: String,
        /// What is possible.
        allowed: String,
    },
    /// User: no room.
    #[error("disk group \"{group}\" has no room for {wanted_mb} MB: {why}")]
    NoSpace {
        /// The group.
        group: String,
        /// What was asked for, in MiB.
        wanted_mb: u64,
        /// Which failure group stops it, and what would fit.
        why: String,
    },
    /// User: the group has files.
    #[error("disk group \"{group}\" contains {files} files")]
    HasFiles {
        /// The group.
        group: String,
        /// How many.
        files: usize,
    },
    /// User: too few failure groups for the redundancy.
    #[error("{redundancy} redundancy needs {needed} failure groups, found {found}")]
    FailGroups {
        /// The redundancy asked for.
        redundancy: &'static str,
        /// How many it needs.
        needed: usize,
        /// How many were given.
        found: usize,
    },
    /// User: a disk is in use, foreign or too small.
    #[error("disk \"{disk}\" cannot be used: {why}")]
    DiskUnusable {
        /// Its path.
        disk: String,
        /// Why.
        why: String,
        /// The Oracle number that fits.
        number: u32,
    },
    /// User: FORCE was given and is not needed.
    #[error("FORCE is not needed for disk \"{disk}\"")]
    ForceNotNeeded {
        /// Its path.
        disk: String,
    },
    /// User: an attribute cannot be changed.
    #[error("attribute \"{name}\" cannot be changed after CREATE DISKGROUP")]
    ReadOnlyAttribute {
        /// Its name.
        name: String,
    },
    /// Operator: disks that are needed were not found.
    #[error("disk group \"{group}\" is incomplete: {why}")]
    Incomplete {
        /// The group.
        group: String,
        /// Which disks are missing and what depends on them.
        why: String,
    },
    /// Operator: the metadata that was found cannot be proven the newest.
    #[error("disk group \"{group}\": {why}")]
    NotProven {
        /// The group.
        group: String,
        /// The members of the metadata set that are missing.
        why: String,
        /// How many members the set has; 0 where no disk tells.
        members: usize,
    },
    /// Operator: disks went on apart from each other, and none of their histories is proven, or more
    /// than one is.
    #[error("disk group \"{group}\": its disks tell different histories: {why}")]
    Disagree {
        /// The group.
        group: String,
        /// Which disks have which history.
        why: String,
    },
    /// Operator: metadata on every member is damaged.
    #[error("disk group \"{group}\" metadata is damaged: {what}: {damage}")]
    Damaged {
        /// The group.
        group: String,
        /// Which structure on which disk.
        what: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Operator: data is damaged in every copy that can be read.
    #[error("file {file} at {offset}: {length} bytes are damaged in every copy")]
    Corrupt {
        /// File number.
        file: u32,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Operator: no copy of this can be read or written now.
    #[error("file {file} at {offset}: no copy is online")]
    NoCopy {
        /// File number.
        file: u32,
        /// Offset in the file, in bytes.
        offset: u64,
    },
    /// Operator: what was written and not flushed when a disk left may be lost.
    #[error("file {file}: the disk with its only copy left before what was written was durable")]
    WritesLost {
        /// File number.
        file: u32,
    },
    /// Operator: a file has lost extents for good, and keeps a disk from being let go of.
    #[error("no copy is left of {aus} extents of {file}")]
    Lost {
        /// Its path, or number.
        file: String,
        /// How many.
        aus: u64,
    },
    /// Operator: something would be lost, or the group could not go on.
    #[error("disk group \"{group}\" cannot do without: {why}")]
    CannotOffline {
        /// The group.
        group: String,
        /// What would be lost.
        why: String,
    },
    /// Operator: a disk has changed since it left.
    #[error("{disk} cannot come back as it is: {why}")]
    Diverged {
        /// The disk.
        disk: String,
        /// What tells.
        why: String,
    },
    /// Operator: the group stopped itself; only a new mount helps.
    #[error("disk group \"{group}\" was dismounted by force: {why}")]
    Stopped {
        /// The group.
        group: String,
        /// Why.
        why: Arc<str>,
    },
    /// User: one scrub at a time.
    #[error("a scrub of disk group \"{group}\" is under way")]
    ScrubUnderWay {
        /// The group.
        group: String,
    },
    /// Operator: mounted read-only.
    #[error("disk group \"{group}\" is mounted read-only")]
    ReadOnly {
        /// The group.
        group: String,
    },
    /// A device failed, and there was no other copy to turn to.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Error {
    /// Oracle's number for it, or one of ours from 70001 on.
    pub fn number(&self) -> u32 {
        match self {
            Error::NotMounted { .. } => 15001,
            Error::Exists { .. } => 15005,
            Error::NoSuchFile { .. } => 15012,
            Error::NoSuchTemplate { .. } => 15006,
            Error::TemplateExists { .. } => 15007,
            Error::SystemTemplate { .. } => 15008,
            Error::BadName { .. } => 15124,
            Error::NotEmpty { .. } => 15177,
            Error::BadValue { .. } | Error::UnknownAttribute { .. } => 15238,
            Error::NoSpace { .. } => 15041,
            Error::HasFiles { .. } => 15053,
            Error::FailGroups { .. } => 15072,
            Error::DiskUnusable { number, .. } => *number,
            Error::ForceNotNeeded { .. } => 15034,
            Error::ReadOnlyAttribute { .. } => 15242,
            Error::Incomplete { .. } => 15040,
            Error::NotProven { .. } => 15063,
            Error::Disagree { .. } => 70131,
            Error::Damaged { .. } => 15335,
            Error::Corrupt { .. } => 70040,
            Error::NoCopy { .. } | Error::Lost { .. } => 15131,
            Error::Stopped { .. } => 15078,
            Error::CannotOffline { .. } => 15067,
            Error::Diverged { .. } => 15281,
            Error::ReadOnly { .. } => 70041,
            Error::ScrubUnderWay { .. } => 70116,
            Error::WritesLost { .. } | Error::Io(_) => 15080,
        }
    }

    /// What an error about a whole group says, without the group's name.
    pub fn reason(&self) -> Option<String> {
        match self {
            Error::Incomplete { why, .. } | Error::NotProven { why, .. } => Some(why.clone()),
            Error::Disagree { why, .. } => {
                Some(format!("its disks tell different histories: {why}"))
            }
            Error::Damaged { what, damage, .. } => Some(format!("{what}: {damage}")),
            _ => None,
        }
    }

    /// What the reader can do next.
    pub fn next_step(&self) -> NextStep {
        match self {
            Error::NotMounted { .. } => next("see which groups are mounted: ").cellar("asm", "lsdg"),
            Error::Exists { .. } => "choose another name, or drop the old one first".into(),
            Error::NoSuchFile { .. } => next("list what exists: ").cellar("asm", "ls"),
            Error::NoSuchTemplate { .. } => next("see which there are: ").cellar("asm", "lstmpl"),
            Error::TemplateExists { .. } => {
                "choose another name, or ALTER DISKGROUP ... MODIFY TEMPLATE".into()
            }
            Error::SystemTemplate { .. } => "change it: ALTER DISKGROUP ... MODIFY TEMPLATE".into(),
            Error::BadName { .. } => "use letters, digits, _ $ # . and -".into(),
            Error::NotEmpty { .. } => "drop its files first, or DROP DIRECTORY ... FORCE".into(),
            Error::BadValue { allowed, .. } => format!("use {allowed}").into(),
            Error::UnknownAttribute { .. } => {
                next("see all with their values: ").cellar("asm", "lsattr -l")
            }
            Error::NoSpace { .. } => {
                next("drop files; ").cellar("asm", "lsdg").then(" shows what fits")
            }
            Error::HasFiles { .. } => "DROP DISKGROUP ... INCLUDING CONTENTS".into(),
            Error::FailGroups { .. } => {
                "give more disks in other failure groups, or EXTERNAL REDUNDANCY".into()
            }
            Error::DiskUnusable { number, disk, .. } => next_step_of_disk(*number, disk),
            Error::ForceNotNeeded { .. } => "leave FORCE out".into(),
            Error::ReadOnlyAttribute { .. } => "create another group with the wanted value".into(),
            Error::Incomplete { .. } => {
                "bring the missing disks back; cellar rescue reads what is whole on the others"
                    .into()
            }
            Error::NotProven { .. } => {
                "bring the missing disks back; FORCE mounts what is here and may lose what \
                 only the missing disks know"
                    .into()
            }
            Error::Disagree { .. } => {
                "keep those that are right where they are, and move the others away: nothing is lost \
                 by that; cellar inspect DISK tells what a disk holds"
                    .into()
            }
            Error::Damaged { .. } => "see the structure: cellar inspect DISK".into(),
            Error::Corrupt { .. } => next("see what else is damaged: ").cellar("validate", ""),
            Error::WritesLost { .. } => next("write it again; see the disk: ").cellar("status", ""),
            Error::Lost { .. } => {
                next("delete the file and load it again, then ").cellar("asm", "rebal")
            }
            Error::NoCopy { .. } => next("bring the disks back: ").cellar("status", ""),
            Error::CannotOffline { .. } => {
                let see = next("see what else is missing: ").cellar("status", "");
                see.then("; bring that back first")
            }
            Error::Diverged { disk, .. } => {
                format!(
                    "ONLINE DISK {disk} FORCE copies all of it anew from the other disks; what \
                     only {disk} has is lost"
                )
                .into()
            }
            Error::Stopped { .. } => {
                next("mount it again; ").cellar("status", "").then(" says what it needs")
            }
            Error::ReadOnly { .. } => "mount it without READ ONLY".into(),
            Error::ScrubUnderWay { group } => {
                let see = next("see how far it is: ").cellar("asm", "lsop");
                see.then(format!("; ALTER DISKGROUP {group} SCRUB STOP ends it"))
            }
            Error::Io(_) => next("see the disk: ").cellar("asm", "lsdsk").then(", dmesg"),
        }
    }
}

/// The beginning of a next step.
fn next(words: &str) -> NextStep {
    NextStep::from(words)
}

/// What helps with a disk that cannot be used, by Oracle's number of the reason.
fn next_step_of_disk(number: u32, disk: &str) -> NextStep {
    match number {
        15010 => "choose another name".into(),
        15020 => kept_elsewhere(disk).into(),
        15033 => format!(
            "name another disk; if nobody needs that group, see what would be lost: cellar disks \
             --release {}",
            cellar_io::shell::quoted(disk)
        )
        .into(),
        15036 => "give a larger disk, or a smaller SIZE".into(),
        15054 => next("see which there are: ").cellar("asm", "lsdsk -k"),
        15057 => "make the disk larger first, or ask for less".into(),
        15071 => {
            let see = next("see how far it is: ").cellar("asm", "lsop");
            see.then("; a disk that is dropped without FORCE is kept by ALTER DISKGROUP ... UNDROP DISKS")
        }
        15084 => format!(
            "ONLINE DISK {disk} brings it back; DROP DISK {disk} FORCE makes its copies again on \
             the others"
        )
        .into(),
        _ => "see why: cellar disks".into(),
    }
}

/// How to exclude a disk that is a copy of another, or the same one by another path.
fn kept_elsewhere(disk: &str) -> String {
    let path = std::path::Path::new(disk);
    match path.parent().and_then(std::path::Path::parent) {
        Some(above) if !path.starts_with("/dev") => format!(
            "one of the two is a copy: keep it elsewhere, as by mv {} {}",
            cellar_io::shell::quoted(disk),
            cellar_io::shell::quoted(match above.as_os_str().is_empty() {
                true => "./",
                false => above.to_str().unwrap_or("./"),
            })
        ),
        _ => "have disk_string in cellar.toml find one of the two paths only".into(),
    }
}

/// No disk has that name.
pub(crate) fn no_such_disk(name: &str) -> Error {
    Error::DiskUnusable {
        disk: name.to_owned(),
        why: "the group has no disk of that name".to_owned(),
        number: 15054,
    }
}
