//! Inspection of a log file, an archive or a control file, for `cellar inspect`.

use cellar_redo::inspect::{Inspection, blocks, describe};
use cellar_redo::on_disk::HEADER_BYTES;
use cellar_redo::on_disk::header::GroupHeader;

use super::control::Content;

/// Describes bytes that begin like something of the redo log; `None` for anything else.
pub fn inspect(bytes: &[u8]) -> Option<Inspection> {
    if bytes.starts_with(super::control::MAGIC) || bytes.get(..8).is_some_and(is_blank) {
        let content = Content::newest(bytes).ok()?;
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
    let end = bytes.len().saturating_sub(HEADER_BYTES);
    let first = bytes.get(..HEADER_BYTES).unwrap_or_default();
    // A file of the log has a second header at its end, also when the first one has rotted.
    let second = bytes.get(end..).filter(|_| end >= HEADER_BYTES).unwrap_or_default();
    let headers = [GroupHeader::decode(first).ok(), GroupHeader::decode(second).ok()];
    let [is_first, is_second] = headers.each_ref().map(Option::is_some);
    let mut described = match (is_first, is_second) {
        (false, true) => {
            let mut described = describe(second)?;
            described.parts.insert(0, damaged("first header", "DAMAGED: this is the second"));
            described
        }
        _ => describe(bytes)?,
    };
    // The newer one tells where its blocks begin.
    let header = headers.into_iter().flatten().max_by_key(|header| header.generation);
    if let Some(header) = header {
        let inside = bytes.get(HEADER_BYTES..end).unwrap_or_default();
        let block = header.block_size as usize;
        described.parts.push(blocks(inside, header.database, block, header.first));
        if is_first && !is_second && end >= HEADER_BYTES {
            described.parts.insert(0, damaged("second header", "DAMAGED"));
        }
    }
    Some(described)
}

fn leaf(name: &str, value: String) -> Inspection {
    Inspection { name: name.to_owned(), value, ..Inspection::default() }
}

fn damaged(name: &str, value: &str) -> Inspection {
    Inspection { damaged: true, ..leaf(name, value.to_owned()) }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
