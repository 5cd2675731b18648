//! CREATE TABLE .. (LIKE ..): a table in the heap with the columns of another table or view.

use arrow::datatypes::{Field, Schema};
use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{
    Catalog, Comments, Constraint, Index, RowTable, Table, TableKind, name,
};
use datafusion::common::TableReference;

use crate::columnar::table::{checked_schema, schema_text, without_default};
use crate::engine::rows::in_heap;
use crate::engine::sequences::bare;
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::rows::{NewSequence, SequenceOptions, free_name};
use crate::statement::LikeOptions;

impl Engine {
    /// CREATE TABLE .. (LIKE ..).
    #[boxed]
    pub(super) async fn create_like(
        &self,
        (reference, if_not_exists): (&TableReference, bool),
        source: &TableReference,
        options: LikeOptions,
    ) -> Result<Outcome, Error> {
        self.check_own(reference)?;
        let (key, catalog) = (bare(reference)?, self.catalog()?);
        if if_not_exists && self.kind_of(&catalog, &key).is_some() {
            return Ok(done(format!("Table {key} already exists.")));
        }
        self.check_free(&catalog, &key)?;
        let found = catalog.table(&bare(source)?);
        let found = found.filter(|table| table.kind != TableKind::Enum).ok_or_else(|| {
            let text = format!("table or view \"{source}\" does not exist");
            Error::new(942, "42P01", text)
        })?;
        if !matches!(found.kind, TableKind::Heap | TableKind::Columnar | TableKind::View) {
            let what = format!("LIKE of \"{source}\", an external table or a sequence");
            return Err(Error::not_yet(what).next("create table .. as select * from .. limit 0"));
        }
        let (sequences, table) = self.like(&catalog, &key, (found, options))?;
        self.add_sequences(sequences, Some(table)).await?;
        Ok(done(format!("Table {key} created.")))
    }

    fn like(
        &self,
        catalog: &Catalog,
        key: &str,
        (found, options): (&Table, LikeOptions),
    ) -> Result<(Vec<super::sequences::NamedSequence>, Table), Error> {
        let kept = checked_schema(&found.schema)?;
        let owned: Vec<_> = found.rows.iter().flat_map(|rows| &rows.owned).collect();
        let identity = |at: usize| {
            owned.iter().find(|own| own.column == at && own.identity.is_some()).copied()
        };
        let field = |(at, field): (usize, &std::sync::Arc<Field>)| {
            let field = in_heap(field);
            match options.defaults && identity(at).is_none() {
                true => field,
                false => without_default(field),
            }
        };
        let mut fields: Vec<Field> = kept.fields().iter().enumerate().map(field).collect();
        let mut new = Vec::new();
        for own in owned.iter().filter(|own| own.identity.is_some() && options.identity) {
            let known = catalog.sequence(&own.sequence);
            let said = known.map(|known| SequenceOptions {
                of: Some(known.of),
                increment: Some(known.increment),
                least: Some(Some(known.least)),
                most: Some(Some(known.most)),
                start: Some(known.start),
                cache: Some(known.cache),
                cycles: Some(known.cycles),
                ..SequenceOptions::default()
            });
            let (column, identity) = (own.column, own.identity);
            let options = said.unwrap_or_default();
            new.push(NewSequence { column, identity, options, name: None });
        }
        let (sequences, owned) = self.sequences_of(key, &new, &mut fields)?;
        let (mut rows, mut comments) =
            (RowTable { owned, ..RowTable::plain(0) }, Comments::default());
        let known = found.rows.as_ref();
        if options.constraints {
            rows.checks = known.map(|known| known.checks.clone()).unwrap_or_default();
        }
        if options.comments {
            comments.columns.clone_from(&found.comments.columns);
        }
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        for index in known.iter().flat_map(|known| &known.indexes).filter(|_| options.indexes) {
            let taken: Vec<String> =
                rows.indexes.iter().map(|own: &Index| own.name.clone()).collect();
            let is_free = |name: &str| {
                self.kind_of(catalog, name).is_none()
                    && name != key
                    && !taken.iter().any(|own| own == name)
            };
            let columns: Vec<&str> =
                index.columns.iter().map(|own| names[own.column].as_str()).collect();
            let columns = columns.join("_");
            let (columns, label) = match index.constraint {
                Some(Constraint::Primary) => ("", "pkey"),
                Some(Constraint::Unique) => (&*columns, "key"),
                None => (&*columns, "idx"),
            };
            let made = free_name((key, columns, label), is_free);
            let text = found.comments.indexes.get(name::parts(&index.name).1);
            if let (Some(text), true) = (text, options.comments) {
                comments.indexes.insert(name::parts(&made).1.to_owned(), text.clone());
            }
            rows.indexes.push(Index { object: 0, number: 0, name: made, ..index.clone() });
        }
        let schema = schema_text(&Schema::new(fields));
        Ok((sequences, Table { comments, ..Table::in_heap(key, schema, rows) }))
    }
}
