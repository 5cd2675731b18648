//! Integration tests of the simulator, the scheduler and the shaped device, without a real disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod crash;
mod fault;
mod flaws;
mod laws;
mod replay;
mod sched;
mod shape;
