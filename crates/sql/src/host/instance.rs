//! The instance as the engine sees it: groups as object stores, the catalog, statements, views.

mod disks;
mod left_files;
mod logfile;
mod offline;
mod scrub;
mod templates;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cellar_instance::catalog::{Table, TableKind};
use cellar_instance::database::{Database, DiskRequest, GroupRequest, Mounted};
use cellar_instance::parameters::Scope as InstanceScope;
use cellar_instance::parameters::definitions::{CPU_COUNT, TARGET_PARTITIONS};
use cellar_instance::session::Session;
use cellar_instance::views::{self as instance_views, ViewDef};
use object_store::ObjectStore;

use crate::columnar::tables::Columnar;
use crate::error::Error;
use crate::guard;
use crate::host::{Host, Reply, Rows, TableDefinition, UnderWay};
use crate::statement::{
    Command, Contents, CreateDiskgroup, DiskClause, ExplainWork, GroupAction, Groups, Redundancy,
    Scope,
};
use crate::view::{Column, Kind, Value, ViewSource};

/// What the catalog keeps of an external table beside its statement.
const COLUMNS: &str = "columns";
const MAY_BE_EMPTY: &str = "may_be_empty";

/// An open database and the session that asks.
pub struct InstanceHost {
    database: Arc<Database>,
    session: Session,
    waiting: waiting::Waiting,
    columnar: Columnar,
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
            Some(step) => made.next(step),
            None => made,
        }
    }
}

fn group_error(error: cellar_diskgroup::Error) -> Error {
    Error::from(cellar_instance::Error::from(error))
}

fn done(message: impl Into<String>) -> Result<Reply, Error> {
    Ok(Reply { message: message.into(), notices: Vec::new() })
}

fn disk_request(clause: DiskClause) -> DiskRequest {
    DiskRequest {
        path: clause.path,
        name: clause.name,
        failgroup: clause.failgroup,
        size: clause.size,
        force: clause.force,
        erase: clause.erase,
    }
}

fn scope(scope: Scope) -> Option<InstanceScope> {
    match scope {
        Scope::Default => None,
        Scope::Memory => Some(InstanceScope::Memory),
        Scope::Spfile => Some(InstanceScope::Spfile),
        Scope::Both => Some(InstanceScope::Both),
    }
}

impl InstanceHost {
    /// The host for one session.
    pub fn new(database: Arc<Database>, session: Session) -> InstanceHost {
        let columnar = Columnar::new(Arc::clone(&database), session.clone());
        InstanceHost { database, session, waiting: waiting::Waiting::default(), columnar }
    }

    async fn create(&self, c: CreateDiskgroup) -> Result<Reply, Error> {
        let request = GroupRequest {
            name: c.name,
            redundancy: match c.redundancy {
                Redundancy::External => cellar_diskgroup::Redundancy::External,
                Redundancy::Normal => cellar_diskgroup::Redundancy::Normal,
                Redundancy::High => cellar_diskgroup::Redundancy::High,
            },
            attributes: c.attributes.into_iter().collect(),
            disks: c.disks.into_iter().map(disk_request).collect(),
        };
        let mounted = self.database.storage().groups().create(&request).await?;
        let info = mounted.group.info();
        done(format!(
            "Diskgroup created. {}: {} disks, room for {} MB.",
            info.name,
            mounted.group.disks().len(),
            info.writable_mb
        ))
    }

    /// Which tables cannot be read while `groups` are not mounted.
    fn unreadable(&self, groups: &[String]) -> Option<String> {
        let files = guard::files_of(&self.tables());
        let of_these = files.iter().filter(|f| groups.contains(&f.group));
        let mut tables: Vec<&str> = of_these.map(|f| f.table.as_str()).collect();
        tables.dedup();
        (!tables.is_empty())
            .then(|| format!("until it is mounted these cannot be read: {}", tables.join(", ")))
    }

    /// What was done, if there is more to say than that the group was altered.
    async fn alter(&self, group: &str, action: &GroupAction) -> Result<Option<String>, Error> {
        if let GroupAction::Mount { force } = action {
            self.database.mount_group(group, *force).await?;
            return Ok(None);
        }
        if let GroupAction::Dismount { force } = action {
            return Ok(self
                .database
                .storage()
                .groups()
                .dismount(group, *force)
                .await
                .map(|()| None)?);
        }
        let mounted = self.database.group(group)?;
        if let Some(told) = self.alter_disks(&mounted, action).await? {
            return Ok(Some(told));
        }
        if let Some(told) = self.alter_away(&mounted, action).await? {
            return Ok(Some(told));
        }
        if let Some(told) = self.alter_scrub(&mounted, action).await? {
            return Ok(Some(told));
        }
        self.alter_mounted(&mounted, action).await.map(|()| None)
    }

    async fn alter_mounted(&self, mounted: &Mounted, action: &GroupAction) -> Result<(), Error> {
        let group = &mounted.group;
        let inside = |path: &str| inside(group.name(), path);
        for path in taken_away(action) {
            let path = inside(path)?;
            self.check_writable(group.name(), &path)?;
            guard::check_removable(&guard::files_of(&self.tables()), group.name(), &path)?;
        }
        if templates::alter(group, action).await.map_err(group_error)? {
            return Ok(());
        }
        let result = match action {
            GroupAction::AddDirectory(paths) => {
                for path in paths {
                    group.mkdir(&inside(path)?, false).await.map_err(group_error)?;
                }
                Ok(())
            }
            GroupAction::DropDirectory { path, force } => group.rmdir(&inside(path)?, *force).await,
            GroupAction::RenameDirectory { from, to } | GroupAction::RenameAlias { from, to } => {
                group.rename(&inside(from)?, &inside(to)?, false).await
            }
            GroupAction::AddAlias { alias, file } => {
                group.add_alias(&inside(alias)?, &inside(file)?).await
            }
            GroupAction::DropAlias(path) => group.remove(&inside(path)?).await,
            GroupAction::DropFile(paths) => {
                for path in paths {
                    group.remove(&inside(path)?).await.map_err(group_error)?;
                }
                Ok(())
            }
            GroupAction::SetAttribute { name, value } => group.set_attribute(name, value).await,
            GroupAction::Check { .. } => {
                return group
                    .check()
                    .map_err(|what| Error::new(15049, "58030", format!("check found: {what}")));
            }
            // Done before.
            GroupAction::Mount { .. }
            | GroupAction::Dismount { .. }
            | GroupAction::Disks(_)
            | GroupAction::UndropDisks(_)
            | GroupAction::RenameDisks(_)
            | GroupAction::Offline(_)
            | GroupAction::Online(_)
            | GroupAction::Replace(_)
            | GroupAction::Scrub(_)
            | GroupAction::StopScrub
            | GroupAction::Rebalance(_)
            | GroupAction::ModifyPower(_)
            | GroupAction::AddTemplates(_)
            | GroupAction::ModifyTemplates(_)
            | GroupAction::DropTemplates(_) => Ok(()),
        };
        result.map_err(group_error)
    }
}

/// The names that an action takes away, with what is below them.
fn taken_away(action: &GroupAction) -> Vec<&str> {
    match action {
        GroupAction::DropFile(paths) => paths.iter().map(String::as_str).collect(),
        GroupAction::DropAlias(path)
        | GroupAction::DropDirectory { path, force: true }
        | GroupAction::RenameDirectory { from: path, .. }
        | GroupAction::RenameAlias { from: path, .. } => vec![path.as_str()],
        _ => Vec::new(),
    }
}

/// A path of a statement as one from the root of the group: `+DATA/d` or `d`.
fn inside(group: &str, path: &str) -> Result<String, Error> {
    if !path.starts_with('+') {
        return Ok(path.to_owned());
    }
    match cellar_instance::database::split_group_path(path) {
        Some((named, inside)) if named == group => Ok(inside),
        _ => {
            let text = format!("\"{path}\" is not in disk group \"{group}\"");
            Err(Error::new(15124, "42602", text))
        }
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
        let catalog = self.database.catalog().current();
        let tables = catalog.tables.iter().filter(|t| t.kind == TableKind::External);
        tables
            .map(|t| TableDefinition {
                name: t.name.clone(),
                location: t.location.clone(),
                statement: t.schema.clone(),
                columns: t.options.get(COLUMNS).cloned(),
                may_be_empty: t.options.contains_key(MAY_BE_EMPTY),
            })
            .collect()
    }

    async fn put_table(&self, table: TableDefinition) -> Result<(), Error> {
        let (location, statement) = (table.location, table.statement);
        let columns = table.columns.map(|columns| (COLUMNS.to_owned(), columns));
        let empty = table.may_be_empty.then(|| (MAY_BE_EMPTY.to_owned(), "true".to_owned()));
        let options: BTreeMap<_, _> = columns.into_iter().chain(empty).collect();
        let table = Table::external(table.name, "", location, statement, options);
        Ok(self.database.catalog().add_or_replace(table).await?)
    }

    async fn drop_table(&self, name: &str) -> Result<bool, Error> {
        match self.database.catalog().current().table(name).map(|table| table.kind) {
            None => return Ok(false),
            Some(TableKind::Columnar) => self.database.tables().drop_columnar(name).await?,
            Some(TableKind::External) => self.database.catalog().drop_table(name).await?,
        };
        Ok(true)
    }

    fn columnar(&self) -> Option<&Columnar> {
        Some(&self.columnar)
    }

    fn check_writable(&self, group: &str, path: &str) -> Result<(), Error> {
        Ok(self.database.tables().check_user_file(group, path)?)
    }

    async fn explain_work(&self, work: ExplainWork) -> Result<Rows, Error> {
        disks::explain(&self.database, &self.waiting, work).await
    }

    fn progress(&self) -> Option<UnderWay> {
        self.waiting.progress()
    }

    async fn run(&self, command: Command) -> Result<Reply, Error> {
        match command {
            Command::CreateDiskgroup(create) => self.create(create).await,
            Command::DropDiskgroup { name, contents } => {
                let including = matches!(contents, Contents::Including { .. });
                guard::check_group(&guard::files_of(&self.tables()), &name)?;
                let groups = [name.to_uppercase()];
                let files = left_files::members(&self.database, &groups);
                self.database.drop_group(&name, including).await?;
                let notices = left_files::told(&self.database, &groups, &files);
                Ok(Reply { message: "Diskgroup dropped.".to_owned(), notices })
            }
            Command::AlterDiskgroup { groups, action } => {
                let names = match (groups, &action) {
                    (Groups::Named(names), _) => names,
                    // Those that are mounted are so already, which is what was wanted.
                    (Groups::All, GroupAction::Mount { .. }) => {
                        self.database.storage().groups().unmounted_names().await
                    }
                    (Groups::All, _) => self.groups(),
                };
                let files = left_files::members(&self.database, &names);
                let mut told = vec!["Diskgroup altered.".to_owned()];
                for name in &names {
                    told.extend(self.alter(name, &action).await.map_err(|e| {
                        Error::new(15032, e.sqlstate, "not all alterations performed").caused_by(e)
                    })?);
                }
                let mut reply = done(told.join(" "))?;
                if matches!(action, GroupAction::Dismount { .. }) {
                    reply.notices.extend(self.unreadable(&names));
                } else {
                    reply.notices.extend(left_files::told(&self.database, &names, &files));
                }
                Ok(reply)
            }
            Command::SetParameter { name, value, scope: s, comment } => {
                let altered = self.database.alter_system_set(&name, &value, scope(s)).await?;
                let mut reply = done("System altered.")?;
                reply.notices.extend(altered.notices);
                if comment.is_some() {
                    reply.notices.push("the comment is not kept: cellar.toml has none".to_owned());
                }
                Ok(reply)
            }
            Command::ResetParameter { name, scope: s } => {
                let altered = self.database.alter_system_reset(&name, scope(s)).await?;
                let mut reply = done("System altered.")?;
                reply.notices.extend(altered.notices);
                Ok(reply)
            }
            Command::Flush { what } if what == "CELL_CACHE" => {
                self.database.instance().scans().cache().clear();
                done("System altered: the cell cache is empty.")
            }
            Command::Redo(action) => self.redo(action).await,
            Command::Flush { what } => Err(Error::not_yet(format!("ALTER SYSTEM FLUSH {what}"))),
        }
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
        // Every view of the registry is filled; one that were not would have no rows.
        let rows = self.database.instance().rows(self.view).unwrap_or_default();
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

/// The columns of every view, made once: the engine wants them for as long as the program runs.
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
