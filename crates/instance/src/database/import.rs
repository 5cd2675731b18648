//! `cellar init --import`: a directory for groups that are on disks already.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use super::{Database, OpenMode, absolute};
use crate::directory::Directory;
use crate::disks::Disks;
use crate::error::{Error, Result};
use crate::instance::Instance;
use crate::parameters::Scope;
use crate::parameters::definitions::DISK_STRING;

/// Opens what is on the disks at `paths` (or patterns) by a directory just
/// [created](Directory::create) and locked. A group that counts on a disk that is not among them is
/// refused, unless `force` names it: a mount would leave that disk out. On failure the caller removes
/// the directory.
///
/// # Errors
/// Nothing of a group is there, a disk is missing, or a group cannot be mounted.
pub async fn import(
    instance: Arc<Instance>,
    directory: Directory,
    disks: Arc<dyn Disks>,
    paths: &[String],
    force: Option<&str>,
) -> Result<Database> {
    let folder = directory.path().join("disks");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .map_err(|error| Error::system("create", &folder, &error))?;
    let whole: Vec<String> =
        paths.iter().map(|p| absolute(Path::new(p)).to_string_lossy().into_owned()).collect();
    for path in &whole {
        if disks.find(std::slice::from_ref(path)).is_empty() {
            return Err(Error::new(15031, format!("no disk matches '{path}'"))
                .hint("name the disks of the group, or a pattern: '/dev/disk/by-id/X*'"));
        }
    }
    instance.parameters().set_list(DISK_STRING, whole, Some(Scope::Both))?;
    let look = OpenMode { read_only: true, force: false };
    let open = |mode, force| {
        let (instance, disks) = (Arc::clone(&instance), Arc::clone(&disks));
        Database::open_forcing(instance, directory.clone(), disks, mode, force)
    };
    match open(look, None).await {
        Ok(seen) => {
            let missing = missing(&seen, force);
            seen.close().await?;
            missing?;
        }
        // FORCE is for what cannot be shown without the disks that are missing.
        Err(error) if force.is_none() || !error.has(15063) => return Err(error),
        Err(_) => {}
    }
    open(OpenMode::default(), force).await
}

/// Refuses groups of which disks are not here.
fn missing(seen: &Database, force: Option<&str>) -> Result<()> {
    if let Some(error) = seen.not_mounted().into_iter().next() {
        return Err(error);
    }
    for mounted in seen.groups() {
        let name = mounted.group.name();
        if force.is_some_and(|force| name.eq_ignore_ascii_case(force)) {
            continue;
        }
        let gone = mounted.group.disks().into_iter().filter(|d| d.path.is_none() && !d.in_sync);
        let gone: Vec<String> = gone.filter(|d| d.status.is_in_sync()).map(|d| d.name).collect();
        if !gone.is_empty() {
            let text = format!(
                "{} of disk group \"{name}\" {} not among these disks",
                gone.join(", "),
                if gone.len() == 1 { "is" } else { "are" }
            );
            return Err(Error::new(15042, text)
                .hint(format!("name it too; or go on without it: --force {name}")));
        }
    }
    Ok(())
}
