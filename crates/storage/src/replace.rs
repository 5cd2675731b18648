//! Replacing a file of a directory as a whole.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Error, Result};

/// A name that is a link to something else is not opened: what is written would go there.
pub const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Replaces a file of a directory as a whole: after a crash it is old or new. The new content is written
/// to a file beside it that did not exist before, so that no link leads elsewhere.
///
/// # Errors
/// 70110; the old content stands.
pub fn replace_file(directory: &Path, name: &str, content: &[u8]) -> Result<()> {
    let shown = directory.join(name);
    let write = || -> std::io::Result<()> {
        let handle = File::open(directory)?;
        let inside = |name: &str| format!("/proc/self/fd/{}/{name}", handle.as_raw_fd());
        let beside = inside(&format!("{name}.new"));
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(0o600).custom_flags(NO_LINK).open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&beside, inside(name))?;
        handle.sync_all()
    };
    write().map_err(|error| Error::system("write", &shown, &error))
}
