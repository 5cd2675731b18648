//! A table as the catalog keeps it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{EnumType, Grants, Role, RowTable, Sequence, View, name};

/// The option that has the further locations of an external table, as a JSON array.
const MORE_LOCATIONS: &str = "more_locations";

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// Files in the group or outside, read as they are.
    External,
    /// Segments in a group, which belong to the table alone.
    Columnar,
    /// Rows in the heap, which change.
    Heap,
    /// A sequence: no table, but in the same namespace.
    Sequence,
    /// A view: a query with a name.
    View,
    /// A schema: what other names are in.
    Schema,
    /// A role: who may connect, and what is whose.
    Role,
    /// An enum type: no table, but in the same namespace.
    Enum,
    /// The database itself, if something was recorded about it.
    Database,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// As SQL resolves it: lower case unless it was quoted.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// `parquet`, `csv`, ...
    pub format: String,
    /// `+GROUP/path`, a path, or a URL; of a columnar table `+GROUP`.
    pub location: String,
    /// The columns, in whatever form the SQL layer chose.
    pub schema: String,
    /// Options of the format.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Of a columnar table: a random number that each of its row groups carries; else 0.
    // Left out where there is none: a catalog of external tables has the bytes it always had.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub id: u64,
    /// Identifies it for as long as it exists, whatever its name is: see [`Table::oid`]. 0: it has the
    /// number of its rows, of its counter or of its id.
    #[serde(default, skip_serializing_if = "no_number")]
    pub number: u32,
    /// The rows of a columnar table, in the order in which they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
    /// Of a table in the heap: where its rows are, its indexes and constraints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowTable>,
    /// Of a sequence: what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Sequence>,
    /// Of a view: what it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
    /// Of a role: what it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Of an enum type: its labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<EnumType>,
    /// What COMMENT says of it and of what belongs to it.
    #[serde(default, skip_serializing_if = "Comments::is_empty")]
    pub comments: Comments,
    /// The role that owns it; 0: the default owner of such objects. See [`Table::owner`].
    #[serde(default, skip_serializing_if = "no_number")]
    pub owner: u32,
    /// What GRANT has said.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
}

/// What people have written about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comments {
    /// About itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<String>,
    /// About its columns, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, String>,
    /// About its indexes, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, String>,
    /// About its constraints, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub constraints: BTreeMap<String, String>,
}

impl Comments {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Comments::default()
    }
}

/// Rows that came to a columnar table together: a file that is never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The path of the file in the table's group, without a leading slash.
    pub file: String,
    /// Rows in it.
    pub rows: u64,
    /// Row groups in it.
    pub row_groups: u32,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// When it was made, in nanoseconds since 1970.
    pub created: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(id: &u64) -> bool {
    *id == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(super) fn no_number(number: &u32) -> bool {
    *number == 0
}

impl Table {
    /// A table that reads files as they are.
    pub fn external(
        name: impl Into<String>,
        format: impl Into<String>,
        location: impl Into<String>,
        schema: impl Into<String>,
        options: BTreeMap<String, String>,
    ) -> Table {
        Table {
            name: name.into(),
            kind: TableKind::External,
            format: format.into(),
            location: location.into(),
            schema: schema.into(),
            options,
            id: 0,
            number: 0,
            segments: Vec::new(),
            rows: None,
            sequence: None,
            view: None,
            role: None,
            labels: None,
            comments: Comments::default(),
            owner: 0,
            grants: Grants::default(),
        }
    }

    /// A columnar table without rows in `group`, which is named without `+`.
    pub fn columnar(
        name: impl Into<String>,
        id: u64,
        group: &str,
        schema: impl Into<String>,
    ) -> Table {
        Table {
            name: name.into(),
            kind: TableKind::Columnar,
            format: String::new(),
            location: format!("+{}", group.to_uppercase()),
            schema: schema.into(),
            options: BTreeMap::new(),
            id,
            number: 0,
            segments: Vec::new(),
            rows: None,
            sequence: None,
            view: None,
            role: None,
            labels: None,
            comments: Comments::default(),
            owner: 0,
            grants: Grants::default(),
        }
    }

    /// A sequence.
    pub fn of_sequence(name: impl Into<String>, sequence: Sequence) -> Table {
        let plain = Table::external(name, "", "", "", BTreeMap::new());
        Table { kind: TableKind::Sequence, sequence: Some(sequence), ..plain }
    }

    /// A schema.
    pub fn of_schema(schema: &str) -> Table {
        let plain = Table::external(name::schema_key(schema), "", "", "", BTreeMap::new());
        Table { kind: TableKind::Schema, ..plain }
    }

    /// A role.
    pub fn of_role(name: &str, role: Role) -> Table {
        let plain = Table::external(name::role_key(name), "", "", "", BTreeMap::new());
        Table { kind: TableKind::Role, role: Some(role), ..plain }
    }

    /// The database, with nothing recorded about it yet.
    pub fn of_database() -> Table {
        let plain = Table::external(name::DATABASE_KEY, "", "", "", BTreeMap::new());
        Table { kind: TableKind::Database, ..plain }
    }

    /// A view with these columns.
    pub fn of_view(name: impl Into<String>, schema: impl Into<String>, view: View) -> Table {
        let plain = Table::external(name, "", "", schema, BTreeMap::new());
        Table { kind: TableKind::View, view: Some(view), ..plain }
    }

    /// An enum type.
    pub fn of_enum(name: impl Into<String>, labels: EnumType) -> Table {
        let plain = Table::external(name, "", "", "", BTreeMap::new());
        Table { kind: TableKind::Enum, labels: Some(labels), ..plain }
    }

    /// A table in the heap.
    pub fn in_heap(name: impl Into<String>, schema: impl Into<String>, rows: RowTable) -> Table {
        Table {
            name: name.into(),
            kind: TableKind::Heap,
            format: String::new(),
            location: String::new(),
            schema: schema.into(),
            options: BTreeMap::new(),
            id: 0,
            number: 0,
            segments: Vec::new(),
            rows: Some(rows),
            sequence: None,
            view: None,
            role: None,
            labels: None,
            comments: Comments::default(),
            owner: 0,
            grants: Grants::default(),
        }
    }

    /// The numbers of all that it has in the heap.
    pub fn objects(&self) -> impl Iterator<Item = u32> {
        let rows = self.rows.iter().flat_map(RowTable::objects);
        rows.chain(self.sequence.iter().map(|sequence| sequence.counter))
    }

    /// What it is, in words.
    pub fn word(&self) -> &'static str {
        match self.kind {
            TableKind::External | TableKind::Columnar | TableKind::Heap => "table",
            TableKind::Sequence => "sequence",
            TableKind::View => "view",
            TableKind::Schema => "schema",
            TableKind::Role => "role",
            TableKind::Enum => "type",
            TableKind::Database => "database",
        }
    }

    /// Notes that it reads files at several locations, of which the first is [`Table::location`].
    ///
    /// # Panics
    /// There are none.
    pub fn set_locations(&mut self, locations: &[String]) {
        assert_eq!(locations.first(), Some(&self.location), "a table has its first location");
        if let [_, more @ ..] = locations
            && !more.is_empty()
        {
            let listed = serde_json::Value::from(more.to_vec()).to_string();
            self.options.insert(MORE_LOCATIONS.to_owned(), listed);
        }
    }

    /// Where an external table reads its files.
    pub fn locations(&self) -> Vec<String> {
        let more = self.options.get(MORE_LOCATIONS);
        let more: Vec<String> =
            more.and_then(|listed| serde_json::from_str(listed).ok()).unwrap_or_default();
        std::iter::once(self.location.clone()).chain(more).collect()
    }

    /// The group of a columnar table.
    pub fn group(&self) -> Option<&str> {
        let group = self.location.strip_prefix('+')?;
        (self.kind == TableKind::Columnar).then_some(group)
    }

    /// Whether it is a columnar table of this group, which is named in any case.
    pub fn is_in(&self, group: &str) -> bool {
        self.group().is_some_and(|own| own.eq_ignore_ascii_case(group))
    }

    /// Rows of a columnar table.
    pub fn rows(&self) -> u64 {
        self.segments.iter().fold(0, |rows, segment| rows.saturating_add(segment.rows))
    }

    /// What is wrong with it, seen alone.
    fn fault(&self) -> Option<String> {
        let Table { name, .. } = self;
        if name.is_empty() {
            return Some("a table has no name".into());
        }
        if (self.kind == TableKind::Heap) != self.rows.is_some() {
            return Some(format!("table \"{name}\" is in the heap, or it is not"));
        }
        if (self.kind == TableKind::Sequence) != self.sequence.is_some() {
            return Some(format!("\"{name}\" is a sequence, or it is not"));
        }
        if (self.kind == TableKind::View) != self.view.is_some() {
            return Some(format!("\"{name}\" is a view, or it is not"));
        }
        if (self.kind == TableKind::Schema) != name::schema_of_key(&self.name).is_some() {
            return Some(format!("\"{name}\" is a schema, or it is not"));
        }
        let is_role = self.kind == TableKind::Role;
        if is_role != self.role.is_some() || is_role != name::role_of_key(&self.name).is_some() {
            return Some(format!("\"{name}\" is a role, or it is not"));
        }
        if (self.kind == TableKind::Database) != (self.name == name::DATABASE_KEY) {
            return Some(format!("\"{name}\" is the database, or it is not"));
        }
        if (self.kind == TableKind::Enum) != self.labels.is_some() {
            return Some(format!("\"{name}\" is an enum type, or it is not"));
        }
        if let Some(fault) = self.labels.as_ref().and_then(EnumType::fault) {
            return Some(format!("type \"{name}\": {fault}"));
        }
        let is_bare =
            !matches!(self.kind, TableKind::Heap | TableKind::External | TableKind::Columnar);
        if is_bare {
            return None;
        }
        if self.kind == TableKind::Heap {
            let more = self.id != 0 || !self.segments.is_empty();
            return more.then(|| format!("table \"{name}\" in the heap has segments"));
        }
        if self.kind == TableKind::External {
            let more = self.id != 0 || !self.segments.is_empty();
            return more.then(|| format!("external table \"{name}\" has segments"));
        }
        if self.id == 0 {
            return Some(format!("columnar table \"{name}\" has no id"));
        }
        if self.group().is_none_or(|group| group.is_empty() || group.contains('/')) {
            return Some(format!("columnar table \"{name}\" is in no disk group"));
        }
        self.segments.iter().find_map(|segment| {
            let Segment { file, rows, row_groups, .. } = segment;
            if file.is_empty() || file.starts_with('/') {
                return Some(format!("a segment of table \"{name}\" has no file: \"{file}\""));
            }
            let contradict = (*rows == 0) != (*row_groups == 0);
            contradict.then(|| format!("segment {file} has {rows} rows in {row_groups} row groups"))
        })
    }
}

/// What is wrong with the tables of a catalog.
pub(super) fn fault_of(tables: &[Table]) -> Option<String> {
    let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
    let (mut files, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    let schemas: BTreeSet<&str> =
        tables.iter().filter_map(|table| name::schema_of_key(&table.name)).collect();
    tables.iter().find_map(|table| {
        if let Some(fault) = table.fault() {
            return Some(fault);
        }
        let (schema, own) = name::parts(&table.name);
        let is_in_none = matches!(table.kind, TableKind::Role | TableKind::Database);
        let is_there = schema == name::PUBLIC || name::is_temporary(schema) || is_in_none;
        if !is_there && !schemas.contains(schema) {
            return Some(format!("table \"{own}\" is in a schema that is not there: \"{schema}\""));
        }
        if !names.insert(&table.name) {
            return Some(format!("two tables are called \"{}\"", table.name));
        }
        if table.kind == TableKind::Columnar && !ids.insert(table.id) {
            return Some(format!("table \"{}\" has the id of another one", table.name));
        }
        if let Some(number) = table.objects().find(|number| !numbers.insert(*number)) {
            return Some(format!("number {number} of the heap is of two tables or indexes"));
        }
        let twice = table.segments.iter().find(|s| !files.insert((&table.location, &s.file)));
        twice.map(|segment| format!("file {} is in two segments", segment.file))
    })
}
