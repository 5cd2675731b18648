//! Integration tests of the instance crate, as the crates above it use it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod catalog;
mod definitions;
mod directory;
mod env;
mod groups;
mod heap_check;
mod heap_views;
mod instance;
mod machine;
mod parameters;
mod redo;
mod row_tables;
mod sessions;
mod tables;
mod tables_cut_off;
mod takeover;
mod views;
mod wire;
