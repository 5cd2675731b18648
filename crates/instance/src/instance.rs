//! One running instance: what every session of it shares.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_io::SharedEnv;
use cellar_storage::Settings;
use cellar_storage::redo::Redo;
use cellar_wait::Waits;

use crate::budget::{Budget, Consumer, Memory};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::library::Library;
use crate::parameters::definitions::MEMORY_TARGET;
use crate::parameters::{Altered, Parameters, Scope};
use crate::roles::Logins;
use crate::scans::Scans;
use crate::session::Sessions;
use crate::temp::TempSpace;
use crate::views::{
    self, Row, VAsmAlias, VAsmAttribute, VAsmDisk, VAsmDiskIostat, VAsmDiskgroup, VAsmFile,
    VAsmOperation, VAsmTemplate, VIostatFile, Value, ViewDef,
};

/// The source of the `v$asm_*` rows of a mounted disk group, or of the search for unmounted disks. All
/// of it is in memory: nothing here may wait for a disk.
pub trait GroupViews: Send + Sync + 'static {
    /// Rows of `v$asm_diskgroup`.
    fn diskgroups(&self) -> Vec<VAsmDiskgroup>;
    /// Rows of `v$asm_disk`.
    fn disks(&self) -> Vec<VAsmDisk>;
    /// Rows of `v$asm_disk_iostat`.
    fn disk_iostat(&self) -> Vec<VAsmDiskIostat>;
    /// Rows of `v$asm_file`.
    fn files(&self) -> Vec<VAsmFile>;
    /// Rows of `v$asm_alias`.
    fn aliases(&self) -> Vec<VAsmAlias>;
    /// Rows of `v$asm_attribute`.
    fn attributes(&self) -> Vec<VAsmAttribute>;
    /// Rows of `v$asm_template`.
    fn templates(&self) -> Vec<VAsmTemplate>;
    /// Rows of `v$asm_operation`.
    fn operations(&self) -> Vec<VAsmOperation>;
    /// Rows of `v$iostat_file`.
    fn iostat_files(&self) -> Vec<VIostatFile>;
}

/// An instance without its tables: those are in [`catalog`](crate::catalog), which needs a
/// mounted group.
pub struct Instance {
    env: SharedEnv,
    parameters: Arc<Parameters>,
    memory: Memory,
    budget: Budget,
    sessions: Sessions,
    /// By the name under which they were added.
    groups: Mutex<BTreeMap<String, Arc<dyn GroupViews>>>,
    scans: Arc<Scans>,
    temp: Arc<TempSpace>,
    redo: Redo,
    library: Library,
    logins: Logins,
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl Instance {
    /// An instance with the parameters of `directory`, which the caller has locked or only reads.
    ///
    /// # Errors
    /// Those of [`Parameters::load`] and [`Memory::detect`].
    pub fn open(env: SharedEnv, waits: Waits, directory: &Directory) -> Result<Instance> {
        let parameters = Parameters::load(directory.path())?;
        Ok(Instance::new(env, waits, parameters, Memory::detect()?))
    }

    /// An instance of given parameters and memory.
    pub fn new(env: SharedEnv, waits: Waits, parameters: Parameters, memory: Memory) -> Instance {
        let budget = Budget::new(memory.target(parameters.integer(MEMORY_TARGET)));
        let sessions = Sessions::new(Arc::clone(&env), waits);
        let groups = Mutex::default();
        let scans = Arc::new(Scans::new(budget.limit(Consumer::CellCache)));
        Instance {
            env,
            parameters: Arc::new(parameters),
            memory,
            budget,
            sessions,
            groups,
            scans,
            temp: Arc::default(),
            redo: Redo::default(),
            library: Library::default(),
            logins: Logins::default(),
        }
    }

    /// The environment that it runs in.
    pub fn env(&self) -> &SharedEnv {
        &self.env
    }

    /// The registry of wait events of its sessions.
    pub fn waits(&self) -> &Waits {
        self.sessions.waits()
    }

    /// Its sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The division of its memory.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The cell of this process, which scans columnar tables.
    pub fn scans(&self) -> &Arc<Scans> {
        &self.scans
    }

    /// Temporary space, and its statistics.
    pub fn temp(&self) -> &Arc<TempSpace> {
        &self.temp
    }

    /// The redo log, if there is one.
    pub fn redo(&self) -> &Redo {
        &self.redo
    }

    /// The statements that sessions run by plans they keep.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Counts logins that succeeded, and those that failed.
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    /// The memory of the machine or container.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The parameters, as set and as in force.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The parameters, as storage reads them.
    pub(crate) fn settings(&self) -> Arc<dyn Settings> {
        Arc::clone(&self.parameters) as Arc<dyn Settings>
    }

    /// `ALTER SYSTEM SET name = value SCOPE = scope`, with its effect on this instance.
    ///
    /// # Errors
    /// As [`Parameters::set`].
    pub fn alter_system_set(
        &self,
        name: &str,
        value: &str,
        scope: Option<Scope>,
    ) -> Result<Altered> {
        let altered = self.parameters.set(name, value, scope)?;
        self.apply(&altered);
        Ok(altered)
    }

    /// `ALTER SYSTEM RESET name SCOPE = scope`, with its effect on this instance.
    ///
    /// # Errors
    /// As [`Parameters::reset`].
    pub fn alter_system_reset(&self, name: &str, scope: Option<Scope>) -> Result<Altered> {
        let altered = self.parameters.reset(name, scope)?;
        self.apply(&altered);
        Ok(altered)
    }

    /// Other dynamic parameters are read at each use by the code that obeys them.
    fn apply(&self, altered: &Altered) {
        if altered.name == MEMORY_TARGET {
            let target = self.parameters.integer(MEMORY_TARGET);
            self.budget.set_total(self.memory.target(target));
            self.scans.cache().resize(self.budget.limit(Consumer::CellCache));
        }
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn GroupViews>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the views show `group` until [`remove_group`](Instance::remove_group).
    pub fn add_group(&self, name: &str, group: Arc<dyn GroupViews>) {
        let before = self.groups().insert(name.to_owned(), group);
        assert!(before.is_none(), "group {name} is shown twice");
    }

    /// Takes `group` out of the views.
    pub fn remove_group(&self, name: &str) {
        self.groups().remove(name);
    }

    fn of_groups<R: Row>(&self, rows: impl Fn(&dyn GroupViews) -> Vec<R>) -> Vec<Vec<Value>> {
        // Handles are taken out of the lock: a group may take locks of its own.
        let groups: Vec<Arc<dyn GroupViews>> = self.groups().values().cloned().collect();
        views::values(groups.iter().flat_map(|group| rows(&**group)))
    }

    /// The rows of a view as they are now, each with one value for each of its columns. Those of v$health, of
    /// the catalog and of the heap are the [database](crate::Database::rows)'s to know.
    ///
    /// # Errors
    /// 00942 if no instance fills the view.
    pub fn rows(&self, view: &ViewDef) -> Result<Vec<Vec<Value>>> {
        let (waits, now) = (self.waits(), self.env.now().0);
        Ok(match view.name {
            "v$asm_alias" => self.of_groups(|g| g.aliases()),
            "v$asm_attribute" => self.of_groups(|g| g.attributes()),
            "v$asm_template" => self.of_groups(|g| g.templates()),
            "v$asm_disk" => self.of_groups(|g| g.disks()),
            "v$asm_disk_iostat" => self.of_groups(|g| g.disk_iostat()),
            "v$asm_diskgroup" => self.of_groups(|g| g.diskgroups()),
            "v$asm_file" => self.of_groups(|g| g.files()),
            "v$asm_operation" => self.of_groups(|g| g.operations()),
            "v$cell_scan" => views::values(views::cell_scan(&self.scans)),
            "v$cell_scan_filter" => views::values(views::cell_scan_filter(&self.scans)),
            "v$controlfile" => views::values(views::controlfile(&self.redo)),
            "v$sysstat" => {
                views::values(views::sysstat(&self.scans, &self.temp, &self.redo, &self.logins))
            }
            "v$event_histogram_micro" => views::values(views::event_histogram_micro(waits)),
            "v$event_name" => views::values(views::event_name()),
            "v$iostat_file" => self.of_groups(|g| g.iostat_files()),
            "v$librarycache" => views::values(self.library.cache()),
            "v$log" => views::values(views::log(&self.redo)),
            "v$log_history" => views::values(views::log_history(&self.redo)),
            "v$logfile" => views::values(views::logfile(&self.redo)),
            "v$redo_commit" => views::values(views::redo_commit(&self.redo)),
            "v$redo_medium" => views::values(views::redo_medium(&self.redo)),
            "v$memory_budget" => views::values(self.budget.rows()),
            "v$parameter" => views::values(self.parameters.rows()),
            "v$session" => views::values(self.sessions.rows()),
            "v$session_event" => views::values(views::session_event(waits)),
            "v$session_wait" => views::values(views::session_wait(waits, now)),
            "v$sql" => views::values(self.library.sql()),
            "v$system_event" => views::values(views::system_event(waits)),
            other => {
                return Err(Error::new(942, format!("view \"{other}\" does not exist")));
            }
        })
    }
}
