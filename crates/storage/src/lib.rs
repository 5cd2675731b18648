//! The floor of Cellar as one thing that is opened: disks are found, groups mounted, spares kept, redo
//! placed. It knows no tables, sessions or SQL: what it needs of those above, they give it.
//!
//! Errors are Oracle's stacks ([`error`]).

pub mod disks;
pub mod error;
#[cfg(feature = "real")]
mod owner;
pub mod replace;
pub mod settings;
pub mod size;

pub use error::{Error, Remedy, Result};
pub use settings::Settings;
