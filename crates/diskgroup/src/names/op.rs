//! One change of the directory tree, as the metadata log records it.

use std::collections::BTreeMap;

use super::tree::Dir;
use super::{Alias, DirNo, Entry, FileNo, NameError, PathPart, Tree, TreeError};
use crate::codec::{Reader, Truncated, Writer};

/// One change. Numbers are given by the caller, so a replay gives the same tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOp {
    /// Makes an empty directory.
    MkDir {
        /// Its number, not in use.
        dir: DirNo,
        /// The directory it is in.
        parent: DirNo,
        /// Its name there.
        name: PathPart,
    },
    /// Removes an empty directory.
    RmDir {
        /// The directory.
        dir: DirNo,
    },
    /// Gives a file a name, one that is not taken.
    Link {
        /// The directory.
        dir: DirNo,
        /// The name in it.
        name: PathPart,
        /// The file.
        alias: Alias,
    },
    /// Gives a file a name, from whatever file has it now.
    Replace {
        /// The directory.
        dir: DirNo,
        /// The name in it.
        name: PathPart,
        /// The file.
        alias: Alias,
    },
    /// Removes a file's name.
    Unlink {
        /// The directory.
        dir: DirNo,
        /// The name in it.
        name: PathPart,
    },
    /// Moves a name, of a file or a directory.
    Rename {
        /// The directory it is in.
        from_dir: DirNo,
        /// Its name there.
        from: PathPart,
        /// The directory it goes to.
        to_dir: DirNo,
        /// Its name then.
        to: PathPart,
        /// Whether a file may take the name of another file.
        replace: bool,
    },
}

/// What a change did that its record does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The alias that lost its name: unlinked, or replaced by another.
    pub removed: Option<Alias>,
}

/// Bytes that are no change or no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameDecodeError {
    /// The bytes end too early.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// A kind of record that this version does not know.
    #[error("{tag} is no kind of name record")]
    UnknownTag {
        /// The kind.
        tag: u8,
    },
    /// A name that is not UTF-8.
    #[error("a name is not UTF-8 text")]
    NotText,
    /// A name that cannot be.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Directories or names that contradict one another.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Directories that do not hang below the root.
    #[error("{count} directories do not hang below the root")]
    Unreachable {
        /// How many.
        count: usize,
    },
}

const TAG_MKDIR: u8 = 1;
const TAG_RMDIR: u8 = 2;
const TAG_LINK: u8 = 3;
const TAG_REPLACE: u8 = 4;
const TAG_UNLINK: u8 = 5;
const TAG_RENAME: u8 = 6;

pub(super) fn put_alias(w: &mut Writer, alias: Alias) {
    w.put_u32(alias.file.0);
    w.put_u32(alias.incarnation);
    w.put_bool(alias.system);
}

pub(super) fn read_alias(r: &mut Reader<'_>) -> Result<Alias, Truncated> {
    Ok(Alias { file: FileNo(r.u32()?), incarnation: r.u32()?, system: r.bool()? })
}

pub(super) fn read_part(r: &mut Reader<'_>) -> Result<PathPart, NameDecodeError> {
    let text = r.str()?.map_err(|_| NameDecodeError::NotText)?;
    Ok(PathPart::new(text)?)
}

impl NameOp {
    /// Writes the change.
    pub fn encode(&self, w: &mut Writer) {
        match self {
            NameOp::MkDir { dir, parent, name } => {
                w.put_u8(TAG_MKDIR);
                w.put_u32(dir.0);
                w.put_u32(parent.0);
                w.put_str(name.as_str());
            }
            NameOp::RmDir { dir } => {
                w.put_u8(TAG_RMDIR);
                w.put_u32(dir.0);
            }
            NameOp::Link { dir, name, alias } | NameOp::Replace { dir, name, alias } => {
                let link = matches!(self, NameOp::Link { .. });
                w.put_u8(if link { TAG_LINK } else { TAG_REPLACE });
                w.put_u32(dir.0);
                w.put_str(name.as_str());
                put_alias(w, *alias);
            }
            NameOp::Unlink { dir, name } => {
                w.put_u8(TAG_UNLINK);
                w.put_u32(dir.0);
                w.put_str(name.as_str());
            }
            NameOp::Rename { from_dir, from, to_dir, to, replace } => {
                w.put_u8(TAG_RENAME);
                w.put_u32(from_dir.0);
                w.put_str(from.as_str());
                w.put_u32(to_dir.0);
                w.put_str(to.as_str());
                w.put_bool(*replace);
            }
        }
    }

    /// Reads what [`NameOp::encode`] wrote.
    pub fn decode(r: &mut Reader<'_>) -> Result<NameOp, NameDecodeError> {
        let tag = r.u8()?;
        Ok(match tag {
            TAG_MKDIR => {
                NameOp::MkDir { dir: DirNo(r.u32()?), parent: DirNo(r.u32()?), name: read_part(r)? }
            }
            TAG_RMDIR => NameOp::RmDir { dir: DirNo(r.u32()?) },
            TAG_LINK | TAG_REPLACE => {
                let (dir, name, alias) = (DirNo(r.u32()?), read_part(r)?, read_alias(r)?);
                if tag == TAG_LINK {
                    NameOp::Link { dir, name, alias }
                } else {
                    NameOp::Replace { dir, name, alias }
                }
            }
            TAG_UNLINK => NameOp::Unlink { dir: DirNo(r.u32()?), name: read_part(r)? },
            TAG_RENAME => NameOp::Rename {
                from_dir: DirNo(r.u32()?),
                from: read_part(r)?,
                to_dir: DirNo(r.u32()?),
                to: read_part(r)?,
                replace: r.bool()?,
            },
            tag => return Err(NameDecodeError::UnknownTag { tag }),
        })
    }

    /// Makes the change, all or nothing.
    pub fn apply(&self, tree: &mut Tree) -> Result<Applied, TreeError> {
        match self {
            NameOp::MkDir { dir, parent, name } => tree.make_dir(*dir, *parent, name),
            NameOp::RmDir { dir } => tree.remove_dir(*dir),
            NameOp::Link { dir, name, alias } => {
                if tree.entry(*dir, name)?.is_some() {
                    return Err(tree.exists(*dir, name));
                }
                tree.link(*dir, name, *alias);
                Ok(Applied::default())
            }
            NameOp::Replace { dir, name, alias } => {
                let removed = match tree.entry(*dir, name)? {
                    None => None,
                    Some(Entry::File(_)) => tree.unlink(*dir, name),
                    Some(Entry::Dir(_)) => {
                        return Err(TreeError::IsADirectory(tree.shown(*dir, Some(name))));
                    }
                };
                tree.link(*dir, name, *alias);
                Ok(Applied { removed })
            }
            NameOp::Unlink { dir, name } => match tree.entry(*dir, name)? {
                None => Err(tree.not_found(*dir, name)),
                Some(Entry::Dir(_)) => Err(TreeError::IsADirectory(tree.shown(*dir, Some(name)))),
                Some(Entry::File(_)) => Ok(Applied { removed: tree.unlink(*dir, name) }),
            },
            NameOp::Rename { from_dir, from, to_dir, to, replace } => {
                tree.rename((*from_dir, from), (*to_dir, to), *replace)
            }
        }
    }
}

impl Tree {
    fn exists(&self, dir: DirNo, name: &PathPart) -> TreeError {
        TreeError::Exists { name: name.to_string(), dir: self.shown(dir, None) }
    }

    fn not_found(&self, dir: DirNo, name: &PathPart) -> TreeError {
        TreeError::NotFound { name: name.to_string(), dir: self.shown(dir, None) }
    }

    fn make_dir(
        &mut self,
        dir: DirNo,
        parent: DirNo,
        name: &PathPart,
    ) -> Result<Applied, TreeError> {
        if self.entry(parent, name)?.is_some() {
            return Err(self.exists(parent, name));
        }
        if self.dirs.contains_key(&dir) {
            return Err(TreeError::DirInUse(dir));
        }
        let made = Dir { parent, name: Some(name.clone()), entries: BTreeMap::new() };
        self.dirs.insert(dir, made);
        self.put(parent, name, Entry::Dir(dir));
        Ok(Applied::default())
    }

    fn remove_dir(&mut self, dir: DirNo) -> Result<Applied, TreeError> {
        let removed = self.dir(dir)?;
        let entries = removed.entries.len();
        let parent = removed.parent;
        let Some(name) = removed.name.clone() else {
            return Err(TreeError::Loop("/".to_owned()));
        };
        if entries > 0 {
            return Err(TreeError::NotEmpty { dir: self.shown(dir, None), entries });
        }
        self.dirs.remove(&dir);
        if let Some(above) = self.dirs.get_mut(&parent) {
            above.entries.remove(&name);
        }
        Ok(Applied::default())
    }

    pub(super) fn put(&mut self, dir: DirNo, name: &PathPart, entry: Entry) {
        if let Some(dir) = self.dirs.get_mut(&dir) {
            dir.entries.insert(name.clone(), entry);
        }
    }

    pub(super) fn link(&mut self, dir: DirNo, name: &PathPart, alias: Alias) {
        self.put(dir, name, Entry::File(alias));
        self.names.entry(alias.file).or_default().insert((dir, name.clone()));
    }

    fn unlink(&mut self, dir: DirNo, name: &PathPart) -> Option<Alias> {
        let Some(Entry::File(alias)) = self.dirs.get_mut(&dir)?.entries.remove(name) else {
            return None;
        };
        if let Some(names) = self.names.get_mut(&alias.file) {
            names.remove(&(dir, name.clone()));
            if names.is_empty() {
                self.names.remove(&alias.file);
            }
        }
        Some(alias)
    }

    fn rename(
        &mut self,
        from: (DirNo, &PathPart),
        to: (DirNo, &PathPart),
        replace: bool,
    ) -> Result<Applied, TreeError> {
        let moved = self.entry(from.0, from.1)?;
        let moved = moved.ok_or_else(|| self.not_found(from.0, from.1))?;
        let target = self.entry(to.0, to.1)?;
        if from == to {
            return Ok(Applied::default());
        }
        let removed = match (moved, target) {
            (_, None) => None,
            (Entry::File(_), Some(Entry::File(_))) if replace => Some(to),
            (Entry::File(_), Some(Entry::Dir(_))) if replace => {
                return Err(TreeError::IsADirectory(self.shown(to.0, Some(to.1))));
            }
            _ => return Err(self.exists(to.0, to.1)),
        };
        match moved {
            Entry::File(alias) => {
                let removed = removed.and_then(|(dir, name)| self.unlink(dir, name));
                self.unlink(from.0, from.1);
                self.link(to.0, to.1, alias);
                Ok(Applied { removed })
            }
            Entry::Dir(dir) => {
                if self.is_below(to.0, dir)? {
                    return Err(TreeError::Loop(self.shown(dir, None)));
                }
                if let Some(above) = self.dirs.get_mut(&from.0) {
                    above.entries.remove(from.1);
                }
                if let Some(moved) = self.dirs.get_mut(&dir) {
                    moved.parent = to.0;
                    moved.name = Some(to.1.clone());
                }
                self.put(to.0, to.1, Entry::Dir(dir));
                Ok(Applied::default())
            }
        }
    }

    /// Whether `dir` is `above` or hangs below it.
    fn is_below(&self, dir: DirNo, above: DirNo) -> Result<bool, TreeError> {
        let mut at = dir;
        while at != above {
            if at == DirNo::ROOT {
                return Ok(false);
            }
            at = self.dir(at)?.parent;
        }
        Ok(true)
    }
}
