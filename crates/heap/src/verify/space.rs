//! The extent map and the space pages: whose the extents are, and which of their pages are in use.

use std::collections::BTreeMap;
use std::ops::Range;

use cellar_page::{Kind, Raw};

use super::pages::{Mark, Pages};
use super::{Finding, Verify};
use crate::error::Error;
use crate::geometry::{EXTENTS_PER_MAP, Geometry, MAP_ENTRY};
use crate::space::allocate::{FULL, IN_USE, LONG, Use, byte_of};
use crate::space::map::with_maps;

/// A table or an index, as the extent map has it.
pub(super) struct Object {
    kind: Use,
    extents: Vec<u32>,
    /// Those that are said to be its first.
    firsts: Vec<u32>,
}

/// All tables and indexes.
#[derive(Default)]
pub(super) struct Objects {
    by_number: BTreeMap<u32, Object>,
    /// The extents that pages of the map tell of which cannot be read.
    pub dark: Vec<Range<u32>>,
}

impl Objects {
    pub fn is_of(&self, number: u32, kind: Use) -> bool {
        self.by_number.get(&number).is_some_and(|object| object.kind == kind)
    }

    pub fn of_kind(&self, kind: Use) -> impl Iterator<Item = u32> {
        let of_kind = self.by_number.iter().filter(move |(_, object)| object.kind == kind);
        of_kind.map(|(number, _)| *number)
    }

    /// The page of an index's root, if the map says where it is.
    pub fn root(&self, geometry: Geometry, index: u32) -> Option<u32> {
        let first = self.by_number.get(&index)?.firsts.first()?;
        Some(geometry.first_page(*first) + 1)
    }

    /// Takes in what the map says of an extent; false where that cannot be.
    fn add_extent(&mut self, extent: u32, entry: [u8; MAP_ENTRY], is_map: bool) -> bool {
        let [a, b, c, d, kind, is_first, 0, 0] = entry else { return false };
        let number = u32::from_le_bytes([a, b, c, d]);
        if entry == [0; MAP_ENTRY] {
            return true;
        }
        let Some(kind) = Use::from_number(kind) else { return false };
        if number == 0 || is_first > 1 || is_map {
            return false;
        }
        let new = || Object { kind, extents: Vec::new(), firsts: Vec::new() };
        let object = self.by_number.entry(number).or_insert_with(new);
        if object.kind != kind {
            return false;
        }
        object.extents.push(extent);
        object.firsts.extend((is_first == 1).then_some(extent));
        true
    }
}

impl Verify<'_> {
    /// Reads the extent map.
    pub(super) async fn objects(&mut self) -> Result<Objects, Error> {
        let (geometry, extents) = (self.view.geometry(), self.view.extents());
        let mut objects = Objects::default();
        for first in with_maps(geometry, extents) {
            let (page, told) =
                (geometry.first_page(first), first..extents.min(first + EXTENTS_PER_MAP));
            let image = match self.load(page).await? {
                Ok(image) => image,
                Err(finding) => {
                    self.report.find(finding);
                    objects.dark.push(told);
                    continue;
                }
            };
            self.report.pages += 1;
            let (found, owner) = (image.page().kind(), image.page().owner());
            if found != Some(Kind::ExtentMap) || owner != 0 {
                let (object, expected) = (0, Kind::ExtentMap);
                self.report.find(Finding::WrongPage { page, object, expected, found, owner });
                objects.dark.push(told);
                continue;
            }
            for extent in told {
                let entry = map_entry(geometry, extent, image.raw());
                if !objects.add_extent(extent, entry, extent == first) {
                    self.report.find(Finding::MapEntry { page, extent });
                }
            }
        }
        for (object, at) in &objects.by_number {
            let (object, count) = (*object, at.firsts.len());
            if count > 1 || count == 0 && objects.dark.is_empty() {
                self.report.find(Finding::FirstExtents { object, count });
            }
        }
        Ok(objects)
    }

    /// Reads the space pages of an object.
    pub(super) async fn pages(&mut self, objects: &Objects, number: u32) -> Result<Pages, Error> {
        let geometry = self.view.geometry();
        let mut pages = Pages::new(number, geometry, objects.dark.clone());
        let Some(object) = objects.by_number.get(&number) else { return Ok(pages) };
        for extent in &object.extents {
            let (extent, page) = (*extent, geometry.first_page(*extent));
            let image = match self.load(page).await? {
                Ok(image) => image,
                Err(finding) => {
                    self.report.find(finding);
                    pages.add_unknown(extent);
                    continue;
                }
            };
            self.report.pages += 1;
            let (found, owner) = (image.page().kind(), image.page().owner());
            if found != Some(Kind::Space) || owner != number {
                let (map, _) = geometry.map_entry(extent);
                let object = number;
                self.report.find(Finding::Extent { map, extent, object, page, found, owner });
                pages.add_unknown(extent);
                continue;
            }
            let raw = image.raw();
            pages.add(extent, |place| self.mark(object.kind, (page, place), raw));
        }
        Ok(pages)
    }

    /// What a space page says of the page at a place of its extent.
    fn mark(&mut self, kind: Use, (space, place): (u32, u32), raw: &Raw) -> Mark {
        let state = raw[byte_of(place)];
        let can_be = match state {
            0 => place > 0,
            IN_USE => true,
            FULL | LONG => place > 0 && kind == Use::Table,
            _ => false,
        };
        if can_be {
            return Mark::said(state);
        }
        self.report.find(Finding::State { space, page: space + place, state });
        Mark::UNKNOWN
    }
}

/// What the map says of an extent.
fn map_entry(geometry: Geometry, extent: u32, map: &Raw) -> [u8; MAP_ENTRY] {
    let (_, at) = geometry.map_entry(extent);
    let mut entry = [0; MAP_ENTRY];
    entry.copy_from_slice(&map[at..at + MAP_ENTRY]);
    entry
}
