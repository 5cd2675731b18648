//! Operations of a group that go on by themselves: the rebalance, and disks on their way back.

use std::time::Duration;

use async_recursion::async_recursion as boxed;

use crate::error::Error;
use crate::group::Group;
use crate::moves::progress::Operation;
use crate::returning::DiskReturn;

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

    /// REBALANCE: wanted from here on, at that power; 0 stops it. Survives restarts.
    ///
    /// # Errors
    /// The power is out of its range, or the group has stopped.
    #[boxed]
    pub async fn rebalance(&self, power: u32) -> Result<(), Error> {
        self.inner.rebalance.wish(power).await
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
}
