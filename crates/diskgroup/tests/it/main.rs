//! Integration tests of the disk group crate.

mod basic;
mod membership;
mod model;
mod fuzz;
mod golden;
mod inspect;
mod rig;
mod simulation;
mod store;
