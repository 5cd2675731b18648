//! Scan statistics, for views and for people who ask where the time went.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What a scan did so far; counted by all its workers.
        #[derive(Debug, Default)]
        pub struct ScanStats {
            $($(#[$doc])* pub $name: AtomicU64,)+
        }

        /// Numbers of scans at one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl ScanStats {
            /// The numbers now.
            pub fn totals(&self) -> Totals {
                Totals { $($name: self.$name.load(Ordering::Relaxed),)+ }
            }

            /// Adds the numbers of a scan.
            pub fn add(&self, other: &Totals) {
                $(self.$name.fetch_add(other.$name, Ordering::Relaxed);)+
            }
        }
    };
}

counters! {
    /// Bytes of the table's row groups, counting only the columns that the query names.
    eligible_bytes,
    /// Bytes of them that the storage index allowed to skip.
    saved_bytes,
    /// Bytes of them answered from headers alone.
    header_bytes,
    /// Bytes that came from disks.
    disk_bytes,
    /// Bytes that came from the cell's memory.
    cache_bytes,
    /// Bytes of results.
    returned_bytes,
    /// Reads of disks.
    reads,
    /// Row groups of the table.
    row_groups,
    /// Row groups that the storage index left out.
    pruned_row_groups,
    /// Row groups among them that only a live filter left out.
    live_pruned_row_groups,
    /// Row groups that were answered from their headers.
    header_row_groups,
    /// Row groups of which only the columns of the filters were needed.
    filtered_row_groups,
    /// Rows of the row groups that were looked at.
    rows,
    /// Rows that passed every filter, also of row groups that were answered from their headers.
    passed_rows,
    /// Rows that came as far as the live filters.
    live_rows,
    /// Rows among them that live filters left out.
    live_dropped_rows,
    /// Rows, or groups, that were returned.
    returned_rows,
    /// Nanoseconds that filtering and aggregating took.
    compute_nanos,
    /// Nanoseconds that workers spent only waiting for reads.
    wait_nanos,
}

impl ScanStats {
    pub(crate) fn count(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}
