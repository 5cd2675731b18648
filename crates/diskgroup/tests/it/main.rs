//! Integration tests of the disk group crate.

mod basic;
mod model;
mod rig;
mod simulation;
