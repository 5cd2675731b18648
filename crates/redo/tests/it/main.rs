//! Tests of the log on simulated disks.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod basic;
mod exhaustive;
mod golden;
mod simulation;
mod support;
