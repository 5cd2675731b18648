//! The 8 KB page of tables whose rows change: slots, cells, checks.
#![doc = include_str!("../README.md")]

mod check;
mod edit;
pub mod header;
pub mod key;
pub mod row;
mod slots;

pub use check::{Damage, check, seal};
pub use edit::PageMut;
pub use header::{HEADER_BYTES, Kind, PAGE_BYTES, Raw};
pub use slots::{Cell, CellKind, PageRef, SLOT_BYTES};

/// The longest cell that a page can have, in bytes: alone on its page.
pub const CELL_BYTES_MAX: usize = PAGE_BYTES - HEADER_BYTES - SLOT_BYTES;
