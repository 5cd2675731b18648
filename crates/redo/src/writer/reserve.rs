//! Reservations: room in the log that is waited for in advance, so that an append neither waits nor fails.
//!
//! Room is counted in blocks. A record takes at most the blocks that it fills alone, wherever in a block it
//! begins: the bytes before it were counted for whoever wrote them. So each record of a reservation keeps
//! ceil(length / payload) blocks of the ring, and other appends leave them free.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_wait::Session;

use crate::error::Error;
use crate::on_disk::record::{RECORD_HEADER, RecordHeader};
use crate::writer::commit::Queued;
use crate::writer::log::{Inner, Log};
use crate::writer::queue::Sizes;
use crate::writer::state::{MustWait, State};

/// What is kept free for records that are still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Blocks of the ring.
    pub blocks: u64,
    /// Bytes of the log buffer.
    pub bytes: usize,
}

impl Reserved {
    /// For one record with a body of `length` bytes.
    fn for_record(sizes: &Sizes, length: usize) -> Reserved {
        let bytes = RECORD_HEADER + length;
        Reserved { blocks: bytes.div_ceil(sizes.payload) as u64, bytes }
    }

    fn add(&mut self, other: Reserved) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Reserved) {
        assert!(self.blocks >= other.blocks && self.bytes >= other.bytes, "it was reserved");
        self.blocks -= other.blocks;
        self.bytes -= other.bytes;
    }
}

/// Room in the log for records that are still to be appended. Dropping it frees what is left. Hold it for a
/// short time only: commits of others, and a switch, may wait for it.
pub struct Reservation {
    inner: Arc<Inner>,
    left: Reserved,
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reservation").field(&self.left).finish()
    }
}

impl Log {
    /// Reserves room for records whose bodies have these lengths, in bytes. Waits where there is none, and is
    /// delayed where the ring is nearly full, as [`Log::commit`] is.
    ///
    /// # Errors
    /// [`Error::RecordTooLong`] where they are longer together than one record may be;
    /// [`Error::Stopped`].
    #[boxed]
    pub async fn reserve(
        &self,
        session: &Session,
        lengths: &[usize],
    ) -> Result<Reservation, Error> {
        let mut wanted = Reserved::default();
        for length in lengths {
            wanted.add(Reserved::for_record(&self.0.sizes, *length));
        }
        let (bytes, max) = (wanted.blocks * self.0.sizes.payload as u64, self.record_bytes_max());
        if bytes > max {
            return Err(Error::RecordTooLong { bytes, max });
        }
        let sizes = self.0.sizes;
        self.0.in_turn(session, |state, turn| state.reserve(&sizes, wanted, turn)).await?;
        Ok(Reservation { inner: Arc::clone(&self.0), left: wanted })
    }
}

impl Reservation {
    /// Whether a record with a body of `length` bytes has room in what is left.
    pub fn has_room_for(&self, length: usize) -> bool {
        let one = Reserved::for_record(&self.inner.sizes, length);
        self.left.blocks >= one.blocks && self.left.bytes >= one.bytes
    }

    /// Appends a record and returns at once: it becomes durable as one of [`Log::append`], or is waited for
    /// by [`Log::wait`].
    ///
    /// # Errors
    /// [`Error::Stopped`], and nothing else.
    ///
    /// # Panics
    /// It was not reserved.
    pub fn append(&mut self, kind: u8, flags: u8, body: &Bytes) -> Result<Queued, Error> {
        let sizes = self.inner.sizes;
        let one = Reserved::for_record(&sizes, body.len());
        self.left.remove(one);
        let header = RecordHeader { length: body.len() as u32, kind, flags };
        let queued = self.inner.queue_with(self.inner.now(), |state| {
            state.reserved.remove(one);
            match Inner::stopped(state) {
                Some(error) => Err(error),
                None => Ok(Some(state.place(&sizes, header, body))),
            }
        })?;
        Ok(queued.expect("there is room"))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.left);
        if left == Reserved::default() {
            return;
        }
        self.inner.with(|state| state.reserved.remove(left));
        self.inner.room.notify(usize::MAX);
    }
}

impl State {
    /// Keeps room free, or says what is missing. Nobody overtakes those in line.
    fn reserve(
        &mut self,
        sizes: &Sizes,
        wanted: Reserved,
        turn: Option<u64>,
    ) -> Result<(), MustWait> {
        self.check_turn(turn)?;
        let waiting = self.queued_bytes + self.reserved.bytes;
        if waiting > 0 && waiting + wanted.bytes > sizes.log_buffer {
            return Err(MustWait::Buffer);
        }
        self.find_blocks(sizes, wanted.blocks)?;
        self.reserved.add(wanted);
        Ok(())
    }
}
