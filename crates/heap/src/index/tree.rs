//! An index that is built bottom-up: cells come in order, and pages are written full.

use cellar_page::{HEADER_BYTES, PAGE_BYTES, SLOT_BYTES};

use super::edit::separator;
use super::{inner_cell, split_inner};

/// Bytes of cells and slots in a page: a tenth stays free for what comes later.
const FILL_BYTES: usize = (PAGE_BYTES - HEADER_BYTES) / 10 * 9;

/// Takes the cells of a page of this level; the number of the page.
pub(crate) trait Pages {
    /// Makes a page.
    fn put(&mut self, level: u32, cells: &[Vec<u8>]) -> u32;
}

/// The pages of one level, as far as they are not yet made.
#[derive(Default)]
struct Level {
    cells: Vec<Vec<u8>>,
    bytes: usize,
    /// The last cell of the last page that was made.
    before: Option<Vec<u8>>,
}

/// An index that is being built.
#[derive(Default)]
pub(crate) struct Tree {
    /// The levels, from the leaves up.
    levels: Vec<Level>,
}

/// The page that all others are below.
pub(crate) struct Root {
    pub level: u32,
    pub cells: Vec<Vec<u8>>,
}

impl Tree {
    /// Adds a leaf's cell, behind all others.
    pub fn add(&mut self, cell: Vec<u8>, pages: &mut impl Pages) {
        self.add_at(0, cell, pages);
    }

    fn add_at(&mut self, level: usize, cell: Vec<u8>, pages: &mut impl Pages) {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        let more = cell.len() + SLOT_BYTES;
        if self.levels[level].bytes + more > FILL_BYTES && self.levels[level].cells.len() > 1 {
            self.close(level, pages);
        }
        let at = &mut self.levels[level];
        at.bytes += more;
        at.cells.push(cell);
    }

    /// Makes a page of the cells that a level has, and adds its entry to the level above.
    fn close(&mut self, level: usize, pages: &mut impl Pages) {
        let at = &mut self.levels[level];
        let cells = std::mem::take(&mut at.cells);
        at.bytes = 0;
        let Some(last) = cells.last().cloned() else { return };
        let page = pages.put(level as u32, &cells);
        let least = match at.before.replace(last) {
            None => Vec::new(),
            Some(before) if level == 0 => separator(&before, &cells[0]),
            Some(_) => split_inner(&cells[0]).map_or(Vec::new(), |(least, _)| least.to_vec()),
        };
        self.add_at(level + 1, inner_cell(&least, page), pages);
    }

    /// Makes the last page of each level, but for the root.
    pub fn finish(mut self, pages: &mut impl Pages) -> Root {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.close(level, pages);
            level += 1;
        }
        let cells = self.levels.pop().map_or(Vec::new(), |level| level.cells);
        Root { level: level as u32, cells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made(Vec<(u32, Vec<Vec<u8>>)>);

    impl Pages for Made {
        fn put(&mut self, level: u32, cells: &[Vec<u8>]) -> u32 {
            self.0.push((level, cells.to_vec()));
            self.0.len() as u32 - 1
        }
    }

    /// All cells of leaves below these, each between the least of its way and the next.
    fn walk(made: &Made, level: u32, cells: &[Vec<u8>], out: &mut Vec<Vec<u8>>) {
        if level == 0 {
            out.extend_from_slice(cells);
            return;
        }
        for cell in cells {
            let (least, page) = split_inner(cell).expect("an inner cell");
            let (below, cells) = &made.0[page as usize];
            assert_eq!(*below, level - 1);
            let from = out.len();
            walk(made, *below, cells, out);
            assert!(out[from..].iter().all(|cell| &cell[..] >= least));
            assert!(out[..from].iter().all(|cell| least.is_empty() || &cell[..] < least));
        }
    }

    #[test]
    fn all_cells_are_below_the_root_in_order() {
        for (count, length) in
            [(0, 10), (1, 10), (300, 20), (5_000, 20), (3_000, 1_980), (200_000, 12)]
        {
            let cells = (0..count as u64).map(|number| {
                let mut cell = number.to_be_bytes().to_vec();
                cell.resize(length.max(8), 7);
                cell
            });
            let (mut tree, mut made) = (Tree::default(), Made(Vec::new()));
            cells.clone().for_each(|cell| tree.add(cell, &mut made));
            let root = tree.finish(&mut made);
            for (_, cells) in &made.0 {
                let bytes: usize = cells.iter().map(|cell| cell.len() + SLOT_BYTES).sum();
                assert!(bytes <= PAGE_BYTES - HEADER_BYTES);
            }
            let mut out = Vec::new();
            walk(&made, root.level, &root.cells, &mut out);
            assert!(out.iter().eq(cells.collect::<Vec<_>>().iter()), "{count} cells");
        }
    }
}
