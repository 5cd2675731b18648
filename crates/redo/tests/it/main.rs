//! Tests of the log on simulated disks.

mod basic;
mod simulation;
mod support;
