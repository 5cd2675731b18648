//! Entries of the extent map and marks of space pages.

use std::ops::Range;

use cellar_page::{HEADER_BYTES, Raw};

use super::text;
use super::tree::Inspection;
use crate::geometry::{EXTENT_PAGES_MAX, EXTENTS_PER_MAP, MAP_ENTRY};
use crate::space::allocate::{FULL, IN_USE, LONG, Use, byte_of};

/// Whose an extent is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Free,
    Of {
        object: u32,
        kind: Use,
        is_first: bool,
    },
    /// It is no entry.
    Bad([u8; MAP_ENTRY]),
}

impl Entry {
    /// The entry at a place of a page's bytes.
    pub fn at(raw: &Raw, at: usize) -> Entry {
        let bytes = raw.get(at..).and_then(|bytes| bytes.first_chunk::<MAP_ENTRY>());
        let entry = bytes.copied().unwrap_or_default();
        if entry == [0; MAP_ENTRY] {
            return Entry::Free;
        }
        let [a, b, c, d, kind, first, zeros @ ..] = entry;
        let object = u32::from_le_bytes([a, b, c, d]);
        match Use::from_number(kind) {
            Some(kind) if object > 0 && first < 2 && zeros == [0; 2] => {
                Entry::Of { object, kind, is_first: first == 1 }
            }
            _ => Entry::Bad(entry),
        }
    }

    /// Its words, or what cannot be.
    pub fn told(self) -> Result<String, String> {
        match self {
            Entry::Free => Ok("free".to_owned()),
            Entry::Of { object, kind, is_first } => {
                let first = if is_first { ", first extent" } else { "" };
                Ok(object_name(object, kind) + first)
            }
            Entry::Bad(bytes) => {
                Err(format!("no entry of the extent map: {}", text::bytes(&bytes)))
            }
        }
    }
}

/// The name of a table or an index.
pub(super) fn object_name(object: u32, kind: Use) -> String {
    match kind {
        Use::Table if object == crate::counters::COUNTERS => "table of counters".to_owned(),
        Use::Table => format!("table {object}"),
        Use::Index => format!("index {object}"),
    }
}

/// The words for a page's mark in its space page, or what cannot be.
pub(super) fn mark(byte: u8) -> Result<&'static str, String> {
    match byte {
        0 => Ok("free"),
        IN_USE => Ok("in use"),
        FULL => Ok("full"),
        LONG => Ok("long value"),
        other => Err(format!("no mark of a page: {other}")),
    }
}

/// Equal things that follow each other, each run with its first and last place.
fn runs<T: Copy + PartialEq>(things: impl Iterator<Item = T>) -> Vec<(u32, u32, T)> {
    let mut runs: Vec<(u32, u32, T)> = Vec::new();
    for (place, thing) in (0..).zip(things) {
        match runs.last_mut() {
            Some((_, last, same)) if *same == thing => *last = place,
            _ => runs.push((place, place, thing)),
        }
    }
    runs
}

fn name(what: &str, from: u32, to: u32) -> String {
    let plural = if from == to { "" } else { "s" };
    format!("{what}{plural} {}", text::run(&(from..=to)))
}

/// The entries of a page of the extent map. `extents`: those that it tells of, the first its own; `None`: that
/// is not known.
pub(super) fn entries(raw: &Raw, extents: Option<Range<u32>>) -> Vec<Inspection> {
    let (what, first, own) = match &extents {
        Some(range) => ("extent", range.start, 1),
        None => ("entry", 0, 0),
    };
    let count = extents.map_or(EXTENTS_PER_MAP, |range| range.end.saturating_sub(range.start));
    let at = |place: u32| HEADER_BYTES + place as usize * MAP_ENTRY;
    let mut shown = Vec::new();
    if own > 0 {
        let entry = Entry::at(raw, at(0));
        let is_right = entry == Entry::Free;
        let told = is_right.then(|| "of the extent map".to_owned());
        let told = told.ok_or_else(|| "its own entry is not zeros".to_owned());
        shown.push(Inspection::of(name(what, first, first), told));
    }
    let entries = (own..count.min(EXTENTS_PER_MAP)).map(|place| Entry::at(raw, at(place)));
    shown.extend(runs(entries).into_iter().map(|(from, to, entry)| {
        let from = first + own + from;
        Inspection::of(name(what, from, first + own + to), entry.told())
    }));
    shown
}

/// The marks of a space page. `pages`: those that it tells of; `None`: that is not known.
pub(super) fn marks(raw: &Raw, pages: Option<Range<u32>>) -> Vec<Inspection> {
    let (what, range) = match pages {
        Some(range) => ("page", range),
        None => ("place", 0..EXTENT_PAGES_MAX),
    };
    let count = range.end.saturating_sub(range.start).min(EXTENT_PAGES_MAX);
    let marks = (0..count).map(|place| raw[byte_of(place)]);
    let shown = runs(marks).into_iter().map(|(from, to, byte)| {
        let name = name(what, range.start + from, range.start + to);
        Inspection::of(name, mark(byte).map(str::to_owned))
    });
    shown.collect()
}
