//! Tests of the store on simulated disks.

mod basic;
mod life;
mod support;
