//! The lab from outside.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod au_size;
#[cfg(feature = "real")]
mod here;
#[cfg(feature = "real")]
mod io_modes;
mod model;
mod redo_block_size;
mod redo_media;
mod smart_scan;

/// Whether a text fits a terminal of 80 columns; a path stays in one piece, however long it is.
fn fits(text: &str) -> bool {
    let long = |line: &str| line.split_whitespace().any(|word| word.chars().count() > 60);
    text.lines().all(|line| line.chars().count() <= 80 || long(line))
}
