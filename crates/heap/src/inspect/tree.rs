//! The tree that an inspection gives.

use std::fmt;

/// A name, perhaps a value, and what belongs below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// What it is.
    pub name: String,
    /// Its value; empty for a heading.
    pub value: String,
    /// Its parts.
    pub parts: Vec<Inspection>,
    /// Whether it is damaged, apart from its parts.
    pub damaged: bool,
}

impl Inspection {
    pub(super) fn leaf(name: impl Into<String>, value: impl ToString) -> Inspection {
        Inspection { name: name.into(), value: value.to_string(), ..Inspection::default() }
    }

    pub(super) fn damage(name: impl Into<String>, why: impl fmt::Display) -> Inspection {
        let value = format!("DAMAGED: {why}");
        Inspection { name: name.into(), value, damaged: true, ..Inspection::default() }
    }

    /// As its value, or as damaged.
    pub(super) fn of(name: impl Into<String>, value: Result<String, String>) -> Inspection {
        match value {
            Ok(value) => Inspection::leaf(name, value),
            Err(why) => Inspection::damage(name, why),
        }
    }

    pub(super) fn with(mut self, parts: Vec<Inspection>) -> Inspection {
        self.parts = parts;
        self
    }

    /// The first part of that name, at any depth.
    pub fn find(&self, name: &str) -> Option<&Inspection> {
        if self.name == name {
            return Some(self);
        }
        self.parts.iter().find_map(|part| part.find(name))
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = depth * 2;
        match self.value.is_empty() {
            true => writeln!(f, "{:indent$}{}", "", self.name)?,
            false => writeln!(f, "{:indent$}{}: {}", "", self.name, self.value)?,
        }
        self.parts.iter().try_for_each(|part| part.print(f, depth + 1))
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}
