//! Group identity: groups are told apart by what their labels say they are, not by name.

use std::collections::BTreeMap;
use std::path::Path;

use cellar_diskgroup::LabelStatus;
use cellar_diskgroup::on_disk::Uuid;

use super::Labelled;
use crate::error::{Error, NextStep, Result};
use crate::files::absolute;

/// Paths that a message lists for one group; the others are only counted.
const PATHS_SHOWN: usize = 4;

/// A group as the labels of its disks tell it.
pub(crate) struct FoundGroup {
    pub name: String,
    pub holds_catalog: bool,
    uuid: Uuid,
    /// Paths of the disks that say they are members, in order.
    members: Vec<String>,
}

impl FoundGroup {
    fn shown(&self) -> String {
        let mut text = self.members.iter().take(PATHS_SHOWN).cloned().collect::<Vec<_>>();
        if self.members.len() > PATHS_SHOWN {
            text.push(format!("{} more", self.members.len() - PATHS_SHOWN));
        }
        format!("{} on {}", self.uuid, text.join(", "))
    }

    fn is_below(&self, folder: &Path) -> bool {
        let folder = absolute(folder);
        self.members.iter().any(|path| Path::new(path).starts_with(&folder))
    }
}

/// The groups of the labels found, by name; each name and identity once. A group whose creation was never
/// finished counts only if no complete group has its name.
pub(crate) fn groups_of(labelled: &[Labelled]) -> Vec<FoundGroup> {
    let mut groups: BTreeMap<(String, Uuid), FoundGroup> = BTreeMap::new();
    let whole = |name: &str| {
        labelled.iter().any(|l| l.label.group_name == name && l.label.status == LabelStatus::Member)
    };
    for l in labelled.iter().filter(|l| l.label.status != LabelStatus::Former) {
        let label = &l.label;
        if label.status != LabelStatus::Member && whole(&label.group_name) {
            continue;
        }
        let key = (label.group_name.clone(), label.group);
        let group = groups.entry(key).or_insert_with(|| FoundGroup {
            name: label.group_name.clone(),
            holds_catalog: false,
            uuid: label.group,
            members: Vec::new(),
        });
        group.holds_catalog |= label.holds_catalog;
        group.members.push(absolute(&l.disk.path).to_string_lossy().into_owned());
    }
    groups.into_values().collect()
}

/// Refuses a name that two groups have: their disks must never be taken for one group's.
///
/// # Errors
/// 15030 with the disks of each.
pub(crate) fn check_one(name: &str, groups: &[FoundGroup]) -> Result<()> {
    let same: Vec<String> =
        groups.iter().filter(|g| g.name == name).map(FoundGroup::shown).collect();
    if same.len() < 2 {
        return Ok(());
    }
    let text = format!(
        "{} different disk groups are called \"{name}\": {}",
        same.len(),
        same.join("; and ")
    );
    Err(Error::new(15030, text).hint(
        NextStep::from(
            "have disk_string in cellar.toml find the disks of one of them only, and keep the disks \
             of the other out of ",
        )
        .directory()
        .then("/disks"),
    ))
}

/// The name of the group whose catalog is this database's: the only one that holds a catalog, or
/// the only such one with disks below `own`.
///
/// # Errors
/// 15063 if there is none, 15030 if that leaves more than one: no catalog, or that of another
/// database, would be taken for ours.
pub(crate) fn catalog_group(groups: &[FoundGroup], own: &Path) -> Result<String> {
    let holders: Vec<&FoundGroup> = groups.iter().filter(|g| g.holds_catalog).collect();
    let below: Vec<&FoundGroup> = holders.iter().copied().filter(|g| g.is_below(own)).collect();
    match (holders.as_slice(), below.as_slice()) {
        ([], _) => {
            let found: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
            let text = format!(
                "no disk of the group that holds the catalog was found, only of {}",
                found.join(", ")
            );
            Err(Error::new(15063, text)
                .hint("bring its disks back, or add their paths to disk_string in cellar.toml"))
        }
        ([one], _) | (_, [one]) => Ok(one.name.clone()),
        _ => {
            let shown: Vec<String> =
                holders.iter().map(|g| format!("{} {}", g.name, g.shown())).collect();
            let text = format!(
                "{} disk groups hold a catalog, and a database has one: {}",
                holders.len(),
                shown.join("; and ")
            );
            Err(Error::new(15030, text).hint(format!(
                "have disk_string in cellar.toml find the disks of this database only{}; those of \
                 another one are used through its own directory",
                moved_away(&below, own)
            )))
        }
    }
}

/// How files that lie among the disks of this database are taken from there: those of the smallest group,
/// which is told to be looked at first. Nothing where no file lies there.
fn moved_away(below: &[&FoundGroup], own: &Path) -> String {
    let Some(few) = below.iter().min_by_key(|group| group.members.len()) else {
        return String::new();
    };
    let folder = absolute(own);
    let files = few.members.iter().filter(|path| Path::new(path).starts_with(&folder));
    let files: Vec<String> = files.map(|path| cellar_io::shell::quoted(path)).collect();
    let above = cellar_io::shell::path(own.parent().unwrap_or(own));
    format!(", or, if {} is the other one, mv {} {above}", few.uuid, files.join(" "))
}

/// Refuses to make a group that would have the name of one that is found and not mounted.
///
/// # Errors
/// 15030 with the disks of that group that `requested` does not take.
pub(crate) fn check_free_name(
    name: &str,
    groups: &[FoundGroup],
    requested: &[String],
) -> Result<()> {
    for group in groups.iter().filter(|g| g.name == name) {
        if group.members.iter().all(|path| requested.contains(path)) {
            continue;
        }
        let text = format!("disk group name \"{name}\" is in use by {}", group.shown());
        return Err(Error::new(15030, text).hint(format!(
            "choose another name; that group is used after ALTER DISKGROUP {name} MOUNT"
        )));
    }
    Ok(())
}
