//! Tests of the store on simulated disks.

mod basic;
mod isolation;
mod life;
mod support;
