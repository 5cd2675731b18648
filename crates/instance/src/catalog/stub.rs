//! The stub in the place of the catalog's file once the catalog is in the heap. Programs that know no heap
//! take it for a catalog of a later version, and refuse the database.

use serde::{Deserialize, Serialize};

use super::{content, damaged, framed};
use crate::error::Result;

/// The version of the form.
pub(super) const VERSION: u32 = 3;

/// Says that the catalog is in the heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stub {
    version: u32,
    /// The file of the heap.
    pub heap: String,
    /// The file that has the catalog as it was before.
    pub before: String,
    /// Whether the heap has it. If not, the next opening brings it there from that file.
    pub is_done: bool,
}

impl Stub {
    /// A stub.
    pub fn new(heap: &str, before: &str, is_done: bool) -> Stub {
        Stub { version: VERSION, heap: heap.to_owned(), before: before.to_owned(), is_done }
    }

    /// The bytes that [`Stub::decode`] reads back.
    pub fn encode(&self) -> Result<Vec<u8>> {
        framed(VERSION, self)
    }

    /// Reads a stub; `None`: it is a catalog, of whatever version.
    ///
    /// # Errors
    /// 70108 it is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Option<Stub>> {
        match content(bytes)? {
            (VERSION, body) => {
                let stub = serde_json::from_slice(body).map_err(|e| damaged(&e.to_string()))?;
                Ok(Some(stub))
            }
            _ => Ok(None),
        }
    }
}
