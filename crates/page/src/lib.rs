//! The page of tables whose rows change: 8 KB with a header, slots and cells. It is read and changed in
//! memory only; who reads and writes it, the caller knows.

mod check;
mod edit;
pub mod header;
mod slots;

pub use check::{Damage, check, seal};
pub use edit::PageMut;
pub use header::{HEADER_BYTES, Kind, PAGE_BYTES, Raw};
pub use slots::{Cell, CellKind, PageRef, SLOT_BYTES};

/// The longest cell that a page can have, in bytes: alone on its page.
pub const CELL_BYTES_MAX: usize = PAGE_BYTES - HEADER_BYTES - SLOT_BYTES;
