//! A store as a whole: its header, its ring, and its objects with their extents and pages.

use std::collections::BTreeMap;

use cellar_page::{Damage, Kind, PageRef, Raw, check};
use futures_util::future::join_all;

use super::map::{self, Entry, object_name};
use super::ring::Ring;
use super::source::Source;
use super::text;
use super::tree::Inspection;
use crate::geometry::{EXTENTS_PER_MAP, HEADER_PAGES};
use crate::space::allocate::{FULL, IN_USE, LONG, Use, byte_of};
use crate::space::map::with_maps;
use crate::store::Header;

/// Space pages that are read at once.
const READS: usize = 32;

/// A table or an index, as the extent map has it.
struct Object {
    number: u32,
    kind: Use,
    extents: Vec<u32>,
    firsts: Vec<u32>,
}

/// Pages of an object by their marks; what cannot be said of some extents.
#[derive(Default)]
struct Pages {
    /// Free, in use, full, of long values.
    counts: [u64; 4],
    unknown: Vec<Inspection>,
}

/// Describes the store.
pub(super) async fn describe(source: &Source<'_>) -> Inspection {
    let copy = |page: u32| source.header_copy(format!("header in page {page}"), page);
    let copies: Vec<Inspection> = (0..HEADER_PAGES).map(copy).collect();
    let Some(header) = source.header() else {
        let why = "no copy of the header is whole: where things are is not known";
        return Inspection::damage("store", why).with(copies);
    };
    let ring = Ring::read(source, header).await;
    let mut extents =
        Extents { source, header, ring: &ring, of: BTreeMap::new(), free: Vec::new() };
    let maps = extents.read_maps().await;
    let mut objects = Vec::new();
    for object in extents.of.values() {
        objects.push(extents.object(object).await);
    }
    let free = match extents.free.len() {
        0 => "none".to_owned(),
        count => format!("{count}: {}", text::runs(extents.free.iter().copied())),
    };
    let value = format!("{:016x}, {} pages", header.store, source.pages());
    let mut parts = copies;
    parts.extend([file(source, header), ring.shown.clone(), maps]);
    parts.push(Inspection::leaf("objects", objects.len()).with(objects));
    parts.push(Inspection::leaf("free extents", free));
    Inspection::leaf("store", value).with(parts)
}

/// How the file is divided.
fn file(source: &Source<'_>, header: &Header) -> Inspection {
    let geometry = header.geometry;
    let (here, system) = (geometry.extents(source.bytes()), geometry.system_extents());
    let told = header.extents;
    if here < told {
        let why = format!("it is cut off: {told} extents are in the extent map, here are {here}");
        return Inspection::damage("extents", why);
    }
    let value = format!("{here}, the first {system} for header and ring, {told} in the extent map");
    Inspection::leaf("extents", value)
}

/// The extents of a store, and whose they are.
struct Extents<'a> {
    source: &'a Source<'a>,
    header: &'a Header,
    ring: &'a Ring,
    of: BTreeMap<(u32, u8), Object>,
    free: Vec<u32>,
}

impl Extents<'_> {
    /// A page that must be of this kind: its bytes, or how it is shown instead.
    async fn page(&self, number: u32, kind: Kind, owner: u32) -> Result<Box<Raw>, Inspection> {
        let name = format!("{} in page {number}", kind.name());
        let raw = match self.source.read(number).await {
            Ok(raw) => raw,
            Err(why) => return Err(Inspection::damage(name, why)),
        };
        match check(&raw, self.header.store, number) {
            Ok(()) => {}
            // Redo that is not in the pages yet may make it.
            Err(Damage::Empty) => return Err(Inspection::leaf(name, "never written")),
            Err(damage) => {
                let why = self.ring.told(number, &damage.to_string());
                return Err(Inspection::damage(name, why));
            }
        }
        let page = PageRef::new(&raw);
        if page.kind() != Some(kind) || page.owner() != owner {
            let found = page.kind().map_or("none", Kind::name);
            let why = format!("as yet {found} of {}", page.owner());
            return Err(Inspection::leaf(name, why));
        }
        Ok(raw)
    }

    /// Reads the extent map, and shows its pages.
    async fn read_maps(&mut self) -> Inspection {
        let geometry = self.header.geometry;
        let end = self.header.extents.min(geometry.extents(self.source.bytes()));
        let mut pages = Vec::new();
        for first in with_maps(geometry, end) {
            let number = geometry.first_page(first);
            let raw = match self.page(number, Kind::ExtentMap, 0).await {
                Ok(raw) => raw,
                Err(shown) => {
                    pages.push(shown);
                    continue;
                }
            };
            let last = end.min(first.saturating_add(EXTENTS_PER_MAP));
            let told = (first + 1..last).filter_map(|extent| self.add_extent(extent, &raw));
            let bad = told.collect();
            let value = format!("extents {}", text::run(&(first..=last - 1)));
            let name = format!("{} in page {number}", Kind::ExtentMap.name());
            pages.push(Inspection::leaf(name, value).with(bad));
        }
        Inspection::leaf("extent map", text::count(pages.len(), "page")).with(pages)
    }

    /// Takes in what the map says of an extent; shows what cannot be.
    fn add_extent(&mut self, extent: u32, raw: &Raw) -> Option<Inspection> {
        let entry = Entry::at(raw, self.header.geometry.map_entry(extent).1);
        match entry {
            Entry::Free => self.free.push(extent),
            Entry::Of { object: number, kind, is_first } => {
                let new = || Object { number, kind, extents: Vec::new(), firsts: Vec::new() };
                let object = self.of.entry((number, kind as u8)).or_insert_with(new);
                object.extents.push(extent);
                object.firsts.extend(is_first.then_some(extent));
            }
            Entry::Bad(_) => {
                return Some(Inspection::of(format!("extent {extent}"), entry.told()));
            }
        }
        None
    }

    /// Counts pages of an object by its space pages, and shows it.
    async fn object(&self, object: &Object) -> Inspection {
        let Object { number, kind, .. } = *object;
        let geometry = self.header.geometry;
        let mut pages = Pages::default();
        for extents in object.extents.chunks(READS) {
            let first = |extent: &u32| geometry.first_page(*extent);
            let reads = extents.iter().map(|at| self.page(first(at), Kind::Space, number));
            for (extent, read) in extents.iter().zip(join_all(reads).await) {
                match read {
                    Ok(raw) => pages.count(&raw, first(extent), geometry.extent_pages),
                    Err(shown) => pages.unknown.push(shown),
                }
            }
        }
        let count = text::count(object.extents.len(), "extent");
        let numbers = text::runs(object.extents.iter().copied());
        let first = match &object.firsts[..] {
            [first] if kind == Use::Index => {
                format!("root in page {}", geometry.first_page(*first) + 1)
            }
            [first] => format!("first extent {first}"),
            [] => "none is the first".to_owned(),
            firsts => format!("first extents {}", text::runs(firsts.iter().copied())),
        };
        let [free, in_use, full, long] = pages.counts;
        let of_tables = match kind {
            Use::Index if full + long == 0 => String::new(),
            _ => format!(", {full} full, {long} of long values"),
        };
        let mut parts = vec![
            Inspection::leaf("extents", format!("{numbers}; {first}")),
            Inspection::leaf("pages", format!("{in_use} in use{of_tables}, {free} free")),
        ];
        parts.extend(pages.unknown);
        Inspection::leaf(object_name(number, kind), count).with(parts)
    }
}

impl Pages {
    /// Counts the pages of an extent, its space page left out.
    fn count(&mut self, raw: &Raw, first: u32, extent_pages: u32) {
        for place in 1..extent_pages {
            let byte = raw[byte_of(place)];
            let counted = match byte {
                0 => 0,
                IN_USE => 1,
                FULL => 2,
                LONG => 3,
                _ => {
                    let told = map::mark(byte).map(str::to_owned);
                    self.unknown.push(Inspection::of(format!("page {}", first + place), told));
                    continue;
                }
            };
            self.counts[counted] += 1;
        }
    }
}
