//! Targets of statements that write: only files that no table reads, and tables that take rows.

use cellar_instance::tables::external::ExternalFiles;
use datafusion::common::TableReference;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Statement as SqlStatement, TableObject, Value};
use object_store::ObjectStoreExt;

use crate::allowed;
use crate::engine::Engine;
use crate::error::Error;
use crate::files::place::is_pattern;
use crate::path::{ending, inside};

impl Engine {
    /// Refuses a statement, also one that is only explained, that would write over what a table
    /// reads, or into what takes no rows.
    pub(super) async fn check_targets(&self, statement: &DfStatement) -> Result<(), Error> {
        match statement {
            DfStatement::CopyTo(copy) => self.check_copy_target(&copy.target).await,
            DfStatement::Statement(inner) => match inner.as_ref() {
                SqlStatement::Insert(insert) => match &insert.table {
                    TableObject::TableName(name) => self.check_insert(&name.to_string()).await,
                    _ => Err(Error::not_yet("INSERT into anything but a table")),
                },
                _ => Ok(()),
            },
            DfStatement::Explain(explain) => Box::pin(self.check_targets(&explain.statement)).await,
            _ => Ok(()),
        }
    }

    /// A local file to be written: at the place that the user who gave the statement means.
    pub(super) fn resolve_target(&self, statement: &mut DfStatement) -> Result<(), Error> {
        match statement {
            DfStatement::CopyTo(copy) => {
                // Compressed files have a double extension, such as csv.gz.
                let ending = ending(copy.target.as_ref());
                let is_tabs = ending == "tsv" || ending.starts_with("tsv.");
                if copy.stored_as.is_none() && (ending.starts_with("csv.") || is_tabs) {
                    copy.stored_as = Some("CSV".to_owned());
                    let names = copy.options.iter().map(|(name, _)| name.to_ascii_lowercase());
                    // The same delimiter as for reading.
                    if is_tabs && !names.into_iter().any(|name| name.contains("delimiter")) {
                        let tab = Value::SingleQuotedString("\t".to_owned());
                        copy.options.push(("format.delimiter".to_owned(), tab));
                    }
                }
                if !copy.target.contains("://") {
                    copy.target = self.absolute(&copy.target)?;
                }
                Ok(())
            }
            DfStatement::Explain(explain) => self.resolve_target(&mut explain.statement),
            _ => Ok(()),
        }
    }

    async fn check_copy_target(&self, target: &str) -> Result<(), Error> {
        if is_pattern(target) {
            let text = format!("\"{target}\" is a pattern, and one file is written");
            return Err(Error::new(15124, "22023", text).next("choose a name without * ? and ["));
        }
        let Some((group, path)) = inside(target) else { return Ok(()) };
        self.host.check_writable(&group, &path)?;
        if !self.exists(&group, &path).await {
            return Ok(());
        }
        let mut files = ExternalFiles::default();
        self.host.tables().iter().for_each(|table| table.add_to(&mut files));
        Ok(files.check_replaceable(&group, &path)?)
    }

    async fn exists(&self, group: &str, path: &str) -> bool {
        match self.host.store(group) {
            Some(store) => store.head(&object_store::path::Path::from(path)).await.is_ok(),
            None => false,
        }
    }

    async fn check_insert(&self, name: &str) -> Result<(), Error> {
        let reference = TableReference::parse_str(name);
        self.check_own(&reference)?;
        self.refuse_view(&reference, "INSERT into")?;
        let name = reference.table();
        let takes_rows =
            self.host.tables().iter().any(|t| t.name == name && t.location.ends_with('/'));
        if takes_rows
            || self.is_columnar(&reference.to_string())
            || !self.context().table_exist(reference.clone()).unwrap_or(false)
        {
            return Ok(());
        }
        let (_, path) = self.free_name(name).await;
        Err(allowed::insert(name, &path))
    }

    /// A name near `wanted` that neither a table nor a file has, and the path for its file.
    async fn free_name(&self, wanted: &str) -> (String, String) {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let wanted = match wanted.starts_with(|c: char| c.is_ascii_lowercase()) {
            true if wanted.chars().all(legal) => wanted,
            _ => "new_table",
        };
        let groups = self.host.groups();
        let group = groups.first().map_or("DATA", String::as_str);
        let tables = self.host.tables();
        let mut name = wanted.to_owned();
        for number in 2..1000 {
            let path = format!("{name}.parquet");
            let taken = tables.iter().any(|t| t.name == name)
                || self.context().table_exist(name.as_str()).unwrap_or(false)
                || self.exists(group, &path).await;
            if !taken {
                break;
            }
            name = format!("{wanted}_{number}");
        }
        let path = format!("+{group}/{name}.parquet");
        (name, path)
    }
}
