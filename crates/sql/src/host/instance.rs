//! The instance as the engine sees it: groups as object stores, the catalog, statements, views.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cellar_instance::administration::{Administrator, Command, Reply, UnderWay, refusal};
use cellar_instance::catalog::{Table, TableKind};
use cellar_instance::database::Database;
use cellar_instance::parameters::definitions::{CPU_COUNT, TARGET_PARTITIONS};
use cellar_instance::session::Session;
use cellar_instance::views::{self as instance_views, Row, ViewDef, WorkRow, work_rows};
use cellar_storage::request::WorkRequest;
use object_store::ObjectStore;

use crate::catalog::SessionCatalog;
use crate::columnar::tables::Columnar;
use crate::error::Error;
use crate::host::{Host, Rows, TableDefinition};
use crate::rows::RowTables;
use crate::view::{Column, Kind, Value, ViewSource};

/// The key under which the catalog stores the columns of an external table, beside its statement.
const COLUMNS: &str = "columns";
const MAY_BE_EMPTY: &str = "may_be_empty";

/// An open database and the session that uses it.
pub struct InstanceHost {
    database: Arc<Database>,
    session: Session,
    administrator: Administrator,
    columnar: Columnar,
    rows: RowTables,
    catalog: Arc<SessionCatalog>,
}

impl std::fmt::Debug for InstanceHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InstanceHost({:?})", self.database)
    }
}

impl From<cellar_instance::Error> for Error {
    fn from(error: cellar_instance::Error) -> Error {
        let sqlstate = error.sqlstate();
        let mut made: Option<Error> = None;
        for entry in error.stack().iter().rev() {
            let next = Error::new(entry.number, sqlstate, entry.message.clone());
            made = Some(match made {
                Some(cause) => next.caused_by(cause),
                None => next,
            });
        }
        let made = made.unwrap_or_else(|| Error::new(600, "XX000", "an error without words"));
        match error.next_step() {
            Some(step) => made.next(step.clone()),
            None => made,
        }
    }
}

impl InstanceHost {
    /// The host for one session.
    pub fn new(database: Arc<Database>, session: Session) -> InstanceHost {
        let catalog = Arc::new(SessionCatalog::new(Arc::clone(&database)));
        let own = || (Arc::clone(&database), session.clone(), Arc::clone(&catalog));
        let columnar = {
            let (database, session, catalog) = own();
            Columnar::new(database, session, catalog)
        };
        let rows = {
            let (database, session, catalog) = own();
            RowTables::new(database, session, catalog)
        };
        let administrator = Administrator::new(Arc::clone(&database), session.clone());
        InstanceHost { database, session, administrator, columnar, rows, catalog }
    }
}

#[async_trait]
impl Host for InstanceHost {
    fn store(&self, group: &str) -> Option<Arc<dyn ObjectStore>> {
        Some(self.database.group(group).ok()?.store(self.session.waits()))
    }

    fn groups(&self) -> Vec<String> {
        let mut groups = self.database.groups();
        groups.sort_by_key(|m| m.number);
        groups.iter().map(|m| m.group.name().to_owned()).collect()
    }

    fn target_partitions(&self) -> Option<usize> {
        let parameters = self.database.instance().parameters();
        let set = [TARGET_PARTITIONS, CPU_COUNT].map(|name| parameters.integer(name));
        let first = set.into_iter().find(|count| *count > 0)?;
        usize::try_from(first).ok()
    }

    fn tables(&self) -> Vec<TableDefinition> {
        let catalog = self.catalog.current();
        let tables = catalog.tables.iter().filter(|t| t.kind == TableKind::External);
        tables
            .map(|t| TableDefinition {
                name: t.name.clone(),
                location: t.location.clone(),
                more_locations: t.locations().split_off(1),
                statement: t.schema.clone(),
                columns: t.options.get(COLUMNS).cloned(),
                may_be_empty: t.options.contains_key(MAY_BE_EMPTY),
            })
            .collect()
    }

    async fn put_table(&self, table: TableDefinition) -> Result<(), Error> {
        let (location, statement) = (table.location, table.statement);
        let locations: Vec<String> =
            std::iter::once(location.clone()).chain(table.more_locations).collect();
        let columns = table.columns.map(|columns| (COLUMNS.to_owned(), columns));
        let empty = table.may_be_empty.then(|| (MAY_BE_EMPTY.to_owned(), "true".to_owned()));
        let options: BTreeMap<_, _> = columns.into_iter().chain(empty).collect();
        let mut table = Table::external(table.name, "", location, statement, options);
        table.set_locations(&locations);
        match self.catalog.of_statement() {
            Some(definitions) => Ok(definitions.put_external(table)?),
            None => Ok(self.database.catalog().add_or_replace(table).await?),
        }
    }

    async fn drop_table(&self, name: &str) -> Result<bool, Error> {
        let kind = self.catalog.current().table(name).map(|table| table.kind);
        if let (Some(TableKind::Columnar | TableKind::External), Some(definitions)) =
            (kind, self.catalog.of_statement())
        {
            definitions.drop_other(name)?;
            return Ok(true);
        }
        match kind {
            None => return Ok(false),
            Some(TableKind::Columnar) => self.database.tables().drop_columnar(name).await?,
            Some(
                TableKind::Sequence
                | TableKind::View
                | TableKind::Schema
                | TableKind::Role
                | TableKind::Database
                | TableKind::Enum,
            ) => {
                return Ok(false);
            }
            Some(TableKind::External) => self.database.catalog().drop_table(name).await?,
            Some(TableKind::Heap) => {
                let (session, begin) = (self.session.waits(), self.rows.beginning());
                self.database.drop_row_table(session, name, begin).await?;
                return Ok(true);
            }
        };
        Ok(true)
    }

    fn columnar(&self) -> Option<&Columnar> {
        Some(&self.columnar)
    }

    fn rows(&self) -> Option<&RowTables> {
        Some(&self.rows)
    }

    fn check_writable(&self, group: &str, path: &str) -> Result<(), Error> {
        Ok(self.database.tables().check_user_file(group, path)?)
    }

    async fn explain_work(&self, work: WorkRequest) -> Result<Rows, Error> {
        let explained = self.administrator.explain_work(&work).await?;
        let rows = work_rows(&explained).into_iter().map(|row| row.values());
        Ok(Rows {
            columns: columns_of(WorkRow::VIEW),
            rows: rows.map(|row| row.into_iter().map(value).collect()).collect(),
            refused: refusal(&work.group, &explained).map(Error::from),
        })
    }

    fn progress(&self) -> Option<UnderWay> {
        self.administrator.progress()
    }

    async fn run(&self, command: Command) -> Result<Reply, Error> {
        Ok(self.administrator.run(command).await?)
    }
}

/// One view of an instance.
struct InstanceView {
    database: Arc<Database>,
    view: &'static ViewDef,
    columns: &'static [Column],
}

impl std::fmt::Debug for InstanceView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InstanceView({})", self.view.name)
    }
}

impl ViewSource for InstanceView {
    fn name(&self) -> &'static str {
        self.view.name
    }

    fn columns(&self) -> &'static [Column] {
        self.columns
    }

    fn rows(&self) -> Vec<Vec<Value>> {
        // Every view of the registry is filled; any other would have no rows.
        let rows = self.database.rows(self.view).unwrap_or_default();
        rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect()
    }
}

fn value(value: instance_views::Value) -> Value {
    match value {
        instance_views::Value::Null => Value::Null,
        instance_views::Value::Text(text) => Value::Text(text),
        instance_views::Value::Int(number) => Value::Integer(number),
        instance_views::Value::Float(number) => Value::Real(number),
        instance_views::Value::Bool(flag) => Value::Boolean(flag),
        instance_views::Value::Time(time) => {
            Value::Time(i64::try_from(time.unix_nanos / 1000).unwrap_or(i64::MAX))
        }
    }
}

/// The columns of every view, made once: the engine needs them as long as the program runs.
fn columns_of(view: &'static ViewDef) -> &'static [Column] {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, OnceLock, PoisonError};
    static MADE: OnceLock<Mutex<BTreeMap<&'static str, &'static [Column]>>> = OnceLock::new();
    let mut made = MADE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    made.entry(view.name).or_insert_with(|| {
        let columns: Vec<Column> = view
            .columns
            .iter()
            .map(|c| Column {
                name: c.name,
                kind: match c.kind {
                    instance_views::Kind::Text => Kind::Text,
                    instance_views::Kind::Int => Kind::Integer,
                    instance_views::Kind::Float => Kind::Real,
                    instance_views::Kind::Bool => Kind::Boolean,
                    instance_views::Kind::Time => Kind::Time,
                },
            })
            .collect();
        Box::leak(columns.into_boxed_slice())
    })
}

/// Every `v$` view of a database.
pub fn views(database: &Arc<Database>) -> Vec<Arc<dyn ViewSource>> {
    instance_views::VIEWS
        .iter()
        .map(|view| {
            Arc::new(InstanceView {
                database: Arc::clone(database),
                view,
                columns: columns_of(view),
            }) as Arc<dyn ViewSource>
        })
        .collect()
}
