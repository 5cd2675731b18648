//! `unnest(a) WITH ORDINALITY`: the items with their numbers, which are unnested beside them.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, TableAlias, TableAliasColumnDef, TableFactor, Value,
};

use crate::call::call;
use crate::names::folded;

/// The name of the column where none is said.
const ORDINALITY: &str = "ordinality";

/// Numbers the rows of arrays, and of series, in FROM.
pub(super) fn rewrite(factor: &mut TableFactor) {
    let found = match factor {
        TableFactor::UNNEST { array_exprs, alias, with_ordinality: true, .. } => {
            Some((array_exprs.clone(), alias.take(), "unnest".to_owned()))
        }
        TableFactor::Table { name, args: Some(args), alias, with_ordinality: true, .. } => {
            let own = name.0.last().and_then(|part| part.as_ident()).map(folded);
            let exprs = args.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            });
            match (own.as_deref(), exprs.collect::<Option<Vec<Expr>>>()) {
                (Some("unnest"), Some(arrays)) => Some((arrays, alias.take(), "unnest".to_owned())),
                (Some(own @ "generate_series"), Some(ends)) => {
                    Some((vec![call(own, ends)], alias.take(), own.to_owned()))
                }
                _ => None,
            }
        }
        _ => None,
    };
    if let Some((arrays, alias, function)) = found {
        *factor = numbered(arrays, alias, &function);
    }
}

fn numbered(mut arrays: Vec<Expr>, alias: Option<TableAlias>, function: &str) -> TableFactor {
    let lengths: Vec<Expr> =
        arrays.iter().map(|array| call("cardinality", vec![array.clone()])).collect();
    let longest = match lengths.len() {
        1 => lengths,
        _ => vec![call("greatest", lengths)],
    };
    let one = Expr::Value(Value::Number("1".to_owned(), false).into());
    arrays.push(call("generate_series", std::iter::once(one).chain(longest).collect()));
    let column = |name: Ident| TableAliasColumnDef { name, data_type: None };
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function),
        columns: Vec::new(),
        at: None,
    });
    // What is not said: of one array the name of the alias, as PostgreSQL has it.
    let items = arrays.len() - 1;
    while alias.columns.len() < items {
        let name = if items == 1 { alias.name.clone() } else { Ident::new(function) };
        alias.columns.push(column(name));
    }
    if alias.columns.len() == items {
        alias.columns.push(column(Ident::new(ORDINALITY)));
    }
    TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: arrays,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}
