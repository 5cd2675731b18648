//! The rows of each of the catalogs' relations, as far as it has any.

mod information;
mod keys;
pub(super) mod language;
pub(super) mod objects;
mod server;

use std::collections::HashMap;
use std::sync::Arc;

use super::acl::Acls;
use super::ask::Ask;
use super::relations::Relation;
use super::snapshot::Snapshot;
use super::value::Rows;

/// Pages and rows of a heap table, approximately.
pub(super) type Sizes = HashMap<u32, (u64, u64)>;

/// The data from which rows are made.
pub(super) struct Seen<'a> {
    pub ask: &'a Ask,
    pub snapshot: Arc<Snapshot>,
    pub sizes: Sizes,
}

impl Seen<'_> {
    /// Owners and rights.
    fn acls(&self) -> Acls {
        Acls::of(self.ask, &self.snapshot)
    }
}

/// Generates the rows of a relation.
pub(super) type Make = fn(&Seen<'_>, &mut Rows);

/// The relations whose rows depend on columns.
const WITH_COLUMNS: [&str; 6] =
    ["pg_attribute", "columns", "pg_attrdef", "column_privileges", "pg_description", "pg_stats"];

/// The relations whose rows depend on sizes.
const WITH_SIZES: [&str; 4] =
    ["pg_class", "pg_stat_user_tables", "pg_stat_all_tables", "pg_tables"];

/// Whether the rows of a relation depend on columns.
pub(super) fn needs_columns(relation: &Relation) -> bool {
    WITH_COLUMNS.contains(&relation.name)
}

/// Whether the rows of a relation depend on sizes.
pub(super) fn needs_sizes(relation: &Relation) -> bool {
    WITH_SIZES.contains(&relation.name)
}

/// The generator for the rows of a relation; `None`: it has no rows.
pub(super) fn of(relation: &Relation) -> Option<Make> {
    match relation.is_information {
        true => information::of(relation.name),
        false => objects::of(relation.name)
            .or_else(|| keys::of(relation.name))
            .or_else(|| language::of(relation.name))
            .or_else(|| server::of(relation.name)),
    }
}
