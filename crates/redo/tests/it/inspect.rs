//! Tests of `inspect` on bytes of the log: each structure is shown, and no bytes make it fail.

use cellar_redo::Abn;
use cellar_redo::inspect::{archive, blocks, control, describe, header};
use proptest::prelude::*;

use crate::golden;
use crate::support::DATABASE;

#[test]
fn each_structure_is_told_as_text() {
    let two = [golden::block(), vec![0; 1024], golden::block()].concat();
    let text = [
        header(&golden::header().encode()),
        control(&golden::control().encode()),
        blocks(&two, DATABASE, 512, Abn(1000)),
        archive(&golden::archive()),
    ];
    let text: String = text.iter().map(ToString::to_string).collect();
    let golden = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let golden = golden.join("tests/it/golden/inspect.txt");
    if std::env::var_os("GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(golden).unwrap(), text);
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn the_same_is_there_as_values() {
    let told = describe(&golden::archive()).unwrap();
    let value = serde_json::to_value(&told).unwrap();
    assert_eq!(value["name"], "archive");
    assert_eq!(value["value"], "sequence 7, 193 bytes");
    let parts = value["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 7, "{value}");
    assert_eq!(parts[5]["parts"][0]["parts"][2]["name"], "record at 1000.40");
    assert!(told.find("record at 1000.40").is_some());
    assert_eq!(describe(b"else"), None);
}

#[test]
fn damage_is_told_with_its_reason() {
    let mut bytes = golden::archive();
    *bytes.last_mut().unwrap() ^= 1;
    assert!(archive(&bytes).to_string().contains("piece at 161: DAMAGED: its checksum is wrong"));
    assert_eq!(
        archive(&bytes[..100]).find("piece at 80").unwrap().value,
        "DAMAGED: it ends too early"
    );
    bytes[3] ^= 1;
    assert!(archive(&bytes).value.starts_with("DAMAGED: no redo structure here"));
    assert_eq!(header(&[0; 4096]).value, "never written");
    assert_eq!(control(&[]).value, "DAMAGED: it ends too early");
}

proptest! {
    #[test]
    fn any_bytes_can_be_shown(
        which in 0usize..4,
        at in any::<proptest::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 0..64),
        size in 0usize..600,
    ) {
        let mut bytes = match which {
            0 => golden::header().encode().to_vec(),
            1 => golden::control().encode(),
            2 => golden::block(),
            _ => golden::archive(),
        };
        let at = at.index(bytes.len());
        let count = noise.len().min(bytes.len() - at);
        bytes[at..at + count].copy_from_slice(&noise[..count]);
        let _ = describe(&bytes);
        for shown in [header(&bytes), control(&bytes), archive(&bytes), archive(&noise)] {
            let _ = shown.to_string();
        }
        let _ = blocks(&bytes, DATABASE, size, Abn(u64::MAX)).to_string();
    }
}
