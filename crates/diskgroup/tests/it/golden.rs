//! The bytes on disk, pinned: every layout constant and one example of each structure. A change
//! here is a change of the format. `GOLDEN=write cargo test golden` writes the new text to the
//! golden file and into `docs/format/disk-group.md`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use cellar_diskgroup::codec::Writer;
use cellar_diskgroup::names::{Alias, DirNo, FileNo, NameOp, PathPart};
use cellar_diskgroup::on_disk::checksum::ChecksumBlock;
use cellar_diskgroup::on_disk::dirty::{
    DIRTY_BLOCKS, DIRTY_REGIONS_MAX, DirtyBlock, ENTRIES_PER_BLOCK, RegionKey,
};
use cellar_diskgroup::on_disk::label::{Label, LabelStatus, Redundancy};
use cellar_diskgroup::on_disk::superblock::{AuRun, LogPosition, RUNS_MAX, Superblock};
use cellar_diskgroup::on_disk::{Uuid, checkpoint, layout, record};
use cellar_diskgroup::state::{
    DiskState, DiskStatus, FIRST_FILE, FileAttributes, FileType, GroupHeader, GroupState, Leg,
    Offline, OfflineBy, Op, Stale, Striping,
};

pub const GROUP: Uuid = Uuid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
pub const DISK: Uuid = Uuid(0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20);
const MOUNT: u64 = 0x00c0_ffee_00c0_ffee;
const NS: u64 = 1_700_000_000_000_000_000;

pub fn label() -> Label {
    Label {
        features: 0,
        generation: 3,
        group: GROUP,
        disk: DISK,
        disk_no: 1,
        status: LabelStatus::Member,
        redundancy: Redundancy::Normal,
        au_size: 4 << 20,
        sector_size: 512,
        disk_bytes: 10 << 30,
        created_ns: NS,
        group_name: "DATA".to_owned(),
        disk_name: "DATA_0001".to_owned(),
        failgroup: "FG1".to_owned(),
        holds_catalog: true,
        mount_ids: [MOUNT, MOUNT + 1],
    }
}

pub fn position() -> LogPosition {
    LogPosition { lsn: 1000, previous_crc: 0xdead_beef, previous_mount: MOUNT, epoch: 7 }
}

pub fn superblock() -> Superblock {
    Superblock {
        features: 0,
        generation: 6,
        group: GROUP,
        disk: DISK,
        position: position(),
        area: 1,
        chunks: 2,
        chunks_crc: 0x1234_5678,
        content_bytes: 70_000,
        runs: vec![AuRun { start: 2, count: 1 }, AuRun { start: 9, count: 3 }],
    }
}

fn part(name: &str) -> PathPart {
    PathPart::new(name).unwrap()
}

fn attributes() -> FileAttributes {
    FileAttributes {
        file_type: FileType::Datafile,
        copies: 2,
        striping: Striping::Coarse,
        unit: 4096,
        checksums: true,
        placement: None,
    }
}

/// One of every operation, such that applying them in order to [`state`] works.
pub fn ops() -> Vec<Op> {
    let region = RegionKey { file: 300, incarnation: 9, index: 0 };
    let old = RegionKey { file: 256, incarnation: 1, index: 0 };
    let alias = Alias { file: FileNo(300), incarnation: 9, system: false };
    let (dir, root) = (DirNo(1), DirNo(0));
    vec![
        Op::Epoch { epoch: 8 },
        Op::DiskOffline { disk: 1, at_ns: NS },
        Op::Members { members: vec![0] },
        Op::Area { disk: 0, area: 1, runs: vec![AuRun { start: 2, count: 1 }] },
        Op::FileCreate { number: 300, incarnation: 9, attributes: attributes(), at_ns: NS },
        Op::FileExtend {
            number: 300,
            legs: [(0, 5), (1, 7), (0, 6), (1, 9)].map(|(disk, au)| Leg { disk, au }).to_vec(),
        },
        Op::Pieces { region, pieces: 0b1011 },
        Op::PiecesForget { region, pieces: 0b0010 },
        Op::FileShrink { number: 300, extents: 1, regions: 1 },
        Op::FileSize { number: 300, size: 123_456, at_ns: NS + 1 },
        Op::Name(NameOp::MkDir { dir, parent: root, name: part("dir") }),
        Op::Name(NameOp::Link { dir, name: part("a"), alias }),
        Op::FilePublish { number: 300 },
        Op::Name(NameOp::Replace { dir, name: part("a"), alias }),
        Op::Name(NameOp::Rename {
            from_dir: dir,
            from: part("a"),
            to_dir: root,
            to: part("b"),
            replace: true,
        }),
        Op::Attribute { name: "content.type".to_owned(), value: "data".to_owned() },
        Op::Name(NameOp::Unlink { dir: root, name: part("b") }),
        Op::Name(NameOp::RmDir { dir }),
        Op::FileMove {
            number: 300,
            incarnation: 9,
            extent: 0,
            leg: 1,
            to: Leg { disk: 1, au: 12 },
        },
        Op::FileUnpublish { number: 300 },
        Op::FileDelete { number: 300 },
        Op::StaleAll { disk: 1, mount_id: MOUNT },
        Op::DropAfter { disk: 1, seconds: 300 },
        Op::Stale { disk: 1, region: old, pieces: 0b1000 },
        Op::DiskReturning { disk: 1, mount_id: MOUNT },
        Op::Synced { disk: 1, region: old, pieces: 0xffff },
        Op::DiskOnline { disk: 1 },
        Op::DiskTried { disk: 1, mount_id: MOUNT },
        Op::DiskOfflineBy {
            disk: 1,
            at_ns: NS,
            mount_id: MOUNT,
            tried: MOUNT + 1,
            by: OfflineBy::Command,
        },
        Op::DiskReplace { disk: 1, uuid: Uuid(DISK.0 + 9), mount_id: MOUNT },
        Op::DiskJoin { disk: 2, state: Box::new(joining()) },
        Op::DiskRename { disk: 2, name: "DATA_X".to_owned() },
        Op::DiskShrink { disk: 2, bytes: 40 << 20 },
        Op::DiskSize { disk: 2, bytes: 40 << 20 },
        Op::DiskLeaving { disk: 2, status: DiskStatus::Dropping },
        Op::Rebalance { power: Some(4) },
        Op::DiskGone { disk: 2 },
        Op::Clean { clean: true },
    ]
}

fn joining() -> DiskState {
    DiskState {
        uuid: Uuid(DISK.0 + 2),
        name: "DATA_0002".to_owned(),
        failgroup: "FG2".to_owned(),
        bytes: 64 << 20,
        status: DiskStatus::Online,
        stale: Stale::Nothing,
        offline_ns: 0,
        created_ns: NS,
        areas: [1, 2].map(|start| vec![AuRun { start, count: 1 }]),
        shrink_to: 0,
        offline: Offline::default(),
    }
}

pub fn payload_of(ops: &[Op]) -> Vec<u8> {
    let mut w = Writer::new();
    ops.iter().for_each(|op| op.put(&mut w));
    w.into_bytes()
}

/// Two disks, a directory and a file.
pub fn state() -> GroupState {
    let header = GroupHeader {
        uuid: GROUP,
        name: "DATA".to_owned(),
        redundancy: Redundancy::Normal,
        au_size: 1 << 20,
        sector_size: 512,
        created_ns: NS,
    };
    let disk = |no: u16| {
        let disk = DiskState {
            uuid: Uuid(DISK.0 + u128::from(no)),
            name: format!("DATA_{no:04}"),
            failgroup: format!("FG{no}"),
            bytes: 64 << 20,
            status: DiskStatus::Online,
            shrink_to: 0,
            offline: Offline::default(),
            stale: Stale::Nothing,
            offline_ns: 0,
            created_ns: NS,
            areas: [vec![AuRun { start: 1, count: 1 }], vec![]],
        };
        (no, disk)
    };
    let disks: BTreeMap<u16, DiskState> = (0..2).map(disk).collect();
    let mut state = GroupState::new(header, disks, vec![0, 1]);
    let region = RegionKey { file: 256, incarnation: 1, index: 0 };
    let alias = Alias { file: FileNo(256), incarnation: 1, system: true };
    for op in [
        Op::FileCreate { number: 256, incarnation: 1, attributes: attributes(), at_ns: NS },
        Op::FileExtend {
            number: 256,
            legs: [(0, 3), (1, 3), (1, 4), (0, 4)].map(|(disk, au)| Leg { disk, au }).to_vec(),
        },
        Op::Pieces { region, pieces: 0xffff },
        Op::FileSize { number: 256, size: 2 << 20, at_ns: NS },
        Op::Name(NameOp::Link { dir: DirNo(0), name: part("f.256.1"), alias }),
        Op::FilePublish { number: 256 },
        Op::Attribute { name: "content.checksum".to_owned(), value: "true".to_owned() },
    ] {
        state.apply(&op).unwrap();
    }
    state
}

pub fn dirty_block() -> DirtyBlock {
    let entry = |index| RegionKey { file: 256, incarnation: 1, index };
    DirtyBlock { number: 3, generation: 5, mount_id: MOUNT, entries: vec![entry(0), entry(17)] }
}

pub fn checksum_block() -> ChecksumBlock {
    let mut block = ChecksumBlock { generation: 2, ..ChecksumBlock::default() };
    block.entries[0] = 0x0bad_cafe;
    block.entries[1015] = 1;
    block
}

/// Sixteen bytes a line; lines of zeros are left out.
fn hex(out: &mut String, title: &str, bytes: &[u8]) {
    writeln!(out, "\n{title} ({} bytes)", bytes.len()).unwrap();
    for (i, line) in bytes.chunks(16).enumerate() {
        if line.iter().all(|b| *b == 0) {
            continue;
        }
        let codes: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        let text: String = line
            .iter()
            .map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' })
            .collect();
        writeln!(out, "{:06x}  {:<47}  {}", i * 16, codes.join(" "), text.trim_end()).unwrap();
    }
}

fn constants(out: &mut String) {
    let mut say = |name: &str, value: String| writeln!(out, "{name:<22} {value}").unwrap();
    say("BLOCK", layout::BLOCK.to_string());
    say("FORMAT_VERSION", layout::FORMAT_VERSION.to_string());
    say("FEATURES_KNOWN", format!("{:#x}", layout::FEATURES_KNOWN));
    say("LABEL_HEAD", format!("{:?}", layout::LABEL_HEAD));
    say("LABEL_TAIL", format!("{:?} before the end", layout::LABEL_TAIL));
    say("TAIL_BYTES", layout::TAIL_BYTES.to_string());
    say("SUPERBLOCKS", format!("{:?}", layout::SUPERBLOCKS));
    say("DIRTY_LOG", format!("{:?}", layout::DIRTY_LOG));
    say("DIRTY_LOG_BYTES", layout::DIRTY_LOG_BYTES.to_string());
    say("DIRTY_BLOCKS", DIRTY_BLOCKS.to_string());
    say("ENTRIES_PER_BLOCK", ENTRIES_PER_BLOCK.to_string());
    say("DIRTY_REGIONS_MAX", DIRTY_REGIONS_MAX.to_string());
    say("LOG_START", layout::LOG_START.to_string());
    say("LOG_BLOCKS", layout::LOG_BLOCKS.to_string());
    say("RECORD_BLOCKS_MAX", layout::RECORD_BLOCKS_MAX.to_string());
    say("RECORD_HEADER", record::RECORD_HEADER.to_string());
    say("LOG_CHECKPOINT_AT", layout::LOG_CHECKPOINT_AT.to_string());
    say("AU_START", layout::AU_START.to_string());
    say("AU_SIZE_MIN", layout::AU_SIZE_MIN.to_string());
    say("AU_SIZE_MAX", layout::AU_SIZE_MAX.to_string());
    say("REGION_BYTES", layout::REGION_BYTES.to_string());
    say("PIECE_BYTES", layout::PIECE_BYTES.to_string());
    say("PIECES_PER_REGION", layout::PIECES_PER_REGION.to_string());
    say("CHECKSUMS_PER_BLOCK", layout::CHECKSUMS_PER_BLOCK.to_string());
    say("CHECKSUM_RUN_AUS", layout::CHECKSUM_RUN_AUS.to_string());
    say("CHUNK_BYTES", layout::CHUNK_BYTES.to_string());
    say("CHUNK_HEADER", checkpoint::CHUNK_HEADER.to_string());
    say("FINE_CHUNK_BYTES", layout::FINE_CHUNK_BYTES.to_string());
    say("FINE_WIDTH", layout::FINE_WIDTH.to_string());
    say("DISK_BYTES_MIN", layout::DISK_BYTES_MIN.to_string());
    say("RUNS_MAX", RUNS_MAX.to_string());
    say("FIRST_FILE", FIRST_FILE.to_string());
}

fn golden() -> String {
    let mut out = String::new();
    constants(&mut out);
    hex(&mut out, "label", &label().encode().0);
    hex(&mut out, "superblock", &superblock().encode().0);
    for op in ops() {
        let name = format!("{op:?}");
        let end = name.find([' ', '{']).unwrap_or(name.len());
        hex(&mut out, &format!("op {}", &name[..end]), &payload_of(&[op]));
    }
    let payload = payload_of(&ops()[..1]);
    hex(&mut out, "record", &record::encode(GROUP, position(), 8, MOUNT, &payload).0);
    hex(&mut out, "filler", &record::encode_filler(GROUP, position(), MOUNT).0);
    let content = state().encode();
    hex(&mut out, "checkpoint content", &content);
    let chunk = checkpoint::encode(GROUP, 1000, &content);
    hex(&mut out, "checkpoint chunk, header", &chunk.bytes[..checkpoint::CHUNK_HEADER]);
    writeln!(out, "chunks crc {:#010x}", chunk.chunks_crc).unwrap();
    hex(&mut out, "dirty block", &dirty_block().encode(GROUP).0);
    hex(&mut out, "checksum block", &checksum_block().encode(DISK, 42).0);
    out
}

fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

const GOLDEN: &str = "tests/it/golden/disk-group-v1.txt";
const DOCUMENT: &str = "../../docs/format/disk-group.md";
const BEGIN: &str = "<!-- golden begin -->\n```text\n";
const END: &str = "```\n<!-- golden end -->";

/// Where the golden text stands in the document.
fn in_document(document: &str) -> std::ops::Range<usize> {
    let start = document.find(BEGIN).expect("the document has the first marker") + BEGIN.len();
    let end = document[start..].find(END).expect("the document has the second marker");
    start..start + end
}

#[test]
fn the_bytes_are_those_of_version_1() {
    let text = golden();
    if std::env::var_os("GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(file(GOLDEN), &text).unwrap();
        let mut document = std::fs::read_to_string(file(DOCUMENT)).unwrap();
        let range = in_document(&document);
        document.replace_range(range, &text);
        std::fs::write(file(DOCUMENT), document).unwrap();
    }
    let pinned = std::fs::read_to_string(file(GOLDEN)).unwrap();
    for (line, (now, then)) in text.lines().zip(pinned.lines()).enumerate() {
        assert_eq!(now, then, "line {} of {GOLDEN}", line + 1);
    }
    assert!(text == pinned, "{GOLDEN} has another length");
}

#[test]
fn the_format_document_shows_the_pinned_bytes() {
    let document = std::fs::read_to_string(file(DOCUMENT)).unwrap();
    let pinned = std::fs::read_to_string(file(GOLDEN)).unwrap();
    assert!(
        document[in_document(&document)] == pinned,
        "{DOCUMENT} and {GOLDEN} differ: GOLDEN=write cargo test golden"
    );
}

#[test]
fn what_was_encoded_is_decoded() {
    assert_eq!(Label::decode(&label().encode().0).unwrap(), label());
    assert_eq!(Superblock::decode(&superblock().encode().0).unwrap(), superblock());
    assert_eq!(Op::get_all(&payload_of(&ops())).unwrap(), ops());
    let dirty = DirtyBlock::decode(&dirty_block().encode(GROUP).0, GROUP, 3).unwrap();
    assert_eq!(dirty, dirty_block());
    let sums = ChecksumBlock::decode(&checksum_block().encode(DISK, 42).0, DISK, 42).unwrap();
    assert_eq!(sums, checksum_block());
    let content = state().encode();
    let cut = checkpoint::encode(GROUP, 1000, &content);
    let bytes = content.len() as u64;
    let whole = checkpoint::decode(GROUP, 1000, cut.chunks_crc, bytes, &cut.bytes).unwrap();
    assert_eq!(GroupState::decode(&whole).unwrap(), state());
    let mut changed = state();
    for op in ops() {
        changed.apply(&op).unwrap();
    }
    assert_eq!(changed.names, state().names, "the examples undo one another");
}
