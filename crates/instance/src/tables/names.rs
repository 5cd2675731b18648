//! File names of segments, and the test for files of the system.
//!
//! `cellar/tables/orders_00c0ffee12345678_5f3a9c01-7d20be44.seg`: the table's name as far as a file
//! name allows it, its id, a mark of the database that made it, and a random number. A group may come
//! from another database: its segments are not ours to sweep.

use crate::catalog_file::{BEFORE_PATH, CATALOG_PATH, SPARE_PATH};
use crate::heap::HEAP_PATH;

/// Where segments are, in each group.
pub const TABLES_DIR: &str = "cellar/tables";

const ENDING: &str = ".seg";

/// Of a long table name so many bytes are kept: a file name has 255.
const READABLE_MAX: usize = 128;

/// The part of a table's name that a person recognises, and any group takes.
fn readable(table: &str) -> String {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let mut name: String = table.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    let cut = (0..=READABLE_MAX.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.truncate(cut.unwrap_or(0));
    name
}

/// The path of a segment of a table; `mark` tells the database, `number` is random.
pub(super) fn segment_path(table: &str, id: u64, mark: u32, number: u32) -> String {
    format!("{TABLES_DIR}/{}_{id:016x}_{mark:08x}-{number:08x}{ENDING}", readable(table))
}

/// Whether a path is one that [`segment_path`] makes in the database with this mark.
pub(super) fn is_segment_of(path: &str, mark: u32) -> bool {
    let parts = || {
        let name = path.strip_prefix(TABLES_DIR)?.strip_prefix('/')?.strip_suffix(ENDING)?;
        let (rest, last) = name.rsplit_once('_')?;
        let (_, id) = rest.rsplit_once('_')?;
        let (made_by, number) = last.split_once('-')?;
        Some((id, made_by, number))
    };
    let is_hex = |text: &str, digits: usize| {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        text.len() == digits && text.bytes().all(hex)
    };
    parts().is_some_and(|(id, made_by, number)| {
        is_hex(id, 16) && is_hex(number, 8) && made_by == format!("{mark:08x}")
    })
}

/// A path as the group reads it: without slashes that mean nothing.
pub(super) fn plain(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Whether `path`, as [`plain`] gives it, is `other` or a directory above it.
pub(super) fn holds(path: &str, other: &str) -> bool {
    other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path in a group is the system's, or a directory that holds what is the system's: the
/// catalog, or segments of columnar tables. Users read such files; they neither write over them nor
/// remove them. [`Tables::check_user_file`](super::Tables::check_user_file) also knows in which
/// group the catalog is, and says why not.
pub fn is_system_file(path: &str) -> bool {
    let path = plain(path);
    !path.is_empty()
        && ([CATALOG_PATH, SPARE_PATH, BEFORE_PATH, HEAP_PATH].iter().any(|own| holds(&path, own))
            || holds(&path, TABLES_DIR)
            || holds(TABLES_DIR, &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_table_name_makes_a_file_name_that_is_known_again() {
        for (table, begins) in [
            ("orders", "orders_"),
            ("Weird/Näme%", "Weird_Näme__"),
            ("..", "___"),
            ("a*b\n\0", "a_b___"),
            ("x_0123456789abcdef_00000007-1", "x_0123456789abcdef_00000007-1_"),
            (&"ü".repeat(500), &"ü".repeat(64)),
        ] {
            let path = segment_path(table, 7, 0xab, 9);
            let name = path.strip_prefix("cellar/tables/").unwrap();
            assert!(name.starts_with(begins), "{name}");
            assert!(name.len() <= 255 && !name.contains(['/', '*', '%']), "{name}");
            assert!(is_segment_of(&path, 0xab), "{path}");
            assert!(!is_segment_of(&path, 0xac), "made by another database: {path}");
        }
        for other in [
            "cellar/tables/notes.txt",
            "cellar/tables/a_0000000000000007_000000ab-0000000A.seg",
            "cellar/tables/a_07_000000ab-00000009.seg",
            "cellar/a_0000000000000007_000000ab-00000009.seg",
            "tables/a_0000000000000007_000000ab-00000009.seg",
        ] {
            assert!(!is_segment_of(other, 0xab), "{other}");
        }
    }

    #[test]
    fn files_of_the_system_are_known_however_they_are_written() {
        for path in [
            "cellar",
            "/cellar/",
            "cellar/catalog",
            "cellar//catalog",
            "cellar/catalog.next",
            "cellar/tables",
            "/cellar//tables/x.seg",
        ] {
            assert!(is_system_file(path), "{path}");
        }
        for path in ["", "/", "cell", "cellar2/x", "cellar/catalog2", "cellar/tables2", "x/cellar"]
        {
            assert!(!is_system_file(path), "{path}");
        }
    }
}
