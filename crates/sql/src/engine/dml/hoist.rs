//! Subqueries that lock rows, as in `where id = (select id .. for update skip locked)`: each is run once,
//! before the statement, which then reads its result.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{Query, Statement as SqlStatement, VisitorMut};

use super::Effect;
use super::target::{ResultTable, all_of};
use crate::engine::Engine;
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::rows::Scope;
use crate::walk;

/// Extracts queries that lock rows from a statement, the innermost first.
struct Taken<'a> {
    engine: &'a Engine,
    depth: usize,
    /// The nesting depth of the statement itself.
    outermost: usize,
    found: Vec<(String, Query)>,
}

impl VisitorMut for Taken<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth > self.outermost && !query.locks.is_empty() {
            let name = format!("\u{2}{}locked", self.engine.next_made());
            let own = std::mem::replace(query, all_of(&name));
            self.found.push((name, own));
        }
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

impl Engine {
    /// Runs the queries within a statement that lock rows; the statement then uses their results. Returns
    /// false if others have changed a row meanwhile. `made` receives the tables of the results, and keeps
    /// them registered.
    pub(super) async fn lock_within<'a>(
        &'a self,
        scope: &Scope,
        statement: &mut SqlStatement,
        made: &mut Vec<ResultTable<'a>>,
    ) -> Result<bool, Error> {
        let outermost = usize::from(matches!(statement, SqlStatement::Query(_)));
        let mut taken = Taken { engine: self, depth: 0, outermost, found: Vec::new() };
        let _: ControlFlow<()> = walk::visit(statement, &mut taken);
        for (name, query) in taken.found {
            match self.lock_rows(scope, query).await? {
                Effect::Rows(schema, batches) => {
                    let table = MemTable::try_new(schema, vec![batches]);
                    let table = Arc::new(table.map_err(|error| from_datafusion(&error))?);
                    made.push(self.make(name, table)?);
                }
                Effect::Again => return Ok(false),
                Effect::Count(..) => return Err(Error::new(600, "XX000", "a query gave no rows")),
            }
        }
        Ok(true)
    }
}
