//! jsonb_agg and jsonb_object_agg by array_agg; functions that give rows, such as jsonb_array_elements, by unnest.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select,
    SelectItem, TableAlias, TableAliasColumnDef, TableFactor,
};

use crate::call::call;
use crate::names::folded;
use crate::walk;

/// A function that gives rows: the functions that give the arrays of its columns, and their names.
struct Rows {
    arrays: &'static [&'static str],
    columns: &'static [&'static str],
}

fn rows_of(name: &ObjectName) -> Option<(String, Rows)> {
    let [part] = &name.0[..] else { return None };
    let name = folded(part.as_ident()?);
    let own = name.strip_prefix("jsonb_").or_else(|| name.strip_prefix("json_"))?;
    let (arrays, columns): (&[&str], &[&str]) = match own {
        "array_elements" => (&["jsonb_elements"], &["value"]),
        "array_elements_text" => (&["jsonb_element_texts"], &["value"]),
        "object_keys" => (&["jsonb_keys"], &[]),
        "each" => (&["jsonb_keys", "jsonb_values"], &["key", "value"]),
        "each_text" => (&["jsonb_keys", "jsonb_value_texts"], &["key", "value"]),
        _ => return None,
    };
    Some((name, Rows { arrays, columns }))
}

fn only_args(args: &[FunctionArg]) -> Option<Vec<Expr>> {
    let one = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    args.iter().map(one).collect()
}

/// A function behind FROM as the unnest of arrays.
pub(super) fn from_rows(factor: &mut TableFactor) {
    let (name, args, alias) = match &*factor {
        TableFactor::Table { name, args: Some(own), alias, with_ordinality: false, .. } => {
            (name, &own.args, alias)
        }
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (name, args, alias)
        }
        _ => return,
    };
    let Some((own, Rows { arrays, columns })) = rows_of(name) else { return };
    let Some(args) = only_args(args).filter(|args| args.len() == 1) else { return };
    let mut alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(&own),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        let column = |name: Ident| TableAliasColumnDef { name, data_type: None };
        alias.columns = match columns.is_empty() {
            true => vec![column(alias.name.clone())],
            false => columns.iter().map(|name| column(Ident::new(*name))).collect(),
        };
    }
    *factor = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: arrays.iter().map(|name| call(name, args.clone())).collect(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

/// `SELECT e FROM jsonb_array_elements(..) AS e`: its only column stands for a row of it.
pub(super) fn whole_rows(select: &mut Select) {
    let mut aliases: Vec<(Ident, Ident)> = Vec::new();
    let joins = select.from.iter_mut().flat_map(|from| {
        let joins = from.joins.iter_mut().map(|join| &mut join.relation);
        std::iter::once(&mut from.relation).chain(joins)
    });
    for factor in joins {
        from_rows(factor);
        if let TableFactor::UNNEST { alias: Some(alias), .. } = factor
            && let [column] = &alias.columns[..]
            && folded(&column.name) != folded(&alias.name)
        {
            aliases.push((alias.name.clone(), column.name.clone()));
        }
    }
    if aliases.is_empty() {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
            && aliases.iter().any(|(own, _)| folded(own) == folded(name))
        {
            let alias = name.clone();
            *item = SelectItem::ExprWithAlias { expr: Expr::Identifier(name.clone()), alias };
        }
    }
    walk::map_exprs(select, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some((own, column)) = aliases.iter().find(|(own, _)| folded(own) == folded(name))
        {
            *expr = Expr::CompoundIdentifier(vec![own.clone(), column.clone()]);
        }
    });
}

/// A column of the result that is such a function has its name.
pub(super) fn named(item: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(expr) = item
        && let Expr::Function(function) = &*expr
        && let Some((name, rows)) = rows_of(&function.name)
        && rows.arrays.len() == 1
    {
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(name) };
    }
}

/// A call as calls of the functions that there are.
pub(super) fn rewrite(expr: &mut Expr) {
    let Expr::Function(function) = &*expr else { return };
    let FunctionArguments::List(list) = &function.args else { return };
    if let (Some((_, rows)), Some(args)) = (rows_of(&function.name), only_args(&list.args)) {
        if let [array] = rows.arrays {
            *expr = call("unnest", vec![call(array, args)]);
        }
        return;
    }
    let name = function.name.to_string().to_ascii_lowercase();
    let (item, whole) = match name.as_str() {
        "jsonb_agg" => ("to_jsonb", "jsonb_of_list"),
        "json_agg" => ("to_json", "json_of_list"),
        "jsonb_object_agg" => ("jsonb_pair", "jsonb_of_pairs"),
        "json_object_agg" => ("json_pair", "json_of_pairs"),
        _ => return,
    };
    let Some(args) = only_args(&list.args) else { return };
    let mut items =
        Function { name: ObjectName::from(vec![Ident::new("array_agg")]), ..function.clone() };
    if let FunctionArguments::List(list) = &mut items.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(call(item, args)))];
    }
    *expr = call(whole, vec![Expr::Function(items)]);
}
