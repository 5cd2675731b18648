//! The resources that a large write set needs, provided before it enters the lane: whenever something is missing
//! there, the whole set starts again, so that a large one would never end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::Io;
use cellar_page::{CELL_BYTES_MAX, Kind, PAGE_BYTES, SLOT_BYTES};

use super::plan::{ENTRY_BYTES, MANY, PAGES_LEAST, Plan};
use crate::error::{Error, TooMuch};
use crate::frames::Frame;
use crate::index::{Entry, Index, child_of, leaf_cell};
use crate::lane::Operation;
use crate::row_id::{ROW_ID_BYTES, RowId};
use crate::rows::{Found, find};

/// Pages that are asked for at once.
const READ_AT_ONCE: usize = 64;

/// More levels than an index can have.
const LEVELS_MAX: usize = 64;

/// Pages in memory, by their numbers.
type Loaded = HashMap<u32, Arc<Frame>>;

impl Plan<'_> {
    /// Provides free pages for splits; for many operations also all pages of rows and entries, and places for
    /// rows that outgrow theirs.
    pub(super) async fn provision(&mut self) -> Result<(), Error> {
        self.provision_spares().await?;
        if self.set.operations.len() < MANY {
            return Ok(());
        }
        let rows = Box::pin(self.provision_rows()).await?;
        Box::pin(self.provision_places(&rows)).await?;
        Box::pin(self.provision_entries()).await?;
        self.is_read = true;
        Ok(())
    }

    /// Free pages for the splits of many entries.
    async fn provision_spares(&mut self) -> Result<(), Error> {
        let adds = |operation: &Operation| matches!(operation, Operation::AddEntries { .. });
        if self.set.operations.len() < MANY && !self.set.operations.iter().any(adds) {
            return Ok(());
        }
        let mut bytes = BTreeMap::<u32, usize>::new();
        for operation in &self.set.operations {
            if let Operation::AddEntries { index, entries } = operation {
                let own = entries.iter().map(|(key, _)| key.len() + ENTRY_BYTES);
                *bytes.entry(index.object).or_default() += own.sum::<usize>();
            }
            let (Operation::Insert { entries, .. } | Operation::Update { new: entries, .. }) =
                operation
            else {
                continue;
            };
            for Entry { index, key } in entries.iter() {
                *bytes.entry(index.object).or_default() += key.len() + ENTRY_BYTES;
            }
        }
        for (index, bytes) in bytes {
            // A split leaves pages half full.
            for _ in 0..bytes / (PAGE_BYTES / 2) {
                let page = self.inner.free_page(self.session, index).await?;
                self.set.spares.add(index, [page]);
                self.set.held.push(self.inner.pages.frames.fresh(page).await);
            }
        }
        Ok(())
    }

    /// Has the pages of all rows that are changed in memory, also of those that have moved.
    async fn provision_rows(&mut self) -> Result<Loaded, Error> {
        let ids = self.set.operations.iter().filter_map(|operation| match operation {
            Operation::Update { id, .. } | Operation::Delete { id, .. } => Some(*id),
            _ => None,
        });
        let ids: Vec<RowId> = ids.collect();
        let mut loaded = self.loaded(ids.iter().map(|id| id.page).collect()).await?;
        let moved = ids.iter().filter_map(|id| {
            match find(loaded.get(&id.page)?.current().page(), id.slot)? {
                Found::Elsewhere(there) => Some(there.page),
                Found::Here(_) => None,
            }
        });
        let moved: BTreeSet<u32> = moved.filter(|page| !loaded.contains_key(page)).collect();
        loaded.extend(self.loaded(moved).await?);
        Ok(loaded)
    }

    /// Finds new places for rows that will outgrow their pages, as far as that can be predicted: the lane finds
    /// what others change meanwhile.
    async fn provision_places(&mut self, rows: &Loaded) -> Result<(), Error> {
        let mut room = Rooms { rows, left: HashMap::new() };
        // Pages of their own: those that are filled may become the table's only behind such an operation.
        let mut filling = BTreeMap::<u32, (u32, usize)>::new();
        let operations = std::mem::take(&mut self.set.operations);
        let is_asked = std::mem::take(&mut self.is_asked);
        for (mut operation, is_asked) in operations.into_iter().zip(is_asked) {
            if let Operation::Update { table, id, row, elsewhere, .. } = &mut operation
                && room.is_outgrown_by(*id, row.len())
            {
                let bytes = row.len() + ROW_ID_BYTES + SLOT_BYTES;
                let filled = filling.get(table).filter(|(_, room)| *room >= bytes);
                let (page, room) = match filled {
                    Some(filled) => *filled,
                    None => {
                        let page = self.new_page(*table, self.set.operations.len()).await?;
                        (page, CELL_BYTES_MAX + SLOT_BYTES)
                    }
                };
                filling.insert(*table, (page, room - bytes));
                *elsewhere = Some(page);
            }
            self.set.operations.push(operation);
            self.is_asked.push(is_asked);
        }
        Ok(())
    }

    /// Has all pages of indexes in memory to which entries come, or which they leave.
    async fn provision_entries(&mut self) -> Result<(), Error> {
        let mut held = Vec::new();
        for (index, mut entries) in entries_of(&self.set.operations) {
            entries.sort_unstable_by(|(a, at), (b, and)| a.cmp(b).then(at.cmp(and)));
            let mut level = vec![(index.root, 0..entries.len())];
            for _ in 0..LEVELS_MAX {
                let pages: BTreeSet<u32> = level.iter().map(|(page, _)| *page).collect();
                if pages.is_empty() {
                    break;
                }
                let frames = self.read(pages, held.len()).await?;
                level = level
                    .into_iter()
                    .flat_map(|(page, entries_below)| {
                        below(&frames, index, page, &entries, entries_below)
                    })
                    .collect();
                held.extend(frames.into_values());
            }
        }
        self.set.held.extend(held);
        Ok(())
    }

    /// Has pages in memory until the write set is applied.
    async fn loaded(&mut self, pages: BTreeSet<u32>) -> Result<Loaded, Error> {
        let loaded = self.read(pages, 0).await?;
        self.set.held.extend(loaded.values().cloned());
        Ok(loaded)
    }

    /// Reads pages, while others are held beside those of the write set.
    async fn read(&self, pages: BTreeSet<u32>, beside: usize) -> Result<Loaded, Error> {
        self.check_pages(pages.len() + beside)?;
        let pages: Vec<u32> = pages.into_iter().collect();
        let mut loaded = Loaded::with_capacity(pages.len());
        for some in pages.chunks(READ_AT_ONCE) {
            let frames = &self.inner.pages.frames;
            for frame in frames.load_all(self.session, Io::FOREGROUND, some.iter().copied()).await?
            {
                loaded.insert(frame.number(), frame);
            }
        }
        Ok(loaded)
    }

    /// Whether the pages that it holds, and this many more, leave memory for others.
    pub(super) fn check_pages(&self, more: usize) -> Result<(), Error> {
        let max = self.inner.options.cache_pages / 4;
        if self.set.held.len() + more <= max {
            return Ok(());
        }
        // One that many operations are about is there many times.
        let distinct: HashSet<u32> = self.set.held.iter().map(|frame| frame.number()).collect();
        // Few pages fit every cache: a row, and ways from leaves to roots.
        let (pages, max) = ((distinct.len() + more) as u64, (max as u64).max(PAGES_LEAST));
        match pages > max {
            true => Err(Error::TransactionTooLarge { what: TooMuch::Pages(pages), max }),
            false => Ok(()),
        }
    }
}

/// The room that is left in pages behind changes of their rows.
struct Rooms<'a> {
    rows: &'a Loaded,
    left: HashMap<u32, usize>,
}

impl Rooms<'_> {
    /// Whether a row that is to have so many bytes has no room where it is. Takes the room, or gives back what it
    /// leaves.
    fn is_outgrown_by(&mut self, id: RowId, bytes: usize) -> bool {
        let Some((home, old)) = self.found(id) else { return false };
        let (page, old) = match old {
            Some(old) => (home, old),
            None => return self.is_outgrown_where_moved(id, bytes),
        };
        let left = self.left(page);
        match (left + old).checked_sub(bytes) {
            Some(rest) => {
                self.left.insert(page, rest);
                false
            }
            None => {
                self.left.insert(page, left + old.saturating_sub(ROW_ID_BYTES));
                true
            }
        }
    }

    fn is_outgrown_where_moved(&mut self, id: RowId, bytes: usize) -> bool {
        let Some(frame) = self.rows.get(&id.page) else { return false };
        let there = match find(frame.current().page(), id.slot) {
            Some(Found::Elsewhere(there)) => there,
            _ => return false,
        };
        let Some(frame) = self.rows.get(&there.page) else { return false };
        let cell =
            frame.current().page().cell(usize::from(there.slot)).map(|cell| cell.bytes.len());
        let Some(old) = cell else { return false };
        let left = self.left(there.page) + old;
        match left.checked_sub(bytes + ROW_ID_BYTES) {
            Some(rest) => {
                self.left.insert(there.page, rest);
                false
            }
            None => {
                self.left.insert(there.page, left);
                true
            }
        }
    }

    /// The page of a row, and how long it is if it is there.
    fn found(&self, id: RowId) -> Option<(u32, Option<usize>)> {
        let image = self.rows.get(&id.page)?.current();
        match find(image.page(), id.slot)? {
            Found::Here(row) => Some((id.page, Some(row.len()))),
            Found::Elsewhere(_) => Some((id.page, None)),
        }
    }

    fn left(&mut self, page: u32) -> usize {
        let room = || self.rows.get(&page).map_or(0, |frame| frame.current().page().room());
        *self.left.entry(page).or_insert_with(room)
    }
}

/// Entries of an index and their rows.
type Places<'a> = Vec<(&'a Bytes, RowId)>;

/// The entries that come or go, by index.
fn entries_of(operations: &[Operation]) -> Vec<(Index, Places<'_>)> {
    let mut all = BTreeMap::<u32, (Index, Places<'_>)>::new();
    let mut add = |index: Index, key, id| {
        all.entry(index.object).or_insert_with(|| (index, Vec::new())).1.push((key, id));
    };
    for operation in operations {
        match operation {
            Operation::Insert { page, entries, .. } => {
                // Its slot is not known yet.
                let id = RowId { page: *page, slot: 0 };
                entries.iter().for_each(|entry| add(entry.index, &entry.key, id));
            }
            Operation::Update { id, gone, new, .. } => {
                gone.iter().chain(new.iter()).for_each(|entry| add(entry.index, &entry.key, *id));
            }
            Operation::Delete { id, gone, .. } => {
                gone.iter().for_each(|entry| add(entry.index, &entry.key, *id));
            }
            Operation::AddEntries { index, entries } => {
                entries.iter().for_each(|(key, id)| add(*index, key, *id));
            }
            _ => {}
        }
    }
    all.into_values().collect()
}

/// The pages below an inner page that these entries lead to, each with its own entries.
fn below(
    frames: &Loaded,
    index: Index,
    page: u32,
    entries: &Places<'_>,
    own: Range<usize>,
) -> Vec<(u32, Range<usize>)> {
    let mut found: Vec<(u32, Range<usize>)> = Vec::new();
    let Some(frame) = frames.get(&page) else { return found };
    let image = frame.current();
    let page = image.page();
    // Another by now: the lane sees what it is.
    if page.kind() != Some(Kind::Inner) || page.owner() != index.object {
        return found;
    }
    for at in own {
        let (key, id) = entries[at];
        let Some((_, child)) = child_of(page, &leaf_cell(key, id)) else { continue };
        match found.last_mut() {
            Some((last, range)) if *last == child => range.end = at + 1,
            _ => found.push((child, at..at + 1)),
        }
    }
    found
}
