//! Volatile storage: file systems and disks in memory.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::super::sysfs::{Block, read};

/// File systems in memory, by the number that the kernel gives their kind.
const IN_MEMORY: [(u32, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// The kind of memory that a path is kept in, whose contents do not outlive the machine: `tmpfs`,
/// `ramfs`, `zram`, `ram`; `None` where a device is below, as far as the system says.
pub fn in_memory(path: &Path) -> Option<&'static str> {
    let about = std::fs::metadata(path).ok()?;
    if !about.file_type().is_block_device() {
        // The type is as wide as the machine's word; the numbers have 32 bits.
        let kind = rustix::fs::statfs(path).ok()?.f_type as u32;
        return IN_MEMORY.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name);
    }
    let block = Block::by_number(about.rdev())?;
    let name = block.disk.file_name()?.to_string_lossy().into_owned();
    match read(&block.disk.join("loop/backing_file")) {
        Some(file) => in_memory(Path::new(&file)),
        None if name.starts_with("zram") => Some("zram"),
        None if name.starts_with("ram") => Some("ram"),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_is_told_from_a_disk() {
        // Both are on every machine that these tests run on.
        assert_eq!(in_memory(Path::new("/dev/shm")), Some("tmpfs"));
        assert_eq!(in_memory(Path::new("/no/such/path")), None);
    }
}
