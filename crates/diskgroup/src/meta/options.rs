//! Options of a mount.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::on_disk::dirty::ENTRIES_PER_BLOCK;

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Replay the log in RAM, write nothing, resync nothing.
    pub read_only: bool,
    /// Mount although it cannot be proven that nothing newer exists elsewhere.
    pub force: bool,
    /// Mount to recover what can be read, although some extents have no copy here; read-only.
    #[doc(hidden)]
    pub rescue: Option<RescueMount>,
    /// A request unanswered for this long fails its disk.
    pub disk_timeout: Duration,
    /// A request unanswered for this long fails a disk that the group can do without, while the others
    /// answer.
    pub detach_timeout: Duration,
    /// How long a resync after a crash may take: bounds how many regions are dirty at once.
    pub resync_target: Duration,
    /// RAM for checksum blocks, in bytes.
    pub checksum_cache_bytes: usize,
    /// Regions in a block of the dirty log; fewer than fit only in tests, to have many blocks.
    #[doc(hidden)]
    pub dirty_block_entries: usize,
}

/// How a mount that rescues differs from others.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct RescueMount {
    /// Disks, by number, of which nothing is read although they are here.
    pub leave_out: BTreeSet<u16>,
    /// What has a known checksum and does not match it is not read, also where a crash may have torn
    /// the checksum.
    pub strict: bool,
    /// Disks that were away and missed something are read, too: as of when they left.
    pub stale: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            read_only: false,
            force: false,
            rescue: None,
            disk_timeout: Duration::from_secs(30),
            detach_timeout: Duration::from_secs(10),
            resync_target: Duration::from_secs(5),
            checksum_cache_bytes: 64 << 20,
            dirty_block_entries: ENTRIES_PER_BLOCK,
        }
    }
}
