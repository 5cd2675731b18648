//! Data-modifying parts of a WITH: each is run once, before what follows, and from then on its name
//! stands for the rows it returned. All see the tables as the statement does, not each other's changes.

use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{Cte, SetExpr, TableAlias, TableAliasColumnDef, With};

use std::sync::Arc;

use super::Effect;
use super::target::{ResultTable, all_of};
use crate::engine::Engine;
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::rows::Scope;

impl Engine {
    /// Runs the parts that change rows; returns the rest of the WITH. `None`: others have changed a row
    /// meanwhile. `made`: receives the tables of what they return, and keeps them registered.
    pub(super) async fn changes_of_with<'a>(
        &'a self,
        scope: &Scope,
        with: With,
        made: &mut Vec<ResultTable<'a>>,
    ) -> Result<Option<Option<With>>, Error> {
        let mut left = With { cte_tables: Vec::new(), ..with.clone() };
        for cte in with.cte_tables {
            let statement = match *cte.query.body {
                SetExpr::Insert(statement)
                | SetExpr::Update(statement)
                | SetExpr::Delete(statement) => statement,
                _ => {
                    left.cte_tables.push(cte);
                    continue;
                }
            };
            if cte.query.with.is_some() {
                return Err(Error::not_yet("WITH in a part of a WITH that changes rows")
                    .next("name the inner part beside it"));
            }
            let before = (!left.cte_tables.is_empty()).then(|| left.clone());
            match self.change(scope, before, statement).await? {
                Effect::Again => return Ok(None),
                // A reference to rows that are not returned gets the error for a missing table.
                Effect::Count(..) => {}
                Effect::Rows(schema, batches) => {
                    let name = format!("\u{2}{}{}", self.next_made(), cte.alias.name.value);
                    let table = MemTable::try_new(schema, vec![batches]);
                    let table = Arc::new(table.map_err(|error| from_datafusion(&error))?);
                    made.push(self.make(name.clone(), table)?);
                    let query = Box::new(all_of(&name));
                    let columns: Vec<TableAliasColumnDef> = cte.alias.columns;
                    let alias = TableAlias { columns, ..cte.alias };
                    left.cte_tables.push(Cte { query, alias, ..cte });
                }
            }
        }
        Ok(Some((!left.cte_tables.is_empty()).then_some(left)))
    }
}
