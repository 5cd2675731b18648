//! Opening of the files that a table reads in place: anew at each use of the table, as files come and go.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{CreateExternalTable, DdlStatement, LogicalPlan};
use datafusion::sql::parser::{CreateExternalTable as Parsed, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use futures_util::FutureExt;

use crate::csv::look::CsvSeen;
use crate::csv::read::schema_of;
use crate::csv::table::{look_at, other_columns, shown_of, unreadable};
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::files::csv_format::Csv;
use crate::files::csv_options::form_of;
use crate::files::parquet_format::check_all;
use crate::files::place::{Place, is_pattern};
use crate::files::table::{FileTable, Kind, files_of};

/// The name under which files are planned; no table has it.
const PLANNED: &str = "files that are opened";

/// What is known of a table before its files are examined.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// The columns that were found in its files.
    pub columns: Option<SchemaRef>,
    /// Whether it may have no file.
    pub may_be_empty: bool,
    /// Whether its files are looked through: before there is such a table.
    pub is_new: bool,
}

/// A table that was opened, and what came of it.
#[derive(Debug)]
pub(super) struct Opened {
    pub table: FileTable,
    /// Columns of CSV files, as they were found.
    pub found: Option<SchemaRef>,
    /// Whether there is any file.
    pub has_files: bool,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// Opens what a statement describes.
///
/// # Errors
/// There is no file, or one that is not what it is said to be.
pub(super) async fn open(
    state: &SessionState,
    mut create: Parsed,
    known: Known,
) -> Result<Opened, Error> {
    // The planner looks for an existing table of that name, which would open it.
    create.name = ObjectName::from(vec![Ident::with_quote('"', PLANNED)]);
    let plan = state.statement_to_plan(DfStatement::CreateExternalTable(create)).await;
    let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(command)) =
        plan.map_err(|e| from_datafusion(&e))?
    else {
        return Err(Error::new(600, "XX000", "no CREATE EXTERNAL TABLE"));
    };
    let is_named = !command.schema.fields().is_empty();
    let is_csv = command.file_type.eq_ignore_ascii_case("csv");
    let mut places = Vec::new();
    for location in &command.locations {
        places.push(Place::of(state, location, &command.file_type).await?);
    }
    let (format, kind) = format_of(state, &command, is_csv, is_named)?;
    let is_directory = places
        .iter()
        .all(|place| place.urls.iter().all(|url| url.is_collection()) && !is_pattern(&place.shown));
    let may_be_empty = known.may_be_empty || (known.is_new && is_named && is_directory);
    let opening = Opening { state, command: &command, kind, is_named, may_be_empty };
    let mut opened = opening.files(&places, &known, &format).await?;
    let table = opening.table(&places, format, &mut opened).await?;
    Ok(Opened {
        table: FileTable::new(table, places, kind, may_be_empty),
        found: opened.found,
        has_files: opened.has_files,
        notices: opened.notices,
    })
}

fn format_of(
    state: &SessionState,
    command: &CreateExternalTable,
    is_csv: bool,
    is_named: bool,
) -> Result<(Arc<dyn FileFormat>, Kind), Error> {
    if is_csv {
        let (mut form, how) = form_of(&command.options)?;
        form.named = is_named;
        let kind = Kind::Csv { has_header: form.has_header };
        return Ok((Arc::new(Csv { form: Arc::new(form), how }), kind));
    }
    let factory = state.get_file_format_factory(&command.file_type).ok_or_else(|| {
        let text = format!("there is no file format \"{}\"", command.file_type.to_lowercase());
        Error::new(70010, "22023", text).next("stored as parquet, csv, json or arrow")
    })?;
    let format = factory.create(state, &command.options).map_err(|e| from_datafusion(&e))?;
    let is_parquet = command.file_type.eq_ignore_ascii_case("parquet");
    Ok((format, if is_parquet { Kind::Parquet } else { Kind::Other }))
}

struct Opening<'a> {
    state: &'a SessionState,
    command: &'a CreateExternalTable,
    kind: Kind,
    is_named: bool,
    may_be_empty: bool,
}

/// What the files showed.
#[derive(Default)]
struct Found {
    /// The columns in the files.
    schema: Option<SchemaRef>,
    /// Those of CSV files, if they were looked for.
    found: Option<SchemaRef>,
    has_files: bool,
    notices: Vec<String>,
}

impl Opening<'_> {
    /// Examines the files, as far as needed.
    async fn files(
        &self,
        places: &[Place],
        known: &Known,
        format: &Arc<dyn FileFormat>,
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        let mut seen = CsvSeen::default();
        let mut first: Option<(String, Vec<String>)> = None;
        let csv = format.downcast_ref::<Csv>();
        let looks = known.is_new || (!self.is_named && known.columns.is_none());
        let mut schemas = Vec::new();
        for place in places {
            let files = files_of(self.state, place, self.kind, self.may_be_empty).await?;
            found.has_files |= !files.is_empty();
            let (url, store) = place.store(self.state)?;
            if let (Some(csv), true) = (csv, looks) {
                for file in &files {
                    let shown = shown_of(&url, &file.location);
                    let names = look_at(&store, file, &csv.form, &mut seen).await;
                    let names = names.map_err(|e| unreadable(&shown, e))?;
                    match &first {
                        Some((of, own)) if *own != names && !self.is_named => {
                            return Err(other_columns(&shown, &names, of, own));
                        }
                        Some(_) => {}
                        None => first = Some((shown, names)),
                    }
                }
            } else if csv.is_none() && !files.is_empty() {
                if self.kind == Kind::Parquet {
                    let objects = files.iter().collect();
                    let checked = check_all(self.state, &store, &url, objects).await;
                    checked.map_err(|e| from_datafusion(&e))?;
                }
                if !self.is_named {
                    // On damaged files Arrow's reader can panic with a failed assertion.
                    let schema = format.infer_schema(self.state, &store, &files);
                    let schema = AssertUnwindSafe(schema).catch_unwind().await;
                    let schema = schema.map_err(|_| damaged(&place.shown))?;
                    schemas.push((place, schema.map_err(|e| from_datafusion(&e))?));
                }
            }
        }
        if let (Some(csv), true) = (csv, looks && !self.is_named && found.has_files) {
            let is_found = |name: &str| !csv.form.types.iter().any(|(own, _)| own == name);
            found.notices = seen.notices(is_found);
            found.found = Some(schema_of(seen.types(), &csv.form, None)?);
        }
        found.schema = match (csv, schemas.first()) {
            (Some(_), _) => found.found.clone().or_else(|| known.columns.clone()),
            (None, first) => first.map(|(_, schema)| Arc::clone(schema)),
        };
        if let Some((place, _)) = schemas.iter().find(|(_, s)| Some(s) != found.schema.as_ref()) {
            let text =
                format!("the files of \"{}\" have other columns than the first", place.shown);
            return Err(Error::new(29913, "22P04", text).next("make a table of each"));
        }
        Ok(found)
    }

    async fn table(
        &self,
        places: &[Place],
        format: Arc<dyn FileFormat>,
        found: &mut Found,
    ) -> Result<ListingTable, Error> {
        let failed = |e: DataFusionError| from_datafusion(&e);
        let urls: Vec<_> = places.iter().flat_map(|place| place.urls.iter().cloned()).collect();
        let Some(first) = urls.first() else {
            return Err(Error::new(900, "42601", "a table needs a location"));
        };
        if let Some(other) = urls.iter().find(|url| url.object_store() != first.object_store()) {
            let text = format!("\"{other}\" is in another store than \"{first}\"");
            return Err(Error::not_yet("a table over files of several groups").caused_by(
                Error::new(15124, "22023", text).next("copy the files into one group"),
            ));
        }
        let mut options = ListingOptions::new(format).with_file_extension("");
        let mut named = self.command.table_partition_cols.clone();
        let infers = self.state.config_options().execution.listing_table_factory_infer_partitions;
        if named.is_empty() && !self.is_named && infers && first.is_collection() {
            named = options.infer_partitions(self.state, first).await.map_err(failed)?;
        }
        let whole = self.command.schema.inner();
        let by_path = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
        let type_of = |name: &String| {
            whole.field_with_name(name).map_or(by_path.clone(), |own| own.data_type().clone())
        };
        let partitions = named.iter().map(|name| (name.clone(), type_of(name))).collect();
        options = options
            .with_table_partition_cols(partitions)
            .with_file_sort_order(self.command.order_exprs.clone());
        for url in &urls {
            options.validate_partitions(self.state, url).await.map_err(failed)?;
        }
        let schema = match (self.is_named, found.schema.take()) {
            (true, _) => {
                let own = whole.fields().iter().filter(|own| !named.contains(own.name()));
                Arc::new(Schema::new(own.cloned().collect::<Vec<_>>()))
            }
            (false, Some(schema)) if schema.fields().is_empty() => {
                let shown = places.first().map_or("", |place| place.shown.as_str());
                let text = format!("\"{shown}\" has no columns");
                return Err(Error::new(29913, "22P04", text).next("look what is in it"));
            }
            (false, Some(schema)) => schema,
            (false, None) => {
                return Err(places.first().map_or_else(no_place, Place::gone));
            }
        };
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options)
            .with_schema(schema);
        let cache = self.state.runtime_env().cache_manager.get_file_statistic_cache();
        let table = ListingTable::try_new(config).map_err(failed)?;
        Ok(table
            .with_cache(cache)
            .with_definition(self.command.definition.clone())
            .with_constraints(self.command.constraints.clone())
            .with_column_defaults(self.command.column_defaults.clone()))
    }
}

fn damaged(shown: &str) -> Error {
    let text = format!("\"{shown}\" is damaged: what it says of its columns makes no sense");
    Error::new(29913, "XX001", text).next("write it again")
}

fn no_place() -> Error {
    Error::new(900, "42601", "a table needs a location")
}
