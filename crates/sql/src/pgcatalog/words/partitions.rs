//! `pg_partition_ancestors(table)` in FROM: no table is a partition of another, so it returns no rows.

use datafusion::sql::sqlparser::ast::{Query, SetExpr, TableFactor};

use super::super::said::parts;

const FUNCTION: &str = "pg_partition_ancestors";

/// Whether a scalar query reads it, and so has no value.
pub(super) fn reads(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    select.from.iter().any(|from| match &from.relation {
        TableFactor::Table { name, args: Some(_), .. } => {
            parts(name).last().is_some_and(|own| own == FUNCTION)
        }
        _ => false,
    })
}
