//! Tests of the crate as its users see it: totals over threads, sessions seen from outside.

mod sessions;
mod totals;
