//! The outside world of Cellar: devices, time, chance and tasks.
//!
//! The principal type is the trait [`Device`]; [`Env`] is where code runs. Both are real (module
//! `real`), shaped to a model, or simulated from a seed.

pub mod buffer;
pub mod device;
pub mod env;
pub mod error;
pub mod laws;
mod next_step;
#[cfg(feature = "real")]
pub mod real;
pub mod sched;
pub mod shape;
pub mod shell;
pub mod sim;
mod slab;

pub use buffer::{ALIGNMENT, Buffer};
pub use device::{
    Class, Device, DeviceExt, Discard, Durability, Geometry, Io, IoFuture, Owner, check_request,
};
pub use env::{Env, EnvExt, Handle, Instant, SharedEnv, Task, WallTime};
pub use error::{IoError, IoErrorKind, MEMORY, OPEN_FILES, OPEN_FILES_OF_ALL, Op};
pub use next_step::NextStep;
