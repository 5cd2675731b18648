//! What a user of the crate sees: totals over threads, sessions seen from outside.

mod sessions;
mod totals;
