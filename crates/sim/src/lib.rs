//! Simulated lives of a disk group: everything it does, on disks that fail, held against a model.
//!
//! A seed makes a machine ([`rig`]), a workload and what goes wrong; [`run_seed`] lives through it
//! and panics at the first thing that is not as the [`model`] says. The same seed does the same,
//! event by event. The tests of `cellar-diskgroup` run some seeds; the program `sim` runs any number.

pub mod model;
pub mod rig;
mod simulation;

pub use simulation::{
    Count, FAULTS, Failure, Fault, FaultKind, Load, Mode, Outcome, Stats, TAIL, order_count,
    order_of, run_seed, try_seed,
};
