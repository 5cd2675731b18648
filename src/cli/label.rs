//! The label of a disk, which names its disk group: read like any file, while others may use the disk.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use cellar_diskgroup::on_disk::Damage;
use cellar_diskgroup::on_disk::layout::{BLOCK, DISK_BYTES_MIN};
use cellar_diskgroup::{Label, LabelScan, LabelStatus, label_offsets};

/// The contents of a disk's label area.
#[derive(Clone, Debug)]
pub enum Owner {
    /// A member of a group.
    Group(Box<Label>),
    /// One that has left its group for good.
    Former(Box<Label>),
    /// An invalid label.
    Unknown(String),
}

/// The owner of a disk of `size` bytes; `None` if it has no label, or cannot be read.
pub fn owner(path: &Path, size: u64) -> Option<Owner> {
    if size < DISK_BYTES_MIN {
        return None;
    }
    let file = File::open(path).ok()?;
    let read = |at: u64| {
        let mut block = [0; BLOCK];
        file.read_exact_at(&mut block, at).map_err(|_| Damage::Truncated)?;
        Label::decode(&block)
    };
    let slots = label_offsets(size).into_iter().map(|at| (at, read(at))).collect();
    let scan = LabelScan { slots };
    if let Some(label) = scan.newest() {
        let label = Box::new(label.clone());
        return Some(match label.status {
            LabelStatus::Former => Owner::Former(label),
            LabelStatus::Member | LabelStatus::Creating => Owner::Group(label),
        });
    }
    match scan.damage()? {
        damage @ (Damage::Version { .. } | Damage::Features { .. } | Damage::Checksum) => {
            Some(Owner::Unknown(damage.to_string()))
        }
        _ => None,
    }
}

impl Owner {
    /// A description of the disk; `None` if nothing of a group is kept on it any more.
    pub fn content(&self) -> Option<String> {
        match self {
            Owner::Group(label) if label.status == LabelStatus::Creating => Some(format!(
                "it was to be {} of disk group {}, whose creation was cut off",
                label.disk_name, label.group_name
            )),
            Owner::Group(label) => {
                Some(format!("it is {} of disk group {}", label.disk_name, label.group_name))
            }
            Owner::Unknown(why) => Some(format!("it has a label of Cellar, but {why}")),
            Owner::Former(_) => None,
        }
    }

    /// The label, if it can be read.
    pub fn label(&self) -> Option<&Label> {
        match self {
            Owner::Group(label) | Owner::Former(label) => Some(label),
            Owner::Unknown(_) => None,
        }
    }
}
