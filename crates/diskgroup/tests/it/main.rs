//! Integration tests of the disk group crate.

mod basic;
mod fuzz;
mod golden;
mod inspect;
mod membership;
mod model;
mod rig;
mod simulation;
mod store;
