//! Errors of the lab.

use std::path::PathBuf;

/// The reason why an experiment did not complete.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// An unusable option.
    #[error("--{name} {value} is not valid; allowed: {allowed}")]
    Option {
        /// Its name.
        name: &'static str,
        /// As given.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A disk that was given twice.
    #[error("--disks: {0} are one disk; each disk is to be named once")]
    Twice(String),
    /// A serial number that no disk has.
    #[error(
        "--erase {given}: no disk of --disks has this serial number; {}",
        if known.is_empty() {
            "none of them is a device with a serial number".to_owned()
        } else {
            format!("theirs are: {}", known.join(", "))
        }
    )]
    Serial {
        /// As given.
        given: String,
        /// The existing ones.
        known: Vec<String>,
    },
    /// Fewer disks than the experiment compares.
    #[error(
        "--disks names {given}, {needed} are needed: PATH,PATH (fewer do with --layout one,same, \
         --width N, or without --archive other, as the experiment has it)"
    )]
    Few {
        /// Disks given.
        given: usize,
        /// Disks needed.
        needed: usize,
    },
    /// A disk that may not be written to.
    #[error("CELLAR-{number}: {text}\nNext: {next}")]
    Taken {
        /// Oracle's number.
        number: u16,
        /// The problem.
        text: String,
        /// The remedy.
        next: String,
    },
    /// A disk that is too small.
    #[error(
        "CELLAR-15036: disk {} has {} MB, {} MB are needed\nNext: name one of {} MB or more, \
         or ask for less than now: --size, of a log --group-size",
        path.display(), size >> 20, needed >> 20, needed.div_ceil(1 << 20)
    )]
    Small {
        /// The disk.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// There is not enough space for scratch files.
    #[error(
        "CELLAR-70111: the scratch files need {} MB, the file system of {} has {} MB free\nNext: \
         ask for less than now: --size, of a log --group-size; or another directory: --dir",
        needed >> 20, dir.display(), free >> 20
    )]
    Room {
        /// The directory for them.
        dir: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// A disk failed.
    #[error(transparent)]
    Io(#[from] cellar_io::IoError),
    /// The group failed.
    #[error(transparent)]
    Group(#[from] cellar_diskgroup::Error),
    /// The redo log failed, or could not be created.
    #[error(
        "CELLAR-70307: the log of this experiment: {0}\nNext: run it again, on other disks if it \
         persists"
    )]
    Redo(#[from] cellar_redo::Error),
    /// A scan failed, for a reason other than a disk.
    #[error(
        "CELLAR-70306: the table cannot be scanned: {0}\nNext: run it again, on other disks if it \
         persists"
    )]
    Cell(cellar_cell::Error),
    /// Rows generated for a table cannot be encoded as a row group.
    #[error(
        "CELLAR-70303: {rows} rows of the table cannot be encoded: {why}\nNext: take another \
         --seed, and report this"
    )]
    Encode {
        /// The number of rows.
        rows: usize,
        /// The encoder's error.
        why: String,
    },
    /// Two ways of running a query gave different answers.
    #[error(
        "CELLAR-70304: arms disagree: to \"{question}\" {arm} answers {found}, {base} {expected}: \
         not a measurement\nNext: report this, with the seed; cellar validate tells whether disks \
         are well"
    )]
    Disagree {
        /// The query.
        question: &'static str,
        /// The way with the deviating answer.
        arm: String,
        /// That answer, in words.
        found: String,
        /// The way it is compared with.
        base: String,
        /// The answer of that one.
        expected: String,
    },
    /// An unrequested part of an answer.
    #[error("CELLAR-70305: the cell answered {0}, which was not asked for\nNext: report this")]
    Answer(String),
    /// A file could not be created or read.
    #[error("{}: {source}", path.display())]
    Scratch {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The data read differs from the data written.
    #[error("the read at byte {offset} gave what was written for byte {found}: not a measurement")]
    WrongBytes {
        /// Offset in the file.
        offset: u64,
        /// The offset found in the bytes.
        found: u64,
    },
    /// Validate found bad copies.
    #[error("validate found bad copies in the file of this experiment: not a measurement")]
    BadCopies,
    /// A kept run that does not exist.
    #[error("there is no run {number} in {}; there are: {known}\nNext: cellar lab list", dir.display())]
    NoRun {
        /// As asked for.
        number: u64,
        /// The existing ones, in words.
        known: String,
        /// The directory.
        dir: PathBuf,
    },
    /// A kept run that cannot be read.
    #[error(
        "{}: not a kept run of this version: {source}\nNext: remove it, or read it with the \
         version that made it",
        path.display()
    )]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A figure that JSON cannot represent.
    #[error("the run cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// The caller cancelled it, or a task ended before its work.
    #[error("stopped before it was done; nothing was kept")]
    Stopped,
}

impl From<cellar_cell::Error> for LabError {
    fn from(error: cellar_cell::Error) -> LabError {
        match error {
            cellar_cell::Error::Io(error) => LabError::Io(error),
            error => LabError::Cell(error),
        }
    }
}
