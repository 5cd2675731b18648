//! The real program, driven in directories of its own as a person or a client would.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "tests of the small program need less")
)]

mod advice;
mod answers;
#[path = "../sessions/chance.rs"]
mod chance;
mod chaos;
mod cli;
mod clients;
mod columnar;
mod ddl;
mod differential;
mod dump;
mod explain;
mod files;
mod first_hour;
mod forced;
mod lab;
mod loops;
mod migrate;
mod moves;
mod output;
mod power;
mod program;
mod queries;
mod redo;
mod rescue;
mod resize;
mod returning;
mod rights;
mod rows;
mod scrub;
mod security;
mod seen_by_clients;
mod sequences;
mod server;
mod subqueries;
mod tables;
mod troubles;
mod views;
mod wire;
