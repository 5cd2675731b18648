//! `generate_series(1, 9) i`: its column is `i`, as PostgreSQL has it, unless the query calls it `value`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Query, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
    VisitorMut,
};

use crate::names::folded;
use crate::walk::visit;

const FUNCTION: &str = "generate_series";

/// What DataFusion calls the column.
const VALUE: &str = "value";

/// Names the columns of the series in FROM.
pub(super) fn rewrite(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let relations = select.from.iter_mut().flat_map(|from| {
        std::iter::once(&mut from.relation)
            .chain(from.joins.iter_mut().map(|join| &mut join.relation))
    });
    if !relations.into_iter().any(|factor| name_of(factor).is_some()) {
        return;
    }
    let mut spoken = Spoken::default();
    let _ = visit(query, &mut spoken);
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    for from in &mut select.from {
        name_column(&mut from.relation, &spoken);
        for join in &mut from.joins {
            name_column(&mut join.relation, &spoken);
        }
    }
}

/// The name by which a series is known, where its column has none.
fn name_of(factor: &TableFactor) -> Option<(Ident, bool)> {
    let (name, alias) = match factor {
        TableFactor::Table { name, args: Some(_), alias, .. }
        | TableFactor::Function { name, alias, .. } => (name, alias),
        _ => return None,
    };
    let function = name.0.last()?.as_ident()?;
    match alias {
        _ if folded(function) != FUNCTION => None,
        Some(alias) => alias.columns.is_empty().then(|| (alias.name.clone(), true)),
        None => Some((Ident::new(FUNCTION), false)),
    }
}

fn name_column(factor: &mut TableFactor, spoken: &Spoken) {
    let Some((name, is_said)) = name_of(factor) else { return };
    let own = folded(&name);
    let is_own = spoken.bare.contains(&own) || spoken.of.contains(&(own.clone(), own.clone()));
    let is_value = spoken.of.contains(&(own, VALUE.to_owned()));
    let is_named = !is_value && (is_own || is_said && !spoken.bare.contains(VALUE));
    let (TableFactor::Table { alias, .. } | TableFactor::Function { alias, .. }) = factor else {
        return;
    };
    if is_named {
        let columns = vec![TableAliasColumnDef { name: name.clone(), data_type: None }];
        let alias =
            alias.get_or_insert(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        alias.columns = columns;
    }
}

/// The columns that a query speaks of.
#[derive(Default)]
struct Spoken {
    bare: BTreeSet<String>,
    /// With the names before them.
    of: BTreeSet<(String, String)>,
}

impl VisitorMut for Spoken {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => {
                self.bare.insert(folded(name));
            }
            Expr::CompoundIdentifier(names) => {
                if let [.., table, column] = &names[..] {
                    self.of.insert((folded(table), folded(column)));
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                if let (Expr::Identifier(table), [AccessExpr::Dot(Expr::Identifier(column)), ..]) =
                    (root.as_ref(), &access_chain[..])
                {
                    self.of.insert((folded(table), folded(column)));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
