//! Errors of the store, sorted by who must act, with Oracle's numbers where the meaning is the same.

use std::sync::Arc;

use cellar_io::IoError;
use cellar_page::Damage;

use crate::geometry::Geometry;
use crate::locks::LockError;
use crate::row_id::RowRef;

/// A failure of the store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// User: a row is longer than a page takes.
    #[error("a row of {bytes} bytes is too long: a page takes {max}")]
    RowTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The longest that fits, in bytes.
        max: usize,
    },
    /// User: a row is shorter than the pointer to where it may move.
    #[error("a row of {bytes} bytes is too short: {least} are the least")]
    RowTooShort {
        /// Its length in bytes.
        bytes: usize,
        /// The shortest that is possible, in bytes.
        least: usize,
    },
    /// User: a value is longer than a store takes.
    #[error("a value of {bytes} bytes is too long: {max} are the most")]
    ValueTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The longest that is possible, in bytes.
        max: usize,
    },
    /// User: a transaction changes more than fits the buffer cache or the log next to the changes of
    /// others.
    #[error(
        "a transaction with {what} is too large: {max} are the most; commit more often, or load"
    )]
    TransactionTooLarge {
        /// What there is too much of, and how much.
        what: TooMuch,
        /// The most that is possible.
        max: u64,
    },
    /// User: a load that has failed was continued.
    #[error("the load of table {table} has failed: begin it anew")]
    LoadBroken {
        /// The number of the table.
        table: u32,
    },
    /// A row names a long value that is not there.
    #[error("there is no long value in page {page}, which a row names")]
    NoValue {
        /// The page.
        page: u32,
    },
    /// User: a key is longer than an index takes.
    #[error("a key of {bytes} bytes is too long: an index takes {max}")]
    KeyTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The longest that is possible, in bytes.
        max: usize,
    },
    /// User: the file has no room for another extent.
    #[error(
        "object {object} cannot be extended: all {extents} extents of the file are in use{}",
        because(cause)
    )]
    Full {
        /// The number of the table or index.
        object: u32,
        /// Extents of the file.
        extents: u32,
        /// Why the file does not grow; `None` where it has no means to grow.
        cause: Option<Arc<str>>,
    },
    /// User: the file is too small for a store.
    #[error("a file of {bytes} bytes is too small for a store: {least} are needed")]
    TooSmall {
        /// Its size in bytes.
        bytes: u64,
        /// The least that is possible, in bytes.
        least: u64,
    },
    /// User: sizes that a store cannot have.
    #[error("a store cannot have these sizes: {geometry:?}")]
    BadGeometry {
        /// The sizes.
        geometry: Geometry,
    },
    /// User: the file belongs to another database than the log.
    #[error("the store belongs to database {found:032x}, the log to {expected:032x}")]
    OtherDatabase {
        /// The database of the store.
        found: u128,
        /// That of the log.
        expected: u128,
    },
    /// User: no such row: it was deleted, or never existed.
    #[error("there is no row {slot} in page {page}")]
    NoRow {
        /// The page.
        page: u32,
        /// Its slot.
        slot: u16,
    },
    /// User: the number belongs to something else, or to nothing.
    #[error("object {object} is no {expected}")]
    WrongObject {
        /// The number.
        object: u32,
        /// What was asked for.
        expected: &'static str,
    },
    /// User: another row has the key.
    #[error("another row has this key of index {index}: {row}")]
    Duplicate {
        /// The index.
        index: u32,
        /// The row that has it; if both rows are being loaded, the first one.
        row: RowRef,
    },
    /// User: what a view sees is no longer kept, because others have changed too much since it was
    /// opened.
    #[error(
        "snapshot too old: pages as of LSN {point} are kept no longer{}",
        why_not_spilled(cause)
    )]
    SnapshotTooOld {
        /// The LSN of the view.
        point: u64,
        /// Why the file of older images accepts no more, if that was the cause.
        cause: Option<Arc<str>>,
    },
    /// Disk: an older image of a page that a view needs cannot be read back.
    #[error("an older image of page {page} cannot be read back: {why}")]
    Spill {
        /// The page.
        page: u32,
        /// What the file of older images reports.
        why: Arc<str>,
    },
    /// User: a counter has no value behind this one.
    #[error("counter {number} cannot go on behind {value}: a number has 64 bits")]
    CounterEnds {
        /// Its number.
        number: u32,
        /// Its last value.
        value: i64,
    },
    /// User: another transaction has changed the row since this one began to read.
    #[error("row {slot} in page {page} was changed since this transaction's snapshot")]
    Serialization {
        /// The page.
        page: u32,
        /// Its slot.
        slot: u16,
    },
    /// User: a lock was not granted.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The disk: a page is not what was written.
    #[error("page {page} is damaged: {damage}")]
    PageDamaged {
        /// The page.
        page: u32,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Disk: the temporary runs of an index sort are not what was written.
    #[error("what was put aside while index {object} was sorted is damaged")]
    SortDamaged {
        /// The number of the index.
        object: u32,
    },
    /// The disk: no copy of the header is whole, or it is no store.
    #[error("the header of the store is damaged: {why}")]
    HeaderDamaged {
        /// What is wrong with it.
        why: String,
    },
    /// Files and log do not belong together: one of them is older than the other.
    #[error("{what} is older than {other}: it ends at LSN {end}, a page has LSN {lsn}")]
    Older {
        /// What is older.
        what: &'static str,
        /// Than what.
        other: &'static str,
        /// Where it ends.
        end: u64,
        /// What the other has.
        lsn: u64,
    },
    /// The log was opened by force and lost records that pages already have: the store is read-only.
    #[error(
        "the store is ahead of the log, which was opened by force: its pages have changes up to LSN {below}, the log \
         ends at {end}"
    )]
    Ahead {
        /// Where the log ends.
        end: u64,
        /// All pages are below.
        below: u64,
    },
    /// A redo record does not fit its page: store and log do not belong together.
    #[error("redo at LSN {lsn} does not fit page {page}: {what}")]
    RedoUnfit {
        /// The record.
        lsn: u64,
        /// The page.
        page: u32,
        /// What does not fit.
        what: &'static str,
    },
    /// The device.
    #[error(transparent)]
    Io(Arc<IoError>),
    /// The log.
    #[error(transparent)]
    Log(#[from] cellar_redo::Error),
    /// The store has stopped; only an opening clears that.
    #[error("the store has stopped: {why}")]
    Stopped {
        /// Why.
        why: Arc<str>,
    },
}

fn why_not_spilled(cause: &Option<Arc<str>>) -> String {
    cause.as_ref().map_or(String::new(), |why| format!(": {why}"))
}

fn because(cause: &Option<Arc<str>>) -> String {
    cause.as_ref().map_or(String::new(), |why| format!(", and it does not grow: {why}"))
}

/// The limit that a transaction exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMuch {
    /// So many pages in memory.
    Pages(u64),
    /// So many bytes of redo.
    Redo(u64),
}

impl std::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TooMuch::Pages(pages) => write!(f, "{pages} pages"),
            TooMuch::Redo(bytes) => write!(f, "{bytes} bytes of redo"),
        }
    }
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Error {
        Error::Io(Arc::new(error))
    }
}

impl Error {
    /// Its number.
    pub fn number(&self) -> u32 {
        match self {
            Error::RowTooLong { .. } => 70200,
            Error::RowTooShort { .. } => 70204,
            Error::ValueTooLong { .. } => 70206,
            Error::NoValue { .. } => 22922,
            Error::TransactionTooLarge { .. } => 70207,
            Error::LoadBroken { .. } => 70208,
            Error::KeyTooLong { .. } => 1450,
            Error::Full { .. } => 1653,
            Error::TooSmall { .. } => 70201,
            Error::BadGeometry { .. } => 70205,
            Error::OtherDatabase { .. } => 1130,
            Error::NoRow { .. } => 1410,
            Error::WrongObject { .. } => 70202,
            Error::Duplicate { .. } => 1,
            Error::SnapshotTooOld { .. } => 1555,
            Error::Spill { .. } => 27072,
            Error::CounterEnds { .. } => 8004,
            Error::Serialization { .. } => 8177,
            Error::Lock(LockError::Deadlock { .. }) => 60,
            Error::Lock(LockError::Busy { .. }) => 54,
            Error::Lock(LockError::TimedOut { .. }) => 30006,
            Error::PageDamaged { .. } => 1578,
            Error::SortDamaged { .. } => 70209,
            Error::HeaderDamaged { .. } => 1210,
            Error::Older { .. } => 1113,
            Error::Ahead { .. } => 70214,
            Error::RedoUnfit { .. } => 70203,
            Error::Io(_) => 1115,
            Error::Log(error) => error.number(),
            Error::Stopped { .. } => 1092,
        }
    }
}
