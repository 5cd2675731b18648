//! Integration tests of the disk group crate.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod basic;
mod callers;
mod decisive;
mod dirty;
mod forecast;
mod fuzz;
mod golden;
mod inspect;
mod labels;
mod leaving;
mod log;
mod membership;
mod model;
mod moves;
mod reserve;
mod rig;
mod simulation;
mod store;
