//! The lab from outside.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[cfg(feature = "real")]
mod here;
#[cfg(feature = "real")]
mod io_modes;
mod model;
