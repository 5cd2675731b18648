//! Commands that notices and errors offer, quoted for a shell.

use std::path::Path;

use cellar_io::shell;

/// `rm PATH`.
pub fn remove(path: &Path) -> String {
    format!("rm {}", shell::path(path))
}

/// A command of `cellar asm` in the database at `dir`, `words` as they are.
pub fn asm(dir: &Path, words: &str) -> String {
    format!("cellar asm {} {words}", shell::path(dir))
}

/// `cellar asm DIR lsdsk --wait PATH`, which ends when that disk has left.
pub fn wait_for_disk(dir: &Path, path: &Path) -> String {
    asm(dir, &format!("lsdsk --wait {}", shell::path(path)))
}
