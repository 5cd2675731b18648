//! Directories, aliases and files of a group: made, renamed and dropped as statements ask.

use cellar_storage::{Mounted, split_group_path};

use super::Administrator;
use crate::error::{Error, Result};

/// A path of a statement as one from the root of the group: `+DATA/d` or `d`.
pub(super) fn inside(group: &str, path: &str) -> Result<String> {
    if !path.starts_with('+') {
        return Ok(path.to_owned());
    }
    match split_group_path(path) {
        Some((named, inside)) if named == group => Ok(inside),
        _ => Err(Error::new(15124, format!("\"{path}\" is not in disk group \"{group}\""))),
    }
}

pub(super) async fn add_directories(mounted: &Mounted, paths: &[String]) -> Result<()> {
    for path in paths {
        mounted.group.mkdir(&inside(mounted.group.name(), path)?, false).await?;
    }
    Ok(())
}

pub(super) async fn add_alias(mounted: &Mounted, alias: &str, file: &str) -> Result<()> {
    let group = &mounted.group;
    Ok(group.add_alias(&inside(group.name(), alias)?, &inside(group.name(), file)?).await?)
}

/// `CHECK`.
pub(super) fn check(mounted: &Mounted) -> Result<()> {
    mounted.group.check().map_err(|what| Error::new(15049, format!("check found: {what}")))
}

impl Administrator {
    /// A path from the root of the group, if it may be taken away with what is below it.
    fn removable(&self, mounted: &Mounted, path: &str) -> Result<String> {
        let group = mounted.group.name();
        let path = inside(group, path)?;
        let tables = self.database.tables();
        tables.check_user_file(group, &path)?;
        tables.external_files().check_removable(group, &path)?;
        Ok(path)
    }

    pub(super) async fn drop_directory(
        &self,
        mounted: &Mounted,
        path: &str,
        force: bool,
    ) -> Result<()> {
        let path = match force {
            true => self.removable(mounted, path)?,
            false => inside(mounted.group.name(), path)?,
        };
        Ok(mounted.group.rmdir(&path, force).await?)
    }

    pub(super) async fn rename(&self, mounted: &Mounted, from: &str, to: &str) -> Result<()> {
        let from = self.removable(mounted, from)?;
        let to = inside(mounted.group.name(), to)?;
        Ok(mounted.group.rename(&from, &to, false).await?)
    }

    /// `DROP FILE` and `DROP ALIAS`: none is dropped unless all may be.
    pub(super) async fn remove(&self, mounted: &Mounted, paths: &[String]) -> Result<()> {
        let paths: Vec<String> =
            paths.iter().map(|path| self.removable(mounted, path)).collect::<Result<_>>()?;
        for path in &paths {
            mounted.group.remove(path).await?;
        }
        Ok(())
    }
}
