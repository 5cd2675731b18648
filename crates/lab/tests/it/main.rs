//! The lab from outside.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[cfg(feature = "real")]
mod here;
mod model;
