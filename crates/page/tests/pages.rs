//! Pages against a model: whatever is done to a page, its cells are those that were put into it, and its
//! bytes pass the check; bytes that are no page are told, and never read as one.

use cellar_page::{CellKind, Damage, HEADER_BYTES, Kind, PAGE_BYTES, PageMut, PageRef, Raw};
use cellar_page::{SLOT_BYTES, check, seal};
use proptest::prelude::*;

const STORE: u64 = 0x1122_3344_5566_7788;
const NUMBER: u32 = 77;

#[derive(Clone, Debug)]
enum Step {
    Put { slot: usize, bytes: Vec<u8> },
    Free { slot: usize },
    Splice { slot: usize, at: usize, removed: usize, bytes: Vec<u8> },
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 1..100),
        1 => prop::collection::vec(any::<u8>(), 1..5000),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..60, bytes()).prop_map(|(slot, bytes)| Step::Put { slot, bytes }),
        2 => (0usize..60).prop_map(|slot| Step::Free { slot }),
        3 => (0usize..60, 0usize..200, 0usize..200, bytes())
            .prop_map(|(slot, at, removed, bytes)| Step::Splice { slot, at, removed, bytes }),
    ]
}

fn empty(kind: Kind) -> Raw {
    let mut raw = [0xAB; PAGE_BYTES];
    PageMut::format(&mut raw, STORE, NUMBER, kind, 5);
    raw
}

fn sealed(raw: &Raw) -> Raw {
    let mut copy = *raw;
    seal(&mut copy);
    copy
}

fn room(model: &[Option<Vec<u8>>]) -> usize {
    let cells: usize = model.iter().flatten().map(Vec::len).sum();
    PAGE_BYTES - HEADER_BYTES - SLOT_BYTES * model.len() - cells
}

fn cells(page: PageRef<'_>) -> Vec<Option<Vec<u8>>> {
    (0..page.slots()).map(|slot| page.cell(slot).map(|cell| cell.bytes.to_vec())).collect()
}

proptest! {
    #[test]
    fn cells_with_fixed_slots_are_what_was_put(steps in prop::collection::vec(step(), 1..200)) {
        let mut raw = empty(Kind::Heap);
        let mut model: Vec<Option<Vec<u8>>> = Vec::new();
        for step in steps {
            let mut page = PageMut::new(&mut raw);
            match step {
                Step::Put { slot, bytes } => {
                    let more = (slot + 1).saturating_sub(model.len()) * SLOT_BYTES;
                    let is_free = model.get(slot).is_none_or(Option::is_none);
                    if !is_free || bytes.len() + more > room(&model) {
                        continue;
                    }
                    page.put(slot, CellKind::Plain, &bytes);
                    model.resize(model.len().max(slot + 1), None);
                    model[slot] = Some(bytes);
                }
                Step::Free { slot } => {
                    if model.get(slot).is_some_and(Option::is_some) {
                        page.free(slot);
                        model[slot] = None;
                        let used = model.iter().rposition(Option::is_some);
                        model.truncate(used.map_or(0, |last| last + 1));
                    }
                }
                Step::Splice { slot, at, removed, bytes } => {
                    let space = room(&model);
                    let Some(Some(cell)) = model.get_mut(slot) else { continue };
                    if at + removed > cell.len() || bytes.len() > space + removed {
                        continue;
                    }
                    page.splice(slot, CellKind::Plain, at, removed, &bytes);
                    cell.splice(at..at + removed, bytes);
                }
            }
            let page = PageRef::new(&raw);
            prop_assert_eq!(&cells(page), &model);
            prop_assert_eq!(page.room(), room(&model));
            prop_assert_eq!(check(&sealed(&raw), STORE, NUMBER), Ok(()));
            let free = model.iter().position(Option::is_none).unwrap_or(model.len());
            prop_assert_eq!(page.free_slot(), free);
        }
    }

    #[test]
    fn cells_in_order_are_what_was_inserted(
        steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), bytes()), 1..200),
    ) {
        let mut raw = empty(Kind::Leaf);
        let mut model: Vec<Option<Vec<u8>>> = Vec::new();
        for (insert, place, bytes) in steps {
            let mut page = PageMut::new(&mut raw);
            if insert && bytes.len() + SLOT_BYTES <= room(&model) {
                let place = place.index(model.len() + 1);
                page.insert(place, &bytes);
                model.insert(place, Some(bytes));
            } else if !model.is_empty() {
                let place = place.index(model.len());
                if bytes.len() > 4000 {
                    page.truncate(place);
                    model.truncate(place);
                } else {
                    page.remove(place);
                    model.remove(place);
                }
            }
            let page = PageRef::new(&raw);
            prop_assert_eq!(&cells(page), &model);
            prop_assert_eq!(page.room(), room(&model));
            prop_assert_eq!(check(&sealed(&raw), STORE, NUMBER), Ok(()));
        }
    }

    #[test]
    fn any_changed_bit_is_found(bit in 0usize..PAGE_BYTES * 8) {
        let mut raw = empty(Kind::Heap);
        PageMut::new(&mut raw).put(3, CellKind::Forward, b"some bytes");
        let mut raw = sealed(&raw);
        raw[bit / 8] ^= 1 << (bit % 8);
        let found = check(&raw, STORE, NUMBER);
        prop_assert!(matches!(found, Err(Damage::Checksum { .. })), "{:?}", found);
    }

    /// Bytes with a right checksum that no page has: told, or read without a panic.
    #[test]
    fn sealed_nonsense_is_no_panic(
        changes in prop::collection::vec((24usize..200, any::<u8>()), 1..20),
    ) {
        let mut raw = empty(Kind::Heap);
        for slot in 0..20 {
            PageMut::new(&mut raw).put(slot, CellKind::Plain, &[slot as u8; 100]);
        }
        for (at, byte) in changes {
            raw[at] = byte;
        }
        if check(&sealed(&raw), STORE, NUMBER).is_ok() {
            let all = cells(PageRef::new(&raw));
            prop_assert!(all.iter().flatten().all(|cell| cell.len() <= PAGE_BYTES));
        }
    }
}

#[test]
fn a_page_of_another_place_store_or_version_is_told() {
    let raw = sealed(&empty(Kind::Inner));
    assert_eq!(check(&raw, STORE, NUMBER), Ok(()));
    assert_eq!(check(&raw, STORE, 78), Err(Damage::Number { found: NUMBER }));
    assert_eq!(check(&raw, 9, NUMBER), Err(Damage::Store { found: STORE }));
    assert_eq!(check(&[0; PAGE_BYTES], STORE, NUMBER), Err(Damage::Empty));
    let mut later = raw;
    later[25] = 2;
    assert_eq!(check(&sealed(&later), STORE, NUMBER), Err(Damage::Version { found: 2 }));
}

#[test]
fn a_search_finds_each_cell_and_the_places_between() {
    let mut raw = empty(Kind::Leaf);
    let mut page = PageMut::new(&mut raw);
    for key in 0..100u8 {
        page.insert(usize::from(key), &[key * 2]);
    }
    for key in 0..200u8 {
        let found = PageRef::new(&raw).search(|cell| cell.cmp(&[key]));
        let place = usize::from(key.div_ceil(2));
        assert_eq!(found, if key % 2 == 0 { Ok(place) } else { Err(place) });
    }
}
