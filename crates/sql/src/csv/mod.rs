//! CSV, read and written in one way everywhere: by `load`, in place on the host and in groups.

pub(crate) mod file;
pub mod form;
pub mod look;
pub(crate) mod read;
pub(crate) mod records;
pub mod reject;
pub(crate) mod table;
pub(crate) mod text;
pub mod types;
pub(crate) mod values;
pub(crate) mod write;

mod header;

pub use form::{Compression, CsvForm, Place};
