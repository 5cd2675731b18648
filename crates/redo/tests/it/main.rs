//! Tests of the log on simulated disks.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod archive;
mod archive_store;
mod basic;
mod clear;
mod dying;
mod exhaustive;
mod failures;
mod golden;
mod groups;
mod held_writes;
mod inspect;
mod media;
mod pacing;
mod reserve;
mod rules;
mod scoreboard;
mod simulation;
mod support;
mod threads;
mod without_writes;
