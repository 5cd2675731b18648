//! An index that is read at a snapshot.

use std::sync::Arc;

use cellar_page::Kind;
use cellar_wait::Session;

use super::{child_of, split_inner};
use crate::error::Error;
use crate::frames::{Frames, Image};
use crate::row_id::{ROW_ID_BYTES, RowId};

/// An index, by its number and the page of its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub object: u32,
    pub root: u32,
}

/// A page on the way down, and the place in it.
struct Step {
    image: Arc<Image>,
    place: usize,
}

/// A position between entries of an index, at one snapshot.
pub(crate) struct Cursor<'a> {
    frames: &'a Frames,
    index: Index,
    point: u64,
    /// The newest LSN of the pages that were looked at.
    pub newest: u64,
    /// From the root to a leaf; the entry at the last place is the next one forwards.
    way: Vec<Step>,
}

impl<'a> Cursor<'a> {
    /// Before the first entry whose bytes are at least `target`.
    pub async fn seek(
        frames: &'a Frames,
        session: &Session,
        index: Index,
        point: u64,
        target: &[u8],
    ) -> Result<Cursor<'a>, Error> {
        let way = Vec::with_capacity(4);
        let mut cursor = Cursor { frames, index, point, newest: 0, way };
        let mut page = index.root;
        loop {
            let image = cursor.image(session, page).await?;
            if image.page().kind() == Some(Kind::Leaf) {
                let place = image.page().search(|cell| cell.cmp(target));
                cursor.way.push(Step { image, place: place.unwrap_or_else(|place| place) });
                return Ok(cursor);
            }
            let below = child_of(image.page(), target);
            let (place, child) = below.ok_or_else(|| cursor.wrong())?;
            cursor.way.push(Step { image, place });
            page = child;
        }
    }

    /// About how many entries lie between this position and a later one: exact within one leaf, else estimated
    /// from the pages on both paths.
    pub fn distance(&self, behind: &Cursor<'_>) -> u64 {
        let (Some(leaf), Some(last)) = (self.way.last(), behind.way.last()) else { return 0 };
        if leaf.image.page().number() == last.image.page().number() {
            return last.place.saturating_sub(leaf.place) as u64;
        }
        let ((from, entries), (to, more)) = (self.share(), behind.share());
        ((to - from).max(0.0) * (entries + more) / 2.0).round().max(1.0) as u64
    }

    /// The share of the index that is before this place, and about how many entries it has in all.
    fn share(&self) -> (f64, f64) {
        let (mut before, mut width, mut entries) = (0.0, 1.0, 1.0);
        for Step { image, place } in &self.way {
            let slots = image.page().slots().max(1) as f64;
            before += width * (*place as f64 / slots).min(1.0);
            width /= slots;
            entries *= slots;
        }
        (before, entries)
    }

    /// The next entry, and the place behind it.
    pub async fn next(&mut self, session: &Session) -> Result<Option<(Vec<u8>, RowId)>, Error> {
        loop {
            let Some(leaf) = self.way.last_mut() else { return Ok(None) };
            if let Some(cell) = leaf.image.page().cell(leaf.place) {
                let entry = entry_of(cell.bytes);
                leaf.place += 1;
                return entry.map(Some).ok_or_else(|| self.wrong());
            }
            if !self.enter(session, true).await? {
                return Ok(None);
            }
        }
    }

    /// The entry before, and the place before that.
    pub async fn previous(&mut self, session: &Session) -> Result<Option<(Vec<u8>, RowId)>, Error> {
        loop {
            let Some(leaf) = self.way.last_mut() else { return Ok(None) };
            if let Some(before) = leaf.place.checked_sub(1) {
                leaf.place = before;
                let entry = leaf.image.page().cell(before).and_then(|cell| entry_of(cell.bytes));
                return entry.map(Some).ok_or_else(|| self.wrong());
            }
            if !self.enter(session, false).await? {
                return Ok(None);
            }
        }
    }

    /// Goes to the leaf behind this one, or before it; false where there is none: the place stays.
    async fn enter(&mut self, session: &Session, forwards: bool) -> Result<bool, Error> {
        let step = |step: &Step| match forwards {
            true => Some(step.place + 1).filter(|place| *place < step.image.page().slots()),
            false => step.place.checked_sub(1),
        };
        let above = &self.way[..self.way.len() - 1];
        let Some(depth) = above.iter().rposition(|at| step(at).is_some()) else { return Ok(false) };
        self.way.truncate(depth + 1);
        let turn = &mut self.way[depth];
        turn.place = step(turn).expect("it was asked just now");
        while let Some(at) = self.way.last() {
            let page = at.image.page();
            if page.kind() != Some(Kind::Inner) {
                break;
            }
            let child = page.cell(at.place).and_then(|cell| split_inner(cell.bytes));
            let (_, child) = child.ok_or_else(|| self.wrong())?;
            let image = self.image(session, child).await?;
            let slots = image.page().slots();
            let is_leaf = image.page().kind() == Some(Kind::Leaf);
            let last = if is_leaf { slots } else { slots.saturating_sub(1) };
            self.way.push(Step { image, place: if forwards { 0 } else { last } });
        }
        Ok(true)
    }

    async fn image(&mut self, session: &Session, page: u32) -> Result<Arc<Image>, Error> {
        let frame = self.frames.load(session, page).await?;
        let image = self.frames.image_at(session, &frame, self.point).await?;
        self.newest = self.newest.max(image.lsn());
        let kind = image.page().kind();
        let is_ours = matches!(kind, Some(Kind::Leaf | Kind::Inner));
        match is_ours && image.page().owner() == self.index.object && self.way.len() < 32 {
            true => Ok(image),
            false => Err(self.wrong()),
        }
    }

    fn wrong(&self) -> Error {
        Error::WrongObject { object: self.index.object, expected: "index" }
    }
}

/// The key and the row of a leaf's cell.
pub(crate) fn entry_of(cell: &[u8]) -> Option<(Vec<u8>, RowId)> {
    let (key, id) = cell.split_at_checked(cell.len().checked_sub(ROW_ID_BYTES)?)?;
    Some((key.to_vec(), RowId::decode(id)?))
}

/// The target behind all entries whose keys begin with `key`: no key goes on with such a byte, and no
/// row has such a place.
pub(crate) fn behind(key: &[u8]) -> Vec<u8> {
    let mut target = key.to_vec();
    target.resize(key.len() + ROW_ID_BYTES + 1, 0xFF);
    target
}
