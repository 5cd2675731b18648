//! The layout of a store: header, doublewrite ring, extents and the pages that say whose these are.

use cellar_page::{HEADER_BYTES, PAGE_BYTES};

/// Bytes of an entry in a page of the extent map.
pub(crate) const MAP_ENTRY: usize = 8;

/// The extents that a page of the extent map tells of.
pub(crate) const EXTENTS_PER_MAP: u32 = ((PAGE_BYTES - HEADER_BYTES) / MAP_ENTRY) as u32;

/// The most pages that an extent can have: its first page has a byte for each.
pub const EXTENT_PAGES_MAX: u32 = (PAGE_BYTES - HEADER_BYTES) as u32;

/// The most pages that a batch can have: the page that names them has 8 bytes for each.
pub const BATCH_PAGES_MAX: u32 = 1000;

/// The sizes that were chosen when the store was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Pages of an extent.
    pub extent_pages: u32,
    /// Batches that the doublewrite ring holds.
    pub ring_batches: u32,
    /// Pages of a batch.
    pub batch_pages: u32,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { extent_pages: 64, ring_batches: 4, batch_pages: 127 }
    }
}

/// Pages of the two copies of the header.
pub(crate) const HEADER_PAGES: u32 = 2;

impl Geometry {
    /// The first page of the ring's slot for `batch`.
    pub(crate) fn ring_slot(&self, batch: u64) -> u32 {
        let slot = (batch % u64::from(self.ring_batches)) as u32;
        HEADER_PAGES + slot * self.ring_slot_pages()
    }

    /// A page that names the others, and those.
    pub(crate) fn ring_slot_pages(&self) -> u32 {
        1 + self.batch_pages
    }

    /// Extents at the start of the file that belong to no table.
    pub(crate) fn system_extents(&self) -> u32 {
        (HEADER_PAGES + self.ring_batches * self.ring_slot_pages()).div_ceil(self.extent_pages)
    }

    /// The number of whole extents in a file of this many bytes.
    pub(crate) fn extents(&self, bytes: u64) -> u32 {
        let pages = (bytes / PAGE_BYTES as u64).min(u64::from(u32::MAX));
        pages as u32 / self.extent_pages
    }

    /// The least size of a store: a map, and an extent for something.
    pub(crate) fn least_bytes(&self) -> u64 {
        let extents = u64::from(self.system_extents()) + 2;
        extents * u64::from(self.extent_pages) * PAGE_BYTES as u64
    }

    /// The extent of a page.
    pub(crate) fn extent_of(&self, page: u32) -> u32 {
        page / self.extent_pages
    }

    /// The first page of an extent: its space page.
    pub(crate) fn first_page(&self, extent: u32) -> u32 {
        extent * self.extent_pages
    }

    /// The map page that has the owner of `extent`, and the place of its entry in that page.
    pub(crate) fn map_entry(&self, extent: u32) -> (u32, usize) {
        let place = extent - self.system_extents();
        let first = self.system_extents() + place / EXTENTS_PER_MAP * EXTENTS_PER_MAP;
        let entry = (place % EXTENTS_PER_MAP) as usize * MAP_ENTRY;
        (self.first_page(first), HEADER_BYTES + entry)
    }

    /// Whether these sizes are valid.
    pub(crate) fn is_possible(&self) -> bool {
        (2..=EXTENT_PAGES_MAX).contains(&self.extent_pages)
            && (1..=1024).contains(&self.ring_batches)
            && (1..=BATCH_PAGES_MAX).contains(&self.batch_pages)
    }
}
