//! Name look-ups for the object store: one file, all below a directory, the entries of a directory.

use cellar_io::EnvExt;

use crate::disk::lock;
use crate::error::Error;
use crate::group::{File, Group, parts_of};
use crate::names::{Alias, DirNo, Entry, Tree};
use crate::state::{FileState, GroupState};

/// A file as the store shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub number: u32,
    pub incarnation: u32,
    pub size: u64,
    pub modified_ns: u64,
}

impl Stat {
    fn of(file: &FileState) -> Stat {
        Stat {
            number: file.number,
            incarnation: file.incarnation,
            size: file.size,
            modified_ns: file.modified_ns,
        }
    }

    /// Changes whenever an object is put: every put makes a new file.
    pub fn e_tag(&self) -> String {
        format!("{}.{}", self.number, self.incarnation)
    }
}

/// A file and an open handle to it, or nothing if the path names no file.
pub(super) fn open(group: &Group, path: &str) -> Result<Option<(File, Stat)>, Error> {
    group.check_running()?;
    let file = match group.open(path) {
        Ok(file) => file,
        Err(Error::NoSuchFile { .. } | Error::BadName { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(stat_of(group, &file).map(|stat| (file, stat)))
}

/// What an open file is.
pub(super) fn stat_of(group: &Group, file: &File) -> Option<Stat> {
    let core = lock(&group.inner.core);
    core.state.files.get(&file.number()).map(Stat::of)
}

/// What a path names, or nothing if it names no file.
pub(super) fn stat(group: &Group, path: &str) -> Result<Option<Stat>, Error> {
    group.check_running()?;
    let Ok(parts) = parts_of(path) else {
        return Ok(None);
    };
    let core = lock(&group.inner.core);
    let alias = core.state.names.lookup_file(&parts).ok();
    Ok(alias.and_then(|alias| stat_alias(&core.state, alias)))
}

fn stat_alias(state: &GroupState, alias: Alias) -> Option<Stat> {
    let file = state.files.get(&alias.file.0)?;
    (file.incarnation == alias.incarnation).then(|| Stat::of(file))
}

/// Every file below a directory, with its path; none where there is no such directory.
pub(super) fn below(group: &Group, dir: &str) -> Result<Vec<(String, Stat)>, Error> {
    group.check_running()?;
    let core = lock(&group.inner.core);
    let Some((prefix, dir)) = directory(&core.state.names, dir) else {
        return Ok(Vec::new());
    };
    let Ok(walk) = core.state.names.walk(dir) else {
        return Ok(Vec::new());
    };
    let files = walk.filter_map(|(path, entry)| {
        let Entry::File(alias) = entry else {
            return None;
        };
        let stat = stat_alias(&core.state, alias)?;
        let path: Vec<&str> = path.iter().map(|p| p.as_str()).collect();
        Some((format!("{prefix}{}", path.join("/")), stat))
    });
    Ok(files.collect())
}

/// Files with their paths, and paths of directories.
pub(super) type Within = (Vec<(String, Stat)>, Vec<String>);

/// Files directly in a directory, and its directories that have a file somewhere below.
pub(super) fn within(group: &Group, dir: &str) -> Result<Within, Error> {
    group.check_running()?;
    let core = lock(&group.inner.core);
    let names = &core.state.names;
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    let Some((prefix, dir)) = directory(names, dir) else {
        return Ok((files, dirs));
    };
    let Ok(entries) = names.list(dir) else {
        return Ok((files, dirs));
    };
    for (name, entry) in entries {
        match entry {
            Entry::File(alias) => {
                let stat = stat_alias(&core.state, alias);
                files.extend(stat.map(|stat| (format!("{prefix}{name}"), stat)));
            }
            Entry::Dir(sub) => {
                let is_file = |(_, entry)| matches!(entry, Entry::File(_));
                if names.walk(sub).is_ok_and(|mut walk| walk.any(is_file)) {
                    dirs.push(format!("{prefix}{name}"));
                }
            }
        }
    }
    Ok((files, dirs))
}

fn directory(names: &Tree, path: &str) -> Option<(String, DirNo)> {
    let parts = parts_of(path).ok()?;
    let dir = names.lookup_dir(&parts).ok()?;
    Some((parts.iter().map(|p| format!("{p}/")).collect(), dir))
}

/// Runs a change of names to its end even if the caller loses patience: what it replaces is
/// deleted after it, and would else keep its room until the next mount.
pub(super) async fn to_the_end<T, F>(group: &Group, change: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let ended = group.env().run("change names", change).await;
    ended.unwrap_or_else(|| Err(stopped(group)))
}

/// A task of ours was dropped before its end.
pub(super) fn stopped(group: &Group) -> Error {
    group.check_running().err().unwrap_or(Error::Stopped {
        group: group.name().to_owned(),
        why: "its tasks were stopped".into(),
    })
}
