//! Signatures on a disk: the magic bytes that file systems and volume managers leave.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::buffer::Buffer;

/// A mark at a fixed place from the start of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Whose it is, for people.
    pub name: &'static str,
    /// Where it is, in bytes from the start; below 256 KiB.
    pub offset: usize,
    /// What is there.
    pub bytes: &'static [u8],
}

const fn mark(name: &'static str, offset: usize, bytes: &'static [u8]) -> Mark {
    Mark { name, offset, bytes }
}

/// The most telling first: a partition table may stand beside another mark.
const MARKS: [Mark; 25] = [
    mark("Oracle ASM disk", 32, b"ORCLDISK"),
    mark("LUKS", 0, b"LUKS\xba\xbe"),
    mark("LVM physical volume", 0, b"LABELONE"),
    mark("LVM physical volume", 512, b"LABELONE"),
    mark("LVM physical volume", 1024, b"LABELONE"),
    mark("LVM physical volume", 1536, b"LABELONE"),
    mark("md array member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    mark("md array member", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    mark("Ceph BlueStore", 0, b"bluestore block device"),
    mark("xfs file system", 0, b"XFSB"),
    mark("btrfs file system", 0x10040, b"_BHRfS_M"),
    mark("ext file system", 0x438, &[0x53, 0xef]),
    mark("f2fs file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    mark("swap", 4086, b"SWAPSPACE2"),
    mark("swap", 65526, b"SWAPSPACE2"),
    mark("bcache", 4120, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    mark("ISO 9660 file system", 0x8001, b"CD001"),
    mark("NTFS file system", 3, b"NTFS    "),
    mark("exFAT file system", 3, b"EXFAT   "),
    mark("FAT file system", 82, b"FAT32   "),
    mark("FAT file system", 54, b"FAT16   "),
    mark("FAT file system", 54, b"FAT12   "),
    mark("GPT partition table", 512, b"EFI PART"),
    mark("GPT partition table", 4096, b"EFI PART"),
    mark("MBR partition table or boot sector", 510, &[0x55, 0xaa]),
];

/// How much is read at the start and at the end.
const WINDOW: usize = 256 << 10;

/// The name of the first mark found; `own` marks are looked for first.
///
/// # Errors
/// What the system says when the disk cannot be read.
pub(super) fn find(path: &Path, size: u64, own: &[Mark]) -> std::io::Result<Option<&'static str>> {
    let (file, mut window) = (open(path)?, Buffer::zeroed(WINDOW));
    let got = read_up_to(&file, &mut window, 0)?;
    let start = &window[..got];
    let at_start = own.iter().chain(&MARKS).find(|m| is_at(start, m.offset, m.bytes));
    if let Some(found) = at_start {
        return Ok(Some(found.name));
    }
    if is_zfs(start) {
        return Ok(Some("ZFS member"));
    }
    if size < 2 * WINDOW as u64 {
        return Ok(None);
    }
    let base = (size - WINDOW as u64) & !4095;
    window.fill(0);
    let got = read_up_to(&file, &mut window, base)?;
    Ok(find_at_end(&window[..got], size, base))
}

/// md's older superblocks and the second GPT lie at the end.
fn find_at_end(end: &[u8], size: u64, base: u64) -> Option<&'static str> {
    let at = |place: u64, bytes: &[u8]| place >= base && is_at(end, (place - base) as usize, bytes);
    let md = &[0xfc, 0x4e, 0x2b, 0xa9];
    if at((size & !0xffff) - 0x1_0000, md) || at((size - 8192) & !4095, md) {
        return Some("md array member");
    }
    if at(size - 512, b"EFI PART") || at(size - 4096, b"EFI PART") {
        return Some("GPT partition table (its second copy)");
    }
    None
}

fn is_at(window: &[u8], offset: usize, bytes: &[u8]) -> bool {
    !bytes.is_empty() && window.get(offset..).is_some_and(|rest| rest.starts_with(bytes))
}

/// ZFS keeps a ring of uberblocks in the second half of its 256 KiB label.
fn is_zfs(start: &[u8]) -> bool {
    let magic = 0x00ba_b10c_u64;
    (WINDOW / 2..WINDOW).step_by(1024).any(|offset| {
        is_at(start, offset, &magic.to_le_bytes()) || is_at(start, offset, &magic.to_be_bytes())
    })
}

fn open(path: &Path) -> std::io::Result<File> {
    let with = |flags| std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    with(libc::O_DIRECT | libc::O_NONBLOCK).or_else(|_| with(libc::O_NONBLOCK))
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            // A direct read that stops before the end of a file may leave an offset that is not
            // aligned to continue at.
            Ok(got) => {
                done += got;
                if got % 512 != 0 {
                    break;
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
