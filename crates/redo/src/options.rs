//! The configuration of a log: its media and its parameters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Device, IoFuture};

use crate::error::Error;
use crate::on_disk::{UNIT_BYTES_MAX, UNITS_IN_FLIGHT_MAX};

/// The store of the control data. The outcome of a `store` that did not return is unknown; after a
/// failed one the log stops.
pub trait Control: Send + Sync + 'static {
    /// The bytes that were stored last.
    fn load(&self) -> IoFuture<'_, Vec<u8>>;

    /// Replaces all of it, durably: afterwards `load` returns the new bytes. After a crash meanwhile
    /// it returns either the new or the old ones.
    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()>;
}

/// A place where redo is written: a file in each log group, all as large as the group's others.
#[derive(Clone)]
pub struct Medium {
    /// Its name, by which the control data know it.
    pub name: String,
    /// Its files, by number of the group.
    pub files: BTreeMap<u32, Arc<dyn Device>>,
}

impl std::fmt::Debug for Medium {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Medium({}, groups {:?})", self.name, self.files.keys())
    }
}

/// The task that forms the next unit when one becomes durable while records wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Successor {
    /// The task that saw the completion; it hands the unit to the first committer in it.
    #[default]
    Completer,
    /// The first committer in the unit, which is woken.
    Waiter,
}

/// Parameters of an open log.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest unit in bytes, at most 1 MiB.
    pub unit_bytes: usize,
    /// Units in flight at once, at most 4.
    pub units_in_flight: usize,
    /// Bytes of records that may be queued before committers wait for room.
    pub log_buffer: usize,
    /// The bytes of acknowledged blocks that a late medium may lack.
    pub exposure_bytes: u64,
    /// How long a late medium may lack an acknowledged block.
    pub exposure_age: Duration,
    /// A write that is unanswered for this long has failed, if other media are left. It also limits
    /// each read of the archiver.
    pub write_timeout: Duration,
    /// A medium that has answered nothing for this long while commits wait for it alone has failed, if
    /// the others are enough without it. With `auto` they always are; where a number of media was
    /// asked for, they are waited for until [`write_timeout`](Options::write_timeout). A medium that
    /// is slow but answers something is waited for too. This must be longer than the retries of a
    /// failed write take.
    pub hold_up: Duration,
    /// A heartbeat block is written after this much idle time; also the interval at which the log
    /// checks itself.
    pub heartbeat_after: Duration,
    /// A completion later than this is an outlier.
    pub outlier: Duration,
    /// The delay of a commit when the ring is full. From 80 % on a commit is delayed by this times the
    /// square of the used share of the last fifth: with 10 ms, 0.6 ms at 85 %, 2.5 ms at 90 %, 5.6 ms
    /// at 95 %. A committer then does at most 100 commits a second, and the checkpoint and the
    /// archiver have longer to make room before all commits stop. 0: no delay.
    pub pace_max: Duration,
    /// Who forms the next unit.
    pub successor: Successor,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            unit_bytes: UNIT_BYTES_MAX,
            units_in_flight: UNITS_IN_FLIGHT_MAX,
            log_buffer: 16 << 20,
            exposure_bytes: 32 << 20,
            exposure_age: Duration::from_millis(200),
            write_timeout: Duration::from_secs(2),
            hold_up: Duration::from_millis(60),
            heartbeat_after: Duration::from_millis(5),
            outlier: Duration::from_millis(10),
            pace_max: Duration::from_millis(10),
            successor: Successor::default(),
        }
    }
}

impl Options {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// [`Error::BadValue`].
    pub(crate) fn check(&self, block_size: u32) -> Result<(), Error> {
        let block = block_size as usize;
        let bad = |what, value: usize, allowed: String| {
            Err(Error::BadValue { what, value: value as u64, allowed })
        };
        if !(block..=UNIT_BYTES_MAX).contains(&self.unit_bytes) {
            let allowed = format!("{block} to {UNIT_BYTES_MAX}");
            return bad("unit size", self.unit_bytes, allowed);
        }
        if !(1..=UNITS_IN_FLIGHT_MAX).contains(&self.units_in_flight) {
            let allowed = format!("1 to {UNITS_IN_FLIGHT_MAX}");
            return bad("units in flight", self.units_in_flight, allowed);
        }
        if self.heartbeat_after.is_zero() {
            return bad("heartbeat after", 0, "more than 0".to_owned());
        }
        Ok(())
    }
}
