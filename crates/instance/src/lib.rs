//! The database of Cellar: what joins disk groups, waits, memory and names into one instance.
//!
//! The principal type is [`Database`]: an open directory with its [`Instance`] and mounted groups.
//! Each module is one room: [`parameters`] and the file they live in, the [`directory`] with its
//! lock and its socket, the memory [`budget`], [`session`]s, the [`catalog`], columnar [`tables`],
//! the [`redo`] log, and the typed rows of every `v$` view in [`views`]. Errors are Oracle's
//! stacks ([`error`]).

pub mod budget;
pub mod catalog;
mod catalog_file;
pub mod commands;
pub mod database;
pub mod directory;
pub mod error;
pub mod groups;
mod instance;
pub mod parameters;
pub mod redo;
pub mod scans;
pub mod scrub;
pub mod session;
pub mod size;
pub mod tables;
pub mod temp;
pub mod views;
pub mod wire;

pub use cellar_storage::{Error, Remedy, Result};
pub use database::{Database, Mounted, OpenMode};
pub use instance::{GroupViews, Instance};
