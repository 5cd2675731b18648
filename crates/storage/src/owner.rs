//! Ownership and permissions of a path, for messages about what this process may not open.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, StatxFlags, accessat, statx};
use rustix::io::Errno;

use crate::error::Error;

/// A path that may not be opened: which part of it refuses, its owner and mode, the user who asks, and
/// the command that helps.
pub(crate) fn denied(path: &Path, write: bool) -> Error {
    let shown = path.display();
    if write && accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS) == Err(Errno::ROFS) {
        let text = format!("open of {shown}: its file system is mounted read-only");
        return Error::new(15025, text).hint("mount it to be written: mount -o remount,rw");
    }
    if write && is_immutable(path) {
        // Nobody may write to it, not even the superuser.
        let text = format!("open of {shown}: it is marked as immutable, or append-only");
        let next = format!("as root: chattr -ia {}", cellar_io::shell::path(path));
        return Error::new(15025, text).hint(next).of_rights();
    }
    let at = refuses(path);
    let place = at.as_deref().unwrap_or(path);
    let me = me();
    let whose = whose(place);
    let (what, next) = match at.is_some() {
        true => {
            let folder = place.display();
            (
                format!("{folder} on the way to it is not for this user"),
                format!("as its owner or root: chmod o+x {folder}, or run as its owner"),
            )
        }
        false => {
            let wants = if write { "read and write" } else { "read" };
            (
                format!("this user may not {wants} it"),
                format!("as its owner or root: chown {me} {shown}; a udev rule keeps that"),
            )
        }
    };
    let text = format!("open of {shown}: permission denied: {what}: {whose}; you are {me}");
    Error::new(15025, text).hint(next).of_rights()
}

fn is_immutable(path: &Path) -> bool {
    const IMMUTABLE_OR_APPEND_ONLY: u64 = 0x10 | 0x20;
    let about = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS);
    about.is_ok_and(|about| {
        let attributes: u64 = about.stx_attributes.bits();
        attributes & IMMUTABLE_OR_APPEND_ONLY != 0
    })
}

/// The first directory on the way to it that this user may not search.
fn refuses(path: &Path) -> Option<PathBuf> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    let folders = above.into_iter().filter(|folder| !folder.as_os_str().is_empty());
    let mut shut = folders.filter(|folder| {
        let searched = accessat(CWD, *folder, Access::EXEC_OK, AtFlags::EACCESS);
        searched == Err(Errno::ACCESS)
    });
    shut.next().map(Path::to_owned)
}

/// Owner and rights of a path; nothing can be said where it cannot be looked at.
fn whose(path: &Path) -> String {
    match std::fs::metadata(path) {
        Err(_) => "its owner is not told".to_owned(),
        Ok(about) => {
            let owner = name_of("/etc/passwd", about.uid());
            let group = name_of("/etc/group", about.gid());
            format!("owner {owner}:{group}, mode {:o}", about.mode() & 0o7777)
        }
    }
}

/// The user that this process works as.
fn me() -> String {
    name_of("/etc/passwd", rustix::process::geteuid().as_raw())
}

/// What `/etc/passwd` or `/etc/group` calls a number; the number itself if it does not.
fn name_of(table: &str, number: u32) -> String {
    let text = std::fs::read_to_string(table).unwrap_or_default();
    let wanted = number.to_string();
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == wanted).then(|| name.to_owned())
    });
    named.unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_opened_is_told_with_its_owner() {
        let error = denied(Path::new("/etc/passwd"), true);
        assert_eq!(error.number(), 15025);
        let text = error.to_string();
        assert!(text.contains("/etc/passwd: permission denied"), "{text}");
        assert!(text.contains("owner root:root, mode 644; you are "), "{text}");
        assert!(text.contains("\nNext: as its owner or root: chown "), "{text}");
    }
}
