//! `cellar init --import`: a directory for groups that are on disks already.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_storage::absolute;
use cellar_storage::disks::Disks;

use super::{Database, OpenMode};
use crate::directory::Directory;
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
#[boxed]
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
        if disks.find(std::slice::from_ref(path)).all()?.is_empty() {
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
    let seen = open(look, force).await.map_err(|error| by_option(error, force))?;
    let complete = complete(&seen, force);
    seen.close().await?;
    complete?;
    let database = open(OpenMode::default(), force).await?;
    // Somebody may have taken a disk meanwhile, or had it all the time: who only looks is not told.
    let all = async {
        for error in database.storage().groups().not_mounted() {
            match force.filter(|name| is_of(&error, name)) {
                Some(name) => drop(database.mount_group(name, true).await?),
                None => return Err(error),
            }
        }
        Ok(())
    };
    if let Err(error) = all.await {
        // What is wrong is told, not how the others were let go of.
        let _ = database.close().await;
        return Err(error);
    }
    Ok(database)
}

/// FORCE is an option here.
fn by_option(error: Error, force: Option<&str>) -> Error {
    match (error.has(15063), force) {
        (true, None) => error.hint(
            "name the disks that are missing, too; or continue permanently without them, and lose what only \
             they know: --force GROUP",
        ),
        _ => error,
    }
}

/// Whether an error is about the group called so.
fn is_of(error: &Error, name: &str) -> bool {
    error.group().is_some_and(|group| group.eq_ignore_ascii_case(name))
}

/// Refuses groups of which disks are not here, or not as they were last.
fn complete(seen: &Database, force: Option<&str>) -> Result<()> {
    let named = |error: &Error| force.is_some_and(|name| is_of(error, name));
    if let Some(error) =
        seen.storage().groups().not_mounted().into_iter().find(|error| !named(error))
    {
        return Err(by_option(error, None));
    }
    for mounted in seen.groups() {
        let name = mounted.group.name();
        if force.is_some_and(|force| name.eq_ignore_ascii_case(force)) {
            continue;
        }
        let gone = mounted.group.disks().into_iter().filter(|d| !d.in_sync);
        let gone: Vec<String> = gone.filter(|d| d.status.is_in_sync()).map(|d| d.name).collect();
        if !gone.is_empty() {
            let text = format!(
                "{} of disk group \"{name}\" {} not among these disks, or not as {} last",
                gone.join(", "),
                if gone.len() == 1 { "is" } else { "are" },
                if gone.len() == 1 { "it was" } else { "they were" }
            );
            return Err(Error::new(15042, text)
                .hint(format!("name it too; or go on without it: --force {name}")));
        }
    }
    Ok(())
}
