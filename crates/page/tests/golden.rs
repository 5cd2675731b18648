//! The bytes of a page, put together by hand as `docs/format/heap.md` has them.

use cellar_page::{CellKind, Kind, PAGE_BYTES, PageMut, key, row, seal};

/// Puts bytes, written as hexadecimal digits with blanks, at a place.
fn put(page: &mut [u8], at: usize, hex: &str) {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    for (place, pair) in digits.chunks(2).enumerate() {
        let text = std::str::from_utf8(pair).expect("digits");
        page[at + place] = u8::from_str_radix(text, 16).expect("digits");
    }
}

#[test]
fn a_page_of_rows() {
    let mut raw = [0xEE; PAGE_BYTES];
    let mut page = PageMut::format(&mut raw, 0x0807_0605_0403_0201, 0x21, Kind::Heap, 0x0A);
    page.put(0, CellKind::Plain, b"first row");
    page.put(2, CellKind::Moved, b"\0\0\0\x09\0\x01moved");
    page.put(1, CellKind::Forward, b"\0\0\x01\0\0\x05");
    page.splice(0, CellKind::Plain, 0, 5, b"1st");
    page.set_lsn(0x1234);
    seal(&mut raw);

    let mut wanted = vec![0; PAGE_BYTES];
    put(&mut wanted, 4, "21000000 0102030405060708 3412000000000000");
    // Kind, version, three slots, where cells begin, the two bytes that the first row has left, owner, level.
    put(&mut wanted, 24, "01 01 0300 e61f 0200 0a000000 00000000");
    // Slots: place, then length with the kind in the upper three bits.
    put(&mut wanted, 48, "f71f 0720  e61f 0640  ec1f 0b60");
    wanted[0x1FE6..0x1FEC].copy_from_slice(b"\0\0\x01\0\0\x05");
    wanted[0x1FEC..0x1FF7].copy_from_slice(b"\0\0\0\x09\0\x01moved");
    // What a hole holds is of no account: here it is the end of the longer row.
    wanted[0x1FF7..0x2000].copy_from_slice(b"1st rowow");
    let crc = crc32c::crc32c(&wanted[4..]);
    wanted[..4].copy_from_slice(&crc.to_le_bytes());
    let differs: Vec<usize> = (0..PAGE_BYTES).filter(|at| raw[*at] != wanted[*at]).collect();
    assert_eq!(differs, []);
}

#[test]
fn a_row() {
    use row::Value;
    let values = [
        Value::Int4(-2),
        Value::Null,
        Value::Text("hé"),
        Value::Bool(true),
        Value::Overflow { page: 7, length: 100_000 },
    ];
    let mut wanted = vec![0; 24];
    put(&mut wanted, 0, "0500 02 feffffff 0300 68c3a9 01 0080 07000000 a0860100");
    assert_eq!(row::encode(&values), wanted[..wanted.len() - 1]);
    assert_eq!(row::encode(&[]), [0; 6]);
}

#[test]
fn keys() {
    let key = |value: row::Value<'_>, descending| {
        let mut key = Vec::new();
        key::push(&mut key, &value, descending);
        key
    };
    use row::Value;
    assert_eq!(key(Value::Int4(1), false), [1, 0x80, 0, 0, 1]);
    assert_eq!(key(Value::Int2(-1), false), [1, 0x7F, 0xFF]);
    assert_eq!(key(Value::Null, false), [2]);
    assert_eq!(key(Value::Null, true), [0xFD]);
    assert_eq!(key(Value::Text("a\0b"), false), [1, b'a', 0, 0xFF, b'b', 0, 1]);
    assert_eq!(key(Value::Float8(1.0), false), [1, 0xBF, 0xF0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(key(Value::Float8(-0.0), false), key(Value::Float8(0.0), false));
    assert_eq!(key(Value::Bool(true), true), [0xFE, 0xFE]);
}
