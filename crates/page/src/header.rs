//! The header of a page: where its fields are, and what they mean.
//!
//! All numbers are little-endian. `docs/format/heap.md` has the picture.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 8192;

/// A page as bytes.
pub type Raw = [u8; PAGE_BYTES];

/// Bytes of the header.
pub const HEADER_BYTES: usize = 48;

/// The version of the layout, in every page.
pub const VERSION: u8 = 1;

pub(crate) const CRC: usize = 0;
pub(crate) const NUMBER: usize = 4;
pub(crate) const STORE: usize = 8;
pub(crate) const LSN: usize = 16;
pub(crate) const KIND: usize = 24;
pub(crate) const VERSION_AT: usize = 25;
pub(crate) const SLOTS: usize = 26;
pub(crate) const CELLS_START: usize = 28;
pub(crate) const HOLES: usize = 30;
pub(crate) const OWNER: usize = 32;
pub(crate) const LEVEL: usize = 36;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Rows of a table; a row keeps its slot.
    Heap = 1,
    /// Entries of an index in the order of their keys.
    Leaf = 2,
    /// Separators of an index, each with the page below it.
    Inner = 3,
    /// A piece of a value that is too long for its row.
    Overflow = 4,
    /// Which object each extent belongs to.
    ExtentMap = 5,
    /// How much room each page of an extent has.
    Space = 6,
    /// Nothing: the page was given back.
    Free = 7,
}

impl Kind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Kind> {
        let all = [
            Kind::Heap,
            Kind::Leaf,
            Kind::Inner,
            Kind::Overflow,
            Kind::ExtentMap,
            Kind::Space,
            Kind::Free,
        ];
        all.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name, as people read it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Heap => "heap",
            Kind::Leaf => "index leaf",
            Kind::Inner => "index inner",
            Kind::Overflow => "overflow",
            Kind::ExtentMap => "extent map",
            Kind::Space => "space",
            Kind::Free => "free",
        }
    }
}

#[inline]
pub(crate) fn u16_at(page: &Raw, at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}

#[inline]
pub(crate) fn u32_at(page: &Raw, at: usize) -> u32 {
    u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

#[inline]
pub(crate) fn u64_at(page: &Raw, at: usize) -> u64 {
    u64::from(u32_at(page, at)) | u64::from(u32_at(page, at + 4)) << 32
}

#[inline]
pub(crate) fn set_u16(page: &mut Raw, at: usize, value: usize) {
    assert!(value <= usize::from(u16::MAX), "positions in a page are short");
    page[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

#[inline]
pub(crate) fn set_u32(page: &mut Raw, at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
