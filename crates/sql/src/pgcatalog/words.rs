//! PostgreSQL's constructs in clients' catalog queries, rewritten for the engine: schemas before names
//! of functions, types and operators, types of objects, vectors, tables' own oids.

mod cast;
mod options;
mod partitions;
mod query;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, AlterTableOperation, BinaryOperator, ColumnOption, ColumnOptionDef, DataType, Expr,
    Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, Select,
    SelectItem, SetExpr, Statement, Subscript, TableAlias, TableFactor, Value, VisitorMut,
};

use self::cast::{Registered, registered_in, registered_out};
use super::calls::is_here;
use super::provider::{INFORMATION, PG_CATALOG};
use super::relations;
use super::said::{column, is_vector, parts};
use crate::call::call;
use crate::names::folded;
use crate::walk::visit;

/// The information schema, under its real name.
const SAID_INFORMATION: &str = "information_schema";

/// The database, where a name includes it.
const DATABASE: &str = super::constants::DATABASE;

/// Rewrites PostgreSQL's constructs in a statement as ones that the engine knows.
pub(crate) fn rewrite(statement: &mut DfStatement) {
    match statement {
        DfStatement::Statement(inner) => rewrite_sql(inner),
        DfStatement::Explain(explain) => rewrite(&mut explain.statement),
        _ => {}
    }
}

fn rewrite_sql(statement: &mut Statement) {
    if let Statement::Prepare { data_types, .. } = &mut *statement {
        data_types.iter_mut().for_each(cast::settle);
    }
    without_collations(statement);
    let mut walk = Walk::default();
    if let Statement::Query(query) = &mut *statement {
        note_results(query.body.as_mut(), &mut walk);
    }
    // It terminates by itself.
    let _ = visit(statement, &mut walk);
    if walk.asks_sizes && !walk.reads_classes {
        query::with_classes(statement);
    }
}

/// Removes COLLATE clauses that have no effect: all texts are compared byte by byte.
fn without_collations(statement: &mut Statement) {
    let without = |options: &mut Vec<ColumnOptionDef>| {
        options.retain(
            |own| !matches!(&own.option, ColumnOption::Collation(name) if is_plain_collation(name)),
        );
    };
    match statement {
        Statement::CreateTable(create) => {
            create.columns.iter_mut().for_each(|column| without(&mut column.options));
        }
        Statement::AlterTable(alter) => {
            for operation in &mut alter.operations {
                if let AlterTableOperation::AddColumn { column_def, .. } = operation {
                    without(&mut column_def.options);
                }
            }
        }
        _ => {}
    }
}

/// Results of a query are rewritten before all else: oids of objects become their names.
fn note_results(body: &mut SetExpr, walk: &mut Walk) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
                else {
                    continue;
                };
                let name = cast::name_of(expr);
                if let Some(shown) = cast::shown(expr) {
                    walk.has_changed = true;
                    let alias = name.map(|name| Ident::with_quote('"', name));
                    *item = match (&*item, alias) {
                        (SelectItem::ExprWithAlias { alias, .. }, _) => {
                            SelectItem::ExprWithAlias { expr: shown, alias: alias.clone() }
                        }
                        (_, Some(alias)) => SelectItem::ExprWithAlias { expr: shown, alias },
                        _ => SelectItem::UnnamedExpr(shown),
                    };
                }
            }
        }
        SetExpr::Query(query) => note_results(query.body.as_mut(), walk),
        SetExpr::SetOperation { left, right, .. } => {
            note_results(left, walk);
            note_results(right, walk);
        }
        _ => {}
    }
}

/// In place of the oid of a relation: a query in FROM has none.
const NOT_OF_CATALOGS: u32 = 0;

/// A walk over a statement.
#[derive(Default)]
struct Walk {
    /// For each SELECT, from outermost to innermost, its tables' aliases and oids.
    scopes: Vec<Vec<(String, u32)>>,
    /// The names of WITH queries.
    ctes: BTreeSet<String>,
    has_changed: bool,
    asks_sizes: bool,
    reads_classes: bool,
}

/// The relation of the catalogs that a name in a statement refers to.
fn relation(said: &[String], ctes: &BTreeSet<String>) -> Option<&'static relations::Relation> {
    match said {
        [own] if own.starts_with("pg_") && !ctes.contains(own) => relations::find(false, own),
        [schema, own] | [_, schema, own] => match schema.as_str() {
            PG_CATALOG => relations::find(false, own),
            SAID_INFORMATION => relations::find(true, own),
            _ => None,
        },
        _ => None,
    }
}

impl Walk {
    fn table(&mut self, factor: &mut TableFactor) {
        query::functions(factor);
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return };
        let mut said = parts(name);
        if said.len() == 3 && said[0] == DATABASE {
            name.0.remove(0);
            said.remove(0);
        }
        let Some(relation) = relation(&said, &self.ctes) else { return };
        self.reads_classes |= relation.name == "pg_class";
        let schema = if relation.is_information { INFORMATION } else { PG_CATALOG };
        *name = ObjectName::from(vec![Ident::new(schema), Ident::new(relation.name)]);
        self.has_changed = true;
        if alias.is_none() && relation.is_information {
            let name = Ident::new(relation.name);
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
    }

    fn scope(&self, select: &Select) -> Vec<(String, u32)> {
        let factors = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        let known = factors.filter_map(|factor| {
            let (name, alias) = match factor {
                TableFactor::Table { name, alias, args: None, .. } => (name, alias),
                TableFactor::Derived { alias: Some(alias), .. } => {
                    return Some((folded(&alias.name), NOT_OF_CATALOGS));
                }
                _ => return None,
            };
            let said = parts(name);
            let relation = relation(&said, &self.ctes)?;
            let called = alias.as_ref().map(|alias| folded(&alias.name));
            Some((called.unwrap_or_else(|| relation.name.to_owned()), relation.oid))
        });
        known.collect()
    }

    /// `tableoid`: the oid of the relation that a row belongs to.
    fn number_of_table(&self, expr: &Expr) -> Option<Expr> {
        let number = match expr {
            Expr::Identifier(own) if folded(own) == "tableoid" => {
                let mut own = self.scopes.last()?.iter().map(|(_, oid)| *oid);
                own.find(|oid| *oid != NOT_OF_CATALOGS)
            }
            Expr::CompoundIdentifier(names) => match &names[..] {
                [table, own] if folded(own) == "tableoid" => {
                    let table = folded(table);
                    let all = self.scopes.iter().rev().flatten();
                    let mut all = all.filter(|(called, _)| *called == table);
                    all.next().map(|(_, oid)| *oid).filter(|oid| *oid != NOT_OF_CATALOGS)
                }
                _ => None,
            },
            _ => None,
        };
        number.map(|number| {
            cast::as_number(Expr::Value(Value::Number(number.to_string(), false).into()))
        })
    }

    fn before(&mut self, expr: &mut Expr) {
        if let Some(number) = self.number_of_table(expr) {
            *expr = number;
            return;
        }
        match expr {
            Expr::CompoundIdentifier(names)
                if names.len() == 3 && folded(&names[0]) == SAID_INFORMATION =>
            {
                names.remove(0);
            }
            Expr::Collate { expr: inner, collation } if is_plain_collation(collation) => {
                *expr = inner.as_ref().clone();
            }
            Expr::BinaryOp { left, op, right } => {
                if let Some(known) = operator(op) {
                    *op = known;
                }
                if column(left).is_some_and(|own| own == "polroles")
                    && let Some(numbers) = cast::numbers(right)
                {
                    **right = numbers;
                }
            }
            Expr::AnyOp { compare_op, .. } | Expr::AllOp { compare_op, .. } => {
                if let Some(known) = operator(compare_op) {
                    *compare_op = known;
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.column_of_table(root, access_chain);
                if let Some(letter) = self.letter_of_name(root, access_chain) {
                    *expr = letter;
                    return;
                }
                from_zero(root, access_chain);
            }
            Expr::Function(function) => {
                self.function(function);
                if let Some(other) = query::of_function(function) {
                    *expr = other;
                }
            }
            _ => {}
        }
    }

    /// `table.column[1]` for one of our tables: the column, and a subscript of it.
    fn column_of_table(&self, root: &mut Expr, chain: &mut Vec<AccessExpr>) {
        let Expr::Identifier(table) = &*root else { return };
        let Some(AccessExpr::Dot(Expr::Identifier(own))) = chain.first() else { return };
        let called = folded(table);
        if self.scopes.iter().flatten().any(|(known, _)| *known == called) {
            *root = Expr::CompoundIdentifier(vec![table.clone(), own.clone()]);
            chain.remove(0);
        }
    }

    /// `typname[0]`: a name is an array of characters, and the first one has subscript 0.
    fn letter_of_name(&self, root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
        let [AccessExpr::Subscript(Subscript::Index { index })] = chain else { return None };
        let own = column(root)?;
        let relations = self.scopes.iter().flatten();
        let mut relations = relations.filter_map(|(_, oid)| relations::by_oid(*oid));
        let is_name = relations
            .any(|known| known.columns.iter().any(|one| one.name == own && one.of == "name"));
        is_name.then(|| {
            let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
            call("substr", vec![root.clone(), plus_one(index), one()])
        })
    }

    fn function(&mut self, function: &mut Function) {
        if function.name.0.len() == 2 && parts(&function.name)[0] == PG_CATALOG {
            function.name.0.remove(0);
            self.has_changed = true;
        }
        let said = parts(&function.name).pop().unwrap_or_default();
        if OF_SEQUENCES.contains(&said.as_str())
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(own))) = first_argument(function)
            && let Expr::Cast { expr, data_type: DataType::Regclass, .. } = &*own
            && let Expr::Value(_) = expr.as_ref()
        {
            *own = expr.as_ref().clone();
        }
        let named = function.name.0.len() == 1;
        if named && query::SIZES.contains(&parts(&function.name)[0].as_str()) {
            self.asks_sizes = true;
        }
    }
}

/// Functions that take the name of a sequence; `'s'::regclass` is that name.
const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

fn first_argument(function: &mut Function) -> Option<&mut FunctionArg> {
    match &mut function.args {
        FunctionArguments::List(list) => list.args.first_mut(),
        _ => None,
    }
}

/// Whether a collation is the one that texts are compared by anyway.
fn is_plain_collation(collation: &ObjectName) -> bool {
    let own = parts(collation).pop().unwrap_or_default();
    ["default", "c", "posix", "ucs_basic"].contains(&own.to_lowercase().as_str())
}

/// The operator of `OPERATOR(schema.name)`.
fn operator(op: &BinaryOperator) -> Option<BinaryOperator> {
    let BinaryOperator::PGCustomBinaryOperator(said) = op else { return None };
    Some(match said.last()?.as_str() {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "<=" => BinaryOperator::LtEq,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

fn plus_one(index: &Expr) -> Expr {
    let one = Expr::Value(Value::Number("1".to_owned(), false).into());
    let (left, right) = (Box::new(Expr::Nested(Box::new(index.clone()))), Box::new(one));
    Expr::BinaryOp { left, op: BinaryOperator::Plus, right }
}

/// `indkey[0]` is the first item of a vector; our lists count from 1.
fn from_zero(root: &Expr, chain: &mut [AccessExpr]) {
    let mut is_own = is_vector(root);
    for access in chain {
        match access {
            AccessExpr::Dot(name) => is_own = is_vector(name),
            AccessExpr::Subscript(Subscript::Index { index }) if is_own => {
                *index = plus_one(index);
                is_own = false;
            }
            AccessExpr::Subscript(_) => is_own = false,
        }
    }
}

impl VisitorMut for Walk {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &query.with {
            self.ctes.extend(with.cte_tables.iter().map(|cte| folded(&cte.alias.name)));
        }
        options::rewrite(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.scopes.push(self.scope(select));
        for item in &mut select.projection {
            // PostgreSQL's name of the column.
            let SelectItem::UnnamedExpr(expr) = &*item else { continue };
            if let Some(expr) = self.number_of_table(expr) {
                let alias = Ident::new("tableoid");
                *item = SelectItem::ExprWithAlias { expr, alias };
                continue;
            }
            let Expr::Function(function) = expr else { continue };
            let said = parts(&function.name);
            if let Some(own) = said.last()
                && (said.len() == 2 && said[0] == PG_CATALOG || is_here(own))
            {
                let alias = Ident::with_quote('"', own);
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.table(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = expr
            && partitions::reads(query)
        {
            *expr = Expr::Value(Value::Null.into());
        }
        self.before(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Cast { data_type, expr: inner, .. } = expr else {
            return ControlFlow::Continue(());
        };
        if let Some(of) = Registered::of(data_type) {
            *expr = registered_in(of, inner.as_ref().clone());
        } else if cast::is_numbers(data_type)
            && let Some(numbers) = cast::numbers(inner)
        {
            *expr = numbers;
        } else if cast::is_text(data_type)
            && let Some(shown) = registered_out(inner)
        {
            *expr = shown;
        } else {
            cast::settle(data_type);
        }
        ControlFlow::Continue(())
    }
}
