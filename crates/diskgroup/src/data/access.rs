//! Access to a file: what every read, write and flush of it needs.

use std::sync::Arc;

use cellar_io::Io;

use crate::data::Data;
use crate::data::file::FileRuntime;

/// A file, and how urgent a request to it is.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    pub data: &'a Arc<Data>,
    pub file: &'a FileRuntime,
    pub io: Io,
    /// The caller has nothing else to do until then: see [`cellar_io::Device::write_alone`].
    pub is_alone: bool,
}

impl<'a> Access<'a> {
    pub fn new(data: &'a Arc<Data>, file: &'a FileRuntime, io: Io) -> Access<'a> {
        Access { data, file, io, is_alone: false }
    }
}
