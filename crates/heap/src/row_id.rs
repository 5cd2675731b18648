//! The address of a row: where it was first placed, which identifies it from then on; and its identity in a
//! transaction.

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

/// A row, as a transaction knows it. They are in the order of the pages, and its own rows behind the stored ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowRef {
    /// One that was there before.
    Stored(RowId),
    /// One that this transaction has inserted, by its number.
    Own(u32),
}

/// The bit that is set in the numbers of a transaction's own rows: pages and slots have those below.
const OWN: u64 = 1 << 48;

impl RowRef {
    /// A number that identifies it, below 2^49: of two rows, the one that sorts first has the lower number.
    pub fn to_u64(self) -> u64 {
        match self {
            RowRef::Stored(RowId { page, slot }) => u64::from(page) << 16 | u64::from(slot),
            RowRef::Own(number) => OWN | u64::from(number),
        }
    }

    /// The row that this number stands for; `None` where it is no row's.
    pub fn from_u64(number: u64) -> Option<RowRef> {
        match number < OWN {
            true => {
                let (page, slot) = ((number >> 16) as u32, number as u16);
                Some(RowRef::Stored(RowId { page, slot }))
            }
            false => u32::try_from(number - OWN).ok().map(RowRef::Own),
        }
    }
}

impl std::fmt::Display for RowRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RowRef::Stored(id) => id.fmt(f),
            RowRef::Own(number) => write!(f, "row {number} of this transaction"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row() -> impl Strategy<Value = RowRef> {
        let stored = (any::<u32>(), any::<u16>());
        let stored = stored.prop_map(|(page, slot)| RowRef::Stored(RowId { page, slot }));
        prop_oneof![stored, any::<u32>().prop_map(RowRef::Own)]
    }

    proptest! {
        #[test]
        fn a_number_stands_for_one_row_in_its_order(a in row(), b in row()) {
            prop_assert_eq!(RowRef::from_u64(a.to_u64()), Some(a));
            prop_assert_eq!(a.cmp(&b), a.to_u64().cmp(&b.to_u64()));
        }

        #[test]
        fn any_number_is_a_rows_or_nothing(number in any::<u64>()) {
            let row = RowRef::from_u64(number);
            prop_assert!(row.is_none_or(|row| row.to_u64() == number));
        }
    }

    #[test]
    fn numbers_behind_the_last_own_row_are_nobodys() {
        let last = RowRef::Own(u32::MAX).to_u64();
        assert!(last < 1 << 49);
        assert_eq!(RowRef::from_u64(last), Some(RowRef::Own(u32::MAX)));
        assert_eq!(RowRef::from_u64(last + 1), None);
        assert_eq!(RowRef::from_u64(u64::MAX), None);
    }
}
