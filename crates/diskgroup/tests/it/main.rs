//! Integration tests of the disk group crate.

mod basic;
mod fuzz;
mod golden;
mod inspect;
mod rig;
mod store;
