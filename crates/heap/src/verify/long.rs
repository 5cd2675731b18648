//! Long values: each page of one is where a row or a directory page says, and is of no other; each page in use by one
//! is reached.

use std::sync::Arc;

use cellar_page::Kind;

use super::pages::Pages;
use super::{Finding, Verify};
use crate::error::Error;
use crate::frames::Image;
use crate::long::{Part, part};
use crate::row_id::RowId;

/// A long value, as a row names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongValue {
    /// Its first page.
    pub page: u32,
    /// Its length in bytes.
    pub length: u32,
}

/// The long values of a row of a table, by its bytes; `None` where they cannot be read as a row of that table.
pub type LongsOf<'a> = dyn Fn(u32, &[u8]) -> Option<Vec<LongValue>> + Send + Sync + 'a;

impl Verify<'_> {
    /// Follows the long values of a row.
    pub(super) async fn follow_longs(
        &mut self,
        pages: &mut Pages,
        row: RowId,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let Some(longs_of) = self.longs else { return Ok(()) };
        let table = pages.object;
        let Some(values) = longs_of(table, bytes) else {
            pages.set_unfollowed();
            // Otherwise it is said where its keys are looked for.
            if self.keys.is_none() {
                self.report.find(Finding::RowUnreadable { table, row });
            }
            return Ok(());
        };
        for value in values {
            self.follow(pages, row, value).await?;
        }
        Ok(())
    }

    /// Follows a long value. Each of its pages is taken once, so that a circle ends.
    async fn follow(
        &mut self,
        pages: &mut Pages,
        row: RowId,
        LongValue { page: first, length }: LongValue,
    ) -> Result<(), Error> {
        let (table, of) = (pages.object, Some(row));
        let (mut bytes, mut is_whole, mut next) = (0, true, Some(first));
        while let Some(page) = next.take() {
            let Some(image) = self.claim(pages, of, page).await? else { return Ok(()) };
            match part(image.page(), table) {
                Some(Part::Piece(piece)) if page == first => bytes += piece.len(),
                Some(Part::Directory(named, behind)) => {
                    for page in named {
                        match self.piece(pages, of, page).await? {
                            Some(piece) => bytes += piece,
                            None => is_whole = false,
                        }
                    }
                    next = behind;
                }
                _ => {
                    self.report.find(Finding::LongLost { table, row: of, page });
                    return Ok(());
                }
            }
        }
        if is_whole && bytes != length as usize {
            self.report.find(Finding::LongLength { table, row, page: first, length, bytes });
        }
        Ok(())
    }

    /// The bytes of a value in a page that a directory page names; `None` where there are none, which was said.
    async fn piece(
        &mut self,
        pages: &mut Pages,
        row: Option<RowId>,
        page: u32,
    ) -> Result<Option<usize>, Error> {
        let Some(image) = self.claim(pages, row, page).await? else { return Ok(None) };
        let table = pages.object;
        if let Some(Part::Piece(piece)) = part(image.page(), table) {
            return Ok(Some(piece.len()));
        }
        self.report.find(Finding::LongLost { table, row, page });
        Ok(None)
    }

    /// A page of a long value, which is no other one's from now on; `None` where it is, or cannot be read, which was
    /// said.
    async fn claim(
        &mut self,
        pages: &mut Pages,
        row: Option<RowId>,
        page: u32,
    ) -> Result<Option<Arc<Image>>, Error> {
        let table = pages.object;
        let Some(mark) = pages.get(page) else {
            self.report.find(Finding::LongLost { table, row, page });
            return Ok(None);
        };
        if mark.is_bad() {
            return Ok(None);
        }
        if mark.is_claimed() {
            self.report.find(Finding::LongShared { table, row, page });
            return Ok(None);
        }
        pages.set_claimed(page);
        match self.load(page).await? {
            Ok(image) if image.page().kind() == Some(Kind::Overflow) => {
                self.reach(pages, page);
                self.report.pages += u64::from(mark.is_long());
                Ok(Some(image))
            }
            Ok(_) => {
                self.report.find(Finding::LongLost { table, row, page });
                Ok(None)
            }
            Err(finding) => {
                self.report.find(finding);
                pages.set_bad(page);
                Ok(None)
            }
        }
    }

    /// Looks at the pages that are in use by long values and that no row has led to. Where rows do not say what they
    /// lead to, it follows directory pages.
    pub(super) async fn other_longs(&mut self, pages: &mut Pages) -> Result<(), Error> {
        let (table, is_followed) = (pages.object, self.longs.is_some());
        let is_known = is_followed && pages.is_all_followed();
        let mut next = pages.next_in_use(0);
        while let Some(page) = next {
            next = pages.next_in_use(page + 1);
            let is_here = |mark: super::pages::Mark| {
                mark.is_long() && !mark.is_bad() && !(is_followed && mark.is_claimed())
            };
            if !pages.get(page).is_some_and(is_here) {
                continue;
            }
            let image = match self.load(page).await? {
                Ok(image) => image,
                Err(finding) => {
                    self.report.find(finding);
                    pages.set_bad(page);
                    continue;
                }
            };
            self.report.pages += 1;
            let (found, owner) = (image.page().kind(), image.page().owner());
            match part(image.page(), table) {
                None => {
                    let (object, expected) = (table, Kind::Overflow);
                    self.report.find(Finding::WrongPage { page, object, expected, found, owner });
                }
                Some(_) if is_known => {
                    let space = pages.space_of(page);
                    self.report.find(Finding::LongLeaked { table, page, space });
                }
                Some(Part::Directory(named, behind)) if !is_followed => {
                    self.named_by(pages, named, behind).await?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Looks at the pages that a directory page leads to, of whatever value.
    async fn named_by(
        &mut self,
        pages: &mut Pages,
        named: Vec<u32>,
        behind: Option<u32>,
    ) -> Result<(), Error> {
        let counted = self.report.pages;
        for page in named {
            self.piece(pages, None, page).await?;
        }
        if let Some(page) = behind
            && let Some(image) = self.claim(pages, None, page).await?
            && !matches!(part(image.page(), pages.object), Some(Part::Directory(..)))
        {
            let table = pages.object;
            self.report.find(Finding::LongLost { table, row: None, page });
        }
        // Each is counted where it comes itself.
        self.report.pages = counted;
        Ok(())
    }
}
