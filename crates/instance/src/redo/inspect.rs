//! What is in a file of the log, an archive, or a control file: for `cellar inspect`.

use cellar_redo::inspect::{Inspection, blocks, describe};
use cellar_redo::on_disk::HEADER_BYTES;
use cellar_redo::on_disk::header::GroupHeader;

use super::control::Content;

/// Describes bytes that begin like something of the redo log; `None` for anything else.
pub fn inspect(bytes: &[u8]) -> Option<Inspection> {
    if bytes.starts_with(super::control::MAGIC) || bytes.get(..8).is_some_and(is_blank) {
        let content = Content::newest(bytes).ok()?;
        let leaf = |name: &str, value: String| Inspection {
            name: name.to_owned(),
            value,
            parts: Vec::new(),
        };
        let notes = &content.notes;
        let dest = match notes.archive_dest.as_str() {
            "" => "not archived",
            dest => dest,
        };
        let parts = vec![
            leaf("why the block size", notes.block_size_reason.clone()),
            leaf("archives", dest.to_owned()),
            leaf("groups written to their end", notes.history.len().to_string()),
            cellar_redo::inspect::control(&content.redo),
        ];
        let value = format!("generation {}", content.generation);
        return Some(Inspection { parts, ..leaf("control file of the redo log", value) });
    }
    let mut described = describe(bytes)?;
    let head = bytes.get(..HEADER_BYTES).unwrap_or_default();
    if let Ok(header) = GroupHeader::decode(head) {
        let end = bytes.len().saturating_sub(HEADER_BYTES);
        let inside = bytes.get(HEADER_BYTES..end).unwrap_or_default();
        let block = header.block_size as usize;
        described.parts.push(blocks(inside, header.database, block, header.first));
    }
    Some(described)
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
