//! What one commit does to pages: copies that nobody sees, until the record that says it is in the log.

use std::sync::Arc;

use cellar_io::Buffer;
use cellar_page::{PageMut, PageRef};
use cellar_redo::Appended;

use crate::change::Change;
use crate::frames::{Frame, raw_mut};

/// The pages of a commit and its record.
pub(crate) struct Bundle {
    store: u64,
    pages: Vec<Open>,
    body: Vec<u8>,
}

/// A page that is being changed.
struct Open {
    frame: Arc<Frame>,
    bytes: Buffer,
}

impl Bundle {
    /// An empty one; what is in `body` is forgotten.
    pub fn new(store: u64, mut body: Vec<u8>) -> Bundle {
        body.clear();
        Bundle { store, pages: Vec::with_capacity(4), body }
    }

    /// The changes so far, as redo has them.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The page as this commit has left it so far.
    pub fn with_page<T>(&self, frame: &Frame, look: impl FnOnce(PageRef<'_>) -> T) -> T {
        match self.position(frame) {
            Some(at) => {
                let raw = self.pages[at].bytes[..].try_into().expect("a page");
                look(PageRef::new(raw))
            }
            None => look(frame.current().page()),
        }
    }

    fn position(&self, frame: &Frame) -> Option<usize> {
        self.pages.iter().rposition(|open| std::ptr::eq(&*open.frame, frame))
    }

    /// Changes a page that can take it.
    pub fn change(&mut self, frame: &Arc<Frame>, change: Change<'_>) {
        let at = self.position(frame).unwrap_or_else(|| {
            let bytes = frame.current().copy();
            self.pages.push(Open { frame: Arc::clone(frame), bytes });
            self.pages.len() - 1
        });
        change.encode(frame.number(), &mut self.body);
        change.apply(self.store, frame.number(), raw_mut(&mut self.pages[at].bytes));
    }

    /// Shows the pages to all. Returns the memory of the body.
    pub fn publish(self, appended: Appended, mut changed: impl FnMut(Arc<Frame>)) -> Vec<u8> {
        for Open { frame, mut bytes } in self.pages {
            PageMut::new(raw_mut(&mut bytes)).set_lsn(appended.lsn.0);
            frame.publish(bytes, appended.end.0);
            changed(frame);
        }
        self.body
    }
}
