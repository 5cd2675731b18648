//! The whole tree as bytes, for checkpoints.
//!
//! Number of directories without the root (u32), then each in order of its number: number, parent
//! (u32 each), name (u16 length, UTF-8). Number of aliases (u32), then each in order of directory
//! and name: directory (u32), name, file, incarnation (u32 each), system (u8).

use std::collections::BTreeMap;

use super::op::{NameDecodeError, put_alias, read_alias, read_part};
use super::tree::Dir;
use super::{DirNo, Entry, Tree, TreeError};
use crate::codec::{Reader, Writer};

impl Tree {
    /// Writes the whole tree.
    pub fn encode(&self, w: &mut Writer) {
        // A group has fewer than 2^32 names: RAM ends long before.
        w.put_u32((self.dirs.len() - 1) as u32);
        for (no, dir) in &self.dirs {
            if let Some(name) = &dir.name {
                w.put_u32(no.0);
                w.put_u32(dir.parent.0);
                w.put_str(name.as_str());
            }
        }
        let aliases = self.names.values().map(|names| names.len()).sum::<usize>();
        w.put_u32(aliases as u32);
        for (no, dir) in &self.dirs {
            for (name, entry) in &dir.entries {
                if let Entry::File(alias) = entry {
                    w.put_u32(no.0);
                    w.put_str(name.as_str());
                    put_alias(w, *alias);
                }
            }
        }
    }

    /// Reads what [`Tree::encode`] wrote; the tree it gives back is whole, or it gives an error.
    pub fn decode(r: &mut Reader<'_>) -> Result<Tree, NameDecodeError> {
        let mut tree = Tree::new();
        for _ in 0..r.u32()? {
            let (no, parent) = (DirNo(r.u32()?), DirNo(r.u32()?));
            let dir = Dir { parent, name: Some(read_part(r)?), entries: BTreeMap::new() };
            if tree.dirs.contains_key(&no) {
                return Err(TreeError::DirInUse(no).into());
            }
            tree.dirs.insert(no, dir);
        }
        tree.hang_up_dirs()?;
        for _ in 0..r.u32()? {
            let (dir, name, alias) = (DirNo(r.u32()?), read_part(r)?, read_alias(r)?);
            if tree.entry(dir, &name)?.is_some() {
                let (name, dir) = (name.to_string(), tree.shown(dir, None));
                return Err(TreeError::Exists { name, dir }.into());
            }
            tree.link(dir, &name, alias);
        }
        Ok(tree)
    }

    /// Enters each directory in its parent and makes sure that all hang below the root.
    fn hang_up_dirs(&mut self) -> Result<(), NameDecodeError> {
        let names = self.dirs.iter();
        let names: Vec<_> =
            names.filter_map(|(&no, d)| Some((no, d.parent, d.name.clone()?))).collect();
        for (no, parent, name) in names {
            if self.entry(parent, &name)?.is_some() {
                // The parent may hang in a loop, so its path cannot be shown.
                let (name, dir) = (name.to_string(), format!("number {}", parent.0));
                return Err(TreeError::Exists { name, dir }.into());
            }
            self.put(parent, &name, Entry::Dir(no));
        }
        let reached = 1 + self.walk(DirNo::ROOT)?.count();
        if reached != self.dirs.len() {
            return Err(NameDecodeError::Unreachable { count: self.dirs.len() - reached });
        }
        Ok(())
    }
}
