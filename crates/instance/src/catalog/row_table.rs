//! The catalog's entry of a table whose rows change, beside its columns.

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
    /// Values of columns in rows that were written before these columns existed, where they are not NULL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Sequences that go with its columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<Owned>,
    /// Keys of other tables that its rows refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<ForeignKey>,
}

/// A foreign key: rows in which none of its columns is NULL refer to the row of another table that has this key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    /// Its name.
    pub name: String,
    /// Its columns, from 0, in the order of the other key.
    pub columns: Vec<usize>,
    /// The name of the unique index that has the other key.
    pub index: String,
    /// What becomes of rows whose key is deleted.
    #[serde(default, skip_serializing_if = "Action::is_none")]
    pub on_delete: Action,
    /// What becomes of rows whose key becomes another one.
    #[serde(default, skip_serializing_if = "Action::is_none")]
    pub on_update: Action,
    /// When it is checked.
    #[serde(default, skip_serializing_if = "Deferral::is_none")]
    pub deferral: Deferral,
}

/// When a foreign key is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deferral {
    /// NOT DEFERRABLE: at the end of each statement.
    #[default]
    Never,
    /// DEFERRABLE: the same, until SET CONSTRAINTS has it put off.
    Immediate,
    /// INITIALLY DEFERRED: at the commit, until SET CONSTRAINTS has it checked at once.
    Deferred,
}

impl Deferral {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_none(&self) -> bool {
        *self == Deferral::Never
    }
}

/// What becomes of rows that refer to a key that goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// NO ACTION: the statement is refused if there are such rows when it ends.
    #[default]
    Nothing,
    /// RESTRICT: the same.
    Restrict,
    /// CASCADE: they are deleted, or get the other key.
    Cascade,
    /// SET NULL.
    Null,
    /// SET DEFAULT.
    Default,
}

impl Action {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_none(&self) -> bool {
        *self == Action::Nothing
    }
}

/// The value of a column in rows that lack it, as they were written before it was added.
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
    /// Whether no two rows have the same key. A key with a NULL in it equals no other.
    pub is_unique: bool,
    /// The constraint that it keeps, if it does.
    #[serde(default)]
    pub constraint: Option<Constraint>,
    /// The number that it first had in the heap, if it has another one now; else 0.
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
        RowTable { object, indexes, checks, missing, owned: Vec::new(), foreign: Vec::new() }
    }

    /// The numbers of all that it has in the heap.
    pub fn objects(&self) -> impl Iterator<Item = u32> {
        self.indexes.iter().map(|index| index.object).chain([self.object])
    }
}
