//! Long values: texts and bytes too long for their rows, in pages of their own. A value that fits one page is
//! in that page; a longer one is in several, listed by directory pages before them.

use cellar_page::{HEADER_BYTES, Kind, PAGE_BYTES, PageRef};

/// The longest value, in bytes.
pub const LONG_BYTES_MAX: usize = 64 << 20;

/// Bytes between the header of a page and what it holds: the next directory page, and how much it holds.
const HEAD_BYTES: usize = 8;

/// Bytes of a value in a page.
pub(crate) const PIECE_BYTES: usize = PAGE_BYTES - HEADER_BYTES - HEAD_BYTES;

/// Pages that a directory page names.
const NAMED_MAX: usize = PIECE_BYTES / 4;

/// The level of a directory page; a piece of the value has level 0.
const DIRECTORY: u32 = 1;

/// What one of its pages holds.
pub(crate) enum Part<'a> {
    Piece(&'a [u8]),
    /// The numbers of pages, and the next directory page.
    Directory(Vec<u32>, Option<u32>),
}

fn directories(pieces: usize) -> usize {
    if pieces > 1 { pieces.div_ceil(NAMED_MAX) } else { 0 }
}

/// How many pages a value of so many bytes takes.
pub(crate) fn pages_for(bytes: usize) -> usize {
    let pieces = bytes.div_ceil(PIECE_BYTES).max(1);
    directories(pieces) + pieces
}

/// What is written into each of its pages: the page, its level, and the bytes behind its header. The first
/// page is the one that the row names.
pub(crate) fn contents<'a>(
    pages: &'a [u32],
    value: &'a [u8],
) -> impl Iterator<Item = (u32, u32, Vec<u8>)> + 'a {
    let count = directories(value.len().div_ceil(PIECE_BYTES).max(1));
    let (directories, pieces) = pages.split_at(count);
    let named = directories.iter().enumerate().map(move |(at, page)| {
        let next = directories.get(at + 1).copied().unwrap_or(0);
        let names = &pieces[at * NAMED_MAX..pieces.len().min((at + 1) * NAMED_MAX)];
        let names: Vec<u8> = names.iter().flat_map(|page| page.to_le_bytes()).collect();
        (*page, DIRECTORY, body(next, names.len() / 4, &names))
    });
    let cut = pieces.iter().enumerate().map(move |(at, page)| {
        let piece = &value[at * PIECE_BYTES..value.len().min((at + 1) * PIECE_BYTES)];
        (*page, 0, body(0, piece.len(), piece))
    });
    named.chain(cut)
}

fn body(next: u32, count: usize, bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(HEAD_BYTES + bytes.len());
    body.extend_from_slice(&next.to_le_bytes());
    body.extend_from_slice(&(count as u32).to_le_bytes());
    body.extend_from_slice(bytes);
    body
}

/// What a page of a long value of this table holds; `None`: it is no such page.
pub(crate) fn part(page: PageRef<'_>, table: u32) -> Option<Part<'_>> {
    if page.kind() != Some(Kind::Overflow) || page.owner() != table {
        return None;
    }
    let (next, rest) = page.bytes()[HEADER_BYTES..].split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let count = u32::from_le_bytes(*count) as usize;
    if page.level() != DIRECTORY {
        return rest.get(..count).map(Part::Piece);
    }
    let names = rest.get(..count.checked_mul(4)?)?.chunks_exact(4);
    let pages = names.map(|name| u32::from_le_bytes([name[0], name[1], name[2], name[3]]));
    let next = u32::from_le_bytes(*next);
    Some(Part::Directory(pages.collect(), Some(next).filter(|next| *next > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellar_page::{PageMut, Raw};

    #[test]
    fn a_value_is_cut_and_read() {
        for length in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 2035 * PIECE_BYTES] {
            let value: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
            let pages: Vec<u32> = (0..pages_for(length) as u32).map(|at| 100 + at * 3).collect();
            let mut written = std::collections::BTreeMap::new();
            for (number, level, body) in contents(&pages, &value) {
                let mut raw: Raw = [0; PAGE_BYTES];
                let mut page = PageMut::format(&mut raw, 1, number, Kind::Overflow, 9);
                page.set_level(level);
                page.write(HEADER_BYTES, &body);
                written.insert(number, raw);
            }
            assert_eq!(written.len(), pages.len(), "each page is used");
            let (mut read, mut next) = (Vec::new(), Some(100));
            while let Some(number) = next.take() {
                match part(PageRef::new(&written[&number]), 9) {
                    Some(Part::Piece(piece)) => read.extend_from_slice(piece),
                    Some(Part::Directory(pages, behind)) => {
                        for page in pages {
                            let Some(Part::Piece(piece)) = part(PageRef::new(&written[&page]), 9)
                            else {
                                panic!("a piece")
                            };
                            read.extend_from_slice(piece);
                        }
                        next = behind;
                    }
                    None => panic!("a part"),
                }
            }
            assert!(read == value, "{length} bytes");
            assert!(part(PageRef::new(&written[&100]), 8).is_none(), "another table's");
        }
    }
}
