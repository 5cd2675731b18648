//! The laws of a column of strings.

use bytemuck::cast_slice;
use proptest::prelude::*;

use super::encode::encode_with_symbols;
use super::*;
use crate::ints::placed;
use crate::kernel::Mask;

const PACKINGS: [Option<Packing>; 4] =
    [None, Some(Packing::Plain), Some(Packing::Fsst), Some(Packing::Zstd)];

/// Asks something of a column, at a place where one may begin.
fn with<T>(bytes: &[u8], ask: impl FnOnce(Result<Text<'_>, Damage>) -> T) -> T {
    let words = placed(bytes);
    ask(Text::new(&cast_slice(&words)[..bytes.len()]))
}

/// Every third row, or so.
fn some(seed: usize) -> Mask {
    std::array::from_fn(|row| if (row * 7 + seed).is_multiple_of(3) { 0xff } else { 0 })
}

/// Whether a column holds these strings, all of them or some.
fn holds(bytes: &[u8], strings: &[&[u8]], packing: Option<Packing>) {
    with(bytes, |text| {
        let text = text.expect("a column");
        assert_eq!((text.rows(), text.blocks()), (strings.len(), strings.len().div_ceil(BLOCK)));
        assert!(packing.is_none_or(|packing| packing == text.packing()));
        let block = |strings: &[&[u8]]| strings.iter().map(|string| string.len()).sum::<usize>();
        assert_eq!(text.largest(), strings.chunks(BLOCK).map(block).max().unwrap_or(0));
        let (mut all, mut alone, mut few) =
            (Strings::default(), Strings::default(), Strings::default());
        let mut reader = text.reader();
        for block in 0..text.blocks() {
            reader.decode(block, &mut all).expect("a block");
            alone.clear();
            text.decode(block, &mut alone).expect("a block");
            assert!((0..alone.len()).all(|i| alone.get(i) == all.get(block * BLOCK + i)));
            text.decode_some(block, &some(block), &mut few).expect("a block");
        }
        assert_eq!((all.len(), few.len()), (strings.len(), strings.len()));
        for (row, string) in strings.iter().enumerate() {
            assert!(all.get(row) == *string, "row {row}");
            let wanted = some(row / BLOCK)[row % BLOCK] != 0;
            assert!(few.get(row) == if wanted { *string } else { b"" }, "row {row} of some");
        }
    });
}

fn comes_back(strings: &[&[u8]]) {
    for packing in PACKINGS {
        holds(&encode(strings, packing), strings, packing);
    }
}

fn strings() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let string = prop_oneof![
        4 => "(the|quick|brown|fox|\u{e4}|, ){0,9}".prop_map(String::into_bytes),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        2 => prop::collection::vec(prop_oneof![Just(0u8), Just(255)], 0..20),
        1 => Just(Vec::new()),
    ];
    prop::collection::vec(string, 0..2500)
}

/// What a column's bytes say, whatever they are, is said without a panic and in little room.
fn is_bounded(bytes: &[u8]) {
    with(bytes, |text| {
        let Ok(text) = text else { return };
        let (mut out, mut reader) = (Strings::default(), text.reader());
        for block in 0..text.blocks().min(8) {
            out.clear();
            if reader.decode(block, &mut out).is_err() {
                assert!(out.is_empty() && out.bytes.is_empty());
            }
            assert!(out.bytes.len() <= text.largest() && text.largest() <= BLOCK_BYTES_MAX);
            let _ = text.decode_some(block, &some(block), &mut out);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_encoded_is_decoded(strings in strings()) {
        comes_back(&strings.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..900)) {
        is_bounded(&bytes);
        // Likewise with a header that is nearly right.
        if bytes.len() > 128 {
            bytes[..64].fill(0);
            bytes[0] = bytes[100] % 3;
            bytes[4] = bytes[101] % 3;
            bytes[16] = 64 + bytes[102] % 2 * 128;
            bytes[64..76].fill(0);
            (bytes[72], bytes[76]) = (bytes[0], 8);
            is_bounded(&bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_makes_it_panic(
        packing in 1..4usize,
        rows in prop_oneof![1..40usize, 1000..2100usize],
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        in_front: bool,
        end in any::<prop::sample::Index>(),
    ) {
        let strings: Vec<String> = (0..rows).map(|i| format!("row {i} of {}", i * i)).collect();
        let refs: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
        let mut bytes = encode(&refs, PACKINGS[packing]);
        is_bounded(&bytes[..end.index(bytes.len())]);
        for (at, to) in changes {
            let within = if in_front { 200 } else { bytes.len() };
            bytes[at.index(within)] = to;
        }
        is_bounded(&bytes);
    }
}

#[test]
fn so_many_rows_come_back() {
    let strings: Vec<String> = (0..2049).map(|i| format!("a comment, the {i}-th")).collect();
    let refs: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
    for rows in [0, 1, 1023, 1024, 1025, 2048, 2049] {
        comes_back(&refs[..rows]);
    }
    comes_back(&[b"all are equal".as_slice(); 3000]);
    comes_back(&[b"".as_slice(); 1025]);
    comes_back(&[b"\0".as_slice(), b"a\0", b"a\0", b"\0\0\0\0\0\0\0\0\0", b"a", b""]);
}

#[test]
fn long_strings_come_back() {
    let long: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let same = vec![b'x'; 70_000];
    let mut strings: Vec<&[u8]> = vec![b"short"; 3000];
    (strings[0], strings[1500], strings[2999]) = (&long, &same, &long);
    comes_back(&strings);
    comes_back(&[&long]);
    // More in a block than a frame has otherwise.
    strings[1024..1100].fill(&same);
    comes_back(&strings);
}

#[test]
fn the_packing_suits_the_column() {
    let packing = |strings: &[&[u8]]| with(&encode(strings, None), |t| t.map(|t| t.packing()));
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let noise: Vec<[u8; 8]> =
        (0..5000).map(|_| (next() << 33 ^ next() << 16 ^ next()).to_le_bytes()).collect();
    let noise: Vec<&[u8]> = noise.iter().map(|bytes| &bytes[..]).collect();
    assert_eq!(packing(&noise), Ok(Packing::Plain));
    let words = ["final", "pending", "deposits", "sleep", "about", "the", "furious", "accounts"];
    let mut some = |count: usize| {
        let words: Vec<&str> = (0..count).map(|_| words[next() as usize % words.len()]).collect();
        words.join(" ")
    };
    let texts: Vec<String> = (0..5000).map(|_| some(4)).collect();
    let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    assert_eq!(packing(&texts), Ok(Packing::Fsst));
    let page = some(100);
    let pages: Vec<String> = (0..500).map(|i| format!("{page} {i}")).collect();
    let pages: Vec<&[u8]> = pages.iter().map(|page| page.as_bytes()).collect();
    assert_eq!(packing(&pages), Ok(Packing::Zstd));
    assert_eq!(packing(&[]), Ok(Packing::Plain));
}

#[test]
fn a_frame_that_is_not_as_long_as_is_said_is_damage() {
    let mut bytes = encode(&[b"zero and one"], Some(Packing::Zstd));
    // One more in the header, in the length and in where the block ends: all but the frame agree.
    for at in [12, 64, 260] {
        assert_eq!(bytes[at], 12);
        bytes[at] += 1;
    }
    with(&bytes, |text| {
        let error = text.expect("a column").decode(0, &mut Strings::default());
        assert_eq!(error, Err(field("ZSTD frame", 0)));
    });
}

#[test]
fn the_bytes_are_these() {
    // Lengths of 2, 0 and 3: two bits each, in the first three bytes of their words.
    let lengths = |of: [u8; 3]| {
        let mut bytes = vec![0; 320];
        (bytes[8], bytes[12], bytes[64]) = (3, 8, 2);
        bytes[192..195].copy_from_slice(&of);
        bytes
    };
    let column = |header: [u8; 24], of: [u8; 3], rest: &[&[u8]]| {
        let mut bytes = header.to_vec();
        bytes.resize(64, 0);
        bytes.extend_from_slice(&lengths(of));
        for part in rest {
            bytes.resize(bytes.len().next_multiple_of(64), 0);
            bytes.extend_from_slice(part);
        }
        bytes
    };
    let strings = [b"ab".as_slice(), b"", b"c\0\xff"];
    let plain = column(
        [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 64, 1, 0, 0, 5, 0, 0, 0],
        [2, 0, 3],
        &[&[0, 0, 0, 0, 5, 0, 0, 0], b"", b"abc\0\xff"],
    );
    holds(&plain, &strings, Some(Packing::Plain));
    assert_eq!(encode(&strings, Some(Packing::Plain)), plain);
    let strings = [b"the x".as_slice(), b"", b"th\0"];
    let fsst = column(
        [3, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 64, 1, 0, 0, 5, 0, 0, 0],
        [3, 0, 2],
        &[&[0, 0, 0, 0, 5, 0, 0, 0], b"\x02\x04\x01ththe \0", b"\x01\xffx\x00\x02"],
    );
    holds(&fsst, &strings, Some(Packing::Fsst));
    assert_eq!(encode_with_symbols(&strings, &[b"th", b"the ", b"\0"]), fsst);
}

#[test]
fn every_field_of_the_header_counts() {
    let strings: Vec<String> = (0..1500).map(|i| format!("row {i}, and {}", i * i)).collect();
    let refs: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
    for packing in [Packing::Plain, Packing::Zstd] {
        let good = encode(&refs, Some(packing));
        for at in 0..ALIGN {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            let read = |text: Result<Text<'_>, Damage>| text?.decode(0, &mut Strings::default());
            assert!(with(&bytes, read).is_err(), "byte {at} of {packing:?}");
        }
        with(&good[..good.len() - 1], |text| assert!(text.is_err()));
        with(&[&good[..], &[0]].concat(), |text| assert!(text.is_err()));
    }
}

#[test]
fn codes_that_nobody_wrote_are_damage() {
    let good = encode_with_symbols(&[b"the x", b"the"], &[b"th", b"the ", b"e"]);
    // 1, 255, x; 0, 2
    let last = good.len() - 1;
    let damage = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        let mut out = Strings::default();
        let error = with(&bytes, |text| text.and_then(|text| text.decode(0, &mut out)));
        assert!(error.is_ok() || out == Strings::default());
        error
    };
    assert_eq!(damage(last, 2), Ok(()));
    assert_eq!(damage(last, 3), Err(field("code of a symbol", 3)));
    assert_eq!(damage(last, 255), Err(field("code of a symbol", 255)));
    assert_eq!(damage(last, 1), Err(field("plain bytes of a block", 11)));
    assert_eq!(damage(12, 7), Err(field("plain bytes of a block", 8)));
    assert_eq!(damage(12, 41), Err(field("plain bytes of the largest block", 41)));
}
