//! Files of former disks that stay after the disks have left their group, and the advice on what to do
//! with them.

use std::collections::BTreeMap;

use crate::commands;
use crate::database::Database;

/// Disks that are files: group and name, and where they are.
pub(super) type Files = BTreeMap<(String, String), std::path::PathBuf>;

/// The disks of mounted groups that are files and not about to leave.
pub(super) fn members(database: &Database, groups: &[String]) -> Files {
    let mut files = Files::new();
    for mounted in groups.iter().filter_map(|name| database.group(name).ok()) {
        for disk in mounted.group.disks().into_iter().filter(|disk| !disk.status.is_leaving()) {
            let open = disk.path.as_deref().and_then(|path| mounted.disks.find(path));
            if let Some(open) = open.filter(|open| open.below.is_file) {
                files.insert((mounted.group.name().to_owned(), disk.name), open.path.clone());
            }
        }
    }
    files
}

/// What to report about those of `before` that are no longer members, or soon will not be.
pub(super) fn told(database: &Database, groups: &[String], before: &Files) -> Vec<String> {
    let after = members(database, groups);
    let dir = database.directory().path();
    let gone = before.iter().filter(|(disk, path)| !after.contains_key(*disk) && path.is_file());
    gone.map(|((group, name), path)| {
        let remove = commands::remove(path);
        match database.group(group).is_ok() {
            // By path: a disk that has left has no name.
            true => format!(
                "the file of {name} stays; to remove it when the disk has left: {} && {remove}",
                commands::wait_for_disk(dir, path)
            ),
            false => format!("the file of {name} stays; to remove it, in a shell: {remove}"),
        }
    })
    .collect()
}
