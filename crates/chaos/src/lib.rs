//! Disks that lose power, hang, fail and lie: a FUSE file system for tests of real programs.
//!
//! The simulated disks of `cellar-io` test the code; these test the whole program, including its
//! system calls. A directory of plain files is served at a mount point. Each file has
//!
//! * a durable state: the file of the same name in the backing directory;
//! * a write cache in RAM, of 512-byte sectors: what was written and not flushed.
//!
//! Reads see the cache over the durable state. `fsync`, `fdatasync`, `O_DSYNC` and `RWF_DSYNC` make
//! their data durable. In a power cut each unflushed sector keeps its state of the last
//! flush, or becomes one of the versions written since, chosen by a seed; every request fails from then on.
//! After [`ChaosDisks::power_on`] the surviving data is served again; handles opened before
//! the cut get errors until they are reopened, so that no old request arrives late.
//!
//! Other faults of one file: requests that are late, hang or fail; flushes that lie; torn writes.
//! [`Counters`] show what was done, so that no test passes without having exercised its fault.
//!
//! ```no_run
//! use cellar_chaos::{ChaosDisks, Cut};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let disks = ChaosDisks::mount("/tmp/backing".as_ref(), "/tmp/disks".as_ref())?;
//! std::fs::write(disks.path("disk1"), "hello")?;
//! let lost = disks.cut(&Cut::worst())?;
//! assert_eq!(lost.dropped, 1);
//! disks.power_on();
//! assert_eq!(std::fs::read(disks.path("disk1"))?, [0; 5]);
//! # Ok(())
//! # }
//! ```
//!
//! **What it does not model.** Names and lengths are durable at once; only content is lost. The
//! cache holds everything until a flush (a drive writes some of it back earlier: that is the same as a
//! sector kept in the cut). Requests are executed one at a time; only their waiting overlaps.
//!
//! **How requests arrive.** Files are opened with `FOPEN_DIRECT_IO`: the page cache hides nothing.
//! A write with `RWF_DSYNC` arrives as a write with `O_DSYNC` among its flags and no flush after it
//! (Linux 6.18, `fuse_write_flags`). Locks are the kernel's own. io_uring works; a write longer
//! than 1 MiB is several requests, and a cut may come between them.
//!
//! **By hand.** `chaosdisk BACKING MOUNTPOINT` serves until its standard input ends, and reads lines of
//! [`Command`] from it. Mounting needs root, or the program `fusermount3` (Debian: fuse3). A killed
//! server leaves a dead mount behind: `umount MOUNTPOINT`.

mod chance;
mod command;
mod content;
mod counters;
mod cut;
mod disks;
mod error;
mod fault;
mod later;
mod serve;
mod state;

pub use command::Command;
pub use counters::Counters;
pub use cut::{Cut, Lost, When};
pub use disks::ChaosDisks;
pub use error::ChaosError;
pub use fault::Op;
