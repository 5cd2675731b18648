//! Real disks: what a caller sees, on every engine.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod laws;
mod loops;
mod modes;
mod probe;
mod roundtrip;
mod support;
mod time;
mod watch;
