//! The pages of one object: a byte for each, what its space page says and what was found meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::geometry::Geometry;
use crate::space::allocate::LONG;

/// A long value has it.
const CLAIMED: u8 = 0x10;
/// Nobody knows whether it is in use.
const UNKNOWN: u8 = 0x20;
/// What is in it cannot be used; that was said.
const BAD: u8 = 0x40;
/// Something leads to it; whether it may be in use was looked at.
const REACHED: u8 = 0x80;
/// What was found of it.
const FOUND: u8 = CLAIMED | BAD | REACHED;

/// What its space page has of a page, and what was found of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u8);

impl Mark {
    /// What its space page says.
    pub fn said(state: u8) -> Mark {
        Mark(state)
    }

    /// Its space page does not say anything that can be.
    pub const UNKNOWN: Mark = Mark(UNKNOWN);

    pub fn is_in_use(self) -> bool {
        self.0 & !(FOUND | UNKNOWN) != 0
    }

    pub fn is_free(self) -> bool {
        self.0 & !FOUND == 0
    }

    pub fn is_long(self) -> bool {
        self.0 & !FOUND == LONG
    }

    pub fn is_unknown(self) -> bool {
        self.0 & UNKNOWN != 0
    }

    pub fn is_claimed(self) -> bool {
        self.0 & CLAIMED != 0
    }

    pub fn is_bad(self) -> bool {
        self.0 & BAD != 0
    }

    pub fn is_reached(self) -> bool {
        self.0 & REACHED != 0
    }
}

/// The pages of an object.
pub(super) struct Pages {
    pub object: u32,
    geometry: Geometry,
    extents: BTreeMap<u32, Box<[Mark]>>,
    /// Extents of which nobody knows whose they are.
    dark: Vec<Range<u32>>,
    /// A row does not say which long values it has.
    has_unfollowed: bool,
}

impl Pages {
    pub fn new(object: u32, geometry: Geometry, dark: Vec<Range<u32>>) -> Pages {
        Pages { object, geometry, extents: BTreeMap::new(), dark, has_unfollowed: false }
    }

    pub fn set_unfollowed(&mut self) {
        self.has_unfollowed = true;
    }

    /// Whether all rows could be seen, and all of their long values.
    pub fn is_all_followed(&self) -> bool {
        let mut marks = self.extents.values().flat_map(|marks| marks.iter());
        let is_dark = marks.any(|mark| mark.is_bad() || mark.is_unknown());
        !is_dark && self.dark.is_empty() && !self.has_unfollowed
    }

    /// Adds an extent, whose first page says this of each of its pages.
    pub fn add(&mut self, extent: u32, mark: impl FnMut(u32) -> Mark) {
        let marks = (0..self.geometry.extent_pages).map(mark).collect();
        self.extents.insert(extent, marks);
    }

    /// Adds an extent of whose pages nothing is known.
    pub fn add_unknown(&mut self, extent: u32) {
        self.add(extent, |_| Mark::UNKNOWN);
    }

    /// What is known of a page; `None` where it is none of the object's, or a space page.
    pub fn get(&self, page: u32) -> Option<Mark> {
        let (extent, place) = self.place_of(page);
        let unknown = || self.is_dark(extent).then_some(Mark::UNKNOWN);
        let mark = match self.extents.get(&extent) {
            Some(marks) => marks.get(place).copied(),
            None => unknown(),
        };
        mark.filter(|_| place > 0)
    }

    pub fn set_bad(&mut self, page: u32) {
        self.set(page, BAD);
    }

    pub fn set_claimed(&mut self, page: u32) {
        self.set(page, CLAIMED);
    }

    pub fn set_reached(&mut self, page: u32) {
        self.set(page, REACHED);
    }

    fn set(&mut self, page: u32, flag: u8) {
        let (extent, place) = self.place_of(page);
        if !self.extents.contains_key(&extent) && self.is_dark(extent) {
            self.add_unknown(extent);
        }
        let marks = self.extents.get_mut(&extent);
        if let Some(mark) = marks.and_then(|marks| marks.get_mut(place)) {
            mark.0 |= flag;
        }
    }

    fn place_of(&self, page: u32) -> (u32, usize) {
        let extent = self.geometry.extent_of(page);
        (extent, (page - self.geometry.first_page(extent)) as usize)
    }

    fn is_dark(&self, extent: u32) -> bool {
        self.dark.iter().any(|dark| dark.contains(&extent))
    }

    /// The space page that tells of a page.
    pub fn space_of(&self, page: u32) -> u32 {
        self.geometry.first_page(self.geometry.extent_of(page))
    }

    /// The first page from this one on that is marked as in use.
    pub fn next_in_use(&self, from: u32) -> Option<u32> {
        let first = self.geometry.extent_of(from);
        let pages = self.extents.range(first..).flat_map(|(extent, marks)| {
            let first = self.geometry.first_page(*extent);
            marks.iter().enumerate().skip(1).map(move |(place, mark)| (first + place as u32, *mark))
        });
        let mut pages = pages.skip_while(|(page, _)| *page < from);
        pages.find(|(_, mark)| mark.is_in_use()).map(|(page, _)| page)
    }
}
