//! Disks given by the user: their properties, and whether the lab may write to them.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use cellar_diskgroup::on_disk::label::is_label;
use cellar_io::real::{DiskFacts, probe};
use cellar_io::shell;

use crate::error::LabError;

/// A disk that may be written to.
#[derive(Clone, Debug)]
pub struct Given {
    /// The path as given.
    pub path: PathBuf,
    pub(crate) facts: DiskFacts,
    /// The kernel's name for the device that it is, or that contains its file.
    pub(crate) block: Option<String>,
    /// The device that finally moves the bytes: for a loop device, the one below its file.
    pub(crate) bottom: Option<String>,
    pub(crate) is_file: bool,
}

impl Given {
    /// The known facts about a path, used or not.
    pub(crate) fn look(path: &Path) -> Result<Given, LabError> {
        let facts = probe(path, &[])?;
        let is_file = !std::fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
        let real = if is_file { facts.below.clone() } else { std::fs::canonicalize(path).ok() };
        let block = real.as_deref().and_then(last);
        let bottom = block.as_deref().map(bottom_of);
        Ok(Given { path: path.to_owned(), facts, block, bottom, is_file })
    }

    /// The bandwidth of its link in bytes a second, if that is a PCIe link that reports it.
    pub(crate) fn link(&self) -> Option<u64> {
        self.facts.path_to_disk.as_deref().and_then(link_bytes)
    }

    /// Usable bytes: a multiple of 4096.
    pub(crate) fn size(&self) -> u64 {
        self.facts.size - self.facts.size % 4096
    }

    /// Checks that this many bytes fit.
    ///
    /// # Errors
    /// They do not.
    pub(crate) fn holds(&self, needed: u64) -> Result<(), LabError> {
        match self.size() >= needed {
            true => Ok(()),
            false => Err(LabError::Small { path: self.path.clone(), size: self.size(), needed }),
        }
    }

    /// A description of its contents; whether it is in a disk group.
    fn content(&self) -> Result<(Vec<String>, bool), LabError> {
        let mut content = self.facts.content();
        let ends = ends(&self.path, self.facts.size)
            .map_err(|source| LabError::Scratch { path: self.path.clone(), source })?;
        // Two labels at the start and two at the end: one of them is enough.
        let end = ends.len();
        let slots = [0, 64 << 10, end.saturating_sub(128 << 10), end.saturating_sub(64 << 10)];
        let of_group = slots.iter().any(|at| ends.get(*at..).is_some_and(is_label));
        if of_group {
            content.push("it is a disk of a Cellar group".to_owned());
        } else if content.is_empty() && self.is_file && ends.iter().any(|byte| *byte != 0) {
            content.push("its first or last MiB is not zeros".to_owned());
        }
        Ok((content, of_group))
    }
}

/// Checks the given disks, before anything is written: by the same rules as `cellar init`.
///
/// # Errors
/// A disk in use, a non-empty one whose serial number is not in `erase`, or one given twice; a
/// serial number that none of them has.
pub fn check(paths: &[PathBuf], erase: &[String]) -> Result<Vec<Given>, LabError> {
    let disks = paths.iter().map(|p| Given::look(p)).collect::<Result<Vec<_>, _>>()?;
    let serial = |disk: &Given| if disk.is_file { None } else { disk.facts.serial.clone() };
    for (i, disk) in disks.iter().enumerate() {
        let real = |d: &Given| std::fs::canonicalize(&d.path).ok();
        if let Some(other) = disks[..i].iter().find(|other| real(other) == real(disk)) {
            let (one, two) = (other.path.display(), disk.path.display());
            return Err(LabError::Twice(format!("{one} and {two}")));
        }
    }
    for given in erase {
        if !disks.iter().any(|disk| serial(disk).as_ref() == Some(given)) {
            let known: Vec<String> = disks.iter().filter_map(serial).collect();
            return Err(LabError::Serial { given: given.clone(), known });
        }
    }
    for disk in &disks {
        let shown = disk.path.display();
        let users = disk.facts.users();
        if !users.is_empty() {
            return Err(LabError::Taken {
                number: 15025,
                text: format!("disk {shown} is in use: {}", users.join(", ")),
                next: "release it first, or name another disk: cellar disks".to_owned(),
            });
        }
        let (content, of_group) = disk.content()?;
        if content.is_empty() || serial(disk).is_some_and(|s| erase.contains(&s)) {
            continue;
        }
        let next = match serial(disk) {
            Some(serial) => format!("name another disk; --erase {serial} gives up what is on this"),
            None => without_serial(disk, of_group),
        };
        let text = format!("disk {shown} is not empty: {}", content.join(", "));
        return Err(LabError::Taken { number: 15033, text, next });
    }
    Ok(disks)
}

/// The advice for a disk without a serial number for `--erase`.
fn without_serial(disk: &Given, of_group: bool) -> String {
    let path = shell::path(&disk.path);
    if of_group {
        return format!(
            "name another disk; if nobody needs that group, see what would be lost: cellar disks \
             --release {path}"
        );
    }
    match disk.is_file {
        // Without its path, which may be longer than a line.
        true => {
            "name another file, or remove this one if nobody needs it; a new one is made with: \
                 truncate -s 4G disk1"
                .to_owned()
        }
        false => format!("name another disk; if nobody needs what is on it: wipefs -a {path}"),
    }
}

/// The first and the last MiB of a disk, concatenated.
fn ends(path: &Path, size: u64) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(1 << 20).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(size.saturating_sub(1 << 20)))?;
    file.take(1 << 20).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn last(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// The whole disk that contains a block device, through loop devices and the files below them.
fn bottom_of(block: &str) -> String {
    let mut name = block.to_owned();
    // Stacked loop devices end soon; a cycle of them must not cause a hang.
    for _ in 0..8 {
        let class = Path::new("/sys/class/block").join(&name);
        let Ok(own) = std::fs::canonicalize(&class) else { break };
        if own.join("partition").exists()
            && let Some(disk) = own.parent().and_then(last)
        {
            name = disk;
            continue;
        }
        let Ok(file) = std::fs::read_to_string(own.join("loop/backing_file")) else { break };
        let below = probe(Path::new(file.trim()), &[]).ok().and_then(|f| f.below);
        match below.as_deref().and_then(last) {
            Some(below) => name = below,
            None => break,
        }
    }
    name
}

/// Bytes a second of the PCIe link of a function in `/sys`; `None` if it has none or does not
/// report it.
fn link_bytes(function: &Path) -> Option<u64> {
    let word = |name| std::fs::read_to_string(function.join(name)).ok();
    of_link(&word("current_link_speed")?, &word("current_link_width")?)
}

/// `8.0 GT/s PCIe` with this many lanes.
fn of_link(speed: &str, width: &str) -> Option<u64> {
    let transfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let lanes: f64 = width.trim().parse().ok()?;
    // Up to 5 GT/s 8 bits are encoded as 10, later 128 as 130.
    let coded = if transfers <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    let bytes = transfers * 1e9 * coded * lanes / 8.0;
    (bytes > 0.0).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_as_fast_as_its_lanes() {
        assert_eq!(of_link("8.0 GT/s PCIe\n", "4\n"), Some(3_938_461_538));
        assert_eq!(of_link("2.5 GT/s PCIe", "1"), Some(250_000_000));
        assert_eq!(of_link("Unknown", "0"), None);
    }
}
