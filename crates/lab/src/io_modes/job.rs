//! The job of the post: 1,000,000 rows inserted in a loop, one commit.

use super::work::BLOCK;

/// Rows that the post inserted.
pub(super) const ROWS: u64 = 1_000_000;
/// The space of a row `('abc', i)` in a block: header 3, `abc` 4, the number 5 or less, directory 2.
const ROW_BYTES: u64 = 14;
/// Bytes of a block available to rows: without its header and the 10 % of PCTFREE.
const ROOM: u64 = 7_280;
/// The space of a row in undo blocks, in bytes.
const UNDO_BYTES: u64 = 70;
/// The redo of a row inserted alone, including its undo, in bytes.
const REDO_BYTES: u64 = 250;

/// The assumptions, for people. None of them was published.
pub(super) const ASSUMED: &str = "14 bytes of a row in blocks with PCTFREE 10, 70 of undo, 250 of \
     redo; every block written once, all redo in writes of 1 MB";

/// The writes for an insert of this many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Rows.
    pub rows: u64,
}

impl Job {
    /// Redo bytes, rounded up to 4096.
    pub(super) fn redo_bytes(self) -> u64 {
        (self.rows * REDO_BYTES).next_multiple_of(4096)
    }

    /// Blocks of the table and of undo.
    pub(super) fn blocks(self) -> u64 {
        self.rows.div_ceil(ROOM / ROW_BYTES) + (self.rows * UNDO_BYTES).div_ceil(BLOCK)
    }

    /// All of it.
    pub(super) fn bytes(self) -> u64 {
        self.redo_bytes() + self.blocks() * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_rows_are_a_third_of_a_gigabyte() {
        let job = Job { rows: ROWS };
        assert_eq!(job.blocks(), 1_924 + 8_545);
        assert_eq!(job.redo_bytes() % 4096, 0);
        assert_eq!(job.bytes() / 1_000_000, 335);
    }
}
