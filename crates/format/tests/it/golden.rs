//! The bytes, pinned: every constant of the layout, a row group with each encoding in it, a directory.
//! They stand in `docs/format/row-group.md`, and a change there is a change of the format.
//! `GOLDEN=write cargo test -p cellar-format golden` writes them anew.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::Decimal128Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, PrimitiveArray, StringArray};
use cellar_format::header::Encoding;
use cellar_format::{bits, column, dict, group, header, ints, segment, text};

use crate::table::{Group, OWNER};

const DOCUMENT: &str = "../../docs/format/row-group.md";
const BEGIN: &str = "<!-- golden begin -->\n```text\n";
const END: &str = "```\n<!-- golden end -->";

fn arrays() -> Vec<ArrayRef> {
    let wide: Vec<Option<i128>> = vec![Some(-1), None, Some(i128::MAX), Some(7 << 64)];
    let wide: PrimitiveArray<Decimal128Type> = wide.into_iter().collect();
    vec![
        Arc::new(Int64Array::from(vec![Some(5), None, Some(-3), Some(1000)])),
        Arc::new(StringArray::from(vec!["plum", "apple", "apple", "plum"])),
        Arc::new(StringArray::from(vec![Some("one"), Some(""), None, Some("another one")])),
        Arc::new(wide),
        Arc::new(Float64Array::from(vec![-1.5, -0.0, 0.0, f64::INFINITY])),
        Arc::new(Int64Array::from(vec![None; 4])),
    ]
}

/// Of a row group with columns that are fitted: steps with a patch; a factor; steps down that are packed,
/// with a factor, over two blocks; codes that are patched; steps, where some rows have no value.
fn patched_delta() -> Vec<ArrayRef> {
    let all = || 0..1100i64;
    let by_chance = |row: i64| row * 7919 % 1009;
    let keys = all().map(|row| if row < 100 { row } else { row + (1 << 40) });
    let times = all().map(|row| (1_700_000_000 + row * row % 60) * 1_000_000_000);
    let down = all().map(|row| (500_000 - row * 90 - by_chance(row) % 64) * 100);
    let rare = all().map(|row| if row % 100 == 7 { 60_000 + row } else { by_chance(row) % 8 });
    let gaps = all().map(|row| (row % 50 != 0).then_some(row * 1000 + by_chance(row) % 16));
    vec![
        Arc::new(Int64Array::from_iter_values(keys)),
        Arc::new(Int64Array::from_iter_values(times)),
        Arc::new(Int64Array::from_iter_values(down)),
        Arc::new(Int64Array::from_iter_values(rare)),
        Arc::new(gaps.collect::<Int64Array>()),
    ]
}

/// Sixteen bytes a line; lines of zeros are left out.
fn hex(out: &mut String, name: &str, bytes: &[u8]) {
    writeln!(out, "\n{name} ({} bytes)", bytes.len()).expect("a string");
    for (line, bytes) in bytes.chunks(16).enumerate() {
        if bytes.iter().all(|byte| *byte == 0) {
            continue;
        }
        let all: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let seen = |byte: &u8| if (32..127).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = bytes.iter().map(seen).collect();
        writeln!(out, "{:06x}  {:47}  {text}", line * 16, all.join(" ")).expect("a string");
    }
}

fn golden() -> String {
    let mut out = String::new();
    for (name, number) in [
        ("REGION", header::REGION),
        ("PAGE", header::PAGE),
        ("BLOCK", bits::BLOCK),
        ("ALIGN", ints::ALIGN),
        ("ROWS_MAX", header::ROWS_MAX),
        ("COLUMNS_MAX", header::COLUMNS_MAX),
        ("PREFIX", header::PREFIX),
        ("STRINGS_MAX", dict::STRINGS_MAX),
        ("PLAIN_MAX", column::PLAIN_MAX),
        ("BLOCK_BYTES_MAX", text::BLOCK_BYTES_MAX),
        ("FRAME_BYTES", text::FRAME_BYTES),
        ("VERSION, row group", header::VERSION.into()),
        ("VERSION, segment", segment::VERSION.into()),
    ] {
        writeln!(out, "{name:20} {number}").expect("a string");
    }
    let (own, bytes) = group::encode(&arrays(), OWNER).expect("few rows").place(0, 0);
    hex(&mut out, "row group", &bytes);
    hex(&mut out, "directory of it", &segment::directory(&[own], 7, 9, b"six columns"));
    let (_, bytes) = group::encode(&patched_delta(), OWNER).expect("few rows").place(0, 0);
    hex(&mut out, "row group with patched-delta columns", &bytes);
    out
}

fn document() -> (PathBuf, String, std::ops::Range<usize>) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    let text = std::fs::read_to_string(&path).expect("the document");
    let start = text.find(BEGIN).expect("the first marker") + BEGIN.len();
    let end = start + text[start..].find(END).expect("the second marker");
    (path, text, start..end)
}

#[test]
fn the_bytes_are_those_of_version_1() {
    let (path, mut text, range) = document();
    if std::env::var_os("GOLDEN").is_some_and(|how| how == "write") {
        text.replace_range(range, &golden());
        return std::fs::write(path, text).expect("the document is written");
    }
    for (line, (now, then)) in golden().lines().zip(text[range.clone()].lines()).enumerate() {
        assert_eq!(now, then, "line {} of the bytes in {DOCUMENT}", line + 1);
    }
    assert!(golden() == text[range], "the bytes in {DOCUMENT} have another length");
}

#[test]
fn every_encoding_is_among_them() {
    let group = Group::of(&arrays());
    let encodings: Vec<Encoding> = group.header.entries.iter().map(|e| e.encoding).collect();
    use Encoding::*;
    assert_eq!(encodings, [Ints, Dict, Text, Int128, Ints, Nulls]);
    let group = Group::of(&patched_delta());
    assert!(group.header.entries.iter().all(|entry| entry.encoding == PatchedDelta));
}
