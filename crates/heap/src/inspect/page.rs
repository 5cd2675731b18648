//! One page of a store, whatever it is.

use cellar_page::{Damage, HEADER_BYTES, Kind, PageRef, Raw, SLOT_BYTES, check};

use super::map::{self, Entry};
use super::ring::{self, Head, Ring};
use super::source::Source;
use super::tree::Inspection;
use super::{cells, text};
use crate::geometry::{EXTENTS_PER_MAP, Geometry, HEADER_PAGES};
use crate::long::{self, Part};
use crate::space::allocate::byte_of;
use crate::store::Header;

/// Describes a page.
pub(super) async fn describe(source: &Source<'_>, page: u32) -> Inspection {
    let name = format!("page {page}");
    if page < HEADER_PAGES {
        return source.header_copy(format!("header in {name}"), page);
    }
    let raw = match source.read(page).await {
        Ok(raw) => raw,
        Err(why) => return Inspection::damage(name, why),
    };
    match source.header() {
        Some(header) => match ring::place_of(header, page) {
            Some((slot, 0)) => ring::head_page(&raw, name, Some((header, slot))),
            Some((slot, place)) => image(source, header, (slot, place), &raw).await,
            None => in_place(source, header, page, &raw).await,
        },
        None if raw.starts_with(b"CLHD") => ring::head_page(&raw, name, None),
        None => without_header(&raw, name),
    }
}

/// What is known of the store for the page's sake.
struct Known<'a> {
    store: u64,
    number: u32,
    header: Option<&'a Header>,
}

/// A page where the store's sizes and its number are not known: it is held against itself.
fn without_header(raw: &Raw, name: String) -> Inspection {
    let page = PageRef::new(raw);
    let known = Known { store: page.store(), number: page.number(), header: None };
    let checked = check(raw, known.store, known.number);
    let mut shown = shown(raw, name, checked, &known);
    let missing = "no copy is whole: of which store the page must be is not known";
    shown.parts.insert(0, Inspection::damage("header", missing));
    shown
}

/// An image in the ring.
async fn image(
    source: &Source<'_>,
    header: &Header,
    (slot, place): (u32, u32),
    raw: &Raw,
) -> Inspection {
    let first = header.geometry.ring_slot(u64::from(slot));
    let head = source.read(first).await.and_then(|raw| Head::decode(&raw, header, slot));
    let named = head.ok().and_then(|head| head.pages.get(place as usize - 1).copied());
    let number = named.map_or(PageRef::new(raw).number(), |(number, _)| number);
    let whose = match named {
        Some(_) => format!("image of page {number}"),
        None => "not of its batch".to_owned(),
    };
    let name = format!("page {}", first + place);
    let known = Known { store: header.store, number, header: Some(header) };
    let checked = check(raw, header.store, number);
    let mut shown = shown(raw, name, checked, &known);
    let place = format!("slot {slot} of the ring, {whose}");
    shown.parts.insert(0, Inspection::leaf("place", place));
    shown
}

/// A page behind the ring.
async fn in_place(source: &Source<'_>, header: &Header, page: u32, raw: &Raw) -> Inspection {
    let known = Known { store: header.store, number: page, header: Some(header) };
    let checked = check(raw, header.store, page);
    let has_damage = !matches!(checked, Ok(()) | Err(Damage::Empty));
    let mut shown = shown(raw, format!("page {page}"), checked, &known);
    if has_damage {
        let ring = Ring::read(source, header).await;
        shown.value = ring.told(page, &shown.value);
    }
    shown.parts.insert(0, Inspection::leaf("place", place(source, header, page).await));
    shown
}

/// Where a page is, whose that is and what the space page says of it.
async fn place(source: &Source<'_>, header: &Header, page: u32) -> String {
    let geometry = header.geometry;
    let extent = geometry.extent_of(page);
    if extent < geometry.system_extents() {
        return "between the ring and the extents, not used".to_owned();
    }
    if extent >= geometry.extents(source.bytes()) {
        return "behind the last whole extent, not used".to_owned();
    }
    let (map, at) = geometry.map_entry(extent);
    let first = geometry.first_page(extent);
    let here = format!("page {} of extent {extent}", page - first);
    if extent >= header.extents {
        return format!("{here}, which is not in the extent map yet");
    }
    if map == first {
        return format!("{here}, of the extent map");
    }
    let read = |number| async move {
        let raw = source.read(number).await?;
        let checked = check(&raw, header.store, number);
        checked.map(|()| raw).map_err(|damage| format!("page {number}: {damage}"))
    };
    let entry = match read(map).await {
        Ok(raw) => Entry::at(&raw, at),
        Err(why) => return format!("{here}, whose is not known: {why}"),
    };
    let whose = entry.told().unwrap_or_else(|why| why);
    let mark = match entry {
        Entry::Of { .. } if page > first => match read(first).await {
            // Redo that is not in the pages yet may make it one.
            Ok(raw) if PageRef::new(&raw).kind() != Some(Kind::Space) => {
                format!(", page {first} is as yet no space page")
            }
            Ok(raw) => match map::mark(raw[byte_of(page - first)]) {
                Ok(mark) => format!(", marked: {mark}"),
                Err(why) => format!(", {why}"),
            },
            Err(why) => format!(", its mark is not known: {why}"),
        },
        _ => String::new(),
    };
    format!("{here}, {whose}{mark}")
}

/// A page: its header and what it holds, be it whole or not.
fn shown(raw: &Raw, name: String, checked: Result<(), Damage>, known: &Known<'_>) -> Inspection {
    let page = PageRef::new(raw);
    let shown = match checked {
        Err(Damage::Empty) => return Inspection::leaf(name, "never written"),
        Err(damage) => Inspection::damage(name, damage),
        Ok(()) => Inspection::leaf(name, page.kind().map_or("no page", Kind::name)),
    };
    let mut parts = fields(page);
    parts.extend(page.kind().map(|kind| content(page, kind, known)).unwrap_or_default());
    shown.with(parts)
}

fn fields(page: PageRef<'_>) -> Vec<Inspection> {
    let raw = page.bytes();
    let short = |at: usize| usize::from(u16::from_le_bytes([raw[at], raw[at + 1]]));
    let crc = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
    let kind = page.kind().map_or("none", Kind::name);
    let (slots, start, holes) = (page.slots(), short(28), short(30));
    let room = start.checked_sub(HEADER_BYTES + slots * SLOT_BYTES);
    let room = room.map_or("none".to_owned(), |gap| text::count(gap + holes, "byte"));
    let mut fields = vec![
        Inspection::leaf("checksum", format!("{crc:08x}")),
        Inspection::leaf("number", page.number()),
        Inspection::leaf("store", format!("{:016x}", page.store())),
        Inspection::leaf("LSN", page.lsn()),
        Inspection::leaf("kind", format!("{kind} ({})", raw[24])),
        Inspection::leaf("version", raw[25]),
        Inspection::leaf("owner", page.owner()),
        Inspection::leaf("level", page.level()),
    ];
    if has_cells(page.kind()) || slots > 0 {
        let cells =
            format!("from {start}, {} of holes, room for {room}", text::count(holes, "byte"));
        fields.extend([Inspection::leaf("slots", slots), Inspection::leaf("cells", cells)]);
    }
    fields
}

fn has_cells(kind: Option<Kind>) -> bool {
    matches!(kind, Some(Kind::Heap | Kind::Leaf | Kind::Inner))
}

fn content(page: PageRef<'_>, kind: Kind, known: &Known<'_>) -> Vec<Inspection> {
    let geometry = known.header.map(|header| header.geometry);
    match kind {
        Kind::Heap | Kind::Leaf | Kind::Inner => cells::describe(page, kind),
        Kind::Overflow => long_value(page),
        Kind::ExtentMap => {
            let range = |geometry: Geometry| {
                let first = geometry.extent_of(known.number);
                let known = known.header.map_or(u32::MAX, |header| header.extents);
                first..known.min(first.saturating_add(EXTENTS_PER_MAP))
            };
            map::entries(page.bytes(), geometry.map(range))
        }
        Kind::Space => {
            let range = |geometry: Geometry| {
                let first = geometry.first_page(geometry.extent_of(known.number));
                first..first.saturating_add(geometry.extent_pages)
            };
            map::marks(page.bytes(), geometry.map(range))
        }
        Kind::Free => Vec::new(),
    }
}

/// A page of a long value.
fn long_value(page: PageRef<'_>) -> Vec<Inspection> {
    match long::part(page, page.owner()) {
        Some(Part::Piece(bytes)) => vec![Inspection::leaf("value", text::bytes(bytes))],
        Some(Part::Directory(pages, next)) => {
            let next = next.map_or("none".to_owned(), |next| format!("page {next}"));
            let count = text::count(pages.len(), "page");
            vec![
                Inspection::leaf("next directory page", next),
                Inspection::leaf("pages of the value", format!("{count}: {}", text::runs(pages))),
            ]
        }
        None => vec![Inspection::damage("value", "it says that it holds more than fits a page")],
    }
}
