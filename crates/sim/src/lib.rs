//! Simulated runs of a disk group: everything it does, on failing disks, checked against a model.
//!
//! A seed determines a machine ([`rig`]), a workload and the faults; [`run_seed`] runs it
//! and panics at the first difference from the [`model`]. All runs of a seed are
//! the same, event by event. The tests of `cellar-diskgroup` run some seeds; the program `sim` runs any number.

pub mod model;
pub mod rig;
mod simulation;

pub use simulation::{
    Count, FAULTS, Failure, Fault, FaultKind, Load, Mode, Outcome, Stats, TAIL, order_count,
    order_of, run_seed, try_seed,
};
