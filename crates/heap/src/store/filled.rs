//! The new pages of a large write set, filled before it enters the lane: the lane copies no page and searches no
//! slot for their rows, and finds the entries of each index in their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use super::plan::{MANY, Plan};
use crate::bundle::FilledPage;
use crate::index::Index;
use crate::lane::Operation;
use crate::row_id::RowId;

/// What has become of the rows of new pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// Nobody has looked.
    NotYet,
    /// Some are in filled pages; so many operations at the end add their entries.
    Done(usize),
    /// The lane puts each into its page.
    Never,
}

impl Plan<'_> {
    /// Fills the pages that lack; the lane has taken those of an attempt that it refused.
    pub(super) fn fill_pages(&mut self) {
        if self.filling_before == Filling::NotYet {
            self.filling_before = match self.set.operations.len() < MANY {
                true => Filling::Never,
                false => self.place_rows(),
            };
        }
        if matches!(self.filling_before, Filling::Done(_)) && !self.fill() {
            self.empty_pages();
        }
    }

    /// Gives the rows of new pages their slots, and collects their entries.
    fn place_rows(&mut self) -> Filling {
        let (mut pages, mut moved_to) = (Vec::new(), BTreeSet::new());
        for operation in &self.set.operations {
            match operation {
                Operation::NewPage { page, .. } => pages.push(*page),
                Operation::Update { elsewhere: Some(page), .. } => drop(moved_to.insert(*page)),
                // It is for an index that has no entries yet.
                Operation::SetRoot { .. } => return Filling::Never,
                _ => {}
            }
        }
        pages.retain(|page| !moved_to.contains(page));
        // Each takes memory twice, for its bytes and its redo, beside the buffer cache.
        pages.truncate(self.inner.options.cache_pages / 8);
        let mut slots: HashMap<u32, u16> = pages.into_iter().map(|page| (page, 0)).collect();
        let mut all = BTreeMap::<u32, (Index, Vec<(Bytes, RowId)>)>::new();
        let mut placed = 0;
        for operation in &mut self.set.operations {
            let Operation::Insert { page, entries, filled, .. } = operation else { continue };
            let Some(slot) = slots.get_mut(page) else { continue };
            let id = RowId { page: *page, slot: *slot };
            *filled = Some(*slot);
            *slot += 1;
            placed += 1;
            for entry in entries.iter() {
                let of = all.entry(entry.index.object).or_insert_with(|| (entry.index, Vec::new()));
                of.1.push((entry.key.clone(), id));
            }
        }
        if placed < MANY {
            self.unplace();
            return Filling::Never;
        }
        let indexes = all.len();
        for (index, mut entries) in all.into_values() {
            if !entries.is_sorted_by(|a, b| a.0 < b.0) {
                let place = |id: &RowId| id.encode();
                entries.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(place(&a.1).cmp(&place(&b.1))));
            }
            self.push(Operation::AddEntries { index, entries }, Vec::new());
        }
        Filling::Done(indexes)
    }

    /// Fills the new pages that have none; false: a row has no room.
    fn fill(&mut self) -> bool {
        let store = self.inner.pages.frames.store();
        let (mut lacking, mut pages) = (BTreeSet::new(), HashMap::<u32, Box<FilledPage>>::new());
        for operation in &self.set.operations {
            match operation {
                Operation::NewPage { page, filled: None, .. } => drop(lacking.insert(*page)),
                Operation::Insert { table, page, row, filled: Some(_), .. }
                    if lacking.contains(page) =>
                {
                    let new = || Box::new(FilledPage::new(store, *page, *table));
                    if !pages.entry(*page).or_insert_with(new).put(row) {
                        return false;
                    }
                }
                _ => {}
            }
        }
        for operation in &mut self.set.operations {
            if let Operation::NewPage { page, filled, .. } = operation
                && let Some(own) = pages.remove(page)
            {
                *filled = Some(own);
            }
        }
        true
    }

    /// Has the lane put each row into its page after all.
    pub(super) fn empty_pages(&mut self) {
        if let Filling::Done(indexes) = self.filling_before {
            let left = self.set.operations.len() - indexes;
            self.set.operations.truncate(left);
            self.is_asked.truncate(left);
        }
        self.unplace();
        self.filling_before = Filling::Never;
    }

    fn unplace(&mut self) {
        for operation in &mut self.set.operations {
            match operation {
                Operation::NewPage { filled, .. } => *filled = None,
                Operation::Insert { filled, .. } => *filled = None,
                _ => {}
            }
        }
    }
}
