//! Name resolution in statements: each name is replaced by the key of the object it stands for, before
//! anything else looks at it.

use std::borrow::Cow;

use cellar_instance::catalog::{Catalog, Constraint, name};
use datafusion::sql::parser::{CopyToSource, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterIndexOperation, AlterTableOperation, ColumnDef, ColumnOption,
    CreateIndex, CreateTable, CreateTableLikeKind, CreateTableOptions, CreateView, Expr,
    ForeignKeyConstraint, Ident, Insert, ObjectName, ObjectNamePart, ObjectType, SetExpr,
    SqlOption, Statement as SqlStatement, TableAliasWithoutColumns, TableConstraint, TableObject,
    Value,
};

use crate::columnar::table::checked_schema;
use crate::engine::{Engine, tables};
use crate::error::Error;
use crate::names::folded;
use crate::names::grouped::{Keyed, group_by_keys};
use crate::names::path::TEMPORARY;
use crate::names::resolve::{Resolver, key_name};
use crate::parse::changed_query;
use crate::parse::table_kind::{ACCESS_METHOD, HEAP};
use crate::statement::rights::{On, RightsStatement};
use crate::statement::{About, Define, OwnedBy, Reindexed};

impl Engine {
    /// Whether an unqualified name is not in the catalog: a view of the session, a system view, or a file.
    fn is_own_name(&self, name: &str) -> bool {
        self.tables.is_own(name) || tables::is_file(name)
    }

    /// Runs `work` with a resolver for the current search path; `None`: each name stands for itself.
    fn resolving<T>(
        &self,
        work: impl FnOnce(&Resolver<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let Some(rows) = self.host.rows() else { return Ok(None) };
        let catalog = rows.catalog().unwrap_or_default();
        if self.paths.is_plain() && !catalog.has_schemas() {
            return Ok(None);
        }
        let is_own = |name: &str| self.is_own_name(name);
        work(&Resolver::new(&catalog, &self.paths, &is_own)).map(Some)
    }

    /// A statement with its names replaced by keys.
    ///
    /// # Errors
    /// 3F000 there is no such schema; 42P01 a table is in no schema of the path.
    pub(super) fn resolved(&self, mut statement: DfStatement) -> Result<DfStatement, Error> {
        if let Some(name) = temporary(&mut statement)? {
            self.paths.set_temporary();
            let own = name.0.pop();
            let schema = ObjectNamePart::Identifier(Ident::new(TEMPORARY));
            name.0 = std::iter::once(schema).chain(own).collect();
        }
        self.resolving(|resolver| resolve(resolver, &mut statement))?;
        if let DfStatement::Statement(inner) = &mut statement {
            group_by_keys(inner.as_mut(), &|name| self.keyed(name));
        }
        Ok(statement)
    }

    /// A table of the heap that has a primary key, by its name in a statement that is resolved.
    fn keyed(&self, name: &ObjectName) -> Option<Keyed> {
        let catalog = self.host.rows()?.catalog().ok()?;
        let [part] = &name.0[..] else { return None };
        let (table, rows) = catalog.row_table(&folded(part.as_ident()?))?;
        let mut indexes = rows.indexes.iter();
        let key = indexes.find(|index| index.constraint == Some(Constraint::Primary))?;
        let schema = checked_schema(&table.schema).ok()?;
        let columns: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        let key = key.columns.iter().map(|own| columns[own.column].clone()).collect();
        Some(Keyed { columns, key })
    }

    /// The same of a statement of SQL.
    pub(super) fn resolved_sql(&self, statement: SqlStatement) -> Result<SqlStatement, Error> {
        match self.resolved(DfStatement::Statement(Box::new(statement)))? {
            DfStatement::Statement(statement) => Ok(*statement),
            _ => Err(Error::new(600, "XX000", "a statement became another one")),
        }
    }

    /// The query of a view with names replaced by keys, so that it does not depend on the search path.
    pub(super) fn resolved_query<'a>(&self, query: &'a str) -> Result<Cow<'a, str>, Error> {
        let changed = self.resolving(|resolver| {
            changed_query(query, |statement| resolver.resolve_within(statement))
        })?;
        Ok(changed.flatten().map_or(Cow::Borrowed(query), Cow::Owned))
    }

    /// A view of the session alone: it is in no schema.
    pub(super) fn resolve_own_view(&self, create: &mut CreateView) -> Result<(), Error> {
        if let Some(ident) = create.name.0.last().and_then(|part| part.as_ident()) {
            let own = name::parts(&folded(ident)).1.to_owned();
            create.name = key_name(&own);
        }
        self.resolving(|resolver| resolver.resolve_within(create.query.as_mut())).map(drop)
    }

    /// The resolved name of an existing table, as a text.
    pub(super) fn resolved_name(&self, text: &str) -> Result<String, Error> {
        let mut reference = datafusion::common::TableReference::parse_str(text);
        self.resolving(|resolver| resolver.resolve_reference(&mut reference))?;
        Ok(match reference.table().contains(name::SEPARATOR) {
            true => format!("\"{}\"", reference.table().replace('"', "\"\"")),
            false => text.to_owned(),
        })
    }

    /// The cache key of a fast-path plan.
    pub(super) fn plan_key<'a>(&self, key: &'a str) -> Cow<'a, str> {
        match self.paths.is_plain() {
            true => Cow::Borrowed(key),
            false => Cow::Owned(format!("{key}{}", self.paths.key())),
        }
    }

    /// Replaces the names in a statement of our own parser by keys.
    pub(super) fn resolve_define(&self, define: &mut Define) -> Result<(), Error> {
        if let Define::CreateSequence { name, .. } | Define::CreateLike { name, .. } = define
            && name.schema() == Some(TEMPORARY)
        {
            self.paths.set_temporary();
        }
        self.resolving(|resolver| match define {
            Define::CreateSequence { name, owned_by, .. } => {
                let key = resolver.made(name.schema(), name.table())?;
                *name = datafusion::common::TableReference::bare(key);
                resolve_owner(resolver, owned_by)
            }
            Define::AlterSequence { name, owned_by, .. } => {
                resolver.resolve_reference(name)?;
                resolve_owner(resolver, owned_by)
            }
            Define::Maintain { tables, .. } | Define::Lock { tables, .. } => {
                tables.iter_mut().try_for_each(|table| resolver.resolve_reference(table))
            }
            Define::Reindex { of: Reindexed::Index(name) | Reindexed::Table(name), .. } => {
                resolver.resolve_reference(name)
            }
            Define::CreateLike { name, source, .. } => {
                let key = resolver.made(name.schema(), name.table())?;
                *name = datafusion::common::TableReference::bare(key);
                resolver.resolve_reference(source)
            }
            Define::CreateEnum { name, .. } => {
                let key = resolver.made(name.schema(), name.table())?;
                *name = datafusion::common::TableReference::bare(key);
                Ok(())
            }
            Define::AlterEnum { name, .. } => resolver.resolve_reference(name),
            Define::DropTypes { names, .. } | Define::DropForeign { names, .. } => {
                names.iter_mut().try_for_each(|name| resolver.resolve_reference(name))
            }
            Define::SetSchema { name, .. } => resolver.resolve_reference(name),
            Define::AddIdentity { table, sequence, .. } => {
                resolver.resolve_reference(table)?;
                let key = resolver.made(sequence.schema(), sequence.table())?;
                *sequence = datafusion::common::TableReference::bare(key);
                Ok(())
            }
            Define::Comment { about, .. } | Define::SetOwner { of: about, .. } => match about {
                About::Schema(_) => Ok(()),
                About::Table(name)
                | About::View(name)
                | About::Sequence(name)
                | About::Index(name)
                | About::Type(name)
                | About::Column(name, _)
                | About::Constraint(name, _) => resolver.resolve_reference(name),
            },
            Define::Rights(statement) => match statement.as_mut() {
                RightsStatement::Change {
                    on: On::Tables(names) | On::Sequences(names) | On::Types(names),
                    ..
                } => names.iter_mut().try_for_each(|name| resolver.resolve_reference(name)),
                _ => Ok(()),
            },
            Define::Role(_)
            | Define::Reindex { .. }
            | Define::CreateSchema { .. }
            // Names of constraints are looked for where they are needed.
            | Define::SetConstraints { .. }
            | Define::DropSchema { .. }
            | Define::RenameSchema { .. } => Ok(()),
        })
        .map(drop)
    }
}

fn resolve_owner(resolver: &Resolver<'_>, owned_by: &mut Option<OwnedBy>) -> Result<(), Error> {
    match owned_by {
        Some(OwnedBy::Column(table, _)) => resolver.resolve_reference(table),
        _ => Ok(()),
    }
}

/// The schema that a name says.
fn said_schema(name: &ObjectName) -> Option<String> {
    let at = name.0.len().checked_sub(2)?;
    name.0[at].as_ident().map(folded)
}

/// Whether a statement creates a temporary table.
pub(super) fn makes_temporary(statement: &DfStatement) -> bool {
    let DfStatement::Statement(inner) = statement else { return false };
    let is_temporary = |said: bool, name: &ObjectName| {
        said || said_schema(name).is_some_and(|schema| schema == TEMPORARY)
    };
    match inner.as_ref() {
        SqlStatement::CreateTable(create) => is_temporary(create.temporary, &create.name),
        SqlStatement::Query(query) => match query.body.as_ref() {
            SetExpr::Select(select) => {
                select.into.as_ref().is_some_and(|into| is_temporary(into.temporary, &into.name))
            }
            _ => false,
        },
        _ => false,
    }
}

/// The name of the temporary table that a statement creates, if it does; its TEMPORARY is replaced by USING heap.
///
/// # Errors
/// 42P16 its name has another schema.
fn temporary(statement: &mut DfStatement) -> Result<Option<&mut ObjectName>, Error> {
    if !makes_temporary(statement) {
        return Ok(None);
    }
    let DfStatement::Statement(inner) = statement else { return Ok(None) };
    let name = match inner.as_mut() {
        SqlStatement::CreateTable(create) => {
            create.temporary = false;
            say_heap(create);
            &mut create.name
        }
        SqlStatement::Query(query) => match query.body.as_mut() {
            SetExpr::Select(select) => match &mut select.into {
                Some(into) => {
                    into.temporary = false;
                    &mut into.name
                }
                None => return Ok(None),
            },
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    match said_schema(name) {
        Some(schema) if schema != TEMPORARY => {
            let text =
                format!("a temporary table is in the schema of its session, not in \"{schema}\"");
            Err(Error::new(1435, "42P16", text).next("leave the schema out"))
        }
        _ => Ok(Some(name)),
    }
}

/// Adds USING heap to a CREATE TABLE.
fn say_heap(create: &mut CreateTable) {
    let option = SqlOption::KeyValue {
        key: Ident::new(ACCESS_METHOD),
        value: Expr::Value(Value::SingleQuotedString(HEAP.to_owned()).into()),
    };
    match &mut create.table_options {
        CreateTableOptions::With(options) => options.push(option),
        none => *none = CreateTableOptions::With(vec![option]),
    }
}

fn resolve(resolver: &Resolver<'_>, statement: &mut DfStatement) -> Result<(), Error> {
    match statement {
        DfStatement::Statement(inner) => resolve_sql(resolver, inner),
        DfStatement::Explain(explain) => resolve(resolver, &mut explain.statement),
        DfStatement::CreateExternalTable(create) => {
            resolver.resolve_made(&mut create.name).map(drop)
        }
        DfStatement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Relation(name) => resolver.resolve(name).map(drop),
            CopyToSource::Query(query) => resolver.resolve_within(query.as_mut()).map(drop),
        },
        DfStatement::Reset(_) => Ok(()),
    }
}

fn resolve_sql(resolver: &Resolver<'_>, statement: &mut SqlStatement) -> Result<(), Error> {
    use SqlStatement as S;
    let within = |statement: &mut SqlStatement| resolver.resolve_within(statement).map(drop);
    match statement {
        S::Query(query) => {
            if let SetExpr::Select(select) = query.body.as_mut()
                && let Some(into) = &mut select.into
            {
                resolver.resolve_made(&mut into.name)?;
            }
            within(statement)
        }
        S::Insert(insert) => {
            resolve_insert(resolver, insert)?;
            within(statement)
        }
        S::Update(_) | S::Delete(_) => within(statement),
        S::CreateTable(create) => {
            let said = create.name.clone();
            resolver.resolve_made(&mut create.name)?;
            if let Some(
                CreateTableLikeKind::Plain(like) | CreateTableLikeKind::Parenthesized(like),
            ) = &mut create.like
            {
                resolver.resolve(&mut like.name)?;
            }
            for column in &mut create.columns {
                let _ = resolver.resolve_type(&mut column.data_type);
            }
            let keys = create.columns.iter_mut().flat_map(foreign_of_column);
            for key in keys.chain(create.constraints.iter_mut().filter_map(foreign)) {
                // A table may refer to itself, which is not there yet.
                match is_itself(&key.foreign_table, &said) {
                    true => key.foreign_table.clone_from(&create.name),
                    false => drop(resolver.resolve(&mut key.foreign_table)?),
                }
            }
            within(statement)
        }
        // A view's query is resolved as it was written.
        S::CreateView(create) => match create.temporary {
            true => within(statement),
            false => resolver.resolve_made(&mut create.name).map(drop),
        },
        S::CreateIndex(create) => resolve_index(resolver, create),
        S::AlterTable(alter) => {
            resolver.resolve(&mut alter.name)?;
            for action in &mut alter.operations {
                resolve_action(resolver, action)?;
            }
            within(statement)
        }
        S::AlterIndex { name, operation: AlterIndexOperation::RenameIndex { .. } } => {
            resolver.resolve(name).map(drop)
        }
        S::Drop { object_type, names, .. } if *object_type != ObjectType::Schema => {
            names.iter_mut().try_for_each(|name| resolver.resolve(name).map(drop))
        }
        S::Truncate(truncate) => {
            let tables = truncate.table_names.iter_mut();
            tables.map(|table| &mut table.name).try_for_each(|n| resolver.resolve(n).map(drop))
        }
        S::ExplainTable { table_name, .. } => resolver.resolve(table_name).map(drop),
        S::Explain { statement, .. } => resolve_sql(resolver, statement),
        _ => Ok(()),
    }
}

/// The types and other tables that an ALTER TABLE names.
fn resolve_action(resolver: &Resolver<'_>, action: &mut AlterTableOperation) -> Result<(), Error> {
    match action {
        AlterTableOperation::AddColumn { column_def, .. } => {
            let _ = resolver.resolve_type(&mut column_def.data_type);
            let mut keys = foreign_of_column(column_def);
            keys.try_for_each(|key| resolver.resolve(&mut key.foreign_table).map(drop))
        }
        AlterTableOperation::AddConstraint { constraint, .. } => match foreign(constraint) {
            Some(key) => resolver.resolve(&mut key.foreign_table).map(drop),
            None => Ok(()),
        },
        AlterTableOperation::AlterColumn {
            op: AlterColumnOperation::SetDataType { data_type, .. },
            ..
        } => {
            let _ = resolver.resolve_type(data_type);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether a name in a CREATE TABLE refers to the table being created.
fn is_itself(name: &ObjectName, made: &ObjectName) -> bool {
    let is_temporary = |part: &ObjectNamePart| {
        part.as_ident().is_some_and(|own| folded(own).starts_with(TEMPORARY))
    };
    let is_bare =
        |own: &[ObjectNamePart]| matches!((own, &name.0[..]), ([own], [one]) if own == one);
    name == made
        || matches!(&made.0[..], [schema, own @ ..] if is_temporary(schema) && is_bare(own))
}

fn foreign(constraint: &mut TableConstraint) -> Option<&mut ForeignKeyConstraint> {
    match constraint {
        TableConstraint::ForeignKey(key) => Some(key),
        _ => None,
    }
}

fn foreign_of_column(column: &mut ColumnDef) -> impl Iterator<Item = &mut ForeignKeyConstraint> {
    column.options.iter_mut().filter_map(|option| match &mut option.option {
        ColumnOption::ForeignKey(key) => Some(key),
        _ => None,
    })
}

fn resolve_insert(resolver: &Resolver<'_>, insert: &mut Insert) -> Result<(), Error> {
    let TableObject::TableName(name) = &mut insert.table else { return Ok(()) };
    let own = name.0.last().and_then(|part| part.as_ident()).cloned();
    let is_other = resolver.resolve(name)?;
    // Other clauses that may name the table by its own name.
    let names_table = insert.returning.is_some() || insert.on.is_some();
    if let (Some(alias), true, true, None) = (own, is_other, names_table, &insert.table_alias) {
        insert.table_alias = Some(TableAliasWithoutColumns { explicit: true, alias });
    }
    Ok(())
}

/// An index is in the schema of its table.
fn resolve_index(resolver: &Resolver<'_>, create: &mut CreateIndex) -> Result<(), Error> {
    resolver.resolve(&mut create.table_name)?;
    let table = create.table_name.0.last().and_then(|part| part.as_ident());
    if let (Some(table), Some(own)) = (table, &mut create.name)
        && let [part] = &own.0[..]
        && let Some(ident) = part.as_ident()
    {
        *own = key_name(&name::beside(&table.value, &folded(ident)));
    }
    Ok(())
}

/// The schemas of the catalog in which a session looks.
pub(super) fn schemas_of(catalog: &Catalog) -> Vec<String> {
    catalog.schemas().into_iter().map(str::to_owned).collect()
}
