//! Groups as every version of the format wrote them, kept as files, are opened and read by this one.
//!
//! `CELLAR_MAKE_FIXTURES=PREFIX cargo test --release -p cellar-diskgroup --test it fixtures` writes new
//! ones, of this version; they are added when the format changes, and none is ever taken away.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cellar_diskgroup::state::{FileType, Striping};
use cellar_diskgroup::{AlterDisks, DropDisk, FileSpec, FoundDisk, Group, MountOptions, OnlineHow};
use cellar_io::sim::{Sim, SimDiskOptions};
use cellar_io::{Device, DeviceExt, Durability, Io};

use crate::moves::sound;
use cellar_sim::rig::{Rig, Shape};

const BLOCK: usize = 4096;
const MB: u64 = 1 << 20;

/// A file that must be there: its path, its size and the tag in all its words.
type Expected = (String, u64, u64);

/// What stands in every block of a file.
fn block(tag: u64, at: u64) -> Vec<u8> {
    ((tag << 32) | (at / BLOCK as u64)).to_le_bytes().repeat(BLOCK / 8)
}

/// Disks as bytes: magic, sector, disks; of each its size and the blocks that are not zero, as runs
/// of equal words of 8 bytes; then the files.
fn pack(rig: &Rig, sector: u32, files: &[Expected]) -> Vec<u8> {
    let mut out = b"CLFX".to_vec();
    out.extend(sector.to_le_bytes());
    out.extend(u32::try_from(rig.disks.len()).unwrap().to_le_bytes());
    for disk in &rig.disks {
        let size = disk.geometry().size;
        let all = disk.peek_durable(0, size);
        let blocks = all.chunks_exact(BLOCK).enumerate();
        let blocks: Vec<_> = blocks.filter(|(_, b)| b.iter().any(|byte| *byte != 0)).collect();
        out.extend(size.to_le_bytes());
        out.extend(u32::try_from(blocks.len()).unwrap().to_le_bytes());
        for (number, bytes) in blocks {
            out.extend(u32::try_from(number).unwrap().to_le_bytes());
            for run in bytes.chunks_exact(8).collect::<Vec<_>>().chunk_by(|a, b| a == b) {
                out.extend(u16::try_from(run.len()).unwrap().to_le_bytes());
                out.extend(run[0]);
            }
        }
    }
    for (path, size, tag) in files {
        out.extend(u16::try_from(path.len()).unwrap().to_le_bytes());
        out.extend(path.as_bytes());
        out.extend(size.to_le_bytes());
        out.extend(tag.to_le_bytes());
    }
    out
}

/// Takes the first bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (head, rest) = bytes.split_first_chunk::<N>().expect("the fixture is whole");
    *bytes = rest;
    *head
}

fn unpack(bytes: &[u8]) -> (Rig, Vec<Expected>) {
    let mut left = bytes;
    let bytes = &mut left;
    assert_eq!(&take::<4>(bytes), b"CLFX");
    let sector = u32::from_le_bytes(take(bytes));
    let sim = Sim::new(1);
    let disks = (0..u32::from_le_bytes(take(bytes))).map(|i| {
        let size = u64::from_le_bytes(take(bytes));
        let options = SimDiskOptions { size, logical_sector: sector, ..SimDiskOptions::default() };
        let disk = sim.disk(&format!("disk{i}"), options);
        for _ in 0..u32::from_le_bytes(take(bytes)) {
            let number = u32::from_le_bytes(take(bytes));
            let mut block = Vec::with_capacity(BLOCK);
            while block.len() < BLOCK {
                let count = u16::from_le_bytes(take(bytes));
                let word: [u8; 8] = take(bytes);
                block.extend(word.repeat(count.into()));
            }
            disk.poke(u64::from(number) * BLOCK as u64, &block);
        }
        disk
    });
    let disks: Vec<_> = disks.collect();
    let mut files = Vec::new();
    while !bytes.is_empty() {
        let length = u16::from_le_bytes(take(bytes));
        let (path, rest) = bytes.split_at(length.into());
        *bytes = rest;
        let path = String::from_utf8(path.to_vec()).unwrap();
        files.push((path, u64::from_le_bytes(take(bytes)), u64::from_le_bytes(take(bytes))));
    }
    (Rig { sim, disks, depth: None }, files)
}

/// Makes a file and gives it its name once it is durable.
async fn put(group: &Group, (path, size, tag): &Expected, fine: bool) {
    let striping = fine.then_some(Striping::Fine);
    let spec = FileSpec { striping, ..FileSpec::new(FileType::Datafile) };
    let file = group.create_file(&spec).await.unwrap();
    file.set_size(*size).await.unwrap();
    write(&file, 0..*size, *tag).await;
    file.flush(Io::COMMIT).await.unwrap();
    group.publish(&file, path, false).await.unwrap();
}

async fn write(file: &cellar_diskgroup::File, range: std::ops::Range<u64>, tag: u64) {
    for at in range.step_by(BLOCK) {
        let data = Bytes::from(block(tag, at));
        file.write_at(Io::FOREGROUND, at, data, Durability::Cached).await.unwrap();
    }
}

/// Fills a group with what every version can do.
async fn fill(group: &Group) -> Vec<Expected> {
    group.mkdir("dir/below", true).await.unwrap();
    let files =
        [("a", 3 * MB, 1), ("dir/b", 9 * MB, 2), ("dir/below/c", 64 << 10, 3), ("fine", 5 * MB, 4)]
            .map(|(path, size, tag)| (path.to_owned(), size, tag))
            .to_vec();
    for (i, file) in files.iter().enumerate() {
        put(group, file, i == 3).await;
    }
    put(group, &("gone".to_owned(), 2 * MB, 9), false).await;
    group.remove("gone").await.unwrap();
    group.add_alias("alias", "dir/b").await.unwrap();
    let mut files = files;
    files.push(("alias".to_owned(), 9 * MB, 2));
    files
}

/// Reads all of them, each copy.
async fn check(group: &Group, files: &[Expected], what: &str) {
    for (path, size, tag) in files {
        let file = group.open(path).unwrap_or_else(|error| panic!("{what}: {path}: {error}"));
        assert_eq!(file.size(), *size, "{what}: {path}");
        for at in (0..*size).step_by(BLOCK) {
            let read = file.read_at(Io::FOREGROUND, at, BLOCK).await.unwrap();
            assert!(read[..] == block(*tag, at), "{what}: {path} at {at}");
        }
    }
    sound(group).await;
}

/// What a fixture was left in the middle of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    /// Dismounted in order.
    Clean,
    /// The power went while it was written to: regions are dirty, the log goes on behind the
    /// checkpoint. What was being written is what stood there, so that it is known.
    Crash,
    /// And a disk was being dropped.
    Drop,
    /// A disk is away and has missed writes.
    Offline,
}

/// Makes a group, in this version of the format.
fn make(case: Case, sector: u32) -> Vec<u8> {
    let shape = Shape { disk_bytes: 34 * MB, sector, ..Shape::default() };
    let rig = Rig::new(20 + case as u64, &shape);
    let files = rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let mut files = fill(&group).await;
        // What ends a mount in order, and what the next one begins with.
        group.dismount().await.unwrap();
        let group = rig.mount().await.unwrap();
        files.push(("later".to_owned(), MB + 4096, 5));
        put(&group, &files[files.len() - 1], false).await;
        more(&group, case, &mut files).await;
        if matches!(case, Case::Clean | Case::Offline) {
            group.dismount().await.unwrap();
            return files;
        }
        let file = group.open("dir/b").unwrap();
        write(&file, 0..5 * MB, 2).await;
        files
    });
    let files = files.unwrap();
    rig.sim.crash();
    pack(&rig, sector, &files)
}

async fn more(group: &Group, case: Case, files: &mut Vec<Expected>) {
    match case {
        Case::Clean | Case::Crash => {}
        Case::Drop => {
            // Nothing is moved yet.
            let drop = vec![DropDisk { name: "DATA_0001".to_owned(), force: false }];
            let change = AlterDisks { drop, power: Some(0), ..AlterDisks::default() };
            group.alter_disks(&change).await.unwrap();
        }
        Case::Offline => {
            group.offline_disks(&["DATA_0002".to_owned()], None).await.unwrap();
            files.push(("missed".to_owned(), 2 * MB, 6));
            put(group, &files[files.len() - 1], false).await;
            let file = group.open("a").unwrap();
            write(&file, 0..MB, 1).await;
            file.flush(Io::COMMIT).await.unwrap();
        }
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

#[test]
fn groups_of_every_version_are_opened_and_read() {
    if let Some(prefix) = std::env::var_os("CELLAR_MAKE_FIXTURES") {
        for case in [Case::Clean, Case::Crash, Case::Drop, Case::Offline] {
            let name = format!("{}-{case:?}.group", prefix.to_string_lossy()).to_lowercase();
            let sector = if case == Case::Crash { 4096 } else { 512 };
            std::fs::write(fixtures().join(name), make(case, sector)).unwrap();
        }
    }
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|e| e == "group"));
    names.sort();
    for version in ["v1-", "v2-", "v3-"] {
        let of = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(version);
        assert!(names.iter().filter(of).count() >= 2, "{version} is kept: {names:?}");
    }
    for path in &names {
        let what = path.file_name().unwrap().to_string_lossy().into_owned();
        let (rig, files) = unpack(&std::fs::read(path).unwrap());
        assert!(files.len() >= 6, "{what}");
        rig.run(async {
            let looked = MountOptions { read_only: true, ..MountOptions::default() };
            let group = rig.mount_with(rig.found(), looked).await.unwrap();
            assert_eq!(group.files().len(), files.len() - 1, "{what}: one has two names");
            group.dismount().await.unwrap();
            // Used, and used again by what this version then wrote.
            let mut files = files;
            for round in 0..2u64 {
                let group = rig.mount().await.unwrap();
                check(&group, &files, &what).await;
                files.push((format!("new{round}"), 2 * MB, 10 + round));
                put(&group, &files[files.len() - 1], round == 1).await;
                if what.ends_with("away.group") && round == 0 {
                    let device = Arc::clone(&rig.disks[2]) as Arc<dyn Device>;
                    let back = FoundDisk { device, path: "/sim/disk2".to_owned() };
                    group.online_disk("DATA_0002", back, OnlineHow::default()).await.unwrap();
                    group.wait_returned().await.unwrap();
                }
                if what.ends_with("drop.group") && round == 0 {
                    group.rebalance(8).await.unwrap();
                    group.wait_rebalanced().await.unwrap();
                    assert_eq!(group.disks().len(), 3, "{what}");
                }
                check(&group, &files, &what).await;
                group.dismount().await.unwrap();
            }
        })
        .unwrap();
    }
}
