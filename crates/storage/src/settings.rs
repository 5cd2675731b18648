//! The parameters that storage obeys: read each time, and kept by whoever opens it.

use crate::error::Result;

/// Power of a rebalance that names none.
pub const ASM_POWER_LIMIT: &str = "asm_power_limit";
/// Whether disks are read and written asynchronously.
pub const DISK_ASYNCH_IO: &str = "disk_asynch_io";
/// Seconds before a disk that does not answer leaves a group that can run without it.
pub const DISK_DETACH_TIMEOUT: &str = "disk_detach_timeout";
/// The way to the kernel for asynchronous I/O.
pub const DISK_IO_ENGINE: &str = "disk_io_engine";
/// Where disks are looked for.
pub const DISK_STRING: &str = "disk_string";
/// Seconds after which a disk that does not answer leaves.
pub const DISK_TIMEOUT: &str = "disk_timeout";
/// How disks that are files are opened.
pub const FILESYSTEMIO_OPTIONS: &str = "filesystemio_options";
/// Seconds after which a hot spare takes a place.
pub const HOT_SPARE_DELAY: &str = "hot_spare_delay";
/// Disks that wait to take the place of one that fails.
pub const HOT_SPARES: &str = "hot_spares";
/// Where finished redo groups are archived.
pub const LOG_ARCHIVE_DEST: &str = "log_archive_dest";
/// Bytes of a block of a new redo log.
pub const LOG_BLOCK_SIZE: &str = "log_block_size";
/// Bytes of redo that may wait to be written.
pub const LOG_BUFFER: &str = "log_buffer";
/// Media that must have a commit of a new redo log.
pub const REDO_QUORUM: &str = "redo_quorum";
/// Seconds of copying that make all mirrors agree after a crash.
pub const RESYNC_TARGET: &str = "resync_target";
/// Reads that a scan keeps in flight on each disk.
pub const SCAN_DEPTH: &str = "scan_depth";

/// The values in effect, by the names in this module. An implementation knows all of them.
pub trait Settings: Send + Sync + 'static {
    /// A number.
    fn integer(&self, name: &'static str) -> u64;
    /// A flag.
    fn flag(&self, name: &'static str) -> bool;
    /// One of a few words.
    fn choice(&self, name: &'static str) -> &'static str;
    /// A text.
    fn text(&self, name: &'static str) -> String;
    /// A list.
    fn list(&self, name: &'static str) -> Vec<String>;

    /// Sets a list: durably, where that can be.
    ///
    /// # Errors
    /// It cannot be written; nothing changes.
    fn set_list(&self, name: &'static str, parts: Vec<String>) -> Result<()>;
}
