//! Checks of a disk named on the command line before anything opens it: a fault is reported with a
//! remedy.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use cellar_io::shell;
use rustix::fs::Access;

use super::fault::Fault;

/// Checks a disk that is to be read, or also written. Nothing is opened.
///
/// # Errors
/// It does not exist, is of another kind, or may not be used; each with the next step.
pub fn look(path: &Path, write: bool) -> Result<Metadata, Fault> {
    let shown = path.display();
    let about = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => refuse(
            format!("{shown}: no such file or device"),
            "check the path; which disks there are: cellar disks".to_owned(),
        ),
        ErrorKind::PermissionDenied => refuse(
            format!("{shown}: permission denied on the way to it (you are {})", me()),
            "run as the owner of its directory, or let this user search it: chmod o+x".to_owned(),
        ),
        _ => refuse(format!("{shown}: {error}"), "check the path".to_owned()),
    })?;
    let kind = about.file_type();
    if kind.is_dir() {
        let disks = path.join("disks");
        let next = match disks.is_dir() {
            true => format!("name one of its disks: ls {}", shell::path(&disks)),
            false => "name a file in it, or a device: cellar disks shows which".to_owned(),
        };
        let text = format!("{shown} is a directory; a disk is a regular file or a block device");
        return Err(refuse(text, next));
    }
    if !kind.is_file() && !kind.is_block_device() {
        return Err(refuse(
            format!("{shown} is neither a regular file nor a block device"),
            "name one that is: cellar disks shows devices".to_owned(),
        ));
    }
    let access = if write { Access::READ_OK | Access::WRITE_OK } else { Access::READ_OK };
    let at = rustix::fs::CWD;
    if rustix::fs::accessat(at, path, access, rustix::fs::AtFlags::EACCESS).is_err() {
        return Err(denied(path, &about, &me()));
    }
    Ok(about)
}

/// Whether this user can create something in a directory.
///
/// # Errors
/// Its owner, and the user that lacks permission.
pub fn may_make_in(dir: &Path) -> Result<(), Fault> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    let at = rustix::fs::CWD;
    let shown = dir.display();
    match rustix::fs::accessat(at, dir, access, rustix::fs::AtFlags::EACCESS) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::ROFS) => {
            return Err(Fault::failed(format!(
                "CELLAR-70110: nothing can be made in {shown}: its file system is mounted \
                 read-only\nNext: choose a directory of another file system"
            )));
        }
        Err(_) => {}
    }
    let me = me();
    let whose = std::fs::metadata(dir).map(|about| whose(&about)).unwrap_or_default();
    Err(Fault::failed(format!(
        "CELLAR-70110: nothing can be made in {shown}: {whose}; you are {me}\nNext: choose a \
         directory that {me} may write, or as its owner: chown {me} {}",
        shell::path(dir)
    )))
}

/// Free bytes of the file system below `path`.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Owner and permissions.
fn whose(about: &Metadata) -> String {
    let owner = name_of("/etc/passwd", about.uid());
    let group = name_of("/etc/group", about.gid());
    format!("owner {owner}:{group}, mode {:o}", about.mode() & 0o7777)
}

fn refuse(text: String, next: String) -> Fault {
    Fault::failed(format!("CELLAR-15025: {text}\nNext: {next}"))
}

/// The owner and permissions, and the command that gives it to `user`.
fn denied(path: &Path, about: &Metadata, user: &str) -> Fault {
    let owner = name_of("/etc/passwd", about.uid());
    let shown = path.display();
    let whose = whose(about);
    let text = format!("CELLAR-15025: {shown}: permission denied: {whose}; you are {user}");
    if !about.file_type().is_block_device() {
        return Fault::failed(format!(
            "{text}\nNext: as {owner} or root: chown {user} {}",
            shell::path(path)
        ));
    }
    // The kernel's name; names in /dev/disk/by-id are links to it.
    let node = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let kernel = node.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    Fault::failed(format!("{text}\n{}", udev_advice(&kernel, user)))
}

fn udev_advice(kernel: &str, user: &str) -> String {
    format!(
        "Next: as root put this line into /etc/udev/rules.d/99-cellar.rules, then run: udevadm \
         trigger\n  SUBSYSTEM==\"block\", KERNEL==\"{kernel}\", OWNER=\"{user}\", MODE=\"0660\""
    )
}

/// The user that this process runs as.
fn me() -> String {
    name_of("/etc/passwd", rustix::process::geteuid().as_raw())
}

/// The name of a number in `/etc/passwd` or `/etc/group`; the number itself if there is none.
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

    fn told(path: &str) -> String {
        look(Path::new(path), false).map(|_| String::new()).unwrap_or_else(|f| f.to_string())
    }

    #[test]
    fn what_is_no_disk_is_told_with_its_path_and_what_helps() {
        assert!(told("/nosuch/disk").contains("/nosuch/disk: no such file or device"));
        assert!(told("/tmp").contains("is a directory"), "{}", told("/tmp"));
        assert!(told("/dev/null").contains("neither"), "{}", told("/dev/null"));
        for path in ["/nosuch/disk", "/tmp", "/dev/null"] {
            assert!(told(path).contains("\nNext: "), "{}", told(path));
        }
    }

    #[test]
    fn who_may_not_use_it_learns_whose_it_is_and_the_line_that_helps() {
        let about = std::fs::metadata("/etc/passwd").unwrap();
        let text = denied(Path::new("/etc/passwd"), &about, "ann").to_string();
        assert!(text.contains("/etc/passwd: permission denied: owner root:root"), "{text}");
        assert!(text.contains("chown ann /etc/passwd"), "{text}");
        let rule = udev_advice("sdb", "ann");
        assert!(rule.contains("KERNEL==\"sdb\", OWNER=\"ann\", MODE=\"0660\""), "{rule}");
        assert_eq!(name_of("/etc/passwd", 4_000_000_000), "4000000000");
    }
}
