//! The bytes on disk, pinned: every layout constant and one example of each structure. A change
//! here is a change of the format. `GOLDEN=write cargo test golden` writes the new text to the
//! golden file and into `docs/format/redo.md`.

use std::fmt::Write;
use std::path::PathBuf;

use cellar_redo::on_disk::archive::{
    ARCHIVE_HEADER, ArchiveEnd, ArchiveHeader, CHUNK_BYTES_MAX, PIECE_HEADER, Piece, pack, restore,
};
use cellar_redo::on_disk::block::{
    BLOCK_HEADER, BlockHeader, FIRST, HEARTBEAT, INCARNATION_START, LAST, SWITCH, Seed,
};
use cellar_redo::on_disk::control::{Clean, ControlData, GroupEntry, Incarnation, MediumEntry};
use cellar_redo::on_disk::header::{FORMAT_VERSION, GroupHeader, MediumState};
use cellar_redo::on_disk::record::{RECORD_BYTES_MAX, RECORD_HEADER, RecordHeader};
use cellar_redo::on_disk::{Damage, HEADER_BYTES, MEDIA_MAX, UNIT_BYTES_MAX, UNITS_IN_FLIGHT_MAX};
use cellar_redo::{Abn, LSN_PER_BLOCK, Lsn, Quorum};
use proptest::prelude::*;

use crate::support::DATABASE;

pub fn header() -> GroupHeader {
    GroupHeader {
        database: DATABASE,
        group: 2,
        sequence: 7,
        first: Abn(1000),
        capacity: 16,
        block_size: 512,
        size: 8192 + 16 * 512,
        incarnation: 3,
        previous_first: Abn(984),
        medium: 1,
        quorum: Quorum::Of(2),
        generation: 42,
        media: vec![
            MediumState::Active,
            MediumState::Active,
            MediumState::Failed { since: Abn(990) },
        ],
    }
}

pub fn control() -> ControlData {
    ControlData {
        database: DATABASE,
        generation: 42,
        block_size: 512,
        quorum: Quorum::Auto,
        archiving: true,
        checkpoint: Lsn(990 * LSN_PER_BLOCK + 140),
        checkpoint_chain: 0xdead_beef,
        durable: Abn(1003),
        archived: 5,
        confirmed: 3,
        clean: Some(Clean { end: Abn(1003) }),
        media: vec![
            MediumEntry { name: "+DATA.FG1".to_owned(), state: MediumState::Active },
            MediumEntry {
                name: "+DATA.FG2".to_owned(),
                state: MediumState::Failed { since: Abn(990) },
            },
        ],
        groups: vec![
            GroupEntry { number: 1, capacity: 16, size: 16_384, sequence: 6, first: Abn(984) },
            GroupEntry { number: 2, capacity: 16, size: 16_384, sequence: 7, first: Abn(1000) },
        ],
        incarnations: vec![Incarnation { number: 3, first: Abn(996), chain: 0x1234_5678 }],
    }
}

/// A block with one record of 5 bytes.
pub fn block() -> Vec<u8> {
    let mut block = vec![0; 512];
    let record = RecordHeader { length: 5, kind: 1, flags: 2 };
    block[BLOCK_HEADER..BLOCK_HEADER + RECORD_HEADER].copy_from_slice(&record.encode());
    block[48..53].copy_from_slice(b"redo!");
    let header = BlockHeader {
        flags: FIRST | LAST,
        abn: Abn(1000),
        incarnation: 3,
        chain: 0xcafe_f00d,
        durable: Abn(999),
        unit_blocks: 1,
        unit_index: 0,
        used: 53,
        first_record: Some(40),
    };
    header.seal(&mut block, Seed::new(DATABASE, 3));
    block
}

/// An archive of one block.
pub fn archive() -> Vec<u8> {
    let header = ArchiveHeader {
        database: DATABASE,
        block_size: 512,
        sequence: 7,
        first: Abn(1000),
        end: Abn(1016),
        chain: 0xcafe_f00d,
    };
    let block = block();
    let last_crc = u32::from_le_bytes(block[..4].try_into().unwrap());
    let end = ArchiveEnd { chunks: 1, blocks: 1, last_crc, behind: Abn(1001) };
    let chunk = pack(0, Abn(1000), 1, &block[..53]);
    [&header.encode()[..], &chunk, &end.encode()].concat()
}

fn dump(out: &mut String, name: &str, bytes: &[u8]) {
    writeln!(out, "\n{name} ({} bytes)", bytes.len()).unwrap();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        if chunk.iter().all(|b| *b == 0) {
            continue;
        }
        let hex: Vec<String> = chunk.iter().map(|b| format!("{b:02x}")).collect();
        let text: String =
            chunk.iter().map(|b| if b.is_ascii_graphic() { *b as char } else { '.' }).collect();
        writeln!(out, "{:06x}  {:<47}  {text}", line * 16, hex.join(" ")).unwrap();
    }
}

fn text() -> String {
    let mut out = String::new();
    let constants = [
        ("format version", u64::from(FORMAT_VERSION)),
        ("group header", HEADER_BYTES as u64),
        ("block header", BLOCK_HEADER as u64),
        ("record header", RECORD_HEADER as u64),
        ("LSN per block", LSN_PER_BLOCK),
        ("unit, most bytes", UNIT_BYTES_MAX as u64),
        ("units in flight, most", UNITS_IN_FLIGHT_MAX as u64),
        ("record, most bytes", RECORD_BYTES_MAX as u64),
        ("media, most", MEDIA_MAX as u64),
        ("archive header", ARCHIVE_HEADER as u64),
        ("chunk header, archive end", PIECE_HEADER as u64),
        ("chunk, most bytes", CHUNK_BYTES_MAX as u64),
        ("flag first of unit", u64::from(FIRST)),
        ("flag last of unit", u64::from(LAST)),
        ("flag switch", u64::from(SWITCH)),
        ("flag heartbeat", u64::from(HEARTBEAT)),
        ("flag incarnation start", u64::from(INCARNATION_START)),
    ];
    for (name, value) in constants {
        writeln!(out, "{name:<26} {value:>10}").unwrap();
    }
    dump(&mut out, "group header", &header().encode());
    dump(&mut out, "block with a record of 5 bytes", &block());
    dump(&mut out, "control data", &control().encode());
    dump(&mut out, "archive of one block", &archive());
    out
}

#[test]
fn golden_bytes() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let golden = root.join("tests/it/golden/redo-v1.txt");
    let document = root.join("../../docs/format/redo.md");
    let text = text();
    let told = std::fs::read_to_string(&document).unwrap();
    let (head, rest) = told.split_once("<!-- golden -->\n").expect("where the golden text goes");
    let (_, tail) = rest.split_once("<!-- golden end -->").expect("where it ends");
    let whole = format!("{head}<!-- golden -->\n```text\n{text}```\n<!-- golden end -->{tail}");
    if std::env::var_os("GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(&golden, &text).unwrap();
        std::fs::write(&document, &whole).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&golden).unwrap(), text, "the format has changed");
    assert_eq!(told, whole, "the document tells something else; GOLDEN=write writes it");
}

#[test]
fn what_was_encoded_is_decoded() {
    assert_eq!(GroupHeader::decode(&header().encode()), Ok(header()));
    assert_eq!(ControlData::decode(&control().encode()), Ok(control()));
    let (decoded, _) = BlockHeader::open(&block(), DATABASE).unwrap();
    assert_eq!((decoded.abn, decoded.used, decoded.first_record), (Abn(1000), 53, Some(40)));
    let archive = archive();
    let header = ArchiveHeader::decode(&archive).unwrap();
    assert_eq!((header.encode().as_slice(), header.sequence), (&archive[..ARCHIVE_HEADER], 7));
    let Ok(Piece::Chunk(chunk)) = Piece::decode(&archive[ARCHIVE_HEADER..]) else {
        panic!("a chunk follows the header")
    };
    let raw = chunk.unpack(&archive[ARCHIVE_HEADER..]).unwrap();
    let mut again = vec![0xff; 512];
    assert_eq!(restore(&raw, &mut again), Ok(53));
    assert_eq!(again, block());
}

#[test]
fn unknown_features_and_versions_are_refused_by_name() {
    let reseal = |mut bytes: Vec<u8>| {
        bytes[4..8].fill(0);
        let crc = crc32c::crc32c(&bytes);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    };
    for bytes in [header().encode().to_vec(), control().encode()] {
        let decode = |bytes: &[u8]| match bytes.len() {
            4096 => GroupHeader::decode(bytes).map(|_| ()),
            _ => ControlData::decode(bytes).map(|_| ()),
        };
        let mut features = bytes.clone();
        features[17] = 4;
        assert_eq!(decode(&reseal(features)), Err(Damage::Features { bits: 0x400 }));
        let mut version = bytes.clone();
        version[8] = 9;
        let newer = Damage::Version { found: 9, supported: FORMAT_VERSION };
        assert_eq!(decode(&reseal(version)), Err(newer));
        let mut rotten = bytes;
        rotten[50] ^= 1;
        assert_eq!(decode(&rotten), Err(Damage::Checksum));
    }
    let mut reserved = header().encode().to_vec();
    reserved[300] = 1;
    let refused = GroupHeader::decode(&reseal(reserved));
    assert!(matches!(refused, Err(Damage::Field { field: "reserved", .. })));
}

proptest! {
    /// Bytes that a hostile disk made up, with a right checksum: an answer, never a panic.
    #[test]
    fn decoders_take_any_bytes(
        at in 8usize..512,
        noise in proptest::collection::vec(any::<u8>(), 1..64),
        which in 0..3,
    ) {
        let mut bytes = match which {
            0 => header().encode().to_vec(),
            1 => control().encode(),
            _ => block(),
        };
        let at = at.min(bytes.len() - 1);
        let count = noise.len().min(bytes.len() - at);
        bytes[at..at + count].copy_from_slice(&noise[..count]);
        if which < 2 {
            bytes[4..8].fill(0);
            let crc = crc32c::crc32c(&bytes);
            bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        }
        let _ = GroupHeader::decode(&bytes);
        let _ = ControlData::decode(&bytes);
        let _ = BlockHeader::open(&bytes, DATABASE);
        let _ = ArchiveHeader::decode(&bytes);
        let _ = Piece::decode(&bytes);
        let _ = restore(&bytes, &mut [0; 512]);
    }

    #[test]
    fn decoders_take_rubbish(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        prop_assert!(GroupHeader::decode(&bytes).is_err());
        prop_assert!(ControlData::decode(&bytes).is_err());
        prop_assert!(BlockHeader::open(&bytes, DATABASE).is_err());
    }
}
