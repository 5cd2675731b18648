//! A change of one page: how it is made, and how redo describes it. The lane and recovery use the same
//! function on the same bytes.

use cellar_page::{CellKind, HEADER_BYTES, Kind, PAGE_BYTES, PageMut, PageRef, Raw, SLOT_BYTES};

/// A change of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// An empty page, whatever was there.
    Format { kind: Kind, owner: u32, level: u32 },
    /// A cell into a free slot.
    Put { slot: usize, kind: CellKind, bytes: &'a [u8] },
    /// A slot becomes free.
    Free { slot: usize },
    /// A cell between others.
    Insert { place: usize, bytes: &'a [u8] },
    /// A cell goes, and those behind it move down.
    Remove { place: usize },
    /// All cells from a place on go.
    Truncate { place: usize },
    /// A part of a cell is replaced.
    Splice { slot: usize, kind: CellKind, at: usize, removed: usize, bytes: &'a [u8] },
    /// Bytes of a page without cells, by their place in it.
    Bytes { at: usize, bytes: &'a [u8] },
    /// No change: this page and this many after it were written around the log. Redo alone cannot recreate
    /// them; they are in a file whose header has this generation or a later one.
    Unlogged { pages: usize, generation: u64 },
}

/// Why bytes are not a change, or one that the page cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit(pub &'static str);

const FORMAT: u8 = 1;
const PUT: u8 = 2;
const FREE: u8 = 3;
const INSERT: u8 = 4;
const REMOVE: u8 = 5;
const TRUNCATE: u8 = 6;
const SPLICE: u8 = 7;
const BYTES: u8 = 8;
/// Without a generation: only read.
const UNLOGGED_BEFORE: u8 = 9;
const UNLOGGED: u8 = 10;

/// The most bytes that a change takes in redo beside the bytes of its cell.
pub(crate) const CHANGE_BYTES: usize = 16;

impl<'a> Change<'a> {
    /// Writes the change of page `number` behind what is in `out`.
    pub fn encode(&self, number: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&number.to_le_bytes());
        let short = |out: &mut Vec<u8>, value: usize| {
            out.extend_from_slice(&(value as u16).to_le_bytes());
        };
        match *self {
            Change::Format { kind, owner, level } => {
                out.extend_from_slice(&[FORMAT, kind as u8]);
                out.extend_from_slice(&owner.to_le_bytes());
                out.extend_from_slice(&level.to_le_bytes());
            }
            Change::Put { slot, kind, bytes } => {
                out.extend_from_slice(&[PUT, kind as u8]);
                short(out, slot);
                short(out, bytes.len());
                out.extend_from_slice(bytes);
            }
            Change::Free { slot } => {
                out.push(FREE);
                short(out, slot);
            }
            Change::Insert { place, bytes } => {
                out.push(INSERT);
                short(out, place);
                short(out, bytes.len());
                out.extend_from_slice(bytes);
            }
            Change::Remove { place } => {
                out.push(REMOVE);
                short(out, place);
            }
            Change::Truncate { place } => {
                out.push(TRUNCATE);
                short(out, place);
            }
            Change::Splice { slot, kind, at, removed, bytes } => {
                out.extend_from_slice(&[SPLICE, kind as u8]);
                [slot, at, removed, bytes.len()].into_iter().for_each(|value| short(out, value));
                out.extend_from_slice(bytes);
            }
            Change::Bytes { at, bytes } => {
                out.push(BYTES);
                short(out, at);
                short(out, bytes.len());
                out.extend_from_slice(bytes);
            }
            Change::Unlogged { pages, generation } => {
                out.push(UNLOGGED);
                short(out, pages);
                out.extend_from_slice(&generation.to_le_bytes());
            }
        }
    }

    /// Reads the change at the start of `bytes`: the page, the change, and what follows.
    pub fn decode(bytes: &'a [u8]) -> Result<(u32, Change<'a>, &'a [u8]), Unfit> {
        let mut reader = Reader(bytes);
        let page = reader.long()?;
        let change = match reader.byte()? {
            FORMAT => {
                let kind = Kind::from_number(reader.byte()?).ok_or(Unfit("kind of a page"))?;
                Change::Format { kind, owner: reader.long()?, level: reader.long()? }
            }
            PUT => {
                let kind = reader.cell_kind()?;
                Change::Put { slot: reader.short()?, kind, bytes: reader.cell()? }
            }
            FREE => Change::Free { slot: reader.short()? },
            INSERT => Change::Insert { place: reader.short()?, bytes: reader.cell()? },
            REMOVE => Change::Remove { place: reader.short()? },
            TRUNCATE => Change::Truncate { place: reader.short()? },
            SPLICE => {
                let kind = reader.cell_kind()?;
                let (slot, at, removed) = (reader.short()?, reader.short()?, reader.short()?);
                Change::Splice { slot, kind, at, removed, bytes: reader.cell()? }
            }
            BYTES => Change::Bytes { at: reader.short()?, bytes: reader.cell()? },
            UNLOGGED_BEFORE => Change::Unlogged { pages: reader.short()?, generation: 0 },
            UNLOGGED => {
                let pages = reader.short()?;
                let (low, high) = (reader.long()?, reader.long()?);
                Change::Unlogged { pages, generation: u64::from(high) << 32 | u64::from(low) }
            }
            _ => return Err(Unfit("kind of a change")),
        };
        Ok((page, change, reader.0))
    }

    /// Makes the change.
    ///
    /// # Panics
    /// The page cannot take it: see [`Change::check`].
    pub fn apply(&self, store: u64, number: u32, raw: &mut Raw) {
        if let Change::Format { kind, owner, level } = *self {
            let mut page = PageMut::format(raw, store, number, kind, owner);
            page.set_level(level);
            return;
        }
        let mut page = PageMut::new(raw);
        match *self {
            Change::Format { .. } | Change::Unlogged { .. } => {}
            Change::Put { slot, kind, bytes } => page.put(slot, kind, bytes),
            Change::Free { slot } => page.free(slot),
            Change::Insert { place, bytes } => page.insert(place, bytes),
            Change::Remove { place } => page.remove(place),
            Change::Truncate { place } => page.truncate(place),
            Change::Splice { slot, kind, at, removed, bytes } => {
                page.splice(slot, kind, at, removed, bytes);
            }
            Change::Bytes { at, bytes } => page.write(at, bytes),
        }
    }

    /// Whether pages of that kind are changed in this way.
    fn is_for(&self, kind: Kind) -> bool {
        match self {
            Change::Format { .. } | Change::Unlogged { .. } => true,
            Change::Put { .. } | Change::Free { .. } | Change::Splice { .. } => kind == Kind::Heap,
            Change::Insert { .. } | Change::Remove { .. } | Change::Truncate { .. } => {
                matches!(kind, Kind::Leaf | Kind::Inner)
            }
            Change::Bytes { .. } => matches!(kind, Kind::ExtentMap | Kind::Space | Kind::Overflow),
        }
    }

    /// Checks that a page can take it: redo that does not fit the page is an error, and no crash.
    pub fn check(&self, page: PageRef<'_>) -> Result<(), Unfit> {
        let slots = page.slots();
        let unfit = |is_fit: bool, what| if is_fit { Ok(()) } else { Err(Unfit(what)) };
        let changes_what_is_there =
            !matches!(self, Change::Format { .. } | Change::Unlogged { .. });
        let is_for = page.kind().is_some_and(|kind| self.is_for(kind));
        unfit(is_for || !changes_what_is_there, "kind of page")?;
        match *self {
            Change::Format { .. } | Change::Unlogged { .. } => Ok(()),
            Change::Bytes { at, bytes } => {
                unfit(page.slots() == 0, "page with cells")?;
                unfit(at >= HEADER_BYTES && at + bytes.len() <= PAGE_BYTES, "place of bytes")
            }
            Change::Put { slot, bytes, .. } => {
                let more = (slot + 1).saturating_sub(slots) * SLOT_BYTES;
                unfit(page.cell(slot).is_none(), "slot in use")?;
                unfit(!bytes.is_empty() && slot < PAGE_BYTES, "length of a cell")?;
                unfit(bytes.len() + more <= page.room(), "room")
            }
            Change::Insert { place, bytes } => {
                unfit(place <= slots && !bytes.is_empty(), "place")?;
                unfit(bytes.len() + SLOT_BYTES <= page.room(), "room")
            }
            Change::Free { slot } | Change::Remove { place: slot } => {
                unfit(page.cell(slot).is_some(), "free slot")
            }
            Change::Truncate { place } => unfit(place <= slots, "place"),
            Change::Splice { slot, at, removed, bytes, .. } => {
                let cell = page.cell(slot).ok_or(Unfit("free slot"))?;
                unfit(at + removed <= cell.bytes.len(), "length of a cell")?;
                let length = cell.bytes.len() - removed + bytes.len();
                unfit(length > 0, "length of a cell")?;
                unfit(length <= cell.bytes.len() + page.room(), "room")
            }
        }
    }
}

/// What is still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Unfit> {
        let (now, rest) = self.0.split_at_checked(count).ok_or(Unfit("length of a change"))?;
        self.0 = rest;
        Ok(now)
    }

    fn byte(&mut self) -> Result<u8, Unfit> {
        Ok(self.take(1)?[0])
    }

    fn short(&mut self) -> Result<usize, Unfit> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    fn long(&mut self) -> Result<u32, Unfit> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn cell_kind(&mut self) -> Result<CellKind, Unfit> {
        CellKind::from_number(self.byte()?).ok_or(Unfit("kind of a cell"))
    }

    fn cell(&mut self) -> Result<&'a [u8], Unfit> {
        let length = self.short()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellar_page::{PAGE_BYTES, check, seal};
    use proptest::prelude::*;

    static LONG: [u8; 3000] = [7; 3000];
    static CELLS: [&[u8]; 4] = [b"", b"a", b"some bytes", &LONG];

    fn change() -> impl Strategy<Value = Change<'static>> {
        // A few places and lengths, so that many changes fit.
        let short = 0usize..12;
        let kind = prop::sample::select(&[CellKind::Plain, CellKind::Forward, CellKind::Moved][..]);
        let bytes = prop::sample::select(&CELLS[..]);
        let page = prop::sample::select(&[Kind::Heap, Kind::Leaf, Kind::Space][..]);
        prop_oneof![
            1 => (page, any::<u32>(), any::<u32>())
                .prop_map(|(kind, owner, level)| Change::Format { kind, owner, level }),
            6 => (short.clone(), kind.clone(), bytes.clone())
                .prop_map(|(slot, kind, bytes)| Change::Put { slot, kind, bytes }),
            2 => short.clone().prop_map(|slot| Change::Free { slot }),
            6 => (short.clone(), bytes.clone())
                .prop_map(|(place, bytes)| Change::Insert { place, bytes }),
            2 => short.clone().prop_map(|place| Change::Remove { place }),
            1 => short.clone().prop_map(|place| Change::Truncate { place }),
            4 => (short.clone(), kind, 0usize..20, 0usize..20, bytes.clone()).prop_map(
                |(slot, kind, at, removed, bytes)| Change::Splice { slot, kind, at, removed, bytes }
            ),
            1 => (0usize..9000, any::<u64>())
                .prop_map(|(pages, generation)| Change::Unlogged { pages, generation }),
            1 => (0usize..9000, bytes).prop_map(|(at, bytes)| Change::Bytes { at, bytes }),
        ]
    }

    /// As `docs/format/heap.md` has them.
    #[test]
    fn bytes_of_redo() {
        let bytes = |change: Change<'_>| {
            let mut out = Vec::new();
            change.encode(0x0102, &mut out);
            assert_eq!(out[..4], [2, 1, 0, 0], "the page");
            out.split_off(4)
        };
        let (kind, moved) = (CellKind::Plain, CellKind::Moved);
        let format = Change::Format { kind: Kind::Inner, owner: 9, level: 2 };
        assert_eq!(bytes(format), [1, 3, 9, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes(Change::Put { slot: 5, kind, bytes: b"ab" }), *b"\x02\x01\x05\0\x02\0ab");
        assert_eq!(bytes(Change::Free { slot: 260 }), [3, 4, 1]);
        assert_eq!(bytes(Change::Insert { place: 1, bytes: b"x" }), *b"\x04\x01\0\x01\0x");
        assert_eq!(bytes(Change::Remove { place: 1 }), [5, 1, 0]);
        assert_eq!(bytes(Change::Truncate { place: 3 }), [6, 3, 0]);
        let splice = Change::Splice { slot: 1, kind: moved, at: 2, removed: 3, bytes: b"z" };
        assert_eq!(bytes(splice), *b"\x07\x03\x01\0\x02\0\x03\0\x01\0z");
        assert_eq!(bytes(Change::Bytes { at: 48, bytes: &[1] }), [8, 48, 0, 1, 0, 1]);
        let unlogged = Change::Unlogged { pages: 63, generation: 513 };
        assert_eq!(bytes(unlogged), [10, 63, 0, 1, 2, 0, 0, 0, 0, 0, 0]);
        let before = Change::decode(&[2, 1, 0, 0, 9, 63, 0]);
        let unlogged = Change::Unlogged { pages: 63, generation: 0 };
        assert_eq!(before, Ok((0x0102, unlogged, &[][..])));
    }

    #[test]
    fn a_change_fits_only_pages_of_its_kind() {
        let cells =
            [Change::Put { slot: 1, kind: CellKind::Plain, bytes: b"b" }, Change::Free { slot: 0 }];
        let entries = [Change::Insert { place: 0, bytes: b"b" }, Change::Remove { place: 0 }];
        let bytes = [Change::Bytes { at: 100, bytes: b"b" }];
        let kinds = [
            Kind::Heap,
            Kind::Leaf,
            Kind::Inner,
            Kind::Overflow,
            Kind::ExtentMap,
            Kind::Space,
            Kind::Free,
        ];
        for kind in kinds {
            let mut raw = [0; PAGE_BYTES];
            let mut page = PageMut::format(&mut raw, 5, 77, kind, 1);
            let has_cells = matches!(kind, Kind::Heap | Kind::Leaf | Kind::Inner);
            if has_cells {
                page.insert(0, b"a");
            }
            let fits = |change: &Change<'_>| change.check(PageRef::new(&raw)).is_ok();
            let is = |fit: bool, changes: &[Change<'_>]| {
                changes.iter().all(|change| fits(change) == fit)
            };
            assert!(is(kind == Kind::Heap, &cells), "{kind:?}");
            assert!(is(matches!(kind, Kind::Leaf | Kind::Inner), &entries), "{kind:?}");
            assert!(is(!has_cells && kind != Kind::Free, &bytes), "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_what_fits_is_done(
            changes in prop::collection::vec(change(), 0..60),
            first in prop::sample::select(&[Kind::Heap, Kind::Leaf, Kind::Space][..]),
        ) {
            let mut body = Vec::new();
            changes.iter().for_each(|change| change.encode(77, &mut body));
            let mut raw = [0; PAGE_BYTES];
            PageMut::format(&mut raw, 5, 77, first, 1);
            let mut rest = &body[..];
            for wanted in &changes {
                let (page, change, behind) = Change::decode(rest).expect("it was written");
                prop_assert_eq!((page, &change), (77, wanted));
                rest = behind;
                if change.check(PageRef::new(&raw)).is_ok() {
                    change.apply(5, 77, &mut raw);
                    let mut sealed = raw;
                    seal(&mut sealed);
                    prop_assert_eq!(check(&sealed, 5, 77), Ok(()), "{:?}", change);
                }
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_changes_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut raw = [0; PAGE_BYTES];
            PageMut::format(&mut raw, 5, 77, Kind::Heap, 1);
            PageMut::new(&mut raw).put(0, CellKind::Plain, b"a row of some bytes");
            let mut rest = &bytes[..];
            while let Ok((_, change, behind)) = Change::decode(rest) {
                if change.check(PageRef::new(&raw)).is_ok() {
                    change.apply(5, 77, &mut raw);
                }
                rest = behind;
            }
        }
    }
}
