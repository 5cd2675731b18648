//! References from subqueries to outer tables, told apart from fields of a column.
//!
//! In `SELECT .. FROM dept WHERE EXISTS (SELECT .. FROM emp WHERE emp.dept = dept.id)` DataFusion takes
//! `dept.id` for a field of the column `emp.dept`. In SQL a name before a dot is a table's whenever
//! there is a table of that name. So the reference is written with a schema, which a column cannot have.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::walk::visit;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SetExpr, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

use super::{MARK, folded};

/// Qualifies references to outer tables with a schema.
pub(crate) fn qualify<T: VisitMut>(ast: &mut T) {
    let _: ControlFlow<()> = visit(ast, &mut References::default());
}

/// The tables that can be referred to, from outermost to innermost.
#[derive(Default)]
struct References {
    scopes: Vec<Scope>,
    /// The nesting depth of the current query.
    depth: usize,
}

struct Scope {
    depth: usize,
    /// Names, with the schemas that they were written with.
    tables: BTreeMap<String, Option<Ident>>,
}

impl References {
    fn enter(&mut self, select: &Select) {
        let mut tables = BTreeMap::new();
        select.from.iter().for_each(|from| add_all(from, &mut tables));
        self.scopes.push(Scope { depth: self.depth, tables });
    }

    /// The schema of a table of this name, if it is an outer one.
    fn outside(&self, name: &str) -> Option<Ident> {
        let found = self.scopes.iter().rev().find(|scope| scope.tables.contains_key(name))?;
        let any = || Ident::with_quote('"', MARK.to_string());
        (found.depth < self.depth).then(|| found.tables[name].clone().unwrap_or_else(any))
    }
}

fn add_all(from: &TableWithJoins, tables: &mut BTreeMap<String, Option<Ident>>) {
    for factor in
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    {
        let alias = match factor {
            TableFactor::Table { name, alias: None, .. } => {
                let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident());
                if let Some(table) = parts.next() {
                    tables.insert(folded(table), parts.next().cloned());
                }
                continue;
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                add_all(table_with_joins, tables);
                continue;
            }
            TableFactor::Table { alias, .. }
            | TableFactor::NestedJoin { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => alias,
            _ => continue,
        };
        if let Some(alias) = alias {
            tables.insert(folded(&alias.name), None);
        }
    }
}

impl VisitorMut for References {
    type Break = ();

    // The ORDER BY of a query is not in its SELECT, and a SELECT of a set operation is not in a query of
    // its own.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        if let SetExpr::Select(select) = query.body.as_ref() {
            self.enter(select);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        if let SetExpr::Select(_) = query.body.as_ref() {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.enter(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = &parts[..]
            && let Some(schema) = self.outside(&folded(table))
        {
            parts.insert(0, schema);
        }
        ControlFlow::Continue(())
    }
}
