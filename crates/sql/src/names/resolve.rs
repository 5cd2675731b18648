//! Names of tables and similar objects in statements: looked up along the search path, and replaced by
//! the single text by which the catalog knows each. An object in `public` keeps its name.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use cellar_instance::catalog::{Catalog, name};
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, FromTable, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement, TableAlias, TableFactor, TableWithJoins, UpdateTableFromKind, Value,
    VisitMut, VisitorMut,
};

use super::path::{Paths, SYSTEM};
use crate::error::Error;
use crate::names::folded;
use crate::walk::visit;

/// Functions whose first argument is the name of a sequence.
const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

/// The objects that names stand for in a session, at one point in time.
pub(crate) struct Resolver<'a> {
    pub catalog: &'a Catalog,
    pub paths: &'a Paths,
    /// Whether a name is not a table of the catalog: a view of the session, or one of ours.
    pub is_own: &'a dyn Fn(&str) -> bool,
    /// The schemas of the path.
    path: Vec<String>,
}

/// The name by which the catalog knows an object.
pub(crate) fn key_name(key: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', key)])
}

/// The error for a schema that does not exist.
pub(crate) fn no_schema(schema: &str) -> Error {
    Error::new(1435, "3F000", format!("schema \"{schema}\" does not exist"))
        .next("make it: create schema ..")
}

/// The error for a table that does not exist.
fn no_table(name: &str) -> Error {
    Error::new(942, "42P01", format!("table or view \"{name}\" does not exist"))
        .next("name its schema, or set search_path")
}

/// The schema of a name, if it has one, and the name itself.
fn parts_of(name: &ObjectName) -> Option<(Option<String>, String)> {
    let idents = name.0.iter().map(ObjectNamePart::as_ident);
    let idents = idents.collect::<Option<Vec<&Ident>>>()?;
    match idents[..] {
        [name] => Some((None, folded(name))),
        [schema, name] => Some((Some(folded(schema)), folded(name))),
        [catalog, schema, name] if folded(catalog) == crate::names::CATALOG => {
            Some((Some(folded(schema)), folded(name)))
        }
        _ => None,
    }
}

/// The key of an enum type that a name stands for.
pub(crate) fn enum_key(catalog: &Catalog, paths: &Paths, said: &ObjectName) -> Option<String> {
    let (schema, own) = parts_of(said)?;
    let is_type = |key: &String| catalog.enum_type(key).is_some();
    match schema {
        Some(schema) => Some(name::key_of(paths.schema(&schema), &own)).filter(is_type),
        None if own.contains(name::SEPARATOR) => Some(own).filter(is_type),
        None => {
            let path = paths.schemas(catalog, true);
            path.iter().map(|schema| name::key_of(schema, &own)).find(is_type)
        }
    }
}

impl<'a> Resolver<'a> {
    pub fn new(
        catalog: &'a Catalog,
        paths: &'a Paths,
        is_own: &'a dyn Fn(&str) -> bool,
    ) -> Resolver<'a> {
        Resolver { catalog, paths, is_own, path: paths.schemas(catalog, true) }
    }

    /// The key of an existing object; `None`: the name stays as it is.
    ///
    /// # Errors
    /// 42P01 it is in `public`, which is not in the path.
    fn found(&self, schema: Option<&str>, own: &str) -> Result<Option<String>, Error> {
        let Some(schema) = schema else { return self.found_in_path(own) };
        let schema = self.paths.schema(schema);
        let is_known = schema == self.paths.temporary()
            || (schema != name::PUBLIC
                && !SYSTEM.contains(&schema)
                && self.catalog.has_schema(schema));
        Ok(is_known.then(|| name::key_of(schema, own)))
    }

    fn found_in_path(&self, own: &str) -> Result<Option<String>, Error> {
        if own.contains(name::SEPARATOR) || (self.is_own)(own) {
            return Ok(None);
        }
        for schema in &self.path {
            let key = name::key_of(schema, own);
            if self.catalog.kind_of(&key).is_some() {
                return Ok((schema != name::PUBLIC).then_some(key));
            }
        }
        let has_public = self.path.iter().any(|schema| schema == name::PUBLIC);
        match !has_public && self.catalog.kind_of(own).is_some() {
            true => Err(no_table(own)),
            false => Ok(None),
        }
    }

    /// The key of a name that exists.
    ///
    /// # Errors
    /// 42P01 it is in `public`, which is not in the path.
    pub fn key(&self, name: &ObjectName) -> Result<Option<String>, Error> {
        let Some((schema, own)) = parts_of(name) else { return Ok(None) };
        self.found(schema.as_deref(), &own)
    }

    /// Replaces a name that exists by its key; returns whether that changed it.
    ///
    /// # Errors
    /// Those of [`Resolver::key`].
    pub fn resolve(&self, name: &mut ObjectName) -> Result<bool, Error> {
        let key = self.key(name)?;
        let is_other = key.is_some();
        if let Some(key) = key {
            *name = key_name(&key);
        }
        Ok(is_other)
    }

    /// The same for a reference.
    ///
    /// # Errors
    /// Those of [`Resolver::key`].
    pub fn resolve_reference(&self, reference: &mut TableReference) -> Result<(), Error> {
        if let Some(key) = self.found(reference.schema(), reference.table())? {
            *reference = TableReference::bare(key);
        }
        Ok(())
    }

    /// The key of an object that is to be created.
    ///
    /// # Errors
    /// 3F000 there is no such schema, or none in the path.
    pub fn made(&self, schema: Option<&str>, own: &str) -> Result<String, Error> {
        match schema {
            Some(said) => {
                let schema = self.paths.schema(said);
                if schema == self.paths.temporary() {
                    self.paths.set_temporary();
                } else if SYSTEM.contains(&schema) || !self.catalog.has_schema(schema) {
                    return Err(no_schema(said));
                }
                Ok(name::key_of(schema, own))
            }
            None if own.contains(name::SEPARATOR) => Ok(own.to_owned()),
            None => match self.paths.schemas(self.catalog, false).first() {
                Some(schema) => Ok(name::key_of(schema, own)),
                None => Err(Error::new(
                    1435,
                    "3F000",
                    "no schema has been selected to create in: none of search_path is there",
                )
                .next("set search_path to public, or name a schema: create .. schema.name")),
            },
        }
    }

    /// Replaces the name of an object that is to be created by its key.
    ///
    /// # Errors
    /// Those of [`Resolver::made`].
    pub fn resolve_made(&self, name: &mut ObjectName) -> Result<bool, Error> {
        let Some((schema, own)) = parts_of(name) else { return Ok(false) };
        // Names of ours are refused elsewhere, with another message.
        if schema.as_deref().is_some_and(|schema| SYSTEM.contains(&schema))
            || (schema.is_none() && (self.is_own)(&own))
        {
            return Ok(false);
        }
        let key = self.made(schema.as_deref(), &own)?;
        *name = key_name(&key);
        Ok(key.contains(name::SEPARATOR))
    }

    /// Replaces all names that a part of a statement reads by their keys; returns whether that changed any.
    ///
    /// # Errors
    /// Those of [`Resolver::key`].
    pub fn resolve_within<T: VisitMut>(&self, part: &mut T) -> Result<bool, Error> {
        let mut walk =
            Walk { resolver: self, ctes: Vec::new(), doubled: BTreeSet::new(), has_changed: false };
        match visit(part, &mut walk) {
            ControlFlow::Continue(()) => Ok(walk.has_changed),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// Replaces the name of an enum type by its key.
    pub fn resolve_type(&self, said: &mut DataType) -> bool {
        let name = match said {
            DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => {
                return self.resolve_type(inner);
            }
            DataType::Custom(name, modifiers) if modifiers.is_empty() => name,
            _ => return false,
        };
        match enum_key(self.catalog, self.paths, name) {
            Some(key) if key.contains(name::SEPARATOR) => {
                *name = key_name(&key);
                true
            }
            _ => false,
        }
    }

    /// The key of a sequence that a text names.
    fn sequence(&self, text: &str) -> Result<Option<String>, Error> {
        let reference = TableReference::parse_str(text);
        let key = self.found(reference.schema(), reference.table())?;
        Ok(key.map(|key| format!("\"{}\"", key.replace('"', "\"\""))))
    }

    /// Whether the objects of a schema are known by keys.
    fn is_keyed(&self, schema: &str) -> bool {
        let schema = self.paths.schema(schema);
        schema == self.paths.temporary()
            || (schema != name::PUBLIC && self.catalog.has_schema(schema))
    }
}

/// A walk over a statement.
struct Walk<'a> {
    resolver: &'a Resolver<'a>,
    /// The names of WITH queries, from outermost to innermost.
    ctes: Vec<BTreeSet<String>>,
    /// Table names that occur with several schemas in one FROM.
    doubled: BTreeSet<String>,
    has_changed: bool,
}

impl Walk<'_> {
    fn enter(&mut self, query: &mut Query) -> Result<(), Error> {
        self.ctes.push(BTreeSet::new());
        let Some(with) = &mut query.with else { return Ok(()) };
        let recursive = with.recursive;
        for cte in &mut with.cte_tables {
            let own = folded(&cte.alias.name);
            if recursive && let Some(names) = self.ctes.last_mut() {
                names.insert(own.clone());
            }
            // Unless WITH is recursive, its own name refers to an outer table here.
            if let ControlFlow::Break(error) = visit(cte.query.as_mut(), self) {
                return Err(error);
            }
            if let Some(names) = self.ctes.last_mut() {
                names.insert(own);
            }
        }
        Ok(())
    }

    fn note_doubled<'t>(&mut self, from: impl Iterator<Item = &'t TableWithJoins>) {
        let mut seen = BTreeSet::new();
        let factors = from.flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        for factor in factors {
            if let TableFactor::Table { name, alias: None, .. } = factor
                && let Some((_, own)) = parts_of(name)
                && !seen.insert(own.clone())
            {
                self.doubled.insert(own);
            }
        }
    }

    fn table(&mut self, factor: &mut TableFactor) -> Result<(), Error> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return Ok(()) };
        let Some((schema, own)) = parts_of(name) else { return Ok(()) };
        if schema.is_none() && self.ctes.iter().any(|names| names.contains(&own)) {
            return Ok(());
        }
        let Some(key) = self.resolver.found(schema.as_deref(), &own)? else { return Ok(()) };
        *name = key_name(&key);
        self.has_changed = true;
        if alias.is_none() {
            let known_as = if self.doubled.contains(&own) { key } else { own };
            let name = Ident::with_quote('"', known_as);
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
        Ok(())
    }

    /// A column, or all columns, of a table that is written with its schema: qualified by the table's
    /// new name.
    fn qualifier(&mut self, parts: &mut Vec<Ident>, behind: usize) {
        let Some(at) = parts.len().checked_sub(behind + 2) else { return };
        let (schema, table) = (folded(&parts[at]), folded(&parts[at + 1]));
        if !self.resolver.is_keyed(&schema) {
            return;
        }
        let is_doubled = self.doubled.contains(&table);
        // Within a query, a schema in front distinguishes an outer table from a column: see `outer`.
        if behind > 0 && !is_doubled && !self.ctes.is_empty() {
            return;
        }
        self.has_changed = true;
        if is_doubled {
            let key = name::key_of(self.resolver.paths.schema(&schema), &table);
            parts[at + 1] = Ident::with_quote('"', key);
        }
        parts.drain(..=at);
    }

    fn expression(&mut self, expr: &mut Expr) -> Result<(), Error> {
        match expr {
            Expr::CompoundIdentifier(parts) if parts.len() > 2 => self.qualifier(parts, 1),
            Expr::Cast { data_type, .. } => {
                self.has_changed |= self.resolver.resolve_type(data_type);
            }
            Expr::TypedString(typed) => {
                self.has_changed |= self.resolver.resolve_type(&mut typed.data_type);
            }
            Expr::Function(function) => {
                let named = function.name.to_string().to_ascii_lowercase();
                let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
                if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) =
                    list.args.first_mut()
                    && OF_SEQUENCES.contains(&named.as_str())
                    && let Value::SingleQuotedString(text) = &mut value.value
                    && let Some(key) = self.resolver.sequence(text)?
                {
                    *text = key;
                    self.has_changed = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn select(&mut self, select: &mut Select) {
        self.note_doubled(select.from.iter());
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
                && name.0.len() > 1
            {
                let idents = name.0.iter().filter_map(|part| part.as_ident().cloned());
                let mut idents: Vec<Ident> = idents.collect();
                self.qualifier(&mut idents, 0);
                *name = ObjectName::from(idents);
            }
        }
    }
}

fn flow(done: Result<(), Error>) -> ControlFlow<Error> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl VisitorMut for Walk<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let SetExpr::Select(select) = query.body.as_mut() {
            self.select(select);
        }
        flow(self.enter(query))
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.ctes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<Error> {
        match statement {
            Statement::Update(update) => {
                let more: &[TableWithJoins] = match &update.from {
                    Some(
                        UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from),
                    ) => from,
                    None => &[],
                };
                self.note_doubled(std::iter::once(&update.table).chain(more));
            }
            Statement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) =
                    &delete.from;
                self.note_doubled(from.iter().chain(delete.using.iter().flatten()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.select(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        flow(self.table(factor))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        flow(self.expression(expr))
    }
}
