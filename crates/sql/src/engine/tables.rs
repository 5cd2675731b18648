//! The schema `public`: tables of the catalog, opened only when a statement names them, and files by their
//! paths.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use cellar_instance::catalog::{Catalog, Sequence, Table, name};
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::common::Result as DataFusionResult;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::context::SessionState;
use datafusion::sql::parser::{CreateExternalTable, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Value};

use crate::columnar::provider::ColumnarTable;
use crate::columnar::table::schema_of_text;
use crate::engine::open::{Known, Opened, open};
use crate::engine::permitted::{NameScope, file_of_server, opens_view};
use crate::engine::sequence_row;
use crate::engine::views::open_view;
use crate::error::Error;
use crate::host::{Host, TableDefinition};
use crate::parse::parse;
use crate::path::ending;
use crate::path::to_url;
use crate::rows::{HeapTable, RowColumns, defaults, without_row_ids};
use crate::statement::Statement;

/// Tables as the catalog describes them, with the columns that were found in their files.
type FoundColumns = HashMap<String, (TableDefinition, SchemaRef)>;

/// All that can be named without a schema.
pub(super) struct Tables {
    /// System objects: views of the instance, and dual.
    system: Arc<MemorySchemaProvider>,
    /// Views of the session, and temporary results of statements.
    own: MemorySchemaProvider,
    host: Arc<dyn Host>,
    /// The state statements are planned with; it refers to this schema, and is not kept alive by it.
    state: OnceLock<Box<dyn Fn() -> Option<SessionState> + Send + Sync>>,
    directory: Mutex<Option<PathBuf>>,
    /// Tables that could not be opened when they were last wanted, and why.
    broken: Mutex<BTreeMap<String, Error>>,
    /// Columns of CSV tables of older catalogs, which do not have them.
    found: Mutex<FoundColumns>,
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tables of {:?}", self.host)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The type of a file that a query names by its path; `None`: it is the name of a table.
fn file_type(name: &str) -> Option<(&'static str, Option<&'static str>)> {
    let known = match ending(name.as_ref()).as_str() {
        "parquet" | "pq" => Some(("PARQUET", None)),
        "csv" | "csv.gz" | "csv.zst" => Some(("CSV", None)),
        "tsv" | "tsv.gz" | "tsv.zst" => Some(("CSV", Some("\t"))),
        "json" | "ndjson" | "jsonl" => Some(("JSON", None)),
        "arrow" | "feather" => Some(("ARROW", None)),
        _ => None,
    };
    let is_path = name.contains('/') || name.starts_with('+');
    known.or(is_path.then_some(("", None)))
}

/// Whether a query that names it means a file.
pub(super) fn is_file(name: &str) -> bool {
    file_type(name).is_some()
}

impl Tables {
    /// The tables of a host.
    pub(super) fn new(host: &Arc<dyn Host>, system: &Arc<MemorySchemaProvider>) -> Tables {
        Tables {
            system: Arc::clone(system),
            own: MemorySchemaProvider::new(),
            host: Arc::clone(host),
            state: OnceLock::new(),
            directory: Mutex::new(None),
            broken: Mutex::default(),
            found: Mutex::default(),
        }
    }

    /// Sets the state with which tables are opened.
    pub(super) fn open_with(
        &self,
        state: impl Fn() -> Option<SessionState> + Send + Sync + 'static,
    ) {
        // Called once, when the engine is created.
        let _ = self.state.set(Box::new(state));
    }

    /// Sets the directory to which file paths are relative.
    pub(super) fn in_directory(&self, directory: PathBuf) {
        *lock(&self.directory) = Some(directory);
    }

    /// Tables that could not be opened when they were last wanted, and why.
    pub(super) fn broken(&self) -> BTreeMap<String, Error> {
        lock(&self.broken).clone()
    }

    pub(super) fn set_broken(&self, name: &str, error: Option<Error>) {
        let mut broken = lock(&self.broken);
        match error {
            Some(error) => broken.insert(name.to_owned(), error),
            None => broken.remove(name),
        };
    }

    /// Whether it is one of ours, or a view of the session.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.table_exist(name) || self.system.table_exist(name)
    }

    /// The catalog as the session sees it; `None`: there is none with roles.
    pub(super) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.host.rows()?.catalog().ok()
    }

    /// What an unqualified name belongs to.
    pub(super) fn whose(&self, name: &str) -> NameScope {
        let is_dual = name == "dual";
        match () {
            () if self.own.table_exist(name) => NameScope::Session,
            () if self.system.table_exist(name) && !is_dual => NameScope::Instance,
            () if is_dual => NameScope::Session,
            () => NameScope::Catalog,
        }
    }

    fn is_superuser(&self, role: u32) -> bool {
        let who = self.catalog().and_then(|catalog| catalog.who_is(role));
        who.is_some_and(|who| who.is_superuser)
    }

    /// Refuses to open files by their paths.
    fn check_reads_files(&self) -> Result<(), Error> {
        let may = match (opens_view(), self.host.rows()) {
            (Some(is_superuser), _) => is_superuser,
            (None, None) => true,
            (None, Some(rows)) => {
                let who = || rows.settings().who(&rows.catalog().ok()?);
                rows.settings().is_owner() || who().is_some_and(|who| who.is_superuser)
            }
        };
        if may { Ok(()) } else { Err(file_of_server()) }
    }

    /// The keys of all tables and views of the catalog.
    pub(super) fn keys(&self) -> Vec<String> {
        let external = self.host.tables().into_iter().map(|table| table.name);
        let mut keys: Vec<String> = external.collect();
        keys.extend(self.host.columnar().map(|c| c.names()).unwrap_or_default());
        keys.extend(self.host.rows().map(|rows| rows.names()).unwrap_or_default());
        keys.extend(self.host.rows().map(|rows| rows.view_names()).unwrap_or_default());
        keys
    }

    fn state(&self) -> Result<SessionState, Error> {
        let state = self.state.get().and_then(|state| state());
        state.ok_or_else(|| Error::new(1013, "57014", "the session has ended"))
    }

    fn definition(&self, name: &str) -> Option<TableDefinition> {
        self.host.tables().into_iter().find(|table| table.name == name)
    }

    /// Opens a table of the catalog.
    pub(super) async fn open_external(&self, table: &TableDefinition) -> Result<Opened, Error> {
        let Statement::Query(statement) = parse(&table.statement)? else {
            return Err(Error::new(600, "XX000", "the catalog holds another statement"));
        };
        let DfStatement::CreateExternalTable(mut create) = *statement else {
            return Err(Error::new(600, "XX000", "the catalog holds another statement"));
        };
        if !table.location.starts_with('+') && create.locations.len() == 1 {
            create.locations = vec![table.location.clone()];
        }
        // An older version may have stored the statement with these clauses.
        (create.if_not_exists, create.or_replace) = (false, false);
        let mut known = Known { may_be_empty: table.may_be_empty, ..Known::default() };
        known.columns = match &table.columns {
            Some(text) => Some(schema_of_text(text)?),
            None => {
                let found = lock(&self.found);
                let own = found.get(&table.name).filter(|(of, _)| of == table);
                own.map(|(_, columns)| Arc::clone(columns))
            }
        };
        let opened = open(&self.state()?, create, known).await?;
        if let (Some(columns), None) = (&opened.found, &table.columns) {
            let found = (table.clone(), Arc::clone(columns));
            lock(&self.found).insert(table.name.clone(), found);
        }
        Ok(opened)
    }

    /// Opens files that a query names by their path.
    async fn open_file(&self, name: &str) -> Result<Opened, Error> {
        let (mut of_type, delimiter) = file_type(name).unwrap_or(("", None));
        let mut location = to_url(name)?;
        if !location.contains("://") {
            let directory = lock(&self.directory).clone();
            location = super::absolute(directory.as_deref(), &location)?;
            if !location.ends_with('/') && std::path::Path::new(&location).is_dir() {
                location.push('/');
            }
        }
        let state = self.state()?;
        if of_type.is_empty() {
            of_type = kind_in(&state, &mut location, name).await?;
        }
        let option = |text: &str| ("delimiter".to_owned(), Value::SingleQuotedString(text.into()));
        let create = CreateExternalTable {
            name: ObjectName::from(vec![Ident::new("file")]),
            columns: Vec::new(),
            file_type: of_type.to_owned(),
            locations: vec![location],
            table_partition_cols: Vec::new(),
            order_exprs: Vec::new(),
            if_not_exists: false,
            or_replace: false,
            temporary: false,
            unbounded: false,
            options: delimiter.map(option).into_iter().collect(),
            constraints: Vec::new(),
        };
        let known = Known { is_new: true, ..Known::default() };
        open(&state, create, known).await
    }

    /// A table in the heap; one with a name that says so comes with the numbers of its rows.
    fn in_heap(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, Error> {
        let Some(rows) = self.host.rows() else { return Ok(None) };
        let (own, row_ids) = match without_row_ids(name) {
            Some(own) => (own, true),
            None => (name, false),
        };
        let Some((table, of)) = rows.table(own) else { return Ok(None) };
        let columns =
            RowColumns::of(&table, &of, (&rows.settings().now().zone, &*rows.catalog()?))?;
        let state = self.state()?;
        // An invalid default must not keep rows from being read.
        let defaults = defaults(&state, &columns);
        let defaults = defaults.filter_map(|(name, value)| Some((name, value.ok()?))).collect();
        Ok(Some(Arc::new(HeapTable::new(columns, row_ids, defaults))))
    }

    /// A view of the catalog.
    fn view(&self, name: &str) -> Option<Table> {
        let catalog = self.host.rows()?.catalog().ok()?;
        catalog.view(name).map(|(table, _)| table.clone())
    }

    /// A sequence of the catalog.
    fn sequence(&self, name: &str) -> Option<Sequence> {
        self.host.rows()?.catalog().ok()?.sequence(name).cloned()
    }

    async fn open(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, Error> {
        if let Some(columnar) = self.host.columnar().filter(|columnar| columnar.has(name)) {
            let schema = columnar.schema(name)?;
            let table = ColumnarTable::new(name.to_owned(), schema, columnar.clone());
            let zone = self.host.rows().map(|rows| Arc::clone(&rows.settings().now().zone));
            let table = match zone {
                Some(zone) => table.in_zone(&zone),
                None => table,
            };
            return Ok(Some(Arc::new(table)));
        }
        if let Some(table) = self.in_heap(name)? {
            return Ok(Some(table));
        }
        if let Some(table) = self.view(name)
            && let Some(view) = &table.view
        {
            let is_superuser = self.is_superuser(table.owner());
            let opened = open_view(&self.state()?, (&table, view), is_superuser).await?;
            return Ok(Some(Arc::new(opened)));
        }
        if let (Some(rows), Some(sequence)) = (self.host.rows(), self.sequence(name)) {
            return Ok(Some(Arc::new(sequence_row::table_of(rows, &sequence)?)));
        }
        let opened = match self.definition(name) {
            Some(table) => self.open_external(&table).await?,
            None if is_file(name) => {
                self.check_reads_files()?;
                self.open_file(name).await?
            }
            None => return Ok(None),
        };
        Ok(Some(Arc::new(opened.table)))
    }
}

/// The type of the files in a directory, or of a file without a known extension.
async fn kind_in(
    state: &SessionState,
    location: &mut String,
    name: &str,
) -> Result<&'static str, Error> {
    use crate::files::place::Place;
    let mut place = Place::of(state, location, "").await?;
    let mut files = place.files(state).await?;
    if files.is_empty() && !location.ends_with('/') && !place.is_many() {
        location.push('/');
        place = Place::of(state, location, "").await?;
        files = place.files(state).await?;
    }
    let types: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file_type(file.location.filename().unwrap_or_default()))
        .map(|(of_type, _)| of_type)
        .collect();
    match (files.is_empty(), types.first(), types.len()) {
        (true, ..) => Err(place.gone()),
        (false, Some(of_type), 1) => Ok(of_type),
        _ => {
            let text = format!("\"{name}\": what is in it does not follow from names of files");
            Err(Error::new(70010, "22023", text).next(
                "give files names that end in .parquet, .csv, .tsv or .json, or: create external \
                 table NAME stored as csv location '...'",
            ))
        }
    }
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.own.table_names().into_iter().collect();
        names.extend(self.system.table_names());
        names.extend(self.keys().into_iter().filter(|key| !key.contains(name::SEPARATOR)));
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        if let Some(own) = self.own.table(name).await? {
            return Ok(Some(own));
        }
        if let Some(own) = self.system.table(name).await? {
            return Ok(Some(own));
        }
        // A table that cannot be opened must not keep others from being listed; why it cannot is recorded
        // for whoever wants it.
        match self.open(name).await {
            Ok(table) => {
                self.set_broken(name, None);
                Ok(table)
            }
            Err(error) => {
                self.set_broken(name, Some(error));
                Ok(None)
            }
        }
    }

    async fn table_type(&self, name: &str) -> DataFusionResult<Option<TableType>> {
        let own = match self.own.table_type(name).await? {
            None => self.system.table_type(name).await?,
            own => own,
        };
        match own {
            Some(own) => Ok(Some(own)),
            None if self.view(name).is_some() => Ok(Some(TableType::View)),
            None => Ok(self.table_exist(name).then_some(TableType::Base)),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.own.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.own.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.is_own(name)
            || self.host.columnar().is_some_and(|columnar| columnar.has(name))
            || self
                .host
                .rows()
                .is_some_and(|rows| rows.table(without_row_ids(name).unwrap_or(name)).is_some())
            || self.definition(name).is_some()
            || self.view(name).is_some()
            || self.sequence(name).is_some()
    }
}
