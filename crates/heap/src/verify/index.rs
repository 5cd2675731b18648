//! An index from its root: each page is where it should be, and reached once.

use std::sync::Arc;

use cellar_page::{CellKind, Kind};

use super::agree::Agree;
use super::pages::Pages;
use super::space::Objects;
use super::table::overlapping;
use super::{Finding, Verify};
use crate::error::Error;
use crate::frames::Image;
use crate::index::{Index, entry_of, split_inner};
use crate::row_id::ROW_ID_BYTES;

/// An index that is walked through.
struct Tree<'a> {
    pages: &'a mut Pages,
    /// All that the root leads to was seen.
    is_whole: bool,
}

/// A separator, and the inner page that has it.
#[derive(Clone)]
struct Bound {
    bytes: Arc<[u8]>,
    page: u32,
}

/// What all cells below a place must be: at least the one, less than the other.
#[derive(Clone, Default)]
struct Bounds {
    low: Option<Bound>,
    high: Option<Bound>,
}

/// Where a page is in the tree.
#[derive(Clone, Default)]
struct Place {
    page: u32,
    /// The page above and its level; `None` for the root.
    above: Option<(u32, u32)>,
    bounds: Bounds,
}

/// A page on the way down, and which of its cells is next.
struct Step {
    image: Arc<Image>,
    next: usize,
    place: Place,
}

/// The highest level: who reads goes no longer way down.
const LEVELS_MAX: u32 = 31;

impl Verify<'_> {
    /// Checks an index. Returns it if all of it could be seen.
    pub(super) async fn index(
        &mut self,
        objects: &Objects,
        pages: &mut Pages,
        mut agree: Option<&mut Agree<'_>>,
    ) -> Result<Option<Index>, Error> {
        let object = pages.object;
        let Some(root) = objects.root(self.view.geometry(), object) else { return Ok(None) };
        let mut tree = Tree { pages, is_whole: true };
        let first = Place { page: root, ..Place::default() };
        let mut way: Vec<Step> = self.enter(&mut tree, first).await?.into_iter().collect();
        while let Some(step) = way.last_mut() {
            if step.image.page().kind() == Some(Kind::Leaf) {
                self.leaf(step, agree.as_deref_mut()).await?;
                way.pop();
                continue;
            }
            if step.next == step.image.page().slots() {
                way.pop();
                continue;
            }
            let below = step.below();
            step.next += 1;
            match below {
                Some(place) => way.extend(self.enter(&mut tree, place).await?),
                None => tree.is_whole = false,
            }
        }
        let is_whole = tree.is_whole;
        if is_whole {
            self.find_leaked(pages);
        }
        Ok(is_whole.then_some(Index { object, root }))
    }

    /// Pages that are in use by the space pages and that the root does not lead to.
    fn find_leaked(&mut self, pages: &Pages) {
        let mut next = pages.next_in_use(0);
        while let Some(page) = next {
            if pages.get(page).is_some_and(|mark| !mark.is_reached()) {
                let (space, index) = (pages.space_of(page), pages.object);
                self.report.find(Finding::Leaked { page, space, index });
            }
            next = pages.next_in_use(page + 1);
        }
    }

    /// Checks a page that something leads to; `None` where the way must not go on.
    async fn enter(&mut self, tree: &mut Tree<'_>, place: Place) -> Result<Option<Step>, Error> {
        let (page, index) = (place.page, tree.pages.object);
        let above = place.above.map_or(0, |(above, _)| above);
        let Some(mark) = tree.pages.get(page) else {
            tree.is_whole = false;
            self.report.find(Finding::Outside { index, above, page });
            return Ok(None);
        };
        if mark.is_reached() {
            self.report.find(Finding::ReachedTwice { index, above, page });
            return Ok(None);
        }
        let image = match self.load(page).await? {
            Ok(image) => image,
            Err(finding) => return Ok(self.stop(tree, page, finding)),
        };
        if let Some(finding) = misplaced(&image, index, &place) {
            return Ok(self.stop(tree, page, finding));
        }
        self.reach(tree.pages, page);
        self.report.pages += 1;
        let is_leaf = image.page().kind() == Some(Kind::Leaf);
        if image.page().slots() == 0 && !(is_leaf && place.above.is_none()) {
            tree.is_whole &= is_leaf;
            self.report.find(Finding::Empty { index, page });
        }
        let step = Step { image, next: 0, place };
        for finding in step.cells(index) {
            tree.is_whole &= !matches!(finding, Finding::Cell { .. });
            self.report.find(finding);
        }
        Ok(Some(step))
    }

    /// A page that cannot be used: what it leads to is not known.
    fn stop(&mut self, tree: &mut Tree<'_>, page: u32, finding: Finding) -> Option<Step> {
        tree.is_whole = false;
        tree.pages.set_reached(page);
        self.report.find(finding);
        None
    }

    /// Counts the entries of a leaf, and has them compared with rows.
    async fn leaf(&mut self, step: &Step, mut agree: Option<&mut Agree<'_>>) -> Result<(), Error> {
        let page = step.image.page();
        for slot in 0..page.slots() {
            let Some((key, id)) = page.cell(slot).and_then(|cell| entry_of(cell.bytes)) else {
                continue;
            };
            self.report.entries += 1;
            if let Some(agree) = agree.as_deref_mut() {
                self.entry(agree, step.place.page, (key, id)).await?;
            }
        }
        Ok(())
    }
}

impl Step {
    /// The place that the next cell leads to; `None` where it does not lead anywhere.
    fn below(&self) -> Option<Place> {
        let (this, page) = (self.image.page(), self.place.page);
        let separator = |slot: usize| {
            let (least, _) = split_inner(this.cell(slot)?.bytes)?;
            Some(Bound { bytes: least.into(), page })
        };
        let (_, child) = split_inner(this.cell(self.next)?.bytes)?;
        let bounds = &self.place.bounds;
        // The first cell stands for all that is less than the second.
        let low = if self.next == 0 { bounds.low.clone() } else { separator(self.next) };
        let high = separator(self.next + 1).or_else(|| bounds.high.clone());
        let above = Some((page, this.level()));
        Some(Place { page: child, above, bounds: Bounds { low, high } })
    }

    /// What is wrong with the cells: the first of each kind.
    fn cells(&self, index: u32) -> Vec<Finding> {
        let (this, page) = (self.image.page(), self.place.page);
        let is_leaf = this.kind() == Some(Kind::Leaf);
        let (mut bad, mut order, mut bounds) = (overlapping(this), None, None);
        let mut before: Option<&[u8]> = None;
        for slot in 0..this.slots() {
            let number = slot as u16;
            let cell = this.cell(slot).filter(|cell| cell.kind == CellKind::Plain);
            let compared = cell.and_then(|cell| match is_leaf {
                true => Some(cell.bytes).filter(|bytes| bytes.len() >= ROW_ID_BYTES),
                false => split_inner(cell.bytes).map(|(least, _)| least),
            });
            let Some(bytes) = compared else {
                bad = bad.or(Some(number));
                continue;
            };
            if !is_leaf && slot == 0 {
                continue;
            }
            if before.is_some_and(|before| before >= bytes) {
                order = order.or(Some(number));
            }
            before = Some(bytes);
            bounds =
                bounds.or_else(|| Some((number, self.place.bounds.broken_by(bytes, is_leaf)?)));
        }
        let bad = bad.map(|slot| Finding::Cell { page, slot, object: index });
        let order = order.map(|slot| Finding::Order { index, page, slot });
        let bounds = bounds.map(|(slot, above)| Finding::Bounds { index, page, slot, above });
        bad.into_iter().chain(order).chain(bounds).collect()
    }
}

impl Bounds {
    /// The page whose separator does not allow a cell. A separator is more than the lower bound, an entry may
    /// be it.
    fn broken_by(&self, bytes: &[u8], is_leaf: bool) -> Option<u32> {
        let is_below = |low: &&Bound| bytes < &low.bytes[..] || !is_leaf && bytes == &low.bytes[..];
        let low = self.low.as_ref().filter(is_below);
        let high = || self.high.as_ref().filter(|high| bytes >= &high.bytes[..]);
        low.or_else(high).map(|bound| bound.page)
    }
}

/// Why a page is not the one that should be at a place.
fn misplaced(image: &Image, index: u32, place: &Place) -> Option<Finding> {
    let (this, page) = (image.page(), place.page);
    let (found, owner, level) = (this.kind(), this.owner(), this.level());
    let is_index = matches!(found, Some(Kind::Leaf | Kind::Inner)) && owner == index;
    // The root says itself on which level it is.
    let root_level = if found == Some(Kind::Leaf) { 0 } else { level.clamp(1, LEVELS_MAX) };
    let expected_level = place.above.map_or(root_level, |(_, above)| above.saturating_sub(1));
    let expected = if expected_level == 0 { Kind::Leaf } else { Kind::Inner };
    if !is_index || found != Some(expected) {
        return Some(Finding::WrongPage { page, object: index, expected, found, owner });
    }
    let expected = expected_level;
    (level != expected).then_some(Finding::Level { index, page, level, expected })
}
