//! Directories of segments, and bytes that turned.

use cellar_format::group;
use cellar_format::header::{PAGE, header_bytes};
use cellar_format::segment::{directory, offset_of};
use cellar_format::{Header, Tail};
use proptest::prelude::*;

use crate::table::{Group, OWNER, Rng, Spec, arrays, cases, spec};

fn headers(spec: &Spec, count: u64) -> Vec<Header> {
    let at = |position| {
        let spec = Spec { rows: spec.rows.min(300), seed: spec.seed ^ position, ..spec.clone() };
        group::encode(&arrays(&spec), OWNER).expect("few rows").place(position, 0).0
    };
    (0..count).map(at).collect()
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_directory_is_read_as_it_was_written(
        spec in spec(), count in 0..4u64, schema in prop::collection::vec(any::<u8>(), 0..9000)
    ) {
        let headers = headers(&spec, count);
        let bytes = directory(&headers, OWNER.table, OWNER.segment, &schema);
        prop_assert_eq!(bytes.len() % PAGE, 0);
        let (own, tail) = bytes.split_at(bytes.len() - PAGE);
        let tail = Tail::decode(tail).expect("as it was written");
        prop_assert_eq!(tail.directory_bytes(), own.len() as u64);
        prop_assert_eq!((tail.table, tail.segment), (OWNER.table, OWNER.segment));
        prop_assert_eq!(u64::from(tail.row_groups), count);
        let (read, described) = tail.read(own).expect("as it was written");
        prop_assert_eq!((&read, described), (&headers, &schema[..]));
        prop_assert!(tail.read(&bytes).is_err(), "of another length");
        if let Some(header) = headers.last() {
            prop_assert!(tail.check(header, count).is_err(), "of another place");
        }
    }

    #[test]
    fn a_byte_that_turned_is_found(spec in spec(), turn in 1..=255u8) {
        let spec = Spec { rows: spec.rows.min(1500), ..spec };
        let mut rng = Rng(spec.seed);
        let group = Group::random(&spec);
        let length = header_bytes(group.header.entries.len());
        for _ in 0..50 {
            let mut bytes = group.bytes()[..length].to_vec();
            bytes[rng.below(length)] ^= turn;
            prop_assert!(Header::decode(&bytes).is_err());
        }
        for (at, entry) in group.header.entries.iter().enumerate().filter(|(_, e)| e.length > 0) {
            let mut bytes = group.bytes()[entry.offset as usize..][..entry.length as usize].to_vec();
            let at_byte = rng.below(bytes.len());
            bytes[at_byte] ^= turn;
            prop_assert!(group::column(&group.header, at, &bytes, true).is_err());
        }
        let headers = headers(&spec, 2);
        let bytes = directory(&headers, OWNER.table, OWNER.segment, b"a schema");
        for _ in 0..50 {
            let mut bytes = bytes.clone();
            let at = rng.below(bytes.len());
            bytes[at] ^= turn;
            let (own, tail) = bytes.split_at(bytes.len() - PAGE);
            let found = Tail::decode(tail).map_or(true, |tail| tail.read(own).is_err());
            prop_assert!(found, "byte {}", at);
        }
    }
}

#[test]
fn row_groups_of_others_are_told() {
    let headers = headers(&Spec { types: vec![1, 2], rows: 9, seed: 1 }, 2);
    let bytes = directory(&headers, OWNER.table, OWNER.segment, b"");
    let tail = Tail::decode(&bytes[bytes.len() - PAGE..]).expect("as it was written");
    for wrong in [
        Header { table: 8, ..headers[1].clone() },
        Header { segment: 8, ..headers[1].clone() },
        Header { position: 0, ..headers[1].clone() },
        Header { entries: headers[1].entries[..1].to_vec(), ..headers[1].clone() },
    ] {
        assert!(tail.check(&wrong, 1).is_err(), "{wrong:?}");
    }
    assert!(tail.check(&headers[1], 1).is_ok());
    assert_eq!((offset_of(0), offset_of(3)), (0, 3 << 20));
}
