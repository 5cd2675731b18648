//! The lab from outside.

#[cfg(feature = "real")]
mod here;
mod model;
