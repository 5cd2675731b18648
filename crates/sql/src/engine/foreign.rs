//! Foreign keys that statements define: the keys they refer to, whether existing rows satisfy them, and
//! what cannot be dropped because of them.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Schema};
use cellar_instance::catalog::{Constraint, ForeignKey, Index, Rights, RowTable, Table, name};
use cellar_instance::heap::TableLock;
use datafusion::sql::parser::Statement as DfStatement;
use futures_util::TryStreamExt;

use super::Engine;
use super::altered::Altered;
use super::ddl::bare_name;
use super::permitted::without_rights_check_while;
use super::sequences::quoted;
use super::temporary::OnCommit;
use crate::columnar::table::{checked_schema, enum_of, type_of_texts};
use crate::error::Error;
use crate::parse::parse;
use crate::rows::{NewForeignKey, free_name};
use crate::statement::Statement;

/// A table that is to get foreign keys.
pub(super) struct Referring<'a> {
    /// Its name, and the one that it had.
    pub key: &'a str,
    pub was: &'a str,
    pub schema: &'a Schema,
    pub rows: &'a RowTable,
    pub on_commit: OnCommit,
}

/// The indexes of a table that have a column.
pub(super) fn indexes_with(altered: &Altered, column: usize) -> Vec<String> {
    let has = |index: &&Index| index.columns.iter().any(|own| own.column == column);
    altered.rows.indexes.iter().filter(has).map(|index| index.name.clone()).collect()
}

/// Whether values of one type can refer to keys of another.
fn are_comparable(one: &DataType, other: &DataType) -> bool {
    let is_exact = |of: &DataType| of.is_integer() || matches!(of, DataType::Decimal128(..));
    let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::Utf8View);
    one == other || (is_exact(one) && is_exact(other)) || (is_text(one) && is_text(other))
}

/// Refuses a column that cannot refer to another one.
fn check_comparable(own: &Field, other: &Field, to: &str) -> Result<(), Error> {
    let is_enum = enum_of(own).is_some() || enum_of(other).is_some();
    let are_of_one_form = type_of_texts(own) == type_of_texts(other);
    let is_nested = own.data_type().is_nested() || other.data_type().is_nested();
    let is_plain = !is_enum && !is_nested;
    if is_plain && are_of_one_form && are_comparable(own.data_type(), other.data_type()) {
        return Ok(());
    }
    let text = format!(
        "columns \"{}\" and \"{}\" of table \"{to}\" have types that a foreign key cannot compare",
        own.name(),
        other.name()
    );
    Err(Error::new(2267, "42804", text).next("give both the same type"))
}

fn wrong_key(text: String) -> Error {
    Error::new(2270, "42830", text).next("refer to the primary key, or to columns that are UNIQUE")
}

impl Engine {
    /// The foreign keys that a statement defines on a table with these constraints.
    ///
    /// # Errors
    /// 00942 there is no such table, 02270 no such key, 02267 its types differ; 42501.
    pub(super) async fn foreign_keys(
        &self,
        said: &[NewForeignKey],
        of: &Referring<'_>,
        constraints: &[String],
    ) -> Result<Vec<ForeignKey>, Error> {
        let (mut keys, mut taken) = (Vec::new(), constraints.to_vec());
        taken.extend(of.rows.indexes.iter().map(|own| name::parts(&own.name).1.to_owned()));
        for new in said {
            let key = self.foreign_key(new, of, &taken).await?;
            if taken.contains(&key.name) {
                let text = format!("there is a constraint \"{}\" already", key.name);
                return Err(Error::new(2264, "42710", text).next("choose another name"));
            }
            taken.push(key.name.clone());
            keys.push(key);
        }
        Ok(keys)
    }

    async fn foreign_key(
        &self,
        new: &NewForeignKey,
        of: &Referring<'_>,
        taken: &[String],
    ) -> Result<ForeignKey, Error> {
        let to = bare_name(&new.table)?;
        let is_own = to == of.key || to == of.was;
        let (schema, rows, on_commit) = match is_own {
            true => (of.schema.clone(), of.rows.clone(), of.on_commit),
            false => {
                let (table, rows) = self.referred(&to).await?;
                let schema = Schema::clone(&*checked_schema(&table.schema)?);
                (schema, rows, OnCommit::of(&table))
            }
        };
        if on_commit != of.on_commit {
            let text = "a foreign key between temporary tables with different ON COMMIT actions";
            return Err(Error::not_yet(text).next("give both tables the same one"));
        }
        let is_temporary = |key: &str| name::is_temporary(name::parts(key).0);
        if is_temporary(&to) != is_temporary(of.key) {
            let text = "a foreign key is between temporary tables, or between permanent ones";
            return Err(Error::new(14450, "42P16", text).next("make both temporary, or none"));
        }
        let (index, columns) = paired(new, (&to, &schema, &rows))?;
        if let (Some(asking), false) = (self.asking()?, is_own) {
            let columns = index.columns.iter().map(|own| schema.field(own.column).name().as_str());
            asking.may_with(&to, Rights::REFERENCES, columns)?;
        }
        for (own, other) in columns.iter().zip(&index.columns) {
            check_comparable(of.schema.field(*own), schema.field(other.column), &to)?;
        }
        let names: Vec<&str> =
            new.columns.iter().map(|at| of.schema.field(*at).name().as_str()).collect();
        let table = name::parts(of.key).1;
        let name = new.name.clone().unwrap_or_else(|| {
            free_name((table, &names.join("_"), "fkey"), |name| {
                !taken.iter().any(|own| own == name)
            })
        });
        let (on_delete, on_update, deferral) = (new.on_delete, new.on_update, new.deferral);
        Ok(ForeignKey { name, columns, index: index.name.clone(), on_delete, on_update, deferral })
    }

    /// A table to refer to, locked against changes to its rows until the transaction ends.
    async fn referred(&self, to: &str) -> Result<(Table, RowTable), Error> {
        match self.catalog()?.table(to).map(|table| table.rows.is_some()) {
            Some(true) => {
                let scope = self.definer()?;
                let mut open = scope.open().await?;
                let lock = TableLock::ShareRowExclusive;
                Ok(scope.definitions.lock_to_define(&mut open, to, lock).await?)
            }
            Some(false) => Err(Error::not_yet(format!("a foreign key to \"{to}\""))
                .next("its rows are not in the heap: make it a table USING heap")),
            None => Err(Error::new(942, "42P01", format!("table \"{to}\" does not exist"))),
        }
    }

    /// Refuses if rows of a table violate its new foreign keys.
    ///
    /// # Errors
    /// 02298; those of locks.
    pub(super) async fn check_references(
        &self,
        table: &str,
        names: &[String],
    ) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        let (before, scope) = (self.scope(), self.definer()?);
        let catalog = self.catalog()?;
        let Some((of, rows)) = catalog.row_table(table) else { return Ok(()) };
        let schema = checked_schema(&of.schema)?;
        for key in rows.foreign.iter().filter(|key| names.contains(&key.name)) {
            let Some((to, index)) = catalog.index(&key.index) else { continue };
            // A new snapshot, to see rows that others changed before both tables were locked.
            let statement = scope.open().await?.look_anew().await?;
            self.set_scope(Some(scope.seeing(statement)?));
            let other = checked_schema(&to.schema)?;
            let query = query((table, &schema), (&to.name, &other), (key, index));
            let found = without_rights_check_while(self.first_without(&query)).await;
            self.set_scope(before.clone());
            if let Some(values) = found? {
                let names: Vec<&str> =
                    key.columns.iter().map(|at| schema.field(*at).name().as_str()).collect();
                let text = format!(
                    "table \"{table}\": foreign key \"{}\" cannot be kept: key ({})=({values}) is not in table \"{}\"",
                    key.name,
                    names.join(", "),
                    to.name
                );
                return Err(Error::new(2298, "23503", text).of_constraint(table, &key.name));
            }
        }
        Ok(())
    }

    /// The first row of a query, in words.
    async fn first_without(&self, query: &str) -> Result<Option<String>, Error> {
        let Statement::Query(statement) = parse(query)? else { return Ok(None) };
        let DfStatement::Statement(statement) = *statement else { return Ok(None) };
        let plan = self.plan_of(*statement).await?;
        let stream = self.stream(plan).await.map_err(|e| self.failure(&e))?;
        let batches: Vec<_> = stream.try_collect().await.map_err(|e| self.failure(&e))?;
        let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else {
            return Ok(None);
        };
        let text = |array| arrow::util::display::array_value_to_string(array, 0);
        let values = batch.columns().iter().map(|array| text(array).unwrap_or_else(|_| "?".into()));
        Ok(Some(values.collect::<Vec<_>>().join(", ")))
    }

    /// Refuses to drop indexes of a table that foreign keys refer to; with CASCADE these foreign keys go
    /// too.
    ///
    /// # Errors
    /// 2BP01.
    pub(super) async fn refuse_under_keys(
        &self,
        altered: &mut Altered,
        is_it: impl Fn(&str) -> bool,
        (cascades, what): (bool, &str),
    ) -> Result<(), Error> {
        let (catalog, old) = (self.catalog()?, altered.old());
        let mut others = Vec::new();
        for (reference, index) in catalog.references_to(&old.rows) {
            if !is_it(&index.name) {
                continue;
            }
            let (table, key) = (reference.table.name.clone(), reference.key.name.clone());
            if !cascades {
                return Err(needed(what, &table, &key));
            }
            others.push((table, key));
        }
        let (own, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(table, _)| *table == altered.old().name);
        altered.rows.foreign.retain(|key| !own.iter().any(|(_, name)| *name == key.name));
        let gone = own.iter().chain(&others);
        let words = gone.map(|(of, key)| format!("foreign key {key} of {of} was dropped with it"));
        altered.notices.extend(words);
        self.drop_foreign_keys(&others).await
    }

    /// Refuses to drop an index whose keys foreign keys refer to.
    ///
    /// # Errors
    /// 2BP01.
    pub(super) fn check_no_key(&self, table: &Table, index: &str) -> Result<(), Error> {
        let (catalog, Some(rows)) = (self.catalog()?, &table.rows) else { return Ok(()) };
        let found = catalog.references_to(rows).find(|(_, own)| own.name == index);
        found.map_or(Ok(()), |(reference, _)| {
            let what = format!("index \"{index}\" cannot be dropped");
            let error = needed(&what, &reference.table.name, &reference.key.name);
            Err(error.next(format!(
                "drop the foreign key first: alter table {} drop constraint {}",
                reference.table.name, reference.key.name
            )))
        })
    }

    /// The foreign keys of other tables that refer to tables about to be dropped: for each its table and
    /// its name.
    ///
    /// # Errors
    /// 2BP01 there are some, and no CASCADE.
    pub(super) fn references_on(
        &self,
        tables: &[String],
        cascades: bool,
    ) -> Result<Vec<(String, String)>, Error> {
        let Some(rows) = self.host.rows() else { return Ok(Vec::new()) };
        let catalog = rows.catalog()?;
        let mut found = Vec::new();
        for table in tables.iter().filter_map(|name| catalog.table(name)) {
            for reference in catalog.references_from_others(table) {
                let (of, key) = (&reference.table.name, &reference.key.name);
                if tables.contains(of) {
                    continue;
                }
                if !cascades {
                    let what = format!("table \"{}\" cannot be dropped", table.name);
                    return Err(needed(&what, of, key));
                }
                found.push((of.clone(), key.clone()));
            }
        }
        Ok(found)
    }

    /// Locks tables to truncate, and with CASCADE those that refer to them, exclusively; returns them all.
    ///
    /// # Errors
    /// 02266 there are referring tables, and no CASCADE; those of locks.
    pub(super) async fn locked_to_truncate(
        &self,
        tables: Vec<String>,
        cascades: bool,
    ) -> Result<Vec<String>, Error> {
        let mut all = self.truncated_with(tables, cascades)?;
        loop {
            for table in all.iter().filter(|table| self.is_row_table(&quoted(table).to_string())) {
                let scope = self.definer()?;
                let mut open = scope.open().await?;
                scope.definitions.lock_table(&mut open, table).await?;
            }
            // Others may have created a foreign key before the locks were held.
            let now = self.truncated_with(all.clone(), cascades)?;
            if now.len() == all.len() {
                return Ok(all);
            }
            all = now;
        }
    }

    fn truncated_with(
        &self,
        mut tables: Vec<String>,
        cascades: bool,
    ) -> Result<Vec<String>, Error> {
        let Some(rows) = self.host.rows() else { return Ok(tables) };
        let (catalog, mut next) = (rows.catalog()?, 0);
        while let Some(name) = tables.get(next).cloned() {
            next += 1;
            let Some(table) = catalog.table(&name) else { continue };
            for reference in catalog.references_from_others(table) {
                let (of, key) = (&reference.table.name, &reference.key.name);
                if tables.contains(of) {
                    continue;
                }
                if !cascades {
                    let text = format!(
                        "table \"{name}\" cannot be truncated: foreign key \"{key}\" of table \"{of}\" refers to it"
                    );
                    return Err(Error::new(2266, "0A000", text)
                        .next(format!("truncate both: truncate {name}, {of}; or say CASCADE")));
                }
                if let Some(asking) = self.asking()? {
                    asking.may(of, Rights::TRUNCATE)?;
                }
                tables.push(of.clone());
            }
        }
        Ok(tables)
    }

    /// Drops foreign keys.
    pub(super) async fn drop_foreign_keys(&self, keys: &[(String, String)]) -> Result<(), Error> {
        let mut of_tables: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (table, key) in keys {
            of_tables.entry(table).or_default().push(key);
        }
        for (table, keys) in of_tables {
            let alteration = self.alteration(&quoted(table)).await?;
            let (mut table, mut rows) = (alteration.table().clone(), alteration.rows().clone());
            rows.foreign.retain(|key| !keys.contains(&key.name.as_str()));
            table.rows = Some(rows);
            keys.iter().for_each(|key| drop(table.comments.constraints.remove(*key)));
            self.finish(alteration, table).await?;
        }
        Ok(())
    }
}

/// The referenced key of a table, and the columns of the foreign key in the key's order.
fn paired<'a>(
    new: &NewForeignKey,
    (to, schema, rows): (&str, &Schema, &'a RowTable),
) -> Result<(&'a Index, Vec<usize>), Error> {
    let primary = rows.indexes.iter().find(|own| own.constraint == Some(Constraint::Primary));
    let referred: Vec<usize> = match new.referred.is_empty() {
        true => {
            let primary =
                primary.ok_or_else(|| wrong_key(format!("table \"{to}\" has no primary key")))?;
            primary.columns.iter().map(|own| own.column).collect()
        }
        false => {
            let place = |name: &String| {
                let mut fields = schema.fields().iter();
                fields.position(|field| field.name() == name).ok_or_else(|| {
                    let text = format!("table \"{to}\" has no column \"{name}\"");
                    Error::new(904, "42703", text)
                })
            };
            new.referred.iter().map(place).collect::<Result<_, Error>>()?
        }
    };
    if referred.len() != new.columns.len() {
        let text = format!(
            "a foreign key of {} columns refers to a key of {} columns of table \"{to}\"",
            new.columns.len(),
            referred.len()
        );
        return Err(Error::new(2256, "42830", text).next("name as many columns as the key has"));
    }
    let own_of = |column: usize| {
        let at = referred.iter().position(|own| *own == column)?;
        Some(new.columns[at])
    };
    let fits = |index: &&Index| {
        index.is_unique
            && index.columns.len() == referred.len()
            && index.columns.iter().all(|own| referred.contains(&own.column))
    };
    let indexes = primary.into_iter().chain(&rows.indexes);
    let index = indexes.into_iter().find(fits).ok_or_else(|| {
        let names: Vec<&str> =
            referred.iter().map(|at| schema.field(*at).name().as_str()).collect();
        wrong_key(format!("table \"{to}\" has no unique key of ({})", names.join(", ")))
    })?;
    let columns = index.columns.iter().map(|own| own_of(own.column)).collect::<Option<Vec<_>>>();
    let columns =
        columns.ok_or_else(|| wrong_key(format!("a column of \"{to}\" is named twice")))?;
    Ok((index, columns))
}

/// The query for a row that refers to a missing key.
fn query(
    (table, schema): (&str, &Schema),
    (to, other): (&str, &Schema),
    (key, index): (&ForeignKey, &Index),
) -> String {
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let own: Vec<String> =
        key.columns.iter().map(|at| format!("c.{}", quote(schema.field(*at).name()))).collect();
    let referred = index.columns.iter().map(|own| other.field(own.column).name());
    let same: Vec<String> = referred
        .zip(&own)
        .map(|(referred, own)| format!("p.{} = {own}", quote(referred)))
        .collect();
    let there: Vec<String> = own.iter().map(|own| format!("{own} is not null")).collect();
    format!(
        "select {} from {} c where {} and not exists (select 1 from {} p where {}) limit 1",
        own.join(", "),
        quote(table),
        there.join(" and "),
        quote(to),
        same.join(" and ")
    )
}

fn needed(what: &str, table: &str, key: &str) -> Error {
    let text = format!("{what}: foreign key \"{key}\" of table \"{table}\" refers to it");
    Error::new(2449, "2BP01", text).next("CASCADE drops the foreign key too")
}
