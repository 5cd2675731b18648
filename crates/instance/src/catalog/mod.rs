//! The catalog: which tables there are, and where.
//!
//! It is one small file, replaced as a whole: a line that tells the kind, version, length and crc
//! of what follows, then JSON. Where it is kept is up to a [`CatalogStore`].

mod draft;
mod foreign;
mod labels;
pub mod name;
mod namespace;
mod oid;
mod rights;
mod role;
mod row_table;
mod sequence;
mod shared;
mod stub;
mod table;
mod view;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, NextStep, Result};

pub(crate) use draft::{Draft, both_changed};
pub use foreign::Reference;
pub use labels::{EnumType, Label, enum_of_form, form_of_enum};
pub use oid::array_of;
pub use rights::{
    Change, Class, Dependent, EVERYBODY, Grant, Grants, PUBLIC_OWNER, PUBLIC_OWNER_OID, Principal,
    Rights, changed, default_grants,
};
pub use role::{Membership, OWNER, OWNER_OID, Role};
pub use row_table::{
    Action, Check, Constraint, Deferral, ForeignKey, Index, IndexColumn, Missing, RowTable,
};
pub use sequence::{Identity, Owned, Sequence, SequenceType};
pub use shared::{CatalogStore, SharedCatalog, StoreFuture};
pub(crate) use stub::Stub;
pub use table::{Comments, Segment, Table, TableKind};
pub use view::View;

/// The newest version of the content that this program reads: the one with foreign keys that may be put off.
/// (Version 3 is a stub in the catalog's place.)
pub const VERSION: u32 = 11;

/// The version of a catalog with foreign keys.
const VERSION_FOREIGN: u32 = 10;

/// The version of a catalog with owners and rights.
const VERSION_RIGHTS: u32 = 9;

/// The version of a catalog with enum types.
const VERSION_ENUMS: u32 = 8;

/// The version of a catalog with roles.
const VERSION_ROLES: u32 = 7;

/// The version of a catalog with schemas and comments.
const VERSION_SCHEMAS: u32 = 6;

/// The version of a catalog with sequences and views.
const VERSION_VIEWS: u32 = 5;

/// The version of a catalog with columns that rows may lack.
const VERSION_MISSING: u32 = 4;

/// The version of a catalog with columnar tables.
const VERSION_COLUMNAR: u32 = 2;

/// The version of a catalog without columnar tables: programs that know none read it.
const VERSION_EXTERNAL: u32 = 1;

const MAGIC: &str = "cellar catalog";

/// The error number of a store that does not hold the catalog that a change began with.
pub(crate) const STALE: u32 = 70164;

/// All tables at one point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalog {
    /// The version of this form.
    pub version: u32,
    /// Counts the changes.
    pub serial: u64,
    /// By name.
    pub tables: Vec<Table>,
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog { version: VERSION_EXTERNAL, serial: 0, tables: Vec::new() }
    }
}

impl Catalog {
    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The columnar tables.
    pub fn columnar_tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| table.kind == TableKind::Columnar)
    }

    /// The columnar table of which the file `path` of `group` is a segment.
    pub fn owner(&self, group: &str, path: &str) -> Option<&Table> {
        let mut here = self.tables.iter().filter(|table| table.is_in(group));
        here.find(|table| table.segments.iter().any(|segment| segment.file == path))
    }

    /// The columnar table of that name.
    ///
    /// # Errors
    /// 00942 there is none of that name, 70118 it is not columnar.
    pub fn columnar(&self, name: &str) -> Result<&Table> {
        let table = self.table(name).ok_or_else(|| self.no_table(name))?;
        match table.kind {
            TableKind::Columnar => Ok(table),
            TableKind::Sequence
            | TableKind::View
            | TableKind::Schema
            | TableKind::Role
            | TableKind::Database
            | TableKind::Enum => Err(self.no_table(name)),
            TableKind::Heap => {
                let text = format!("the rows of table \"{name}\" are in the heap, not in columns");
                Err(Error::new(70118, text).hint("INSERT adds rows, and DELETE takes them away"))
            }
            TableKind::External => {
                let text = format!("table \"{name}\" is external: its rows are in files of yours");
                Err(Error::new(70118, text).hint(
                    "DROP TABLE forgets it and leaves the files; CREATE TABLE AS SELECT makes a \
                     columnar table of them",
                ))
            }
        }
    }

    /// The table of that name whose rows change.
    pub fn row_table(&self, name: &str) -> Option<(&Table, &RowTable)> {
        let table = self.table(name)?;
        table.rows.as_ref().map(|rows| (table, rows))
    }

    /// The index of that name, and its table.
    pub fn index(&self, name: &str) -> Option<(&Table, &Index)> {
        let indexes = self.tables.iter().filter_map(|table| Some((table, table.rows.as_ref()?)));
        let mut named =
            indexes.flat_map(|(table, rows)| rows.indexes.iter().map(move |index| (table, index)));
        named.find(|(_, index)| index.name == name)
    }

    /// The object that has this name: tables, views, indexes and sequences share one namespace.
    pub fn kind_of(&self, name: &str) -> Option<&'static str> {
        let is_index = self.index(name).is_some();
        self.table(name).map(Table::word).or_else(|| is_index.then_some("index"))
    }

    /// Refuses a name that is used.
    ///
    /// # Errors
    /// 00955.
    pub fn check_free(&self, name: &str) -> Result<()> {
        match self.kind_of(name) {
            None => Ok(()),
            Some(kind) => {
                let article = if kind == "index" { "an" } else { "a" };
                let message = format!("name \"{name}\" is already used by {article} {kind}");
                let next = format!("choose another name, or DROP {} first", kind.to_uppercase());
                Err(Error::new(955, message).hint(next))
            }
        }
    }

    /// Refuses a table whose own name, or that of an index, is used.
    fn check_names_of(&self, table: &Table) -> Result<()> {
        self.check_schema_of(&table.name)?;
        self.check_free(&table.name)?;
        let mut own = BTreeSet::from([&table.name]);
        for index in table.rows.iter().flat_map(|rows| &rows.indexes) {
            self.check_free(&index.name)?;
            if !own.insert(&index.name) {
                let text = format!("name \"{}\" is used twice in one table", index.name);
                return Err(Error::new(955, text).hint("choose another name"));
            }
        }
        Ok(())
    }

    /// The version in which it is written: the oldest that can hold it.
    pub(crate) fn version_needed(&self) -> u32 {
        let mut rows = self.tables.iter().filter_map(|table| table.rows.as_ref());
        let is_new = |table: &Table| {
            table.sequence.is_some()
                || table.view.is_some()
                || table.rows.as_ref().is_some_and(|r| !r.owned.is_empty())
        };
        let mut foreign = self.foreign_keys().peekable();
        if foreign.peek().is_some() {
            let may_wait = foreign.any(|reference| reference.key.deferral != Deferral::Never);
            return if may_wait { VERSION } else { VERSION_FOREIGN };
        }
        if self.tables.iter().any(Table::has_rights) {
            return VERSION_RIGHTS;
        }
        if self.tables.iter().any(|table| table.kind == TableKind::Enum) {
            return VERSION_ENUMS;
        }
        if self.tables.iter().any(|table| table.kind == TableKind::Role) {
            return VERSION_ROLES;
        }
        if self.tables.iter().any(namespace::is_new) {
            return VERSION_SCHEMAS;
        }
        if self.tables.iter().any(is_new) {
            return VERSION_VIEWS;
        }
        if rows.any(|rows| !rows.missing.is_empty()) {
            return VERSION_MISSING;
        }
        match self.columnar_tables().next() {
            Some(_) => VERSION_COLUMNAR,
            None => VERSION_EXTERNAL,
        }
    }

    /// The bytes that [`Catalog::decode`] reads back.
    ///
    /// # Errors
    /// 00600 if the JSON cannot be made, which only a bug can cause.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let version = self.version_needed();
        framed(version, &Catalog { version, ..self.clone() })
    }

    /// Reads a catalog. Bytes behind it are ignored: a file may be longer than its content.
    ///
    /// # Errors
    /// 70108 damaged, 70109 written by a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Catalog> {
        let (version, body) = content(bytes)?;
        if version > VERSION || version == stub::VERSION {
            let message =
                format!("the catalog has version {version}, this program knows {VERSION}");
            return Err(Error::new(70109, message).hint("use the program that wrote it, or newer"));
        }
        let catalog: Catalog =
            serde_json::from_slice(body).map_err(|error| damaged(&error.to_string()))?;
        // The first line is not in the crc.
        if catalog.version != version {
            let inside = catalog.version;
            return Err(damaged(&format!("it says version {version} and {inside} inside")));
        }
        match catalog.fault() {
            Some(fault) => Err(damaged(&fault)),
            None => Ok(catalog),
        }
    }

    /// What is wrong with it; checked before it is written and after it is read.
    pub(crate) fn fault(&self) -> Option<String> {
        table::fault_of(&self.tables)
    }

    pub(crate) fn with(&self, table: Table, replace: bool) -> Result<Catalog> {
        let known = self.table(&table.name);
        // Files of a columnar table go by DROP TABLE alone.
        if !(replace && known.is_some_and(|known| known.kind == TableKind::External)) {
            self.check_names_of(&table)?;
        }
        let mut table = self.numbered(table, known);
        if let Some(known) = known {
            (table.owner, table.grants) = (known.owner, known.grants.clone());
        }
        let mut next = self.next();
        match next.tables.binary_search_by(|known| known.name.cmp(&table.name)) {
            Ok(at) => next.tables[at] = table,
            Err(at) => next.tables.insert(at, table),
        }
        Ok(next)
    }

    pub(crate) fn without(&self, name: &str) -> Result<(Catalog, Table)> {
        let mut next = self.next();
        let at = next.tables.iter().position(|table| table.name == name);
        let at = at.ok_or_else(|| self.no_table(name))?;
        let table = next.tables.remove(at);
        let owned: Vec<&String> =
            table.rows.iter().flat_map(|rows| &rows.owned).map(|owned| &owned.sequence).collect();
        next.tables.retain(|other| other.sequence.is_none() || !owned.contains(&&other.name));
        Ok((next, table))
    }

    /// The sequence of that name.
    pub fn sequence(&self, name: &str) -> Option<&Sequence> {
        self.table(name)?.sequence.as_ref()
    }

    /// The view of that name.
    pub fn view(&self, name: &str) -> Option<(&Table, &View)> {
        let table = self.table(name)?;
        table.view.as_ref().map(|view| (table, view))
    }

    /// The views that read a table or a view, or a column of it.
    pub fn views_over(&self, name: &str, column: Option<&str>) -> BTreeSet<String> {
        let reads = |view: &View| {
            let columns = view.uses.get(name);
            columns.is_some_and(|own| column.is_none_or(|column| own.contains(column)))
        };
        let views = self.tables.iter().filter(|table| table.view.as_ref().is_some_and(reads));
        views.map(|table| table.name.clone()).collect()
    }

    /// The table and the column that own a sequence.
    pub fn owner_of(&self, sequence: &str) -> Option<(&Table, &Owned)> {
        self.tables.iter().find_map(|table| {
            let owned = &table.rows.as_ref()?.owned;
            owned.iter().find(|owned| owned.sequence == sequence).map(|owned| (table, owned))
        })
    }

    /// Refuses a columnar table that is not the one with this id any more.
    pub(crate) fn check_same(&self, name: &str, id: u64) -> Result<&Table> {
        let same = self.table(name).filter(|t| t.kind == TableKind::Columnar && t.id == id);
        same.ok_or_else(|| {
            let text = format!("table \"{name}\" was dropped or made anew meanwhile");
            Error::new(942, text).hint("nothing was added; run the statement again")
        })
    }

    pub(crate) fn appended(&self, name: &str, id: u64, segment: Segment) -> Result<Catalog> {
        self.check_same(name, id)?;
        let mut next = self.next();
        let tables = next.tables.iter_mut().filter(|table| table.name == name);
        tables.for_each(|table| table.segments.push(segment.clone()));
        Ok(next)
    }

    /// Replaces the segments that a table ends with by one; `None`: it no longer ends with them.
    fn merged(
        &self,
        name: &str,
        id: u64,
        gone: &[Segment],
        one: Segment,
    ) -> Result<Option<Catalog>> {
        if !self.check_same(name, id)?.segments.ends_with(gone) {
            return Ok(None);
        }
        let mut next = self.next();
        for table in next.tables.iter_mut().filter(|table| table.name == name) {
            table.segments.truncate(table.segments.len() - gone.len());
            table.segments.push(one.clone());
        }
        Ok(Some(next))
    }

    /// A view, new or in the place of another one.
    pub(crate) fn with_view(&self, view: Table) -> Result<Catalog> {
        match self.view(&view.name) {
            Some((was, _)) => {
                let (comments, grants) = (was.comments.clone(), was.grants.clone());
                self.altered(was, Table { comments, grants, owner: was.owner, ..view })
            }
            None => self.with(view, false),
        }
    }

    /// A table in the place of another one, which may have another name.
    pub(crate) fn altered(&self, was: &Table, table: Table) -> Result<Catalog> {
        if self.table(&was.name) != Some(was) {
            let text = format!("table \"{}\" was dropped or changed meanwhile", was.name);
            return Err(Error::new(942, text).hint("run the statement again"));
        }
        let mut next = self.next();
        next.tables.retain(|known| known.name != was.name);
        next.check_names_of(&table)?;
        let table = self.numbered(table, Some(was));
        let rows = was.rows.as_ref().zip(table.rows.clone());
        let at = next.tables.partition_point(|known| known.name < table.name);
        next.tables.insert(at, table);
        if let Some((was, now)) = rows {
            next.follow_indexes(was, &now);
        }
        Ok(next)
    }

    pub(crate) fn truncated(&self, name: &str) -> Result<(Catalog, Table)> {
        let before = self.columnar(name)?.clone();
        let mut next = self.next();
        let tables = next.tables.iter_mut().filter(|table| table.name == name);
        tables.for_each(|table| table.segments.clear());
        Ok((next, before))
    }

    fn no_table(&self, name: &str) -> Error {
        let is_told = |table: &&Table| !matches!(table.kind, TableKind::Role | TableKind::Database);
        let tables = self.tables.iter().filter(is_told);
        let names: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Error::new(942, format!("table \"{name}\" does not exist"))
            .hint(format!("tables there are: {known}"))
    }

    fn next(&self) -> Catalog {
        let mut next = self.clone();
        next.serial += 1;
        next.tables.sort_by(|a, b| a.name.cmp(&b.name));
        next
    }
}

/// JSON behind the line that tells what it is.
fn framed<T: Serialize>(version: u32, content: &T) -> Result<Vec<u8>> {
    let body = serde_json::to_vec_pretty(content)
        .map_err(|error| Error::new(crate::error::INTERNAL, format!("catalog: {error}")))?;
    let (length, crc) = (body.len(), crc32c::crc32c(&body));
    let mut bytes = format!("{MAGIC} {version} {length} {crc:08x}\n").into_bytes();
    bytes.extend(body);
    Ok(bytes)
}

/// The version, and the JSON that [`framed`] wrote, if that is known to be whole. A newer program may
/// have written another format.
fn content(bytes: &[u8]) -> Result<(u32, &[u8])> {
    let end = bytes.iter().take(80).position(|byte| *byte == b'\n');
    let head = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
    let (end, head) = end.zip(head).ok_or_else(|| damaged("it has no first line"))?;
    let head = head.strip_prefix(MAGIC).ok_or_else(|| damaged("it is no catalog"))?;
    let [version, length, crc] = head.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(damaged("its first line is not complete"));
    };
    let version: u32 = version.parse().map_err(|_| damaged("its version is no number"))?;
    if version > VERSION {
        return Ok((version, &[]));
    }
    let length: usize = length.parse().map_err(|_| damaged("its length is no number"))?;
    let crc = u32::from_str_radix(crc, 16).map_err(|_| damaged("its crc is no number"))?;
    let body = bytes[end + 1..].get(..length).ok_or_else(|| damaged("it is cut off"))?;
    match crc32c::crc32c(body) == crc {
        true => Ok((version, body)),
        false => Err(damaged("its crc is wrong")),
    }
}

fn damaged(why: &str) -> Error {
    Error::new(70108, format!("the catalog is damaged: {why}")).hint(
        NextStep::default().cellar("validate", "").then(
            " tells whether another copy is whole; no file of a table was touched: external tables \
             can be registered anew with CREATE EXTERNAL TABLE",
        ),
    )
}
