//! The lane alone, over pages in memory and a real log: for its benchmark.

use std::sync::Arc;

use bytes::Bytes;
use cellar_io::Buffer;
use cellar_page::{CellKind, Kind, PAGE_BYTES, PageMut, SLOT_BYTES};
use cellar_redo::{Committed, Error, Log};
use cellar_wait::Session;

use crate::frames::{Frame, Image, raw_mut};
use crate::lane::{Lane, Operation, Refused, WriteSet};
use crate::snapshots::Snapshots;

/// Pages of rows in memory, changed through the lane.
pub struct Rig {
    log: Log,
    lane: Lane,
    snapshots: Arc<Snapshots>,
    frames: Vec<Arc<Frame>>,
    rows_per_page: usize,
}

impl Rig {
    /// So many pages, filled with rows of so many bytes.
    pub fn new(log: Log, pages: u32, row_bytes: usize) -> Rig {
        let rows_per_page = cellar_page::CELL_BYTES_MAX / (row_bytes + SLOT_BYTES);
        let frame = |number: u32| {
            let mut bytes = Buffer::zeroed(PAGE_BYTES);
            let mut page = PageMut::format(raw_mut(&mut bytes), 1, number, Kind::Heap, 1);
            for slot in 0..rows_per_page {
                page.put(slot, CellKind::Plain, &vec![slot as u8; row_bytes]);
            }
            Arc::new(Frame::new(number, Image::new(bytes, 0, None)))
        };
        let snapshots = Arc::new(Snapshots::default());
        Rig {
            lane: Lane::new(1, log.clone(), Arc::clone(&snapshots)),
            log,
            snapshots,
            frames: (0..pages).map(frame).collect(),
            rows_per_page,
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.frames.len() * self.rows_per_page
    }

    /// Gives a row these bytes, durably.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn update(&self, session: &Session, row: usize, bytes: Bytes) -> Result<(), Error> {
        let frame = Arc::clone(&self.frames[row / self.rows_per_page]);
        let slot = row % self.rows_per_page;
        let set = WriteSet { operations: vec![Operation::Update { frame, slot, row: bytes }] };
        let done = self.lane.commit(session, set).await;
        done.map_err(|refused| match refused {
            Refused::Stopped(error) => error,
            _ => Error::Stopped { why: "rows of the rig have one length".into() },
        })?;
        Ok(())
    }

    /// The first byte of a row, as a snapshot of this moment has it.
    pub fn read(&self, row: usize) -> u8 {
        let snapshot = self.snapshots.take(|| self.lane.visible());
        let image = self.frames[row / self.rows_per_page].at(snapshot.point());
        image.page().cell(row % self.rows_per_page).map_or(0, |cell| cell.bytes[0])
    }

    /// The same redo, without pages.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn log_alone(&self, session: &Session, body: Bytes) -> Result<Committed, Error> {
        self.log.commit(session, 1, 0, body).await
    }
}
