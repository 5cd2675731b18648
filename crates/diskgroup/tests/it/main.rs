//! Integration tests of the disk group crate.

mod basic;
mod membership;
mod model;
mod rig;
mod simulation;
