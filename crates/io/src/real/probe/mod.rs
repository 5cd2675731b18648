//! Inspection of a path without opening it as a disk: sizes, queue, users, and the signature on it.
//! Reads `/sys`, `/proc` and half a megabyte of the disk; never writes.

mod bus;
mod memory;
mod mounts;
mod signature;

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{IoError, IoErrorKind, Op};

use super::errno::kind_of;
use super::raw;
use super::sysfs::{Block, names, read};

pub use memory::in_memory;
pub(super) use mounts::mounts;
pub use signature::Mark;

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// A regular file.
    File,
    /// A whole block device.
    Block,
    /// A partition of one.
    Partition,
    /// Neither: a directory, a character device.
    Other,
}

/// What is known about a path that may be a disk. `None`: unknown.
#[derive(Clone, Debug)]
pub struct DiskFacts {
    /// The path asked about.
    pub path: PathBuf,
    /// What it names.
    pub kind: DiskKind,
    /// Bytes.
    pub size: u64,
    /// The smallest legal request, as reported, in bytes.
    pub logical_sector: Option<u32>,
    /// The unit of the device, as reported, in bytes; for a file, of the device below.
    pub physical_sector: Option<u32>,
    /// What the maker calls it.
    pub model: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// Whether it has heads that move.
    pub rotational: Option<bool>,
    /// Requests that the kernel queues.
    pub queue_depth: Option<u32>,
    /// Largest request in bytes.
    pub transfer_max: Option<u64>,
    /// Whether completed writes may be lost by a power cut.
    pub write_cache: Option<bool>,
    /// Whether a single write can be forced to the medium.
    pub fua: Option<bool>,
    /// Whether it takes discards.
    pub discard: Option<bool>,
    /// Names in `/dev/disk/by-id`.
    pub by_id: Vec<PathBuf>,
    /// Names in `/dev/disk/by-path`.
    pub by_path: Vec<PathBuf>,
    /// Devices made of it (volumes, arrays), and loop devices over a file.
    pub holders: Vec<String>,
    /// Where it is mounted.
    pub mounts: Vec<PathBuf>,
    /// Whether the kernel swaps to it.
    pub swap: bool,
    /// Its partitions.
    pub partitions: Vec<String>,
    /// Where a partition starts, in bytes.
    pub partition_start: Option<u64>,
    /// The owner of the signature on it.
    pub signature: Option<&'static str>,
    /// Owner of the node or file.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u32,
    /// Whether this process may read it: without that, `signature` is unknown.
    pub readable: bool,
    /// Whether this process may write it.
    pub writable: bool,
    /// The block device below a file.
    pub below: Option<PathBuf>,
    /// The enclosure, else the controller, that it is attached to, in `/sys`.
    pub path_to_disk: Option<PathBuf>,
    /// The controller, by address and driver.
    pub controller: Option<String>,
    /// Its place there: the slot of an enclosure, else the address on its bus.
    pub slot: Option<String>,
    /// The chunk of an array: what goes to one of its disks before the next one, in bytes.
    pub stripe_unit: Option<u64>,
    /// The full stripe of an array, in bytes.
    pub stripe: Option<u64>,
}

impl DiskFacts {
    /// Whether a partition starts on a multiple of its physical sector and of 4096 bytes.
    pub fn is_aligned(&self) -> bool {
        let unit = u64::from(self.physical_sector.unwrap_or(4096)).max(4096);
        self.partition_start.is_none_or(|start| start.is_multiple_of(unit))
    }

    /// Who uses it, in words; empty if nobody seems to. Only they can release it.
    pub fn users(&self) -> Vec<String> {
        let mut users: Vec<String> =
            self.mounts.iter().map(|point| format!("mounted on {}", point.display())).collect();
        if self.swap {
            users.push("used for swap".to_owned());
        }
        if !self.holders.is_empty() {
            users.push(format!("held by {}", self.holders.join(", ")));
        }
        users
    }

    /// What is on it, in words, as far as signatures tell; its owner may give that up.
    pub fn content(&self) -> Vec<String> {
        let mut content = Vec::new();
        if !self.partitions.is_empty() {
            content.push(format!("it has partitions {}", self.partitions.join(", ")));
        }
        content.extend(self.signature.map(|name| format!("it bears the mark of: {name}")));
        content
    }
}

/// Inspects one path. `own` are signatures of ours, looked for first.
///
/// # Errors
/// [`IoErrorKind::NotFound`] or [`IoErrorKind::Permission`] on the path to it. A disk that merely
/// cannot be read is described from other sources.
pub fn probe(path: &Path, own: &[Mark]) -> Result<DiskFacts, IoError> {
    let metadata = std::fs::metadata(path).map_err(|e| {
        let kind = e.raw_os_error().map_or(IoErrorKind::Os(0), kind_of);
        IoError::new(kind, &path.to_string_lossy().into(), Op::Open, 0, 0)
    })?;
    let block = block_of(&metadata);
    let kind = kind_of_path(&metadata, block.as_ref());
    let mut facts = blank(path, kind, &metadata);
    if let Some(block) = &block {
        fill_from_sysfs(&mut facts, block);
    }
    match kind {
        DiskKind::File => fill_file(&mut facts, block.as_ref()),
        DiskKind::Block | DiskKind::Partition => {
            if let Some(block) = &block {
                fill_block(&mut facts, block, metadata.rdev());
            }
        }
        DiskKind::Other => return Ok(facts),
    }
    match signature::find(path, facts.size, own) {
        Ok(found) => (facts.signature, facts.readable) = (found, true),
        // If it cannot even be read, whatever the permission bits say, it counts as not writable.
        Err(_) => (facts.readable, facts.writable) = (false, false),
    }
    Ok(facts)
}

/// Every block device with a size, partitions after their disk, in the order of their names.
pub fn list_disks(own: &[Mark]) -> Vec<DiskFacts> {
    let mut all = Vec::new();
    for name in names(Path::new("/sys/block")) {
        let directory = Path::new("/sys/block").join(&name);
        if read(&directory.join("size")).is_none_or(|size| size == "0") {
            continue;
        }
        let partitions = partitions(&directory);
        for name in std::iter::once(name).chain(partitions) {
            // A device without a node here (in a container) is no use to anybody.
            all.extend(probe(&node(&name), own));
        }
    }
    all
}

/// The block device that a path is, or that its file system is on.
pub(super) fn block_of(metadata: &std::fs::Metadata) -> Option<Block> {
    if metadata.file_type().is_block_device() {
        return Block::by_number(metadata.rdev());
    }
    let number = metadata.dev();
    Block::by_number(number).or_else(|| {
        // btrfs and its like have numbers of their own; their mount names the device.
        let mount = mounts().into_iter().find(|mount| mount.number == number)?;
        Block::by_number(std::fs::metadata(mount.source).ok()?.rdev())
    })
}

fn kind_of_path(metadata: &std::fs::Metadata, block: Option<&Block>) -> DiskKind {
    if metadata.is_file() {
        DiskKind::File
    } else if !metadata.file_type().is_block_device() {
        DiskKind::Other
    } else if block.is_some_and(|b| b.own != b.disk) {
        DiskKind::Partition
    } else {
        DiskKind::Block
    }
}

fn blank(path: &Path, kind: DiskKind, metadata: &std::fs::Metadata) -> DiskFacts {
    let writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    DiskFacts {
        path: path.to_path_buf(),
        kind,
        size: metadata.len(),
        logical_sector: None,
        physical_sector: None,
        model: None,
        serial: None,
        rotational: None,
        queue_depth: None,
        transfer_max: None,
        write_cache: None,
        fua: None,
        discard: None,
        by_id: Vec::new(),
        by_path: Vec::new(),
        holders: Vec::new(),
        mounts: Vec::new(),
        swap: std::fs::canonicalize(path).is_ok_and(|real| mounts::is_swap(&real)),
        partitions: Vec::new(),
        partition_start: None,
        signature: None,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mode: metadata.mode() & 0o7777,
        readable: rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok(),
        writable,
        below: None,
        path_to_disk: None,
        controller: None,
        slot: None,
        stripe_unit: None,
        stripe: None,
    }
}

/// Properties that a disk shares with every file on it.
fn fill_from_sysfs(facts: &mut DiskFacts, block: &Block) {
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    facts.logical_sector = block.number("queue/logical_block_size").map(narrow);
    facts.physical_sector = block.number("queue/physical_block_size").map(narrow);
    facts.model = block.word("device/model");
    facts.serial = serial(block);
    facts.rotational = block.number("queue/rotational").map(|n| n != 0);
    facts.queue_depth = block.number("queue/nr_requests").map(narrow);
    facts.transfer_max = block.number("queue/max_sectors_kb").map(|kb| kb * 1024);
    facts.write_cache = block.word("queue/write_cache").map(|word| word == "write back");
    facts.fua = block.number("queue/fua").map(|n| n != 0);
    facts.discard = block.number("queue/discard_max_bytes").map(|n| n > 0);
    facts.path_to_disk = path_to_disk(block);
    facts.controller = bus::controller(&block.disk);
    facts.slot = bus::slot(&block.disk);
    (facts.stripe_unit, facts.stripe) = bus::stripe(block);
}

fn fill_file(facts: &mut DiskFacts, block: Option<&Block>) {
    facts.below = block.map(|b| node(&b.name()));
    // The sectors of a file are what direct I/O takes; unknown where the file may not be read.
    facts.logical_sector = std::fs::File::open(&facts.path)
        .ok()
        .and_then(|file| raw::direct_alignment(&file))
        .map(|(_, offset)| offset.max(512));
    if let Ok(real) = std::fs::canonicalize(&facts.path) {
        facts.holders = loops_over(&real);
    }
}

fn fill_block(facts: &mut DiskFacts, block: &Block, number: u64) {
    let sectors = read(&block.own.join("size")).and_then(|text| text.parse::<u64>().ok());
    facts.size = sectors.unwrap_or(0).saturating_mul(512);
    facts.holders = names(&block.own.join("holders"));
    if facts.kind == DiskKind::Partition {
        let start = read(&block.own.join("start")).and_then(|text| text.parse::<u64>().ok());
        facts.partition_start = start.map(|sector| sector.saturating_mul(512));
    } else {
        facts.partitions = partitions(&block.own);
    }
    let node = node(&block.name());
    facts.mounts = mounts_of(&node, number);
    // Who uses a part uses the whole.
    for partition in partitions(&block.own) {
        let directory = block.own.join(&partition);
        facts.holders.extend(names(&directory.join("holders")));
        let node = self::node(&partition);
        facts.swap |= mounts::is_swap(&node);
        let number = std::fs::metadata(&node).map_or(0, |metadata| metadata.rdev());
        facts.mounts.extend(mounts_of(&node, number));
    }
    facts.by_id = links_to(Path::new("/dev/disk/by-id"), &node);
    facts.by_path = links_to(Path::new("/dev/disk/by-path"), &node);
}

/// Where a device is mounted; by its number, or by the name that a file system with a number of its
/// own gives.
fn mounts_of(node: &Path, number: u64) -> Vec<PathBuf> {
    let same = |mount: &mounts::Mount| {
        (number != 0 && mount.number == number)
            || std::fs::canonicalize(&mount.source).is_ok_and(|source| source == node)
    };
    mounts().into_iter().filter(same).map(|mount| mount.point).collect()
}

/// `/sys` writes the slashes in names such as `cciss/c0d0` as exclamation marks.
fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

fn partitions(directory: &Path) -> Vec<String> {
    let is_partition = |name: &String| directory.join(name).join("partition").exists();
    names(directory).into_iter().filter(is_partition).collect()
}

fn links_to(directory: &Path, node: &Path) -> Vec<PathBuf> {
    names(directory)
        .into_iter()
        .map(|name| directory.join(name))
        .filter(|link| std::fs::canonicalize(link).is_ok_and(|target| target == node))
        .collect()
}

fn loops_over(file: &Path) -> Vec<String> {
    names(Path::new("/sys/block"))
        .into_iter()
        .filter(|name| {
            let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
            read(&backing).is_some_and(|path| Path::new(&path) == file)
        })
        .collect()
}

fn serial(block: &Block) -> Option<String> {
    block.word("serial").or_else(|| block.word("device/serial")).or_else(|| {
        // SCSI's page 80h: four bytes of header, then text.
        let page = std::fs::read(block.disk.join("device/vpd_pg80")).ok()?;
        let text = String::from_utf8_lossy(page.get(4..)?).trim().to_owned();
        (!text.is_empty()).then_some(text)
    })
}

/// The enclosure if the kernel knows it, else the nearest PCI function above the disk.
fn path_to_disk(block: &Block) -> Option<PathBuf> {
    let device = block.disk.join("device");
    let enclosure = names(&device).into_iter().find(|name| name.starts_with("enclosure_device"));
    if let Some(link) = enclosure {
        return std::fs::canonicalize(device.join(link)).ok();
    }
    bus::pci_function(&block.disk).map(Path::to_path_buf)
}
