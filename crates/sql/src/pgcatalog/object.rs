//! An object as clients know it: its pg_class entry, columns, indexes and checks.

use cellar_instance::catalog::{Action, Constraint, Deferral, Identity, SequenceType};

use super::relations::Relation;

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A table in the heap.
    Heap,
    /// A columnar table with so many rows and bytes.
    Columnar {
        rows: u64,
        bytes: u64,
    },
    /// A table over files.
    External,
    View,
    Sequence,
    Index,
    /// A relation of the catalogs.
    System(&'static Relation),
    /// A view of ours.
    Ours,
}

impl PartialEq for Relation {
    fn eq(&self, other: &Relation) -> bool {
        self.oid == other.oid
    }
}

impl Kind {
    /// The letter in pg_class.
    pub fn letter(self) -> &'static str {
        match self {
            Kind::Heap | Kind::Columnar { .. } => "r",
            Kind::External => "f",
            Kind::View | Kind::Ours => "v",
            Kind::Sequence => "S",
            Kind::Index => "i",
            Kind::System(relation) => relation.kind,
        }
    }

    /// Whether it was created by a user.
    pub fn is_of_people(self) -> bool {
        !matches!(self, Kind::System(_) | Kind::Ours)
    }
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub name: String,
    /// The oid of its type.
    pub of: u32,
    pub modifier: i64,
    pub not_null: bool,
    /// The text of its DEFAULT.
    pub default: Option<String>,
    pub identity: Option<Identity>,
    pub comment: Option<String>,
}

impl Column {
    /// A column without special properties.
    pub fn plain(name: impl Into<String>, of: u32) -> Column {
        let (default, identity, comment) = (None, None, None);
        Column { name: name.into(), of, modifier: -1, not_null: false, default, identity, comment }
    }
}

/// An object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub oid: u32,
    pub schema: u32,
    pub name: String,
    /// The key in the catalog; empty if it is not there.
    pub key: String,
    pub kind: Kind,
    pub columns: Vec<Column>,
    pub comment: Option<String>,
    pub is_temporary: bool,
}

/// An index, as described in pg_index.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub oid: u32,
    pub table: u32,
    pub name: String,
    /// Numbers of columns from 1, and whether the order is descending.
    pub columns: Vec<(i64, bool)>,
    pub is_unique: bool,
    pub constraint: Option<Constraint>,
    pub comment: Option<String>,
}

/// A CHECK.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub oid: u32,
    pub table: u32,
    pub name: String,
    pub condition: String,
    /// Numbers of the columns that it refers to, from 1.
    pub columns: Vec<i64>,
    pub comment: Option<String>,
}

/// A foreign key.
#[derive(Clone, Debug)]
pub(super) struct ForeignKey {
    pub oid: u32,
    pub table: u32,
    pub name: String,
    /// Numbers of its columns, from 1.
    pub columns: Vec<i64>,
    /// The table that it refers to, the numbers of that table's columns, and the index for the key.
    pub to: u32,
    pub to_columns: Vec<i64>,
    pub index: u32,
    pub on_delete: Action,
    pub on_update: Action,
    pub deferral: Deferral,
    pub comment: Option<String>,
}

/// A sequence, as described in pg_sequence.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub oid: u32,
    pub of: SequenceType,
    pub start: i64,
    pub increment: i64,
    pub least: i64,
    pub most: i64,
    pub cache: i64,
    pub cycles: bool,
    /// The table, the number of its column, and whether it is an identity.
    pub owner: Option<(u32, i64, bool)>,
}

/// An enum type.
#[derive(Clone, Debug)]
pub(super) struct EnumType {
    pub oid: u32,
    /// The type of its arrays.
    pub array: u32,
    pub schema: u32,
    pub name: String,
    pub labels: Vec<String>,
    pub comment: Option<String>,
}

/// A schema.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    pub oid: u32,
    pub name: String,
    pub comment: Option<String>,
}
