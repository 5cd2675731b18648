//! What the catalog keeps of a table whose rows change, beside its columns.

use serde::{Deserialize, Serialize};

use super::sequence::Owned;

/// The rows of a table, its indexes and its checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowTable {
    /// Its number in the heap.
    pub object: u32,
    /// Its indexes, those of its constraints among them.
    #[serde(default)]
    pub indexes: Vec<Index>,
    /// What each row must be.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What columns are in rows that were written before there were these columns, where it is not NULL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Sequences that go with its columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<Owned>,
}

/// What a column is in rows that lack it: those from before it was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which column of the table, from 0.
    pub column: usize,
    /// A row of this column alone, in hexadecimal digits.
    pub row: String,
}

/// An index of such a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Its number in the heap.
    pub object: u32,
    /// Its name, which is that of its constraint.
    pub name: String,
    /// Its columns, in their order.
    pub columns: Vec<IndexColumn>,
    /// Whether no two rows have the same key. A key with a NULL in it is never the same.
    pub is_unique: bool,
    /// The constraint that it keeps, if it does.
    #[serde(default)]
    pub constraint: Option<Constraint>,
    /// The number that it had in the heap first, where it has another one now; else 0.
    #[serde(default, skip_serializing_if = "super::table::no_number")]
    pub number: u32,
}

/// A column of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexColumn {
    /// Which column of the table, from 0.
    pub column: usize,
    /// Whether the greatest value comes first.
    #[serde(default)]
    pub descending: bool,
}

/// What an index keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Constraint {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The condition, as it was written.
    pub condition: String,
}

impl RowTable {
    /// A table without indexes, whose rows are in this object.
    pub fn plain(object: u32) -> RowTable {
        let (indexes, checks, missing) = (Vec::new(), Vec::new(), Vec::new());
        RowTable { object, indexes, checks, missing, owned: Vec::new() }
    }

    /// The numbers of all that it has in the heap.
    pub fn objects(&self) -> impl Iterator<Item = u32> {
        self.indexes.iter().map(|index| index.object).chain([self.object])
    }
}
