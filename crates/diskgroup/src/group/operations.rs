//! Background operations of a group: the rebalance, returning disks, and the scrub.

use std::time::Duration;

use async_recursion::async_recursion as boxed;

use crate::error::Error;
use crate::group::Group;
use crate::moves::progress::Operation;
use crate::returning::DiskReturn;
use crate::scrub::{ScrubResult, ScrubSpec, Scrubbing};

impl Group {
    /// The rebalance that is wanted, if one is.
    pub fn operation(&self) -> Option<Operation> {
        self.inner.rebalance.operation()
    }

    /// How long a probe has been under way, and how long it may take.
    pub fn probing(&self) -> Option<(Duration, Duration)> {
        self.inner.rebalance.probing()
    }

    /// Bytes a second that were moved since the mount, by power: of moves that have been made.
    pub fn rates_of_moves(&self) -> Vec<(u32, u64)> {
        self.inner.rebalance.rates()
    }

    /// REBALANCE: requested from here on, at that power; 0 stops it. Survives restarts.
    ///
    /// # Errors
    /// The power is out of its range, or the group has stopped.
    #[boxed]
    pub async fn rebalance(&self, power: u32) -> Result<(), Error> {
        self.inner.rebalance.request_at(power).await
    }

    /// Waits until no rebalance is wanted, or it is stopped or stuck.
    ///
    /// # Errors
    /// Why it does not go on.
    #[boxed]
    pub async fn wait_rebalanced(&self) -> Result<(), Error> {
        self.inner.rebalance.wait().await
    }

    /// Disks on their way back, and those about to be.
    pub fn returns(&self) -> Vec<DiskReturn> {
        self.inner.returning.list()
    }

    /// Waits until no disk is on its way back, or about to be.
    ///
    /// # Errors
    /// The group has stopped, or one of them cannot go on: why.
    #[boxed]
    pub async fn wait_returned(&self) -> Result<(), Error> {
        self.inner.returning.wait().await
    }

    /// SCRUB: requested from here on. Survives restarts. If one is already running with the same options
    /// it goes on.
    ///
    /// # Errors
    /// Another one is under way; no such file or disk; the group cannot be written.
    #[boxed]
    pub async fn scrub(&self, spec: ScrubSpec) -> Result<(), Error> {
        self.inner.scrub.request(spec).await
    }

    /// SCRUB STOP. Returns whether there was one.
    ///
    /// # Errors
    /// The group cannot be written.
    #[boxed]
    pub async fn stop_scrub(&self) -> Result<bool, Error> {
        self.inner.scrub.give_up().await
    }

    /// The scrub that is wanted, if one is, and how far it is.
    pub fn scrubbing(&self) -> Option<Scrubbing> {
        self.inner.scrub.under_way()
    }

    /// Waits until no scrub is requested; returns the last one that ended since the mount, if any.
    ///
    /// # Errors
    /// The group has stopped.
    #[boxed]
    pub async fn wait_scrubbed(&self) -> Result<Option<ScrubResult>, Error> {
        self.inner.scrub.wait().await
    }

    /// The last scrub of the whole group that came to its end.
    pub fn last_scrub(&self) -> Option<ScrubResult> {
        self.inner.scrub.last()
    }

    /// When the next scrub is due, seconds since 1970; `None`: never by itself.
    pub fn next_scrub(&self) -> Option<u64> {
        self.inner.scrub.next()
    }

    /// Wrong checksums, differing copies and failed requests of a disk since the last scrub that
    /// found or left nothing wrong, and at the earliest since the mount.
    pub fn errors_since_scrub(&self, disk: u16) -> u64 {
        self.inner.disk(disk).map_or(0, |disk| disk.errors_since_cleared())
    }
}
