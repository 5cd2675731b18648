//! Sessions of a database on real files, in this process; one module has simulated disks.

#![cfg(feature = "sql")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod blocks;
mod bulk;
mod chance;
mod changes;
mod comments;
mod copy;
mod database;
mod definitions;
mod enums;
mod failures;
mod fast_path;
mod foreign_keys;
mod heap_aggregates;
mod pgcatalog;
mod postgres;
mod prepared;
mod random_sql;
mod scan_rows;
mod schemas;
mod seen;
mod settings;
mod sim_sql;
mod sqllogic;
mod temporary;
mod types;
