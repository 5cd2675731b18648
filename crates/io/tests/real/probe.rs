//! Tests of the disk probe behind `cellar disks`.

use std::path::{Path, PathBuf};
use std::process::Command;

use cellar_io::IoErrorKind;
use cellar_io::real::{DiskKind, Mark, list_disks, probe};

use crate::loops::Loop;
use crate::support::{directory, disk_file};

#[test]
fn a_file_is_described_with_the_device_below_and_its_loop() {
    let directory = directory();
    let path = disk_file(&directory, "disk", 4 << 20);
    let facts = probe(&path, &[]).unwrap();
    assert_eq!((facts.kind, facts.size), (DiskKind::File, 4 << 20));
    assert!(facts.readable && facts.writable && facts.is_aligned());
    assert_eq!((facts.users(), facts.content()), (Vec::new(), Vec::new()));
    let Some(device) = Loop::over(&path, 512) else {
        eprintln!("loop devices not run: they need root and losetup");
        return;
    };
    let name = device.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(probe(&path, &[]).unwrap().holders, [name]);
    let facts = probe(device.path(), &[]).unwrap();
    assert_eq!((facts.kind, facts.size), (DiskKind::Block, 4 << 20));
    assert_eq!(facts.logical_sector, Some(512));
    assert!(list_disks(&[]).iter().any(|disk| disk.path == device.path()));
}

/// A partition of a disk that the kernel is told of, whatever the disk itself says.
struct Partition(Loop);

impl Partition {
    fn of(disk: Loop) -> Option<Partition> {
        let (start, sectors) = ("2048", "8192");
        let run = Command::new("addpart").arg(disk.path()).args(["1", start, sectors]).status();
        run.is_ok_and(|status| status.success()).then(|| Partition(disk))
    }

    fn path(&self) -> PathBuf {
        format!("{}p1", self.0.path().display()).into()
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        let _ = Command::new("delpart").arg(self.0.path()).arg("1").status();
    }
}

#[test]
fn who_uses_a_partition_uses_the_disk() {
    let directory = directory();
    let file = disk_file(&directory, "disk", 8 << 20);
    let Some(part) = Loop::over(&file, 512).and_then(Partition::of) else {
        eprintln!("not run: partitions need root, losetup and addpart");
        return;
    };
    let idle = probe(part.0.path(), &[]).unwrap();
    assert_eq!(idle.users(), Vec::<String>::new());
    assert!(idle.content().concat().contains("partitions"), "{:?}", idle.content());
    let point = directory.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    let done = |run: &mut Command| run.status().is_ok_and(|status| status.success());
    if !done(Command::new("mkfs.ext4").arg("-q").arg(part.path()))
        || !done(Command::new("mount").arg(part.path()).arg(&point))
    {
        eprintln!("not run: mounting needs root and mkfs.ext4");
        return;
    }
    let (of_disk, of_part) = (probe(part.0.path(), &[]), probe(&part.path(), &[]));
    assert!(done(Command::new("umount").arg(&point)));
    assert_eq!(of_disk.unwrap().users(), [format!("mounted on {}", point.display())]);
    assert_eq!(of_part.unwrap().users(), [format!("mounted on {}", point.display())]);
}

#[test]
fn marks_of_others_and_our_own_are_found() {
    let directory = directory();
    let path = disk_file(&directory, "disk", 4 << 20);
    let cases: [(&str, u64, &[u8]); 8] = [
        ("xfs", 0, b"XFSB"),
        ("ext", 0x438, &[0x53, 0xef]),
        ("btrfs", 0x10040, b"_BHRfS_M"),
        ("Oracle ASM", 32, b"ORCLDISK"),
        ("LVM", 512, b"LABELONE"),
        ("ZFS", (128 << 10) + 5 * 1024, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]),
        ("md array", (4 << 20) - 8192, &[0xfc, 0x4e, 0x2b, 0xa9]),
        ("second copy", (4 << 20) - 512, b"EFI PART"),
    ];
    for (expected, offset, bytes) in cases {
        let mut contents = vec![0u8; 4 << 20];
        contents[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        std::fs::write(&path, contents).unwrap();
        let found = probe(&path, &[]).unwrap().signature;
        assert!(found.is_some_and(|name| name.contains(expected)), "{expected}: {found:?}");
    }
    let own = Mark { name: "ours", offset: 0, bytes: b"OURMARK!" };
    let mut contents = vec![0u8; 100];
    contents[..8].copy_from_slice(own.bytes);
    std::fs::write(&path, contents).unwrap();
    assert_eq!(probe(&path, &[own]).unwrap().signature, Some("ours"));
    assert_eq!(probe(&path, &[]).unwrap().signature, None);
}

#[test]
fn what_is_no_disk_is_said_to_be_none() {
    let error = probe(Path::new("/no/such/path"), &[]).unwrap_err();
    assert_eq!(error.kind, IoErrorKind::NotFound);
    assert_eq!(probe(Path::new("/dev/null"), &[]).unwrap().kind, DiskKind::Other);
    assert_eq!(probe(Path::new("/tmp"), &[]).unwrap().kind, DiskKind::Other);
    for disk in list_disks(&[]) {
        assert!(disk.size > 0 && disk.path.starts_with("/dev"), "{disk:?}");
        println!("{disk:?} {:?} {:?}", disk.users(), disk.content());
    }
}
