//! Users of a disk, from `/proc`: mounted file systems and swap.

use std::path::{Path, PathBuf};

/// One line of `/proc/self/mountinfo`.
pub(crate) struct Mount {
    /// The number of the file system's device, which may be anonymous.
    pub(crate) number: u64,
    pub(crate) point: PathBuf,
    pub(crate) source: PathBuf,
}

/// All mounts that this process sees.
pub(crate) fn mounts() -> Vec<Mount> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<Mount> {
    // "36 35 98:0 /root /mount/point options tags - type source options"
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(2);
    let (major, minor) = front.next()?.split_once(':')?;
    let point = front.nth(1)?;
    Some(Mount {
        number: libc::makedev(major.parse().ok()?, minor.parse().ok()?),
        point: unescaped(point).into(),
        source: unescaped(back.split(' ').nth(1)?).into(),
    })
}

/// Whether the kernel swaps to this path.
pub(super) fn is_swap(path: &Path) -> bool {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .any(|name| Path::new(&unescaped(name)) == path)
}

/// Blanks in `/proc` are written as octal, `\040`.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_understood() {
        let line = r"36 35 98:3 / /mnt/a\040b rw,noatime master:1 - ext3 /dev/sd\134x rw";
        let mount = parse_mount(line).unwrap();
        assert_eq!(mount.number, libc::makedev(98, 3));
        assert_eq!(mount.point, Path::new("/mnt/a b"));
        assert_eq!(mount.source, Path::new(r"/dev/sd\x"));
        assert!(parse_mount("nonsense").is_none() && parse_mount("").is_none());
        assert_eq!(unescaped(r"a\9\"), r"a\9\");
        assert_eq!(unescaped("a\\ü"), "a\\ü");
    }
}
