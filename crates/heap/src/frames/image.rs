//! One state of a page, and those before it that somebody may still read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_io::Buffer;
use cellar_page::{PAGE_BYTES, PageRef, Raw};

/// One state of a page. It never changes.
pub(crate) struct Image {
    bytes: Buffer,
    /// It may be written to its place once the log is durable up to here.
    pub end: u64,
    /// The state before it, if a snapshot may need that.
    before: Mutex<Option<Arc<Image>>>,
}

impl Image {
    pub fn new(bytes: Buffer, end: u64, before: Option<Arc<Image>>) -> Image {
        assert_eq!(bytes.len(), PAGE_BYTES, "a page");
        Image { bytes, end, before: Mutex::new(before) }
    }

    pub fn page(&self) -> PageRef<'_> {
        PageRef::new(self.raw())
    }

    pub fn raw(&self) -> &Raw {
        self.bytes[..].try_into().expect("it has the length of a page")
    }

    /// The state before it, if it is kept.
    pub fn before(&self) -> MutexGuard<'_, Option<Arc<Image>>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is a page that was never written.
    pub fn is_blank(&self) -> bool {
        self.lsn() == 0 && self.page().kind().is_none()
    }

    /// Where the record begins that made it: snapshots above see it.
    pub fn lsn(&self) -> u64 {
        self.page().lsn()
    }

    /// Its bytes, to be changed.
    pub fn copy(&self) -> Buffer {
        let mut copy = Buffer::new(PAGE_BYTES);
        copy.copy_from_slice(&self.bytes);
        copy
    }
}

/// The bytes of a page that is being changed.
pub(crate) fn raw_mut(buffer: &mut Buffer) -> &mut Raw {
    (&mut buffer[..]).try_into().expect("it has the length of a page")
}
