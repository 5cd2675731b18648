//! Real disks, real time and real tasks: the engines and the tokio environment.

mod disk;
pub(crate) mod engine;
mod open;
mod runtime;
mod watch;

pub use disk::RealDisk;
pub use open::{Access, EngineChoice, OpenOptions, open_disk};
pub use runtime::{RealEnv, Runtime, RuntimeOptions};
