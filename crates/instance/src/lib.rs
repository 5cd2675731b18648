//! The database of Cellar: what joins storage, waits, memory and names into one instance.
//!
//! The principal type is [`Database`]: an open directory with its [`Instance`], its
//! [storage](cellar_storage::Storage) and its catalog. Each module is one room: [`parameters`] and the
//! file they live in, the [`directory`] with its lock and its socket, the memory [`budget`],
//! [`session`]s, the [`catalog`], columnar [`tables`], and the typed rows of every `v$` view in
//! [`views`]. Errors are Oracle's stacks ([`error`]).

pub mod administration;
pub mod budget;
pub mod catalog;
mod catalog_file;
pub mod commands;
pub mod database;
pub mod directory;
pub mod error;
pub mod groups;
pub mod health;
pub mod heap;
mod instance;
pub mod library;
pub mod parameters;
pub mod roles;
pub mod scans;
pub mod scrub;
pub mod session;
pub mod tables;
pub mod temp;
pub mod views;
pub mod wire;

pub use cellar_storage::error::NextStep;
pub use cellar_storage::{Error, Remedy, Result};
pub use database::Database;
pub use instance::{GroupViews, Instance};
