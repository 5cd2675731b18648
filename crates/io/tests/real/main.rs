//! Real disks: what a caller sees, on every engine.

mod loops;
mod modes;
mod probe;
mod roundtrip;
mod support;
mod time;
mod watch;
