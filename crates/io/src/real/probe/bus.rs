//! The position of a disk in the machine, from `/sys`: controller, slot, and the stripe of an array.

use std::path::Path;

use super::super::sysfs::{Block, last, names, read};

/// The nearest PCI function above a disk, which may be none of its own.
pub(super) fn pci_function(disk: &Path) -> Option<&Path> {
    let is_pci = |path: &&Path| {
        // "0000:00:05.0"
        let name = last(path);
        name.len() == 12 && name.matches(':').count() == 2 && name.contains('.')
    };
    disk.ancestors().find(is_pci)
}

/// The address of the controller and its driver: `0000:03:00.0 (megaraid_sas)`.
pub(super) fn controller(disk: &Path) -> Option<String> {
    let function = pci_function(disk)?;
    let driver = std::fs::canonicalize(function.join("driver")).ok();
    Some(match driver {
        Some(driver) => format!("{} ({})", last(function), last(&driver)),
        None => last(function),
    })
}

/// The slot of the enclosure, else the address on a SCSI bus: `slot 3`, `0:2:1:0`.
pub(super) fn slot(disk: &Path) -> Option<String> {
    let device = std::fs::canonicalize(disk.join("device")).ok()?;
    let link = names(&device).into_iter().find(|name| name.starts_with("enclosure_device"));
    if let Some(link) = link {
        let number = read(&device.join(&link).join("slot"));
        let named = link.split_once(':').map(|(_, name)| name.to_owned());
        return number.map(|number| format!("slot {number}")).or(named);
    }
    let name = last(&device);
    // Host, channel, target and unit.
    let parts: Vec<&str> = name.split(':').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (parts.len() == 4 && parts.iter().all(is_number)).then_some(name)
}

/// The chunk and the full stripe of an array, in bytes; nothing for a single disk.
pub(super) fn stripe(block: &Block) -> (Option<u64>, Option<u64>) {
    let number = |name: &str| block.number(name).filter(|bytes| *bytes > 0);
    let sector = number("queue/physical_block_size").unwrap_or(4096).max(4096);
    let unit = number("md/chunk_size").or_else(|| {
        // Some devices report their whole size, or their sector.
        let size = read(&block.disk.join("size"))?.parse::<u64>().ok()?.saturating_mul(512);
        number("queue/minimum_io_size").filter(|unit| *unit > sector && *unit < size / 2)
    });
    let whole = number("queue/optimal_io_size");
    match unit {
        Some(unit) => {
            (Some(unit), whole.filter(|whole| *whole > unit && whole.is_multiple_of(unit)))
        }
        None => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A directory with such files, links where a value begins with `->`.
    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("cellar-bus-{name}-{}", std::process::id()));
        for (path, value) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match value.strip_prefix("->") {
                Some(target) => {
                    fs::create_dir_all(root.join(target)).unwrap();
                    std::os::unix::fs::symlink(root.join(target), path).unwrap();
                }
                None => fs::write(path, value).unwrap(),
            }
        }
        root
    }

    #[test]
    fn a_disk_of_a_raid_controller_is_told_with_all_that_sysfs_has() {
        let root = tree(
            "raid",
            &[
                ("pci0000:00/0000:03:00.0/driver", "->drivers/megaraid_sas"),
                ("pci0000:00/0000:03:00.0/host0/0:2:1:0/block/sda/size", "2097152"),
                ("pci0000:00/0000:03:00.0/host0/0:2:1:0/block/sda/queue/minimum_io_size", "262144"),
                (
                    "pci0000:00/0000:03:00.0/host0/0:2:1:0/block/sda/queue/optimal_io_size",
                    "1048576",
                ),
                (
                    "pci0000:00/0000:03:00.0/host0/0:2:1:0/block/sda/device",
                    "->pci0000:00/0000:03:00.0/host0/0:2:1:0",
                ),
            ],
        );
        let disk = root.join("pci0000:00/0000:03:00.0/host0/0:2:1:0/block/sda");
        assert_eq!(controller(&disk).as_deref(), Some("0000:03:00.0 (megaraid_sas)"));
        assert_eq!(slot(&disk).as_deref(), Some("0:2:1:0"));
        let block = Block::at(&disk).unwrap();
        assert_eq!(stripe(&block), (Some(256 << 10), Some(1 << 20)));
        fs::write(disk.join("queue/minimum_io_size"), "4096").unwrap();
        assert_eq!(stripe(&block), (None, None), "a single disk");
        fs::create_dir_all(disk.join("device/enclosure_device:Slot 07")).unwrap();
        assert_eq!(slot(&disk).as_deref(), Some("Slot 07"));
        fs::write(disk.join("device/enclosure_device:Slot 07/slot"), "7\n").unwrap();
        assert_eq!(slot(&disk).as_deref(), Some("slot 7"));
        fs::remove_dir_all(root).unwrap();
    }
}
