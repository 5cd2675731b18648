//! Tests of the log on simulated disks.

mod basic;
mod exhaustive;
mod golden;
mod simulation;
mod support;
