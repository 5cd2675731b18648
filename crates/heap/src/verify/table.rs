//! Pages of rows: cells, and rows that have moved.

use std::sync::Arc;

use bytes::Bytes;
use cellar_page::{Cell, CellKind, Kind, PageRef};

use super::agree::Expected;
use super::pages::{Mark, Pages};
use super::{Finding, Verify};
use crate::error::Error;
use crate::frames::Image;
use crate::row_id::RowId;
use crate::rows::{Found, ROW_BYTES_MIN, find, find_moved};

/// What is known of a page that something leads to.
enum Looked {
    Page(Arc<Image>),
    /// The table has no such page.
    None,
    /// It cannot be read, or is another's; that was said.
    Unknown,
}

/// What is known of a row.
pub(super) enum Lookup {
    Row(Bytes),
    None,
    /// It is, or leads to where it is, in a page that cannot be read.
    Unknown,
}

impl Verify<'_> {
    /// Checks the pages of a table, and counts its rows.
    pub(super) async fn table(
        &mut self,
        pages: &mut Pages,
        expected: &mut [Expected],
    ) -> Result<(), Error> {
        let mut next = pages.next_in_use(0);
        while let Some(number) = next {
            next = pages.next_in_use(number + 1);
            // Those of long values come with their rows, or behind them.
            if pages.get(number).is_some_and(Mark::is_long) {
                continue;
            }
            let Looked::Page(image) = self.table_page(pages, number).await? else { continue };
            pages.set_reached(number);
            self.report.pages += 1;
            if image.page().kind() != Some(Kind::Heap) {
                let (space, object) = (pages.space_of(number), pages.object);
                self.report.find(Finding::NotMarkedLong { page: number, space, object });
                continue;
            }
            if let Some(slot) = overlapping(image.page()) {
                self.report.find(Finding::Cell { page: number, slot, object: pages.object });
            }
            for slot in 0..image.page().slots() {
                let Some(cell) = image.page().cell(slot) else { continue };
                let at = RowId { page: number, slot: slot as u16 };
                let Some(row) = self.cell(pages, at, cell).await? else { continue };
                self.report.rows += 1;
                self.expect(pages.object, expected, at, &row);
                self.follow_longs(pages, at, &row).await?;
            }
        }
        self.other_longs(pages).await
    }

    /// A page of the table. One that is marked as in use and is not a page of rows is a finding.
    async fn table_page(&mut self, pages: &mut Pages, page: u32) -> Result<Looked, Error> {
        let Some(mark) = pages.get(page) else { return Ok(Looked::None) };
        if mark.is_bad() {
            return Ok(Looked::Unknown);
        }
        let object = pages.object;
        let finding = match self.load(page).await? {
            Ok(image) => {
                let (found, owner) = (image.page().kind(), image.page().owner());
                if matches!(found, Some(Kind::Heap | Kind::Overflow)) && owner == object {
                    return Ok(Looked::Page(image));
                }
                Finding::WrongPage { page, object, expected: Kind::Heap, found, owner }
            }
            Err(finding) => finding,
        };
        if mark.is_free() {
            return Ok(Looked::None);
        }
        if mark.is_in_use() {
            self.report.find(finding);
            pages.set_bad(page);
        }
        Ok(Looked::Unknown)
    }

    /// Checks a cell; returns the row that is known by its place.
    async fn cell(
        &mut self,
        pages: &mut Pages,
        at: RowId,
        cell: Cell<'_>,
    ) -> Result<Option<Bytes>, Error> {
        let (page, slot, object) = (at.page, at.slot, pages.object);
        let bad = Finding::Cell { page, slot, object };
        match cell.kind {
            CellKind::Plain if cell.bytes.len() >= ROW_BYTES_MIN => {
                return Ok(Some(Bytes::copy_from_slice(cell.bytes)));
            }
            CellKind::Plain => self.report.find(bad),
            CellKind::Forward => {
                let Some(there) = RowId::decode(cell.bytes) else {
                    self.report.find(bad);
                    return Ok(None);
                };
                match self.moved_row(pages, at, there).await? {
                    Lookup::Row(row) => return Ok(Some(row)),
                    Lookup::None => {
                        self.report.find(Finding::Forward { table: object, row: at, there });
                    }
                    Lookup::Unknown => {}
                }
            }
            CellKind::Moved => {
                let home = cell.bytes.get(..at.encode().len()).and_then(RowId::decode);
                match home.filter(|_| cell.bytes.len() >= at.encode().len() + ROW_BYTES_MIN) {
                    Some(home) => self.check_home(pages, home, at).await?,
                    None => self.report.find(bad),
                }
            }
        }
        Ok(None)
    }

    /// Whether a row that has moved is found from where it is known.
    async fn check_home(
        &mut self,
        pages: &mut Pages,
        home: RowId,
        there: RowId,
    ) -> Result<(), Error> {
        let leads_here = match self.table_page(pages, home.page).await? {
            Looked::Page(image) => find_in(&image, home.slot) == Some(Found::Elsewhere(there)),
            Looked::None => false,
            Looked::Unknown => return Ok(()),
        };
        match leads_here {
            true => self.reach(pages, home.page),
            false => {
                let table = pages.object;
                self.report.find(Finding::Moved { table, there, home });
            }
        }
        Ok(())
    }

    /// The row that has moved from one place to another.
    async fn moved_row(
        &mut self,
        pages: &mut Pages,
        home: RowId,
        there: RowId,
    ) -> Result<Lookup, Error> {
        let image = match self.table_page(pages, there.page).await? {
            Looked::Page(image) => image,
            Looked::None => return Ok(Lookup::None),
            Looked::Unknown => return Ok(Lookup::Unknown),
        };
        let page = Some(image.page()).filter(|page| page.kind() == Some(Kind::Heap));
        let row = page.and_then(|page| find_moved(page, there.slot));
        let Some((_, row)) = row.filter(|(of, _)| *of == home) else { return Ok(Lookup::None) };
        self.reach(pages, there.page);
        Ok(Lookup::Row(Bytes::copy_from_slice(row)))
    }

    /// The row that is known by a place. That it is in a page which is marked as free is a finding.
    pub(super) async fn row(&mut self, pages: &mut Pages, id: RowId) -> Result<Lookup, Error> {
        let image = match self.table_page(pages, id.page).await? {
            Looked::Page(image) => image,
            Looked::None => return Ok(Lookup::None),
            Looked::Unknown => return Ok(Lookup::Unknown),
        };
        let found = match find_in(&image, id.slot) {
            Some(Found::Here(row)) => Lookup::Row(Bytes::copy_from_slice(row)),
            Some(Found::Elsewhere(there)) => self.moved_row(pages, id, there).await?,
            None => return Ok(Lookup::None),
        };
        if matches!(found, Lookup::Row(_)) {
            self.reach(pages, id.page);
        }
        Ok(found)
    }

    /// The rows that are known by places in a page.
    pub(super) async fn rows_of(
        &mut self,
        pages: &mut Pages,
        page: u32,
    ) -> Result<Vec<(RowId, Bytes)>, Error> {
        let Looked::Page(image) = self.table_page(pages, page).await? else {
            return Ok(Vec::new());
        };
        let mut rows = Vec::new();
        for slot in 0..image.page().slots() as u16 {
            let id = RowId { page, slot };
            if let Lookup::Row(row) = self.row(pages, id).await? {
                rows.push((id, row));
            }
        }
        Ok(rows)
    }
}

/// What begins in a slot of a page, if that is one of rows.
fn find_in(image: &Image, slot: u16) -> Option<Found<'_>> {
    let page = Some(image.page()).filter(|page| page.kind() == Some(Kind::Heap));
    page.and_then(|page| find(page, slot))
}

/// The first slot whose cell begins in another one's.
pub(super) fn overlapping(page: PageRef<'_>) -> Option<u16> {
    let start = page.bytes().as_ptr() as usize;
    let cells = (0..page.slots()).filter_map(|slot| Some((slot, page.cell(slot)?.bytes)));
    let mut cells: Vec<(usize, usize, u16)> = cells
        .map(|(slot, bytes)| {
            let at = bytes.as_ptr() as usize - start;
            (at, at + bytes.len(), slot as u16)
        })
        .collect();
    cells.sort_unstable();
    cells.windows(2).find(|two| two[1].0 < two[0].1).map(|two| two[1].2)
}
