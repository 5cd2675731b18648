//! The names that steps of a block can use.

use std::collections::HashMap;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A value, by its slot.
    Slot(usize),
    /// A row, by its number.
    Record(usize),
    /// A field of a row.
    Field(usize, String),
    /// An exception of the block's own.
    Exception,
}

#[derive(Debug, Default)]
struct Level {
    label: Option<String>,
    names: HashMap<String, Named>,
}

/// The names by block and loop, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Scopes(Vec<Level>);

impl Scopes {
    /// Opens the scope of a block or a loop; returns what [`Scopes::close`] takes.
    pub fn open(&mut self, label: Option<String>) -> usize {
        self.0.push(Level { label, names: HashMap::new() });
        self.0.len() - 1
    }

    /// Closes a scope, and those within it that an error has left open.
    pub fn close(&mut self, depth: usize) {
        self.0.truncate(depth);
    }

    /// How many scopes are open.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Adds a name to the innermost scope; false: it has it already.
    pub fn add(&mut self, name: &str, named: Named) -> bool {
        match self.0.last_mut() {
            Some(level) => level.names.insert(name.to_owned(), named).is_none(),
            None => false,
        }
    }

    fn one(&self, name: &str) -> Option<&Named> {
        self.0.iter().rev().find_map(|level| level.names.get(name))
    }

    /// What a name, or names with points between them, stand for.
    pub fn find(&self, words: &[String]) -> Option<Named> {
        match words {
            [name] => self.one(name).cloned(),
            [first, second] => {
                if let Some(Named::Record(record)) = self.one(first) {
                    return Some(Named::Field(*record, second.clone()));
                }
                let own = |level: &&Level| level.label.as_deref() == Some(first.as_str());
                self.0.iter().rev().find(own)?.names.get(second).cloned()
            }
            [label, record, field] => {
                let own = |level: &&Level| level.label.as_deref() == Some(label.as_str());
                match self.0.iter().rev().find(own)?.names.get(record)? {
                    Named::Record(record) => Some(Named::Field(*record, field.clone())),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
