//! Queries whose unqualified names are given schemas, where the bare name would not be found.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, TableAlias, TableFactor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::definition::quoted;
use super::said::parts;
use super::snapshot::Snapshot;
use crate::grammar::CellarDialect;
use crate::walk::visit;

/// A query as the catalog stores it, without a schema for names in `public`, with that schema added
/// where needed; `None`: it is not.
pub(super) fn query(snapshot: &Snapshot, query: &str) -> Option<String> {
    let mut parser = Parser::new(&CellarDialect).try_with_sql(query).ok()?;
    let mut statement = parser.parse_statement().ok()?;
    let mut walk = Walk { snapshot, ctes: Vec::new(), has_changed: false };
    // It terminates by itself.
    let _ = visit(&mut statement, &mut walk);
    walk.has_changed.then(|| statement.to_string())
}

struct Walk<'a> {
    snapshot: &'a Snapshot,
    /// The names of WITH queries, from outermost to innermost.
    ctes: Vec<BTreeSet<String>>,
    has_changed: bool,
}

impl VisitorMut for Walk<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.ctes.push(ctes.map(|cte| crate::names::folded(&cte.alias.name)).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.ctes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            return ControlFlow::Continue(());
        };
        let said = parts(name);
        let [own] = &said[..] else { return ControlFlow::Continue(()) };
        let is_cte = self.ctes.iter().any(|names| names.contains(own));
        let found = self.snapshot.public_object(own).filter(|_| !is_cte);
        if found.is_some_and(|object| !self.snapshot.is_visible(object)) {
            let ident = |text: &str| match quoted(text) {
                plain if plain == text => Ident::new(text),
                _ => Ident::with_quote('"', text),
            };
            *name = ObjectName::from(vec![ident("public"), ident(own)]);
            if alias.is_none() {
                let name = ident(own);
                *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
            }
            self.has_changed = true;
        }
        ControlFlow::Continue(())
    }
}
