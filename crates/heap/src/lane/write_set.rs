//! What a transaction has the lane do.

use std::sync::Arc;

use bytes::Bytes;
use cellar_page::CellKind;

use super::{Bundle, Refused};
use crate::change::{CHANGE_BYTES, Change};
use crate::frames::Frame;

/// All that one commit does.
#[derive(Default)]
pub(crate) struct WriteSet {
    pub operations: Vec<Operation>,
}

/// One thing that a commit does.
pub(crate) enum Operation {
    /// A row gets other bytes.
    Update { frame: Arc<Frame>, slot: usize, row: Bytes },
}

impl WriteSet {
    /// The most bytes that its redo takes.
    pub fn redo_bytes(&self) -> usize {
        self.operations.iter().map(Operation::redo_bytes).sum()
    }
}

impl Operation {
    fn redo_bytes(&self) -> usize {
        match self {
            Operation::Update { row, .. } => CHANGE_BYTES + row.len(),
        }
    }

    /// Does it, or says why that cannot be; the bundle is worth nothing then.
    pub fn apply(&self, bundle: &mut Bundle) -> Result<(), Refused> {
        match self {
            Operation::Update { frame, slot, row } => {
                let (at, removed) = bundle
                    .with_page(frame, |page| {
                        let cell = page.cell(*slot)?;
                        let fits = row.len() <= cell.bytes.len() + page.room();
                        fits.then(|| difference(cell.bytes, row))
                    })
                    .ok_or(Refused::Changed)?;
                let (slot, kind) = (*slot, CellKind::Plain);
                let bytes = &row[at.start..at.end];
                bundle.change(frame, Change::Splice { slot, kind, at: at.start, removed, bytes });
                Ok(())
            }
        }
    }
}

/// Where `new` differs from `old`, and how many bytes of `old` that replaces.
fn difference(old: &[u8], new: &[u8]) -> (std::ops::Range<usize>, usize) {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, rest) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(rest.iter().rev()).take_while(|(old, new)| old == new).count();
    (start..new.len() - end, old.len() - end)
}
