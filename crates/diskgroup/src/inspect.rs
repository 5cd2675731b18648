//! The on-disk structures of a disk, shown one by one, for people and for tools. Reads only; a damaged
//! structure is shown as damaged, with the reason.

use std::fmt;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, DeviceExt, Io};

use crate::meta::chain::{Chain, ReadError};
use crate::meta::labels::label_offsets;
use crate::on_disk::checksum::{ChecksumBlock, UNKNOWN};
use crate::on_disk::dirty::DirtyBlock;
use crate::on_disk::label::Label;
use crate::on_disk::layout::{
    BLOCK, BLOCK_U64, CHECKSUM_RUN_AUS, DIRTY_LOG, DIRTY_LOG_BYTES, DISK_BYTES_MIN, LOG_BLOCKS,
    LOG_START, au_count, au_offset, checksum_block_offset,
};
use crate::on_disk::superblock::Superblock;
use crate::on_disk::{Damage, record};
use crate::state::{GroupState, Op};

/// Checksum areas that are read; a large disk has hundreds.
const CHECKSUM_AREAS_MAX: u32 = 8;
/// Longer values are cut.
const VALUE_CHARS_MAX: usize = 400;

/// A name, perhaps a value, and what belongs below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// What it is.
    pub name: String,
    /// Its value; empty for a heading.
    pub value: String,
    /// Its parts.
    pub parts: Vec<Inspection>,
    /// Whether it is damaged, apart from its parts.
    pub damaged: bool,
}

impl Inspection {
    fn leaf(name: impl Into<String>, value: impl ToString) -> Inspection {
        let mut value = value.to_string();
        if let Some((cut, _)) = value.char_indices().nth(VALUE_CHARS_MAX) {
            value.truncate(cut);
            value.push_str(" ...");
        }
        Inspection { name: name.into(), value, ..Inspection::default() }
    }

    /// Of something that cannot be read, or was never written.
    fn damage(name: impl Into<String>, damage: &Damage) -> Inspection {
        match damage {
            Damage::Blank => Inspection::leaf(name, "never written"),
            other => Inspection::leaf(name, format!("DAMAGED: {other}")).marked_damaged(),
        }
    }

    fn marked_damaged(mut self) -> Inspection {
        self.damaged = true;
        self
    }

    fn with(mut self, parts: Vec<Inspection>) -> Inspection {
        self.parts = parts;
        self
    }

    /// The first part of that name, at any depth.
    pub fn find(&self, name: &str) -> Option<&Inspection> {
        if self.name == name {
            return Some(self);
        }
        self.parts.iter().find_map(|p| p.find(name))
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = depth * 2;
        match self.value.is_empty() {
            true => writeln!(f, "{:indent$}{}", "", self.name)?,
            false => writeln!(f, "{:indent$}{}: {}", "", self.name, self.value)?,
        }
        self.parts.iter().try_for_each(|p| p.print(f, depth + 1))
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

/// Describes everything of ours on a disk.
#[boxed]
pub async fn inspect(device: &Arc<dyn Device>) -> Inspection {
    let geometry = device.geometry();
    let root = Inspection::leaf("disk", format!("{}, {} bytes", geometry.name, geometry.size));
    if geometry.size < DISK_BYTES_MIN {
        let why = format!("too small for a disk of a group, at least {DISK_BYTES_MIN} bytes");
        return root.with(vec![Inspection::leaf("contents", why)]);
    }
    let (mut parts, label) = labels(device, geometry.size).await;
    let Some(label) = label else {
        parts.push(Inspection::leaf("contents", "no label can be read"));
        return root.with(parts);
    };
    match Chain::read(device, label.group, label.disk).await {
        Ok(chain) => parts.extend(metadata(device, &label, &chain).await),
        Err(error) => parts.push(Inspection::leaf("metadata", error)),
    }
    parts.push(dirty_log(device, &label).await);
    parts.push(checksums(device, &label).await);
    root.with(parts)
}

async fn labels(device: &Arc<dyn Device>, size: u64) -> (Vec<Inspection>, Option<Label>) {
    let mut parts = Vec::new();
    let mut newest: Option<Label> = None;
    for offset in label_offsets(size) {
        let name = format!("label at {offset}");
        match device.read_at(Io::FOREGROUND, offset, BLOCK).await {
            Err(error) => parts.push(Inspection::leaf(name, error)),
            Ok(block) => match Label::decode(&block) {
                Err(damage) => parts.push(Inspection::damage(name, &damage)),
                Ok(label) => {
                    let generation = format!("generation {}", label.generation);
                    parts.push(Inspection::leaf(name, generation).with(label_parts(&label)));
                    if newest.as_ref().is_none_or(|n| n.generation < label.generation) {
                        newest = Some(label);
                    }
                }
            },
        }
    }
    (parts, newest)
}

fn label_parts(l: &Label) -> Vec<Inspection> {
    vec![
        Inspection::leaf("group", format!("{} {}", l.group_name, l.group)),
        Inspection::leaf("disk", format!("{} {} {}", l.disk_no, l.disk_name, l.disk)),
        Inspection::leaf("failure group", &l.failgroup),
        Inspection::leaf("status", format!("{:?}", l.status)),
        Inspection::leaf("redundancy", l.redundancy.short()),
        Inspection::leaf("au_size", l.au_size),
        Inspection::leaf("sector_size", l.sector_size),
        Inspection::leaf("disk_bytes", l.disk_bytes),
        Inspection::leaf("created_ns", l.created_ns),
        Inspection::leaf("features", format!("{:#x}", l.features)),
        Inspection::leaf("holds_catalog", l.holds_catalog),
    ]
}

async fn metadata(device: &Arc<dyn Device>, label: &Label, chain: &Chain) -> Vec<Inspection> {
    let mut parts = Vec::new();
    for (offset, slot) in &chain.slots {
        let name = format!("superblock at {offset}");
        parts.push(match slot {
            Err(damage) => Inspection::damage(name, damage),
            Ok(s) => Inspection::leaf(name, format!("generation {}", s.generation))
                .with(superblock_parts(s)),
        });
    }
    let Some(history) = chain.histories(label.group).into_iter().next() else {
        let none = "none on this disk: it is not in the metadata set";
        parts.push(Inspection::leaf("metadata", none));
        return parts;
    };
    parts.push(log(chain, label, &history.superblock));
    let state = history.state(device, label.au_size.into()).await;
    parts.push(match state {
        Ok(told) => Inspection::leaf("state", "checkpoint and log").with(state_parts(&told.state)),
        Err(ReadError::Damage(damage)) => Inspection::damage("state", &damage),
        Err(ReadError::Io(error)) => Inspection::leaf("state", error),
    });
    parts
}

fn superblock_parts(s: &Superblock) -> Vec<Inspection> {
    let runs: Vec<String> = s.runs.iter().map(|r| format!("{}+{}", r.start, r.count)).collect();
    vec![
        Inspection::leaf("log begins at", s.position.lsn),
        Inspection::leaf("epoch", s.position.epoch),
        Inspection::leaf("previous mount id", format!("{:#018x}", s.position.previous_mount)),
        Inspection::leaf("previous crc", format!("{:#010x}", s.position.previous_crc)),
        Inspection::leaf("area", s.area),
        Inspection::leaf("AUs", runs.join(" ")),
        Inspection::leaf("chunks", s.chunks),
        Inspection::leaf("chunks crc", format!("{:#010x}", s.chunks_crc)),
        Inspection::leaf("content_bytes", s.content_bytes),
        Inspection::leaf("features", format!("{:#x}", s.features)),
    ]
}

fn log(chain: &Chain, label: &Label, from: &Superblock) -> Inspection {
    let mut at = from.position;
    let mut parts = Vec::new();
    let ended = loop {
        if at.lsn.saturating_sub(from.position.lsn) >= LOG_BLOCKS {
            break "the ring is full".to_owned();
        }
        let (header, payload) = match record::decode(&chain.ring, label.group, at) {
            Ok(found) => found,
            Err(damage) => break damage.to_string(),
        };
        let offset = LOG_START + at.lsn % LOG_BLOCKS * BLOCK_U64;
        let value = format!(
            "at {offset}, {} blocks, epoch {}, mount_id {:#018x}, crc {:#010x}",
            header.blocks, header.epoch, header.mount_id, header.crc
        );
        let ops = match Op::get_all(payload) {
            Ok(ops) => ops,
            Err(damage) => {
                parts.push(Inspection::damage(format!("record {}", at.lsn), &damage));
                break "a record that is damaged inside".to_owned();
            }
        };
        let ops = match ops.is_empty() {
            true => vec![Inspection::leaf("filler", "to the end of the ring")],
            false => ops.iter().map(operation).collect(),
        };
        parts.push(Inspection::leaf(format!("record {}", at.lsn), value).with(ops));
        at = header.next();
    };
    let end = Inspection::leaf("end", format!("{}: {ended}", at.lsn));
    let count = parts.len();
    parts.push(end);
    Inspection::leaf("log", format!("{count} records")).with(parts)
}

fn operation(op: &Op) -> Inspection {
    match op {
        Op::FileExtend { number, legs } => Inspection::leaf(
            "op",
            format!("FileExtend {{ number: {number}, legs: {} }}", legs.len()),
        ),
        other => Inspection::leaf("op", format!("{other:?}")),
    }
}

fn state_parts(state: &GroupState) -> Vec<Inspection> {
    let disks = state.disks.iter().map(|(no, d)| {
        let value = format!(
            "{no} {} in {}, {} bytes, {:?}, misses {:?}",
            d.name, d.failgroup, d.bytes, d.status, d.stale
        );
        Inspection::leaf("disk", value)
    });
    let files = state.files.values().map(|f| {
        let written: u32 = f.pieces.iter().map(|p| p.count_ones()).sum();
        let name = state.names.path_of(crate::names::FileNo(f.number));
        let name = name.map(|parts| {
            let parts: Vec<&str> = parts.iter().map(|p| p.as_str()).collect();
            parts.join("/")
        });
        let value = format!(
            "{}.{} {} {} bytes, {} extents of {} copies, {written} pieces written{}",
            f.number,
            f.incarnation,
            name.as_deref().unwrap_or("(no name)"),
            f.size,
            f.extents(),
            f.attributes.copies,
            if f.temporary { ", temporary" } else { "" },
        );
        Inspection::leaf("file", value)
    });
    let attributes = state.attributes.iter();
    vec![
        Inspection::leaf("epoch", state.epoch),
        Inspection::leaf("clean", state.clean),
        Inspection::leaf("metadata disks", format!("{:?}", state.members)),
        Inspection::leaf("next file", state.next_file),
        Inspection::leaf("next incarnation", state.next_incarnation),
        Inspection::leaf("disks", state.disks.len()).with(disks.collect()),
        Inspection::leaf("directories", state.names.dir_count()),
        Inspection::leaf("attributes", state.attributes.len())
            .with(attributes.map(|(n, v)| Inspection::leaf(n, v)).collect()),
        Inspection::leaf("files", state.files.len()).with(files.collect()),
    ]
}

async fn dirty_log(device: &Arc<dyn Device>, label: &Label) -> Inspection {
    let mut parts = Vec::new();
    let mut regions = 0;
    for place in DIRTY_LOG {
        let length = DIRTY_LOG_BYTES as usize;
        let bytes = match device.read_at(Io::FOREGROUND, place, length).await {
            Ok(bytes) => bytes,
            Err(error) => {
                parts.push(Inspection::leaf(format!("place at {place}"), error));
                continue;
            }
        };
        for (number, block) in (0u16..).zip(bytes.chunks_exact(BLOCK)) {
            let name = format!("block {number} at {}", place + u64::from(number) * BLOCK_U64);
            match DirtyBlock::decode(block, label.group, number) {
                Err(Damage::Blank) => {}
                Err(damage) => parts.push(Inspection::damage(name, &damage)),
                Ok(b) => {
                    regions += b.entries.len();
                    let value = format!(
                        "generation {}, mount_id {:#018x}, {} regions",
                        b.generation,
                        b.mount_id,
                        b.entries.len()
                    );
                    let entries = b.entries.iter().map(|k| {
                        let value = format!("{}.{} {}", k.file, k.incarnation, k.index);
                        Inspection::leaf("region", value)
                    });
                    parts.push(Inspection::leaf(name, value).with(entries.collect()));
                }
            }
        }
    }
    let value = format!("{regions} regions in all blocks, older ones included");
    Inspection::leaf("dirty log", value).with(parts)
}

async fn checksums(device: &Arc<dyn Device>, label: &Label) -> Inspection {
    let au_size = u64::from(label.au_size);
    let bytes = label.disk_bytes.min(device.geometry().size);
    let areas = au_count(bytes, au_size).div_ceil(CHECKSUM_RUN_AUS);
    let mut parts = Vec::new();
    for area in 0..areas.min(CHECKSUM_AREAS_MAX) {
        let start = au_offset(area * CHECKSUM_RUN_AUS, au_size);
        let first = u64::from(area) * (au_size / BLOCK_U64);
        let (mut written, mut known) = (0u64, 0usize);
        let mut bad = Vec::new();
        for piece in (0..au_size).step_by(1 << 20) {
            let read = device.read_at(Io::FOREGROUND, start + piece, 1 << 20).await;
            let bytes = match read {
                Ok(bytes) => bytes,
                Err(error) => {
                    bad.push(Inspection::leaf(format!("at {}", start + piece), error));
                    continue;
                }
            };
            for (number, block) in (first + piece / BLOCK_U64..).zip(bytes.chunks_exact(BLOCK)) {
                match ChecksumBlock::decode(block, label.disk, number) {
                    Ok(b) => {
                        written += 1;
                        known += b.entries.iter().filter(|e| **e != UNKNOWN).count();
                    }
                    Err(Damage::Checksum) => {
                        let at = checksum_block_offset(number, au_size);
                        let name = format!("block {number} at {at}");
                        bad.push(Inspection::damage(name, &Damage::Checksum));
                    }
                    // Blank or somebody else's: never written by us.
                    Err(_) => {}
                }
            }
        }
        let value = format!("{written} blocks written, {known} checksums known");
        parts.push(Inspection::leaf(format!("area at {start}"), value).with(bad));
    }
    let value = match areas > CHECKSUM_AREAS_MAX {
        true => format!("the first {CHECKSUM_AREAS_MAX} of {areas} areas"),
        false => format!("{areas} areas"),
    };
    Inspection::leaf("checksums", value).with(parts)
}
