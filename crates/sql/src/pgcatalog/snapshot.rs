//! The catalog at one point in time, with the oids and terms that clients have for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use cellar_instance::catalog::{Catalog, Table, TableKind, name};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::constants::{
    FIRST_VIEW_OID, INFORMATION_OID, PG_CATALOG_OID, PUBLIC_OID, TEMPORARY_OID, VIEWS_OID,
};
use super::object::{Check, Column, EnumType, ForeignKey, Index, Kind, Object, Schema, Sequence};
use super::quoting::quoted;
use super::relations;
use super::types;
use crate::columnar::table::{checked_schema, default_of};
use crate::grammar::CellarDialect;
use crate::names::folded_token;

/// Columns of tables that the catalog does not store, by key.
pub(super) type Found = BTreeMap<String, SchemaRef>;

/// The catalog as seen by a session.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub objects: Vec<Object>,
    pub indexes: Vec<Index>,
    pub checks: Vec<Check>,
    pub foreign: Vec<ForeignKey>,
    pub sequences: Vec<Sequence>,
    pub schemas: Vec<Schema>,
    pub enums: Vec<EnumType>,
    by_oid: HashMap<u32, usize>,
    by_name: HashMap<(u32, String), usize>,
    /// The schemas in which unqualified names are looked up, in order.
    pub path: Vec<u32>,
    /// The queries of views, by oid, and whether the view renames their columns.
    pub queries: HashMap<u32, (String, bool)>,
}

/// A derived oid for an object that has none of its own: from its table, and a text that is unique there.
pub(super) fn number_of(table: u32, own: &str) -> u32 {
    // FNV-1a: it must be the same in every version.
    let mut hash = 0x811c_9dc5_u32;
    for byte in table.to_le_bytes().into_iter().chain(own.bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    (1 << 30) | (hash & ((1 << 30) - 1))
}

/// A text of the catalog as users write it: without the keys of objects.
pub(super) fn plain(text: &str) -> String {
    // A key is always quoted there.
    let text = text.replace(name::SEPARATOR, "\".\"");
    // The rewritten form of the current time.
    let text = text.replace("CAST(now() AS TIMESTAMP(6) WITH TIME ZONE)", "now()");
    text.replace("CAST(now() AS TIMESTAMP(6))", "LOCALTIMESTAMP")
}

/// The names in a condition.
fn words_of(condition: &str) -> BTreeSet<String> {
    let tokens = Tokenizer::new(&CellarDialect, condition).tokenize().unwrap_or_default();
    let words = tokens.iter().filter_map(|token| match token {
        Token::Word(word) => Some(folded_token(word)),
        _ => None,
    });
    words.collect()
}

impl Snapshot {
    /// The catalog as seen by a session with this schema for temporary objects, with our views.
    pub fn of(
        catalog: &Catalog,
        temporary: &str,
        (found, views): (&Found, &[(String, Vec<Field>)]),
    ) -> Snapshot {
        let mut made = Snapshot::default();
        made.add_schemas(catalog, temporary);
        for table in &catalog.tables {
            let (schema, own) = name::parts(&table.name);
            let is_other = name::is_temporary(schema) && schema != temporary;
            let is_none =
                matches!(table.kind, TableKind::Schema | TableKind::Role | TableKind::Database);
            if is_none || is_other {
                continue;
            }
            let oid = made.schemas.iter().find(|known| known.name == schema).map(|own| own.oid);
            made.add_table(table, (oid.unwrap_or(TEMPORARY_OID), own), found);
        }
        made.add_owners(catalog);
        made.add_foreign(catalog);
        for relation in relations::all() {
            let column = |own: &relations::Column| Column {
                not_null: own.not_null,
                ..Column::plain(own.name, types::by_name(own.of).map_or(25, |of| of.oid))
            };
            made.add(Object {
                oid: relation.oid,
                schema: if relation.is_information { INFORMATION_OID } else { PG_CATALOG_OID },
                name: relation.name.to_owned(),
                key: String::new(),
                kind: Kind::System(relation),
                columns: relation.columns.iter().map(column).collect(),
                comment: None,
                is_temporary: false,
            });
        }
        for ((view, fields), oid) in views.iter().zip(FIRST_VIEW_OID..) {
            made.add(Object {
                oid,
                schema: VIEWS_OID,
                name: view.clone(),
                key: String::new(),
                kind: Kind::Ours,
                columns: fields.iter().map(column_of).collect(),
                comment: None,
                is_temporary: false,
            });
        }
        made
    }

    fn add_schemas(&mut self, catalog: &Catalog, temporary: &str) {
        let fixed = [
            (PG_CATALOG_OID, "pg_catalog", Some("system catalog schema")),
            (INFORMATION_OID, "information_schema", None),
            (VIEWS_OID, "cellar", Some("views of the instance")),
        ];
        for (oid, own, comment) in fixed {
            let (name, comment) = (own.to_owned(), comment.map(str::to_owned));
            self.schemas.push(Schema { oid, name, comment });
        }
        for own in catalog.schemas() {
            let Some(oid) = catalog.oid_of_schema(own) else { continue };
            let said = catalog.table(&name::schema_key(own));
            let comment = match said {
                Some(table) => table.comments.own.clone(),
                None => (own == name::PUBLIC).then(|| "standard public schema".to_owned()),
            };
            self.schemas.push(Schema { oid, name: own.to_owned(), comment });
        }
        let has_own = catalog.tables.iter().any(|t| name::parts(&t.name).0 == temporary);
        if has_own {
            let name = temporary.to_owned();
            self.schemas.push(Schema { oid: TEMPORARY_OID, name, comment: None });
        }
    }

    fn add(&mut self, mut object: Object) -> u32 {
        // In catalogs from before oids existed, derived oids may collide.
        while self.by_oid.contains_key(&object.oid) {
            object.oid = (1 << 30) | (object.oid.wrapping_add(1) & ((1 << 30) - 1));
        }
        let (oid, at) = (object.oid, self.objects.len());
        self.by_oid.insert(oid, at);
        self.by_name.insert((object.schema, object.name.clone()), at);
        self.objects.push(object);
        oid
    }

    fn add_table(&mut self, table: &Table, (schema, own): (u32, &str), found: &Found) {
        let kind = match table.kind {
            TableKind::External => Kind::External,
            TableKind::Columnar => {
                let bytes = table.segments.iter().map(|segment| segment.bytes).sum();
                Kind::Columnar { rows: table.rows(), bytes }
            }
            TableKind::Heap => Kind::Heap,
            TableKind::View => Kind::View,
            TableKind::Sequence => Kind::Sequence,
            TableKind::Enum => return self.add_enum(table, (schema, own)),
            TableKind::Schema | TableKind::Role | TableKind::Database => return,
        };
        let oid = self.add(Object {
            oid: table.oid(),
            schema,
            name: own.to_owned(),
            key: table.name.clone(),
            kind,
            columns: columns_of(table, found),
            comment: table.comments.own.clone(),
            is_temporary: name::is_temporary(name::parts(&table.name).0),
        });
        if let Some(view) = &table.view {
            let names = self.object(oid).map(|object| object.columns.clone()).unwrap_or_default();
            let own = view.columns.iter().map(|own| crate::names::shown(own));
            let is_renamed = names.iter().map(|own| own.name.as_str()).ne(own);
            self.queries.insert(oid, (plain(&view.query), is_renamed));
        }
        if let Some(own) = &table.sequence {
            self.sequences.push(Sequence {
                oid,
                of: own.of,
                start: own.start,
                increment: own.increment,
                least: own.least,
                most: own.most,
                cache: own.cache,
                cycles: own.cycles,
                owner: None,
            });
        }
        self.add_parts(table, oid, schema);
    }

    fn add_enum(&mut self, table: &Table, (schema, own): (u32, &str)) {
        let labels = table.labels.iter().flat_map(|labels| &labels.labels);
        self.enums.push(EnumType {
            oid: table.oid(),
            array: table.array_oid(),
            schema,
            name: own.to_owned(),
            labels: labels.map(|label| label.name.clone()).collect(),
            comment: table.comments.own.clone(),
        });
    }

    /// The enum type with an oid, and whether the oid is that of its array type.
    pub fn enum_type(&self, oid: u32) -> Option<(&EnumType, bool)> {
        let found = self.enums.iter().find(|own| own.oid == oid || own.array == oid);
        found.map(|own| (own, own.array == oid))
    }

    /// The name of an enum type as statements find it: qualified if necessary.
    pub fn enum_name(&self, own: &EnumType) -> String {
        let first = self.path.iter().find_map(|schema| {
            self.enums.iter().find(|known| known.schema == *schema && known.name == own.name)
        });
        match (first.is_some_and(|first| first.oid == own.oid), self.schema(own.schema)) {
            (false, Some(schema)) => format!("{}.{}", quoted(&schema.name), quoted(&own.name)),
            _ => quoted(&own.name),
        }
    }

    /// The text of a type with its modifier.
    pub fn format_type(&self, oid: u32, modifier: Option<i64>) -> String {
        match self.enum_type(oid) {
            Some((own, true)) => format!("{}[]", self.enum_name(own)),
            Some((own, false)) => self.enum_name(own),
            None => types::format(oid, modifier),
        }
    }

    /// The enum type that a text names, or its array type.
    pub fn enum_named(&self, text: &str) -> Option<u32> {
        let (text, is_array) = match text.trim().strip_suffix("[]") {
            Some(inner) => (inner.trim_end(), true),
            None => (text.trim(), false),
        };
        let reference = datafusion::common::TableReference::parse_str(text);
        let named = |schema: u32| {
            let mut own = self.enums.iter();
            own.find(|own| own.schema == schema && own.name == reference.table())
        };
        let found = match reference.schema() {
            Some(schema) => named(self.schema_named(schema)?.oid),
            None => self.path.iter().find_map(|schema| named(*schema)),
        };
        found.map(|own| if is_array { own.array } else { own.oid })
    }

    /// Adds indexes and checks of a table.
    fn add_parts(&mut self, table: &Table, of: u32, schema: u32) {
        let Some(rows) = &table.rows else { return };
        let place = |column: usize| i64::try_from(column + 1).unwrap_or(i64::MAX);
        for index in &rows.indexes {
            let own = name::parts(&index.name).1.to_owned();
            let columns: Vec<(i64, bool)> =
                index.columns.iter().map(|c| (place(c.column), c.descending)).collect();
            let known = self.by_oid.get(&of).and_then(|at| self.objects.get(*at));
            let known = known.map(|object| object.columns.clone()).unwrap_or_default();
            let column = |(number, _): &(i64, bool)| {
                let at = usize::try_from(number - 1).ok()?;
                known.get(at).map(|column| Column {
                    modifier: column.modifier,
                    ..Column::plain(column.name.clone(), column.of)
                })
            };
            let comments = &table.comments;
            let comment = comments.indexes.get(&own).cloned();
            let oid = self.add(Object {
                oid: index.oid(),
                schema,
                name: own.clone(),
                key: index.name.clone(),
                kind: Kind::Index,
                columns: columns.iter().filter_map(column).collect(),
                comment: comment.clone(),
                is_temporary: name::is_temporary(name::parts(&table.name).0),
            });
            let comment = comments.constraints.get(&own).cloned();
            let (is_unique, constraint) = (index.is_unique, index.constraint);
            self.indexes.push(Index {
                oid,
                table: of,
                name: own,
                columns,
                is_unique,
                constraint,
                comment,
            });
        }
        let fields = self.object(of).map(|object| object.columns.clone()).unwrap_or_default();
        for check in &rows.checks {
            let words = words_of(&check.condition);
            let named = fields.iter().enumerate().filter(|(_, own)| words.contains(&own.name));
            self.checks.push(Check {
                oid: number_of(of, &check.name),
                table: of,
                name: check.name.clone(),
                condition: plain(&check.condition),
                columns: named.map(|(at, _)| place(at)).collect(),
                comment: table.comments.constraints.get(&check.name).cloned(),
            });
        }
    }

    /// Adds foreign keys, once all tables are known.
    fn add_foreign(&mut self, catalog: &Catalog) {
        let place = |column: usize| i64::try_from(column + 1).unwrap_or(i64::MAX);
        for table in &catalog.tables {
            for key in table.rows.iter().flat_map(|rows| &rows.foreign) {
                let Some((to, index)) = catalog.index(&key.index) else { continue };
                self.foreign.push(ForeignKey {
                    oid: number_of(table.oid(), &key.name),
                    table: table.oid(),
                    name: key.name.clone(),
                    columns: key.columns.iter().map(|column| place(*column)).collect(),
                    to: to.oid(),
                    to_columns: index.columns.iter().map(|own| place(own.column)).collect(),
                    index: index.oid(),
                    on_delete: key.on_delete,
                    on_update: key.on_update,
                    deferral: key.deferral,
                    comment: table.comments.constraints.get(&key.name).cloned(),
                });
            }
        }
    }

    /// Adds the columns that sequences belong to.
    fn add_owners(&mut self, catalog: &Catalog) {
        for table in &catalog.tables {
            for own in table.rows.iter().flat_map(|rows| &rows.owned) {
                let Some(sequence) = catalog.table(&own.sequence) else { continue };
                let number = i64::try_from(own.column + 1).unwrap_or(i64::MAX);
                let owner = (table.oid(), number, own.identity.is_some());
                let oid = sequence.oid();
                for known in self.sequences.iter_mut().filter(|known| known.oid == oid) {
                    known.owner = Some(owner);
                }
            }
        }
    }

    /// The object with an oid.
    pub fn object(&self, oid: u32) -> Option<&Object> {
        self.by_oid.get(&oid).and_then(|at| self.objects.get(*at))
    }

    /// The object with a name in a schema.
    pub fn named(&self, schema: u32, own: &str) -> Option<&Object> {
        // Names are looked up by borrowed parts, without copying them.
        self.by_name.get(&(schema, own.to_owned())).and_then(|at| self.objects.get(*at))
    }

    /// The object with a name in `public`.
    pub fn public_object(&self, own: &str) -> Option<&Object> {
        self.named(PUBLIC_OID, own)
    }

    /// The schema with an oid.
    pub fn schema(&self, oid: u32) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.oid == oid)
    }

    /// The schema with a name.
    pub fn schema_named(&self, own: &str) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.name == own)
    }

    /// The first object with a name along the path.
    pub fn in_path(&self, own: &str) -> Option<&Object> {
        self.path.iter().find_map(|schema| self.named(*schema, own))
    }

    /// Whether an object is found by its unqualified name.
    pub fn is_visible(&self, object: &Object) -> bool {
        self.in_path(&object.name).is_some_and(|first| first.oid == object.oid)
    }

    /// The indexes of a table.
    pub fn indexes_of(&self, table: u32) -> impl Iterator<Item = &Index> {
        self.indexes.iter().filter(move |index| index.table == table)
    }

    /// The index with an oid.
    pub fn index(&self, oid: u32) -> Option<&Index> {
        self.indexes.iter().find(|index| index.oid == oid)
    }
}

/// `nextval('key')` as PostgreSQL writes it, always with the schema.
fn of_sequence(default: &str) -> Option<String> {
    let own = default.strip_prefix("nextval('")?.strip_suffix("')")?.replace("''", "'");
    // A key, or a qualified name.
    let own = datafusion::common::TableReference::parse_str(&own);
    let (schema, name) = match own.schema() {
        Some(schema) => (schema, own.table()),
        None => name::parts(own.table()),
    };
    let text = format!("{}.{}", quoted(schema), quoted(name));
    Some(format!("nextval('{}'::regclass)", text.replace('\'', "''")))
}

fn column_of(field: &Field) -> Column {
    let (of, modifier) = types::of_field(field);
    let default = default_of(field).map(|text| of_sequence(text).unwrap_or_else(|| plain(text)));
    let not_null = !field.is_nullable();
    Column { modifier, default, not_null, ..Column::plain(field.name(), of) }
}

/// The columns of a table, a view or a sequence.
fn columns_of(table: &Table, found: &Found) -> Vec<Column> {
    if table.kind == TableKind::Sequence {
        let fixed = [("last_value", "int8"), ("log_cnt", "int8"), ("is_called", "bool")];
        let column = |(own, of): (&str, &str)| Column {
            not_null: true,
            ..Column::plain(own, types::by_name(of).map_or(20, |of| of.oid))
        };
        return fixed.map(column).into();
    }
    let kept = checked_schema(&table.schema).ok();
    let Some(schema) = found.get(&table.name).map(Arc::clone).or(kept) else { return Vec::new() };
    let owned = table.rows.iter().flat_map(|rows| &rows.owned);
    let identities: HashMap<usize, _> =
        owned.filter_map(|own| Some((own.column, own.identity?))).collect();
    let column = |(at, field): (usize, &Arc<Field>)| {
        let mut column = column_of(field);
        column.identity = identities.get(&at).copied();
        if column.identity.is_some() {
            column.default = None;
        }
        column.comment = table.comments.columns.get(field.name()).cloned();
        column
    };
    schema.fields().iter().enumerate().map(column).collect()
}
