//! Bytes that are not as they were written though every crc is right: errors and wrong answers are fine,
//! panics and memory without bound are not.

use arrow_schema::DataType;
use bytemuck::cast_slice;
use cellar_format::bits::BLOCK;
use cellar_format::group;
use cellar_format::header::{Encoding, Entry, header_bytes};
use cellar_format::{
    Aggregate, Column, Damage, Filter, Groups, Header, Predicate, Prepared, Rows, Tail, array_of,
};
use proptest::prelude::*;

use crate::questions::{aggregate, predicate};
use crate::table::{Group, Rng, Spec, cases, spec, words_of};

/// Memory that one case may take beyond what was taken before: a block of strings may be 256 MiB.
const MOST: usize = 1 << 30;

/// The most memory that the process has asked for so far.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kib =
        line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0usize) << 10
}

/// Sets what a header says its crc is.
fn seal(header: &mut [u8]) {
    header[12..16].fill(0);
    let crc = crc32c::crc32c(header);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// Turns something: a byte, or a number of 2 to 16 bytes to one of its ends.
fn turn(rng: &mut Rng, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.below(bytes.len());
    if rng.one_in(2) {
        bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at].wrapping_add(1)]);
        return;
    }
    let size = *rng.pick(&[2, 4, 8, 16]);
    let at = at / size * size;
    let number: i128 = match rng.below(6) {
        0 => 0,
        1 => -1,
        2 => i128::MAX,
        3 => i128::MIN,
        4 => 1 << (size * 8 - 1),
        _ => rng.below(70_000) as i128,
    };
    let all = number.to_le_bytes();
    let end = (at + size).min(bytes.len());
    bytes[at..end].copy_from_slice(&all[..end - at]);
}

/// Where the parts of a column begin, as far as the one before says it.
fn parts(entry: &Entry, rows: usize, bytes: &[u8]) -> Vec<usize> {
    if bytes.is_empty() {
        return vec![0];
    }
    let bits = if entry.nulls > 0 { rows.div_ceil(BLOCK) * 128 } else { 0 };
    let number =
        |at: usize| u32::from_le_bytes(bytes[bits + at..][..4].try_into().expect("four")) as usize;
    let after = |at: usize| at.next_multiple_of(64);
    let ends = match entry.encoding {
        Encoding::Nulls | Encoding::Ints => vec![64, 128],
        Encoding::PatchedDelta => vec![64, 64, 88, after(64 + 32 * rows.div_ceil(BLOCK))],
        Encoding::Int128 => vec![64, after(64 + number(0)), after(64 + number(0)) + 64],
        Encoding::Dict => {
            let strings = after(64 + 4 * number(0) + 4);
            let codes = after(strings + number(4));
            vec![64, strings, codes, codes, codes + 64]
        }
        Encoding::Text => {
            let starts = after(64 + number(16));
            vec![64, 64, starts, after(starts + 4 * (rows.div_ceil(BLOCK) + 1))]
        }
    };
    [0].into_iter().chain(ends).map(|at| bits + at).chain([0]).collect()
}

/// Everything that can be done with a row group; how much of it went well.
fn use_all(
    header: &Header,
    bytes: &[u8],
    types: &[DataType],
    predicates: &[Predicate],
    aggregates: &[Aggregate],
) -> usize {
    let mut well = 0;
    let columns: Vec<Option<Column<'_>>> = (0..types.len())
        .map(|at| {
            let entry = header.entries.get(at)?;
            let own = bytes.get(entry.offset as usize..)?.get(..entry.length as usize)?;
            group::column(header, at, own, false).ok()
        })
        .collect();
    let rows = header.rows as usize;
    for (column, data_type) in columns.iter().zip(types) {
        let Some(column) = column else { continue };
        let some = (0..rows as u32).filter(|row| row % 5 < 2).collect();
        for rows in [Rows::All(rows), Rows::Some(some)] {
            let Ok(array) = array_of(column, &rows, data_type) else { continue };
            assert_eq!(array.len(), rows.count());
            array.to_data().validate_full().expect("a sound array, whatever is in it");
            well += 1;
        }
    }
    for one in predicates {
        let all = std::slice::from_ref(one);
        let Ok(mut filter) = Filter::new(all, header, &columns, &[]) else { continue };
        let mut mask = [0; BLOCK];
        well +=
            (0..header.blocks()).filter(|block| filter.block(*block, &mut mask).is_ok()).count();
    }
    for one in aggregates {
        one.of_header(header);
        well += usize::from(add_up(one, header, &columns).is_ok());
    }
    well
}

fn add_up(of: &Aggregate, header: &Header, columns: &[Option<Column<'_>>]) -> Result<(), Damage> {
    let mut ready = Prepared::new(of, header, columns)?;
    for block in 0..header.blocks() {
        let left = (header.rows as usize - block * BLOCK).min(BLOCK);
        let mut mask = [0xff; BLOCK];
        mask[left..].fill(0);
        ready.block(block, &mask, left)?;
        mask.iter_mut().step_by(2).for_each(|mask| *mask = 0);
        let count = mask.iter().filter(|mask| **mask != 0).count();
        ready.block(block, &mask, count)?;
    }
    ready.finish(of, &mut Groups::default());
    Ok(())
}

/// Turns a part of a row group some times, and uses it each time.
fn harm(spec: &Spec, in_header: bool, times: usize) -> usize {
    let group = Group::random(spec);
    let mut rng = Rng(spec.seed ^ 55);
    let predicates: Vec<Predicate> = (0..8).map(|_| predicate(&mut rng, &group, 1)).collect();
    let groups = std::slice::from_ref(&group);
    let aggregates: Vec<Aggregate> = (0..6).map(|_| aggregate(&mut rng, groups)).collect();
    let length = header_bytes(group.header.entries.len());
    let fields = 64 + 96 * group.header.entries.len();
    let mut well = 0;
    for _ in 0..times {
        let before = peak();
        let mut words = words_of(group.bytes());
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        if in_header {
            (0..1 + rng.below(3)).for_each(|_| turn(&mut rng, &mut bytes[16..fields]));
            seal(&mut bytes[..length]);
        } else {
            let entry = rng.pick(&group.header.entries);
            let own = &mut bytes[entry.offset as usize..][..entry.length as usize];
            // What is at the beginning of a part says most.
            let from = (*rng.pick(&parts(entry, group.rows(), own))).min(own.len());
            let near = *rng.pick(&[8, 13, 64, usize::MAX]);
            let to = own.len().min(from.saturating_add(near));
            (0..1 + rng.below(2)).for_each(|_| turn(&mut rng, &mut own[from..to]));
        }
        let bytes: &[u8] = cast_slice(&words);
        if let Ok(header) = Header::decode(bytes) {
            well += use_all(&header, bytes, &group.types, &predicates, &aggregates);
        }
        let more = peak() - before;
        assert!(more < MOST, "{more} bytes more than before");
    }
    well
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn no_header_makes_it_panic(spec in spec()) {
        harm(&Spec { rows: spec.rows.min(2500), ..spec }, true, 30);
    }

    #[test]
    fn no_column_makes_it_panic(spec in spec()) {
        harm(&Spec { rows: spec.rows.min(2500), ..spec }, false, 30);
    }

    #[test]
    fn no_dictionary_makes_it_panic(seed: u64, rows in 30..1500usize) {
        harm(&Spec { types: vec![23, 26], rows, seed }, false, 30);
    }

    #[test]
    fn no_directory_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 40), own in 0..9000usize) {
        let mut page = vec![0; 4096];
        page[..8].copy_from_slice(b"CELLARSG");
        page[8] = 1;
        page[10..48].copy_from_slice(&bytes[..38]);
        page[11] %= 6;
        page[46..48].fill(0);
        let directory = vec![7; own / 4096 * 4096];
        page[48..52].copy_from_slice(&crc32c::crc32c(&directory).to_le_bytes());
        seal(&mut page);
        let tail = Tail::decode(&page).expect("its crc is right");
        prop_assert!(tail.read(&directory).is_err() || tail.row_groups == 0);
    }
}

#[test]
fn what_is_turned_is_used_at_all() {
    let spec = Spec { types: vec![4, 12, 10, 23, 26], rows: 2000, seed: 3 };
    assert!(harm(&spec, true, 40) > 200);
    assert!(harm(&spec, false, 40) > 200);
}

#[test]
fn features_that_are_not_known_or_not_needed_are_refused() {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    let features = |rows: i64| {
        let array = Int64Array::from_iter_values((0..rows).map(|row| row << 30));
        let group = Group::of(&[Arc::new(array)]);
        let is = group.bytes()[60];
        for other in [0u8, 1, 2, 3].into_iter().filter(|other| *other != is) {
            let mut header = group.bytes()[..header_bytes(1)].to_vec();
            header[60] = other;
            seal(&mut header);
            let refused = Damage::Field { name: "features of a row group", value: other.into() };
            assert_eq!(Header::decode(&header), Err(refused));
        }
        for byte in [61, 62, 63] {
            let mut header = group.bytes()[..header_bytes(1)].to_vec();
            header[byte] = 1;
            seal(&mut header);
            assert!(Header::decode(&header).is_err(), "a bit of byte {byte}");
        }
        (group.header.entries[0].encoding, is)
    };
    assert_eq!(features(5), (Encoding::Ints, 0));
    assert_eq!(features(500), (Encoding::PatchedDelta, 1));
}
