//! The lab: questions about disks, answered with evidence.
//!
//! An experiment ([`multi_disk`]) is code that runs on the disks of a [`Place`]: simulated ones
//! shaped to a model in virtual time ([`place::Model`]), or files and disks of this machine
//! (`place::Here`, feature `real`). The same code runs on both. The result is a
//! [`Run`]: arms compared with published figures, raw rows, noise, and a finding in words.
//!
//! ```
//! use cellar_lab::{Control, Head, multi_disk, preset};
//!
//! # fn main() -> Result<(), cellar_lab::LabError> {
//! let options = multi_disk::Options { file_bytes: 64 << 20, ..Default::default() };
//! let model = multi_disk::model(preset::FC_LUN_2006, &options, &Control::quiet())?;
//! let run = multi_disk::report(Head::default(), &options, Some(model), None);
//! assert!(run.arm("serial-1").and_then(|a| a.ratio).is_some_and(|r| r < 1.0));
//! # Ok(())
//! # }
//! ```

pub mod au_size;
mod ceiling;
mod column;
mod commit;
mod content;
mod control;
mod counters;
mod error;
pub mod experiment;
pub mod experiments;
mod group;
mod html;
#[cfg(feature = "real")]
pub mod io_modes;
mod json;
mod load;
mod meter;
mod mispredictions;
pub mod multi_disk;
pub mod place;
pub mod preset;
pub mod redo_block_size;
pub mod redo_media;
mod run;
pub mod run_store;
mod sample;
pub mod smart_scan;
mod table_scan;
mod text;

pub use column::Column;
pub use control::{Control, OnProgress};
pub use counters::DeviceUse;
pub use error::LabError;
pub use experiment::{Experiment, OptionSpec, OptionTexts, Request};
pub use meter::Meter;
pub use place::Place;
pub use run::compare::{Compared, Comparison};
pub use run::{
    Arm, Figures, Head, Invocation, Machine, Noise, Raw, Run, Table, TableRow, Verdict,
    settings_hash, verdict,
};
pub use sample::{DiskUse, Sample};
