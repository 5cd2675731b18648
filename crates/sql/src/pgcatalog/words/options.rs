//! `pg_options_to_table(list)`: options as stored, `name=value`, as rows of names and values.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, Query, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, Value, VisitorMut,
};

use super::super::said::parts;
use crate::call::call;
use crate::names::folded;
use crate::walk::visit;

const FUNCTION: &str = "pg_options_to_table";

/// The alias of an option, in place of its two columns.
const OPTION: &str = "option_said";

/// A list of options in FROM: its items, from which the columns that the query refers to are computed.
pub(super) fn rewrite(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut has_any = false;
    for from in &mut select.from {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut from.relation).chain(joined) {
            has_any |= items(factor);
        }
    }
    if has_any {
        // It terminates by itself.
        let _ = visit(query, &mut Columns);
    }
}

fn items(factor: &mut TableFactor) -> bool {
    let TableFactor::Table { name, args: Some(args), alias, .. } = factor else { return false };
    let own = parts(name);
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = &args.args[..] else { return false };
    if own.last().is_none_or(|own| own != FUNCTION) || own.len() > 2 {
        return false;
    }
    let name = alias.as_ref().map_or_else(|| Ident::new(FUNCTION), |alias| alias.name.clone());
    let columns = vec![TableAliasColumnDef { name: Ident::new(OPTION), data_type: None }];
    *factor = TableFactor::UNNEST {
        alias: Some(TableAlias { explicit: true, name, columns, at: None }),
        array_exprs: vec![list.clone()],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
    true
}

struct Columns;

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let last = match &*expr {
            Expr::Identifier(own) => Some(own),
            Expr::CompoundIdentifier(names) if names.len() == 2 => names.last(),
            _ => None,
        };
        let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
        let number = |text: &str| Expr::Value(Value::Number(text.to_owned(), false).into());
        let own = || Expr::Identifier(Ident::new(OPTION));
        match last.map(folded).as_deref() {
            Some("option_name") => *expr = call("split_part", vec![own(), text("="), number("1")]),
            Some("option_value") => {
                let (left, right) = (call("strpos", vec![own(), text("=")]), number("1"));
                let (left, right) = (Box::new(left), Box::new(right));
                let behind = Expr::BinaryOp { left, op: BinaryOperator::Plus, right };
                *expr = call("substr", vec![own(), behind]);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
