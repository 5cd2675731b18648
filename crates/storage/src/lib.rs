//! The storage layer of Cellar as one thing to open: it finds disks, mounts groups, keeps spares and
//! places redo. It knows no tables, sessions or SQL: what it needs of the layers above, they pass in.
//!
//! The principal type is [`Storage`], a handle of parts that each own their state: the
//! [`DiskFinder`](finder::DiskFinder), the [`Groups`](groups::Groups) and the
//! [`RedoManager`](redo::RedoManager). Whoever opens it is its [`Host`], and gives it the parameters that
//! it obeys as [`Settings`]. Errors are Oracle's stacks ([`error`]).

pub mod disks;
pub mod error;
mod files;
pub mod finder;
pub mod groups;
mod host;
mod init;
mod mounted;
#[cfg(feature = "real")]
mod owner;
pub mod redo;
pub mod replace;
pub mod request;
pub mod settings;
pub mod size;
mod storage;
pub mod words;

pub use error::{Error, Remedy, Result};
pub use files::{Progress, absolute};
pub use host::{Background, Host, OpenMode, Surroundings};
pub use init::{InitDisk, InitSpec, init};
pub use mounted::{Mounted, MountedGroups, split_group_path};
pub use settings::Settings;
pub use storage::{OpenStorage, Storage};
