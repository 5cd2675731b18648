//! The place of a row: where it was first put, by which it is known ever after.

/// Where a row is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId {
    /// The page.
    pub page: u32,
    /// The slot in it.
    pub slot: u16,
}

/// Bytes of a row's place, as pages and indexes have it.
pub(crate) const ROW_ID_BYTES: usize = 6;

impl std::fmt::Display for RowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row {} in page {}", self.slot, self.page)
    }
}

impl RowId {
    /// Bytes that are in the order of the rows.
    pub(crate) fn encode(self) -> [u8; ROW_ID_BYTES] {
        let ([a, b, c, d], [e, f]) = (self.page.to_be_bytes(), self.slot.to_be_bytes());
        [a, b, c, d, e, f]
    }

    /// The row whose place these bytes are; `None` where they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<RowId> {
        let &[a, b, c, d, e, f] = bytes else { return None };
        let (page, slot) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
        Some(RowId { page, slot })
    }
}
