//! REINDEX: rebuilding of indexes from the rows of their tables.

use cellar_instance::catalog::{Catalog, TableKind, name};
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

use crate::engine::altered::Altered;
use crate::engine::{Engine, Outcome};
use crate::error::Error;
use crate::names::resolve::no_schema;
use crate::rows::RowColumns;
use crate::statement::Reindexed;

use super::grants::DATABASE;
use super::sequences::bare;

impl Engine {
    /// Rebuilds indexes, all in one transaction, which locks their tables exclusively until it ends.
    pub(super) async fn reindex(
        &self,
        of: &Reindexed,
        is_concurrent: bool,
    ) -> Result<Outcome, Error> {
        let is_many = matches!(of, Reindexed::Schema(_) | Reindexed::Database(_));
        if (is_many || is_concurrent) && self.is_in_block().await {
            let text = "REINDEX of a schema or the database, or CONCURRENTLY, cannot run inside a transaction block";
            return Err(Error::new(70173, "25001", text).next("COMMIT first"));
        }
        let tables = match of {
            Reindexed::Index(index) => vec![self.table_of(index)?],
            Reindexed::Table(table) => vec![bare(table)?],
            Reindexed::Schema(schema) => {
                let catalog = self.catalog()?;
                if !catalog.has_schema(schema) {
                    return Err(no_schema(schema));
                }
                in_heap(&catalog, |key| name::parts(key).0 == schema)
            }
            Reindexed::Database(Some(name)) if name != DATABASE => {
                let text =
                    format!("\"{name}\" is not the database of this session, \"{DATABASE}\"");
                return Err(Error::new(3001, "0A000", text).next("reindex database"));
            }
            Reindexed::Database(_) => {
                in_heap(&*self.catalog()?, |key| !name::is_temporary(name::parts(key).0))
            }
        };
        let only = match of {
            Reindexed::Index(index) => Some(bare(index)?),
            _ => None,
        };
        let mut built = 0;
        for table in tables {
            built += self.reindex_table(&table, only.as_deref()).await?;
        }
        let message = match built {
            1 => "1 index built anew.".to_owned(),
            _ => format!("{built} indexes built anew."),
        };
        let notice = "CONCURRENTLY: others have waited for the tables while indexes were built";
        let notices = is_concurrent.then(|| notice.to_owned()).into_iter().collect();
        Ok(Outcome::Done { message, notices })
    }

    /// The table that has an index.
    fn table_of(&self, index: &TableReference) -> Result<String, Error> {
        let (name, catalog) = (bare(index)?, self.catalog()?);
        match catalog.index(&name) {
            Some((table, _)) => Ok(table.name.clone()),
            None if self.kind_of(&catalog, &name).is_some() => {
                Err(Error::new(1418, "42809", format!("\"{name}\" is no index"))
                    .next(format!("reindex table {name}")))
            }
            None => Err(no_index(&name)),
        }
    }

    /// Rebuilds all indexes of a table, or one; returns how many.
    async fn reindex_table(&self, table: &str, only: Option<&str>) -> Result<usize, Error> {
        let quoted = ObjectName::from(vec![Ident::with_quote('"', table)]);
        let mut alteration = self.alteration(&quoted).await?;
        let zone = &self.settings.now().zone;
        let columns =
            RowColumns::of(alteration.table(), alteration.rows(), (zone, &*self.catalog()?))?;
        let mut altered = Altered::of(columns);
        let mut built = 0;
        for index in &mut altered.rows.indexes {
            if only.is_none_or(|only| index.name == only) {
                (index.object, built) = (0, built + 1);
            }
        }
        if let Some(only) = only.filter(|_| built == 0) {
            // It was dropped while this waited for the table.
            return Err(no_index(only));
        }
        if built > 0 {
            let table = self.carried_out(&mut altered, &mut alteration).await?;
            self.finish(alteration, table).await?;
        }
        Ok(built)
    }
}

fn no_index(name: &str) -> Error {
    Error::new(1418, "42P01", format!("index \"{name}\" does not exist"))
}

/// Tables whose rows change that have indexes.
fn in_heap(catalog: &Catalog, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let tables = catalog.tables.iter().filter(|table| table.kind == TableKind::Heap);
    let has_indexes = |table: &&cellar_instance::catalog::Table| {
        table.rows.as_ref().is_some_and(|rows| !rows.indexes.is_empty())
    };
    let wanted = tables.filter(has_indexes).filter(|table| is_wanted(&table.name));
    wanted.map(|table| table.name.clone()).collect()
}
