//! Inspection of bytes of the log, for people and for tools: as text with `Display`, as values with
//! serde. Takes any bytes; a damaged structure is shown as damaged, with the reason.

use std::fmt;

use crate::lsn::{Abn, Lsn};
use crate::on_disk::archive::{ARCHIVE_HEADER, ArchiveHeader, PIECE_HEADER, Piece, restore};
use crate::on_disk::block::{BlockHeader, HEARTBEAT, INCARNATION_START, SWITCH};
use crate::on_disk::control::ControlData;
use crate::on_disk::header::{GroupHeader, MediumState, Quorum};
use crate::on_disk::record::{RECORD_HEADER, RecordHeader};
use crate::on_disk::{Damage, DatabaseId, Fields};

/// A name, perhaps a value, and what belongs below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Inspection {
    /// What it is.
    pub name: String,
    /// Its value; empty for a heading.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Its parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Inspection>,
    /// Whether it is damaged, apart from its parts.
    pub damaged: bool,
}

impl Inspection {
    fn leaf(name: impl Into<String>, value: impl ToString) -> Inspection {
        Inspection { name: name.into(), value: value.to_string(), ..Inspection::default() }
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
        self.parts.iter().find_map(|part| part.find(name))
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = depth * 2;
        match self.value.is_empty() {
            true => writeln!(f, "{:indent$}{}", "", self.name)?,
            false => writeln!(f, "{:indent$}{}: {}", "", self.name, self.value)?,
        }
        self.parts.iter().try_for_each(|part| part.print(f, depth + 1))
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

fn state(state: MediumState) -> String {
    match state {
        MediumState::Active => "active".to_owned(),
        MediumState::Failed { since } => format!("failed since block {since}"),
    }
}

fn quorum(quorum: Quorum) -> String {
    match quorum {
        Quorum::Auto => "auto".to_owned(),
        Quorum::Of(k) => k.to_string(),
    }
}

/// Describes a copy of a group header: the first or the last 4,096 bytes of a log file.
pub fn header(bytes: &[u8]) -> Inspection {
    let name = "log header";
    let header = match GroupHeader::decode(bytes) {
        Ok(header) => header,
        Err(damage) => return Inspection::damage(name, &damage),
    };
    let h = &header;
    let media = h.media.iter().enumerate();
    let media = media.map(|(number, m)| Inspection::leaf(format!("medium {number}"), state(*m)));
    let value = format!("group {}, medium {}, sequence {}", h.group, h.medium, h.sequence);
    Inspection::leaf(name, value).with(vec![
        Inspection::leaf("database", h.database),
        Inspection::leaf("incarnation", h.incarnation),
        Inspection::leaf("first block", h.first),
        Inspection::leaf("blocks", h.capacity),
        Inspection::leaf("block size", h.block_size),
        Inspection::leaf("size", h.size),
        Inspection::leaf("first block of the sequence before", h.previous_first),
        Inspection::leaf("quorum", quorum(h.quorum)),
        Inspection::leaf("generation", h.generation),
        Inspection::leaf("media", h.media.len()).with(media.collect()),
    ])
}

/// Describes control data.
pub fn control(bytes: &[u8]) -> Inspection {
    let name = "control data";
    let control = match ControlData::decode(bytes) {
        Ok(control) => control,
        Err(damage) => return Inspection::damage(name, &damage),
    };
    let c = &control;
    let media = c.media.iter().map(|m| Inspection::leaf(format!("\"{}\"", m.name), state(m.state)));
    let group = |g: &crate::on_disk::control::GroupEntry| {
        let value = match g.sequence {
            0 => format!("never written, {} bytes", g.size),
            sequence => format!(
                "sequence {sequence}, blocks {} to {}, {} bytes",
                g.first,
                g.first.0.saturating_add(g.capacity).saturating_sub(1),
                g.size
            ),
        };
        Inspection::leaf(format!("group {}", g.number), value)
    };
    let incarnation = |i: &crate::on_disk::control::Incarnation| {
        let value = format!("from block {}, behind CRC {:#010x}", i.first, i.chain);
        Inspection::leaf(format!("incarnation {}", i.number), value)
    };
    let clean = c.clean.map_or("no".to_owned(), |clean| format!("at block {}", clean.end));
    let archived = match c.archiving {
        true => format!("up to sequence {}", c.archived),
        false => "not".to_owned(),
    };
    Inspection::leaf(name, format!("generation {}", c.generation)).with(vec![
        Inspection::leaf("database", c.database),
        Inspection::leaf("block size", c.block_size),
        Inspection::leaf("quorum", quorum(c.quorum)),
        Inspection::leaf("checkpoint", c.checkpoint),
        Inspection::leaf("durable below block", c.durable),
        Inspection::leaf("archived", archived),
        Inspection::leaf("closed in order", clean),
        Inspection::leaf("confirmed incarnation", c.confirmed),
        Inspection::leaf("media", c.media.len()).with(media.collect()),
        Inspection::leaf("groups", c.groups.len()).with(c.groups.iter().map(group).collect()),
        Inspection::leaf("incarnations", c.incarnations.len())
            .with(c.incarnations.iter().map(incarnation).collect()),
    ])
}

/// Describes consecutive blocks of `database`, `block_size` bytes each; the first should be number
/// `first`. Runs of blocks that were never written are shown as one.
pub fn blocks(bytes: &[u8], database: DatabaseId, block_size: usize, first: Abn) -> Inspection {
    let mut parts: Vec<Inspection> = Vec::new();
    let mut whole = 0;
    let mut blank: Option<(u64, u64)> = None;
    let close = |blank: &mut Option<(u64, u64)>, parts: &mut Vec<Inspection>| {
        if let Some((from, to)) = blank.take() {
            parts.push(Inspection::leaf(format!("blocks {from} to {to}"), "never written"));
        }
    };
    for (index, bytes) in bytes.chunks(block_size.max(1)).enumerate() {
        let abn = first.0.saturating_add(index as u64);
        match BlockHeader::open(bytes, database) {
            Err(Damage::Blank) => blank.get_or_insert((abn, abn)).1 = abn,
            opened => {
                close(&mut blank, &mut parts);
                whole += u64::from(opened.is_ok());
                parts.push(block(abn, opened, bytes));
            }
        }
    }
    close(&mut blank, &mut parts);
    Inspection::leaf("blocks", format!("{whole} whole")).with(parts)
}

fn block(abn: u64, opened: Result<(BlockHeader, u32), Damage>, bytes: &[u8]) -> Inspection {
    let name = format!("block {abn}");
    let (header, crc) = match opened {
        Ok(opened) => opened,
        Err(damage) => return Inspection::damage(name, &damage),
    };
    let other = match header.abn.0 == abn {
        true => String::new(),
        false => format!("ANOTHER BLOCK, {}, ", header.abn),
    };
    let value = format!(
        "{other}incarnation {}, unit {} of {}, {} bytes used{}",
        header.incarnation,
        u32::from(header.unit_index) + 1,
        header.unit_blocks,
        header.used,
        flags(&header),
    );
    let mut parts = vec![
        Inspection::leaf("CRC", format!("{crc:#010x}, of the block before {:#010x}", header.chain)),
        Inspection::leaf("durable below block", header.durable),
    ];
    parts.extend(records(&header, bytes));
    Inspection::leaf(name, value).with(parts)
}

/// First and last of a unit follow from the place in it.
fn flags(header: &BlockHeader) -> String {
    let names =
        [(SWITCH, "switch"), (HEARTBEAT, "heartbeat"), (INCARNATION_START, "first of incarnation")];
    let set = names.into_iter().filter(|(flag, _)| header.is(*flag));
    set.map(|(_, name)| format!(", {name}")).collect()
}

/// The records whose headers lie in a block as a whole.
fn records(header: &BlockHeader, block: &[u8]) -> Vec<Inspection> {
    let mut records = Vec::new();
    let mut at = usize::from(header.first_record.unwrap_or(u16::MAX));
    let used = usize::from(header.used);
    while at + RECORD_HEADER <= used {
        let lsn = Lsn(header.abn.lsn().0 + at as u64);
        let name = format!("record at {lsn}");
        match RecordHeader::decode(block[..used].array(at)) {
            Ok(RecordHeader { length, kind, flags }) => {
                let value = format!("kind {kind}, flags {flags:#04x}, {length} bytes");
                records.push(Inspection::leaf(name, value));
                at += RECORD_HEADER + length as usize;
            }
            Err(damage) => {
                records.push(Inspection::damage(name, &damage));
                break;
            }
        }
    }
    records
}

/// Describes an archive.
pub fn archive(bytes: &[u8]) -> Inspection {
    let name = "archive";
    let header = match ArchiveHeader::decode(bytes) {
        Ok(header) => header,
        Err(damage) => return Inspection::damage(name, &damage),
    };
    let value = format!("sequence {}, {} bytes", header.sequence, bytes.len());
    let mut parts = vec![
        Inspection::leaf("database", header.database),
        Inspection::leaf("block size", header.block_size),
        Inspection::leaf("first block", header.first),
        Inspection::leaf("next sequence from block", header.end),
        Inspection::leaf("CRC of the block before", format!("{:#010x}", header.chain)),
    ];
    let mut at = ARCHIVE_HEADER;
    loop {
        let rest = &bytes[at..];
        match Piece::decode(rest) {
            Ok(Piece::Chunk(chunk)) => {
                let value = format!(
                    "{} blocks from {}, {} bytes, {} stored",
                    chunk.blocks, chunk.first, chunk.raw, chunk.stored
                );
                let name = format!("chunk {} at {at}", chunk.number);
                match chunk.unpack(rest) {
                    Err(damage) => {
                        parts.push(Inspection::damage(name, &damage));
                        break;
                    }
                    Ok(raw) => {
                        let blocks = unpacked(&raw, &header, chunk.first);
                        parts.push(Inspection::leaf(name, value).with(blocks));
                    }
                }
                at += PIECE_HEADER + chunk.stored as usize;
            }
            Ok(Piece::End(end)) => {
                let value = format!("{} chunks, {} blocks", end.chunks, end.blocks);
                parts.push(Inspection::leaf(format!("end at {at}"), value));
                if rest.len() > PIECE_HEADER {
                    let behind = format!("DAMAGED: {} bytes", rest.len() - PIECE_HEADER);
                    parts.push(Inspection::leaf("behind the end", behind).marked_damaged());
                }
                break;
            }
            Err(damage) => {
                parts.push(Inspection::damage(format!("piece at {at}"), &damage));
                break;
            }
        }
    }
    Inspection::leaf(name, value).with(parts)
}

fn unpacked(raw: &[u8], archive: &ArchiveHeader, first: Abn) -> Vec<Inspection> {
    let mut bytes = vec![0; archive.block_size as usize];
    let (mut rest, mut abn, mut parts) = (raw, first.0, Vec::new());
    while !rest.is_empty() {
        match restore(rest, &mut bytes) {
            Ok(used) => {
                parts.push(block(abn, BlockHeader::open(&bytes, archive.database), &bytes));
                rest = &rest[used..];
                abn = abn.saturating_add(1);
            }
            Err(damage) => {
                parts.push(Inspection::damage(format!("block {abn}"), &damage));
                break;
            }
        }
    }
    parts
}

/// Describes bytes that begin like a header, control data or an archive; `None` for anything else.
pub fn describe(bytes: &[u8]) -> Option<Inspection> {
    match bytes.get(..4)? {
        b"CLRH" => Some(header(bytes.get(..crate::on_disk::HEADER_BYTES).unwrap_or(bytes))),
        b"CLRC" => Some(control(bytes)),
        b"CLRA" => Some(archive(bytes)),
        _ => None,
    }
}
