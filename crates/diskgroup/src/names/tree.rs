//! The directory tree of a group, in RAM.

use std::collections::{BTreeMap, BTreeSet};

use super::{Applied, NameOp, PathPart, matches};

/// The number of a directory; 0 is the root, the others are given by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirNo(pub u32);

impl DirNo {
    /// The directory above all others.
    pub const ROOT: DirNo = DirNo(0);
}

/// The number of a file within its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNo(pub u32);

/// A name's end: the file it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The file.
    pub file: FileNo,
    /// Which of the files that ever had this number.
    pub incarnation: u32,
    /// Whether the system made the name.
    pub system: bool,
}

/// What a name in a directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Another directory.
    Dir(DirNo),
    /// A file.
    File(Alias),
}

/// What a path led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The directory it is in; the root is in itself.
    pub parent: DirNo,
    /// What it is.
    pub entry: Entry,
}

/// Why a change of the tree cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// User: there is nothing of this name (ORA-15173).
    #[error("\"{name}\" does not exist{}", in_dir(dir))]
    NotFound {
        /// The name.
        name: String,
        /// The path of the directory looked in; empty for the root.
        dir: String,
    },
    /// User: the name is taken (ORA-15005).
    #[error("\"{name}\" exists already{}", in_dir(dir))]
    Exists {
        /// The name.
        name: String,
        /// The path of the directory; empty for the root.
        dir: String,
    },
    /// User: a file is named where a directory is needed.
    #[error("\"{0}\" is a file, not a directory")]
    NotADirectory(String),
    /// User: a directory is named where a file is needed.
    #[error("\"{0}\" is a directory, not a file")]
    IsADirectory(String),
    /// User: only an empty directory can be removed (ORA-15177).
    #[error("directory \"{dir}\" holds {entries} entries; remove them first, or use FORCE")]
    NotEmpty {
        /// The directory.
        dir: String,
        /// How many names are in it.
        entries: usize,
    },
    /// User: a directory cannot move into itself, nor the root anywhere.
    #[error("directory \"{0}\" cannot be moved below itself or be removed as the root")]
    Loop(String),
    /// Corruption or bug: no directory has this number.
    #[error("directory number {} does not exist", .0.0)]
    NoSuchDir(DirNo),
    /// Corruption or bug: the number is another directory's.
    #[error("directory number {} is in use already", .0.0)]
    DirInUse(DirNo),
}

fn in_dir(dir: &str) -> String {
    if dir.is_empty() { String::new() } else { format!(" in \"{dir}\"") }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dir {
    pub(super) parent: DirNo,
    /// The root's is empty.
    pub(super) name: Option<PathPart>,
    pub(super) entries: BTreeMap<PathPart, Entry>,
}

/// Directories and the names in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub(super) dirs: BTreeMap<DirNo, Dir>,
    /// Every name of each file.
    pub(super) names: BTreeMap<FileNo, BTreeSet<(DirNo, PathPart)>>,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = Dir { parent: DirNo::ROOT, name: None, entries: BTreeMap::new() };
        Tree { dirs: BTreeMap::from([(DirNo::ROOT, root)]), names: BTreeMap::new() }
    }
}

impl Tree {
    /// The root alone.
    #[must_use]
    pub fn new() -> Tree {
        Tree::default()
    }

    /// A number no directory has: one above the highest.
    #[must_use]
    pub fn next_dir(&self) -> DirNo {
        DirNo(self.dirs.last_key_value().map_or(1, |(no, _)| no.0.saturating_add(1)))
    }

    /// Directories, the root included.
    #[must_use]
    pub fn dir_count(&self) -> usize {
        self.dirs.len()
    }

    pub(super) fn dir(&self, dir: DirNo) -> Result<&Dir, TreeError> {
        self.dirs.get(&dir).ok_or(TreeError::NoSuchDir(dir))
    }

    pub(crate) fn entry(&self, dir: DirNo, name: &PathPart) -> Result<Option<Entry>, TreeError> {
        Ok(self.dir(dir)?.entries.get(name).copied())
    }

    /// The directories from the root to this one.
    pub fn dir_path(&self, dir: DirNo) -> Result<Vec<PathPart>, TreeError> {
        let mut parts = Vec::new();
        let mut at = dir;
        // Bounded by the invariant that every directory hangs below the root.
        while let Dir { parent, name: Some(name), .. } = self.dir(at)? {
            parts.push(name.clone());
            at = *parent;
        }
        parts.reverse();
        Ok(parts)
    }

    pub(super) fn shown(&self, dir: DirNo, name: Option<&PathPart>) -> String {
        let parts = self.dir_path(dir).unwrap_or_default();
        let parts: Vec<&str> = parts.iter().chain(name).map(PathPart::as_str).collect();
        parts.join("/")
    }

    /// Follows a path from the root.
    pub fn lookup(&self, parts: &[PathPart]) -> Result<Found, TreeError> {
        let mut found = Found { parent: DirNo::ROOT, entry: Entry::Dir(DirNo::ROOT) };
        for (depth, part) in parts.iter().enumerate() {
            let Entry::Dir(dir) = found.entry else {
                return Err(TreeError::NotADirectory(joined(&parts[..depth])));
            };
            let Some(entry) = self.entry(dir, part)? else {
                let (name, dir) = (part.to_string(), joined(&parts[..depth]));
                return Err(TreeError::NotFound { name, dir });
            };
            found = Found { parent: dir, entry };
        }
        Ok(found)
    }

    /// Follows a path to a directory.
    pub fn lookup_dir(&self, parts: &[PathPart]) -> Result<DirNo, TreeError> {
        match self.lookup(parts)?.entry {
            Entry::Dir(dir) => Ok(dir),
            Entry::File(_) => Err(TreeError::NotADirectory(joined(parts))),
        }
    }

    /// Follows a path to a file.
    pub fn lookup_file(&self, parts: &[PathPart]) -> Result<Alias, TreeError> {
        match self.lookup(parts)?.entry {
            Entry::File(alias) => Ok(alias),
            Entry::Dir(_) => Err(TreeError::IsADirectory(joined(parts))),
        }
    }

    /// What is in a directory, by name.
    pub fn list(&self, dir: DirNo) -> Result<impl Iterator<Item = (&PathPart, Entry)>, TreeError> {
        Ok(self.dir(dir)?.entries.iter().map(|(name, &entry)| (name, entry)))
    }

    /// Everything below a directory: each directory before what is in it, by name.
    pub fn walk(&self, dir: DirNo) -> Result<Walk<'_>, TreeError> {
        let entries = self.dir(dir)?.entries.iter();
        Ok(Walk { tree: self, path: Vec::new(), open: vec![entries] })
    }

    /// What a pattern matches, part by part, with whole paths; `*` and `%` do not cross a slash.
    #[must_use]
    pub fn find(&self, pattern: &[&str]) -> Vec<(Vec<PathPart>, Entry)> {
        let mut found = vec![(Vec::new(), Entry::Dir(DirNo::ROOT))];
        for part in pattern {
            let mut next = Vec::new();
            for (path, entry) in &found {
                let Entry::Dir(dir) = entry else { continue };
                let Ok(entries) = self.list(*dir) else {
                    continue;
                };
                for (name, entry) in entries.filter(|(name, _)| matches(part, name.as_str())) {
                    let mut path: Vec<PathPart> = path.clone();
                    path.push(name.clone());
                    next.push((path, entry));
                }
            }
            found = next;
        }
        found
    }

    /// Every name of a file, as directory and name.
    pub fn names_of(&self, file: FileNo) -> impl Iterator<Item = (DirNo, &PathPart)> {
        self.names.get(&file).into_iter().flatten().map(|(dir, name)| (*dir, name))
    }

    /// The whole path of a file: its system name if it has one, else the first of its names.
    #[must_use]
    pub fn path_of(&self, file: FileNo) -> Option<Vec<PathPart>> {
        let is_system = |dir, name: &PathPart| {
            let entry = self.entry(dir, name);
            matches!(entry, Ok(Some(Entry::File(alias))) if alias.system)
        };
        let (dir, name) = self
            .names_of(file)
            .find(|&(dir, name)| is_system(dir, name))
            .or_else(|| self.names_of(file).next())?;
        let mut path = self.dir_path(dir).ok()?;
        path.push(name.clone());
        Some(path)
    }

    /// The steps that make a directory. With `parents`, missing ones are made too and an existing
    /// one is no error. Numbers are taken from [`Tree::next_dir`] on.
    pub fn plan_mkdir(&self, parts: &[PathPart], parents: bool) -> Result<Vec<NameOp>, TreeError> {
        let mut ops = Vec::new();
        let mut at = DirNo::ROOT;
        let mut number = self.next_dir();
        for (depth, part) in parts.iter().enumerate() {
            let last = depth + 1 == parts.len();
            let entry = if ops.is_empty() { self.entry(at, part)? } else { None };
            at = match entry {
                Some(Entry::Dir(_)) if last && !parents => {
                    let (name, dir) = (part.to_string(), joined(&parts[..depth]));
                    return Err(TreeError::Exists { name, dir });
                }
                Some(Entry::Dir(dir)) => dir,
                Some(Entry::File(_)) => {
                    return Err(TreeError::NotADirectory(joined(&parts[..=depth])));
                }
                None if last || parents => {
                    ops.push(NameOp::MkDir { dir: number, parent: at, name: part.clone() });
                    let made = number;
                    number = DirNo(number.0.saturating_add(1));
                    made
                }
                None => {
                    let (name, dir) = (part.to_string(), joined(&parts[..depth]));
                    return Err(TreeError::NotFound { name, dir });
                }
            };
        }
        if parts.is_empty() && !parents {
            return Err(TreeError::Exists { name: "/".to_owned(), dir: String::new() });
        }
        Ok(ops)
    }

    /// The steps that remove a directory; with `force` all that is in it as well, deepest first.
    ///
    /// Files whose last name goes are the caller's to delete: apply returns each alias removed.
    pub fn plan_rmdir(&self, dir: DirNo, force: bool) -> Result<Vec<NameOp>, TreeError> {
        let entries = self.dir(dir)?.entries.len();
        if dir == DirNo::ROOT {
            return Err(TreeError::Loop("/".to_owned()));
        }
        if entries > 0 && !force {
            return Err(TreeError::NotEmpty { dir: self.shown(dir, None), entries });
        }
        let mut ops = vec![NameOp::RmDir { dir }];
        let mut at = vec![dir];
        while let Some(dir) = at.pop() {
            for (name, entry) in self.list(dir)? {
                ops.push(match entry {
                    Entry::Dir(below) => {
                        at.push(below);
                        NameOp::RmDir { dir: below }
                    }
                    Entry::File(_) => NameOp::Unlink { dir, name: name.clone() },
                });
            }
        }
        // Each directory was noted before what is in it.
        ops.reverse();
        Ok(ops)
    }

    /// Applies one step; the same as [`NameOp::apply`].
    pub fn apply(&mut self, op: &NameOp) -> Result<Applied, TreeError> {
        op.apply(self)
    }
}

fn joined(parts: &[PathPart]) -> String {
    let parts: Vec<&str> = parts.iter().map(PathPart::as_str).collect();
    parts.join("/")
}

/// Everything below a directory; see [`Tree::walk`].
pub struct Walk<'a> {
    tree: &'a Tree,
    path: Vec<&'a PathPart>,
    open: Vec<std::collections::btree_map::Iter<'a, PathPart, Entry>>,
}

impl<'a> Iterator for Walk<'a> {
    /// The path below the start, and what is there.
    type Item = (Vec<&'a PathPart>, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((name, &entry)) = self.open.last_mut()?.next() else {
                self.open.pop();
                self.path.pop();
                continue;
            };
            let mut path = self.path.clone();
            path.push(name);
            if let Entry::Dir(dir) = entry {
                // Missing only in a tree that breaks its own invariant.
                if let Some(below) = self.tree.dirs.get(&dir) {
                    self.path.push(name);
                    self.open.push(below.entries.iter());
                }
            }
            return Some((path, entry));
        }
    }
}
