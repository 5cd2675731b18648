//! Creation and dropping of external tables over files that are read in place.

use cellar_instance::catalog::name;
use datafusion::common::TableReference;
use datafusion::sql::parser::CreateExternalTable;

use crate::columnar::table::schema_text;
use crate::engine::ddl::check_schema;
use crate::engine::open::{Known, open};
use crate::engine::{Engine, Outcome, done, is_public};
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::host::TableDefinition;
use crate::remaining_files::files_that_stay;

impl Engine {
    pub(super) async fn create_external_table(
        &self,
        sql: &str,
        mut create: CreateExternalTable,
    ) -> Result<Outcome, Error> {
        self.check_block_writable()?;
        let reference = TableReference::parse_str(&create.name.to_string());
        let name = reference.table().to_string();
        self.check_own(&reference)?;
        if !is_public(&reference) {
            self.check_schema_of(&reference)?;
            let what = format!("a table \"{reference}\" outside the schema public");
            return Err(Error::not_yet(what).next(format!("create external table {name} ...")));
        }
        let known = self.context().table_exist(reference).unwrap_or(false);
        if known && create.if_not_exists {
            return Ok(done(format!("Table {name} already exists.")));
        }
        if known && !create.or_replace {
            return Err(Error::new(955, "42P07", format!("there is already a table \"{name}\""))
                .next(format!("drop table {name}; or create or replace external table")));
        }
        for location in &mut create.locations {
            if !location.contains("://") {
                *location = self.absolute(location)?;
                if !location.ends_with('/') && std::path::Path::new(location.as_str()).is_dir() {
                    location.push('/');
                }
            }
        }
        let shown = |location: &String| match crate::path::inside(location) {
            Some((group, path)) if location.ends_with('/') => format!("+{group}/{path}/"),
            Some((group, path)) => format!("+{group}/{path}"),
            None => location.clone(),
        };
        let mut locations = create.locations.iter().map(shown);
        let location = locations.next().unwrap_or_default();
        let more_locations = locations.collect();
        self.lock_name(&name).await?;
        let new = Known { is_new: true, ..Known::default() };
        let opened = open(&self.state(), create, new).await.map_err(|e| self.restored(e))?;
        let table = TableDefinition {
            name: name.clone(),
            location,
            more_locations,
            statement: sql.to_string(),
            columns: opened.found.as_deref().map(schema_text),
            may_be_empty: !opened.has_files,
        };
        self.host.put_table(table).await?;
        self.tables.set_broken(&name, None);
        let notices = opened.notices;
        Ok(Outcome::Done { message: format!("Table {name} created."), notices })
    }

    /// Records that a table has files from now on.
    pub(super) async fn has_files(&self, name: &str) -> Result<(), Error> {
        let tables = self.host.tables();
        match tables.into_iter().find(|table| table.name == name && table.may_be_empty) {
            Some(table) => {
                self.host.put_table(TableDefinition { may_be_empty: false, ..table }).await
            }
            None => Ok(()),
        }
    }

    /// DROP FOREIGN TABLE.
    ///
    /// # Errors
    /// 42809 a table of another kind; those of DROP TABLE.
    pub(super) async fn drop_external(
        &self,
        names: &[TableReference],
        how: (bool, bool),
    ) -> Result<Outcome, Error> {
        let external = self.host.tables();
        for name in names.iter().map(TableReference::table) {
            if self.has_table(name) && !external.iter().any(|table| table.name == name) {
                let name = name::shown(name);
                let text = format!("\"{name}\" is no foreign table");
                return Err(Error::new(942, "42809", text).next(format!("drop table {name}")));
            }
        }
        self.drop_tables(names.iter().map(TableReference::to_quoted_string).collect(), how).await
    }

    pub(super) async fn drop_tables(
        &self,
        names: Vec<String>,
        (if_exists, cascades): (bool, bool),
    ) -> Result<Outcome, Error> {
        let tables = self.host.tables();
        let mut dropped = Vec::new();
        for name in &names {
            let reference = TableReference::parse_str(name);
            self.check_own(&reference)?;
            let bare = reference.table().to_string();
            if is_public(&reference) && self.has_table(&bare) {
                dropped.push(bare);
            } else if self.is_view(&reference).await {
                return Err(Error::new(942, "42809", format!("\"{bare}\" is a view"))
                    .next(format!("drop view {bare}")));
            } else if !if_exists {
                check_schema(&reference)?;
                return Err(Error::new(942, "42P01", format!("table \"{bare}\" does not exist")));
            }
        }
        self.check_block_writable()?;
        let views = self.views_over(&dropped.iter().cloned().collect(), cascades)?;
        self.forget_views(views.clone()).await?;
        let keys = self.references_on(&dropped, cascades)?;
        self.drop_foreign_keys(&keys).await?;
        // Nothing is dropped unless all can be.
        for name in &dropped {
            match self.is_row_table(name) {
                true => self.drop_rows(name).await?,
                false => {
                    // Others may be about to change its rights.
                    self.lock_name(name).await?;
                    self.host.drop_table(name).await?;
                }
            }
            self.tables.set_broken(name, None);
            let reference = TableReference::bare(name.as_str());
            self.context().deregister_table(reference).map_err(|e| from_datafusion(&e))?;
        }
        if dropped.is_empty() {
            return Ok(done("There was no such table."));
        }
        let of = tables.iter().filter(|table| dropped.contains(&table.name)).collect::<Vec<_>>();
        let mut notices = files_that_stay(&of, &self.host.tables());
        notices.extend(views.iter().map(|view| format!("view {view} was dropped with it")));
        let gone = keys.iter();
        notices
            .extend(gone.map(|(of, key)| format!("foreign key {key} of {of} was dropped with it")));
        Ok(Outcome::Done { message: format!("Table {} dropped.", dropped.join(", ")), notices })
    }
}
