//! Integration tests of the disk group crate.

mod basic;
mod rig;
mod store;
