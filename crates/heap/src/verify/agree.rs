//! The agreement of an index with its table: an entry for each key of each row, and no others. Both are summed
//! up as they are seen; only where the sums differ are rows looked for one by one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use cellar_page::Kind;

use super::pages::Pages;
use super::table::Lookup;
use super::{Finding, Verify};
use crate::error::Error;
use crate::index::{Cursor, Index, child_of, leaf_cell};
use crate::row_id::RowId;
use crate::transaction::RowKey;

/// How many entries there are, and a sum over all of them in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    hashes: u64,
}

impl Sum {
    fn add(&mut self, key: &[u8], id: RowId) {
        let mut hasher = DefaultHasher::new();
        (key, id).hash(&mut hasher);
        self.count += 1;
        self.hashes = self.hashes.wrapping_add(hasher.finish());
    }
}

/// The entries that the rows of a table should have in an index.
pub(super) struct Expected {
    pub index: u32,
    sum: Sum,
}

impl Expected {
    pub fn of(index: u32) -> Expected {
        Expected { index, sum: Sum::default() }
    }
}

/// The entries of an index that lead to rows of its table.
pub(super) struct Agree<'a> {
    index: u32,
    /// The pages of the table.
    rows: &'a mut Pages,
    sum: Sum,
    /// The entry before, if its row has that key.
    last: Option<(Vec<u8>, RowId)>,
}

impl<'a> Agree<'a> {
    pub fn new(index: u32, rows: &'a mut Pages) -> Agree<'a> {
        Agree { index, rows, sum: Sum::default(), last: None }
    }

    pub fn is_as(&self, expected: &Expected) -> bool {
        self.sum == expected.sum
    }
}

/// The keys of a row in an index, each once.
fn keys_in(index: u32, keys: &[RowKey]) -> Vec<&RowKey> {
    let mut keys: Vec<&RowKey> = keys.iter().filter(|key| key.key.index == index).collect();
    keys.sort_by(|one, other| one.key.bytes.cmp(&other.key.bytes));
    keys.dedup_by(|one, other| one.key.bytes == other.key.bytes);
    keys
}

/// So many rows are compared with the entries of an index at once.
const WINDOW: usize = 1 << 16;

impl Verify<'_> {
    /// Adds a row to what is expected of the indexes of its table.
    pub(super) fn expect(&mut self, table: u32, expected: &mut [Expected], id: RowId, row: &Bytes) {
        let Some(keys_of) = self.keys.filter(|_| !expected.is_empty()) else {
            expected.iter_mut().for_each(|of| of.sum.add(&[], id));
            return;
        };
        let Some(keys) = keys_of(table, row) else {
            self.report.find(Finding::RowUnreadable { table, row: id });
            return;
        };
        for of in expected {
            keys_in(of.index, &keys).iter().for_each(|key| of.sum.add(&key.key.bytes, id));
        }
    }

    /// Compares an entry with its row.
    pub(super) async fn entry(
        &mut self,
        agree: &mut Agree<'_>,
        page: u32,
        (key, id): (Vec<u8>, RowId),
    ) -> Result<(), Error> {
        let (index, table, row) = (agree.index, agree.rows.object, id);
        let bytes = match self.row(agree.rows, id).await? {
            Lookup::Row(bytes) => bytes,
            Lookup::None => {
                self.report.find(Finding::EntryWithoutRow { index, page, table, row });
                return Ok(());
            }
            Lookup::Unknown => return Ok(()),
        };
        let Some(keys_of) = self.keys else {
            agree.sum.add(&[], id);
            return Ok(());
        };
        // A row that cannot be read was found with its table.
        let Some(keys) = keys_of(table, &bytes) else { return Ok(()) };
        let own = keys_in(index, &keys).into_iter().find(|own| own.key.bytes == key);
        let Some(own) = own else {
            self.report.find(Finding::WrongKey { index, page, row });
            return Ok(());
        };
        let before = agree.last.take().filter(|(last, _)| own.is_unique && *last == key);
        if let Some((_, other)) = before.filter(|(_, other)| *other != id) {
            self.report.find(Finding::Duplicate { index, page, row, other });
        }
        agree.sum.add(&key, id);
        agree.last = Some((key, id));
        Ok(())
    }

    /// Looks for the rows that an index lacks.
    pub(super) async fn missing(&mut self, index: Index, rows: &mut Pages) -> Result<(), Error> {
        match self.keys {
            Some(_) => self.missing_keys(index, rows).await,
            None => self.missing_rows(index, rows).await,
        }
    }

    /// Looks for each key of each row where it should be.
    async fn missing_keys(&mut self, index: Index, rows: &mut Pages) -> Result<(), Error> {
        let mut next = rows.next_in_use(0);
        while let Some(page) = next {
            next = rows.next_in_use(page + 1);
            for (row, bytes) in self.rows_of(rows, page).await? {
                let keys = self.keys.and_then(|keys_of| keys_of(rows.object, &bytes));
                for key in keys_in(index.object, &keys.unwrap_or_default()) {
                    let cell = leaf_cell(&key.key.bytes, row);
                    let Some((leaf, false)) = self.seek(index, &cell).await? else { continue };
                    let (index, page) = (index.object, Some(leaf));
                    self.report.find(Finding::MissingEntry { index, row, page });
                }
            }
        }
        Ok(())
    }

    /// The leaf where an entry should be, and whether it is there; `None` where no way leads to a leaf.
    async fn seek(&mut self, index: Index, cell: &[u8]) -> Result<Option<(u32, bool)>, Error> {
        let (mut page, mut level) = (index.root, u32::MAX);
        loop {
            let Ok(image) = self.load(page).await? else { return Ok(None) };
            let this = image.page();
            match this.kind() {
                Some(Kind::Leaf) => {
                    let found = this.search(|other| other.cmp(cell));
                    return Ok(Some((page, found.is_ok())));
                }
                // Each step goes down, so that it ends.
                Some(Kind::Inner) if this.level() < level => level = this.level(),
                _ => return Ok(None),
            }
            let Some((_, child)) = child_of(this, cell) else { return Ok(None) };
            page = child;
        }
    }

    /// Counts the entries of rows, a window of rows after the other.
    async fn missing_rows(&mut self, index: Index, rows: &mut Pages) -> Result<(), Error> {
        let mut next = rows.next_in_use(0);
        while next.is_some() {
            let mut window = BTreeMap::new();
            while let Some(page) = next.filter(|_| window.len() < WINDOW) {
                next = rows.next_in_use(page + 1);
                let found = self.rows_of(rows, page).await?;
                window.extend(found.into_iter().map(|(id, _)| (id, 0)));
            }
            match self.count_entries(index, &mut window).await {
                Ok(()) => {}
                // It was whole when it was walked through: the disk has got worse meanwhile.
                Err(Error::PageDamaged { page, damage }) => {
                    self.report.find(Finding::PageDamaged { page, damage });
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            let index = index.object;
            for (row, count) in window.into_iter().filter(|(_, count)| *count != 1) {
                self.report.find(match count {
                    0 => Finding::MissingEntry { index, row, page: None },
                    _ => Finding::EntryTwice { index, row, count },
                });
            }
        }
        Ok(())
    }

    /// Counts the entries of these rows.
    async fn count_entries(
        &self,
        index: Index,
        rows: &mut BTreeMap<RowId, u32>,
    ) -> Result<(), Error> {
        let (frames, point) = (self.view.frames(), self.view.point());
        let sought = Cursor::seek(frames, self.session, index, point, &[]).await;
        let mut cursor = self.view.check(sought)?;
        while let Some((_, id)) = self.view.check(cursor.next(self.session).await)? {
            if let Some(count) = rows.get_mut(&id) {
                *count += 1;
            }
        }
        Ok(())
    }
}
