//! The parameters of an instance: what is in force, what the file says, `ALTER SYSTEM SET`.

pub mod definitions;
mod settings;
pub mod spfile;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use definitions::{DEFINITIONS, Definition, Kind, Value};
pub use spfile::Spfile;

use crate::error::{Error, Result};
use crate::views::instance::VParameter;

/// Where a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Now, until the instance stops.
    Memory,
    /// At the next start.
    Spfile,
    /// Now and at the next start.
    Both,
}

impl Scope {
    /// Reads the word after `SCOPE =`.
    ///
    /// # Errors
    /// 00922 for any other word.
    pub fn parse(word: &str) -> Result<Scope> {
        match word.to_ascii_uppercase().as_str() {
            "MEMORY" => Ok(Scope::Memory),
            "SPFILE" => Ok(Scope::Spfile),
            "BOTH" => Ok(Scope::Both),
            _ => Err(Error::new(922, format!("SCOPE = {word} is not an option"))
                .hint("allowed: MEMORY, SPFILE, BOTH")),
        }
    }
}

/// What a change came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Altered {
    /// The parameter.
    pub name: &'static str,
    /// What is in force now.
    pub in_force: Value,
    /// What will be in effect after a restart.
    pub after_restart: Value,
    /// What whoever changed it should also know.
    pub notices: Vec<String>,
}

#[derive(Debug)]
struct State {
    /// What was set: from the file at start, or since.
    in_force: BTreeMap<&'static str, Value>,
    /// Those changed since the start.
    modified: BTreeMap<&'static str, ()>,
    spfile: Option<Spfile>,
}

/// The parameters of one instance.
#[derive(Debug)]
pub struct Parameters {
    state: Mutex<State>,
    /// One change of the file at a time; held only by [`Parameters::change`].
    writing: Mutex<()>,
}

impl Parameters {
    /// Defaults, and no file: SCOPE=SPFILE is refused.
    pub fn without_file() -> Parameters {
        Parameters::from(None)
    }

    /// What the file in `directory` says.
    ///
    /// # Errors
    /// As [`Spfile::read`].
    pub fn load(directory: &Path) -> Result<Parameters> {
        Ok(Parameters::from(Some(Spfile::read(directory)?)))
    }

    fn from(spfile: Option<Spfile>) -> Parameters {
        let in_force = spfile.iter().flat_map(Spfile::iter);
        let in_force = in_force.map(|(name, value)| (name, value.clone())).collect();
        let state = State { in_force, modified: BTreeMap::new(), spfile };
        Parameters { state: Mutex::new(state), writing: Mutex::new(()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in force.
    pub fn get(&self, name: &'static str) -> Value {
        let definition = definitions::find(name).expect("parameters are named by their constants");
        self.state().value(definition)
    }

    /// An integer that is in force.
    pub fn integer(&self, name: &'static str) -> u64 {
        match self.get(name) {
            Value::Integer(number) | Value::Size(number) => number,
            other => unreachable!("{name} holds {other:?}, not a number"),
        }
    }

    /// A flag that is in force.
    pub fn flag(&self, name: &'static str) -> bool {
        match self.get(name) {
            Value::Bool(flag) => flag,
            other => unreachable!("{name} holds {other:?}, not a flag"),
        }
    }

    /// A word that is in force.
    pub fn choice(&self, name: &'static str) -> &'static str {
        match self.get(name) {
            Value::Choice(word) => word,
            other => unreachable!("{name} holds {other:?}, not a word"),
        }
    }

    /// A text that is in force.
    pub fn text(&self, name: &'static str) -> String {
        match self.get(name) {
            Value::Text(text) => text,
            other => unreachable!("{name} holds {other:?}, not a text"),
        }
    }

    /// A list that is in force.
    pub fn list(&self, name: &'static str) -> Vec<String> {
        match self.get(name) {
            Value::List(parts) => parts,
            other => unreachable!("{name} holds {other:?}, not a list"),
        }
    }

    /// `ALTER SYSTEM SET name = value [SCOPE = scope]`. Without a scope it is BOTH where there is
    /// a file, else MEMORY. The file is durable when this returns; it blocks for that long.
    ///
    /// # Errors
    /// 02065 no such parameter, 02095 not while running, 02097 over 00068, 00096 or 02017 bad
    /// value, 32001 no file, 70110 the file cannot be written; nothing changes.
    pub fn set(&self, name: &str, value: &str, scope: Option<Scope>) -> Result<Altered> {
        let definition = find(name)?;
        let value = definition.parse(value).map_err(|error| {
            let message = "parameter cannot be modified because the value is not valid";
            error.under(2097, message)
        })?;
        self.change(definition, Some(value), scope)
    }

    /// Sets a list, whose parts may hold commas.
    ///
    /// # Errors
    /// As [`Parameters::set`].
    pub fn set_list(
        &self,
        name: &str,
        parts: Vec<String>,
        scope: Option<Scope>,
    ) -> Result<Altered> {
        let definition = find(name)?;
        assert!(definition.kind == Kind::List, "{name} is not a list");
        self.change(definition, Some(Value::List(parts)), scope)
    }

    /// `ALTER SYSTEM RESET name [SCOPE = scope]`: back to the default.
    ///
    /// # Errors
    /// As [`Parameters::set`].
    pub fn reset(&self, name: &str, scope: Option<Scope>) -> Result<Altered> {
        self.change(find(name)?, None, scope)
    }

    fn change(
        &self,
        definition: &'static Definition,
        value: Option<Value>,
        scope: Option<Scope>,
    ) -> Result<Altered> {
        // Orders the writers of the file, who all block here for the disk anyway; readers of
        // parameters take only the lock below, which is never held over I/O.
        let _one_writer = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let name = definition.name;
        let spfile = self.state().spfile.clone();
        let unset = if spfile.is_some() { Scope::Both } else { Scope::Memory };
        let scope = scope.unwrap_or(unset);
        if scope != Scope::Spfile && !definition.dynamic {
            let message = format!("parameter {name} cannot be modified while the instance runs");
            return Err(
                Error::new(2095, message).hint("add SCOPE = SPFILE and restart the instance")
            );
        }
        let changed = match (scope, spfile) {
            (Scope::Memory, _) => None,
            (_, Some(spfile)) => {
                let changed = spfile.with(name, value.clone());
                changed.write()?;
                Some(changed)
            }
            (_, None) => {
                return Err(
                    Error::new(32001, "no cellar.toml is in use").hint("use SCOPE = MEMORY")
                );
            }
        };
        let mut state = self.state();
        if let Some(changed) = changed {
            state.spfile = Some(changed);
        }
        if scope != Scope::Spfile {
            state.modified.insert(name, ());
            match value {
                Some(value) => state.in_force.insert(name, value),
                None => state.in_force.remove(name),
            };
        }
        let filed = state.spfile.as_ref().and_then(|spfile| spfile.get(name)).cloned();
        Ok(Altered {
            name,
            in_force: state.value(definition),
            after_restart: filed.unwrap_or_else(|| definition.default_value()),
            notices: Vec::new(),
        })
    }

    /// Messages for the start: names in cellar.toml that have no effect.
    pub fn notices(&self) -> Vec<String> {
        let state = self.state();
        let notice = |name: &str| match nearest(name) {
            Some(near) => format!("cellar.toml: {name} is no parameter; did you mean {near}?"),
            None => format!("cellar.toml: {name} is no parameter of this version"),
        };
        state.spfile.iter().flat_map(Spfile::unknown).map(notice).collect()
    }

    /// The rows of `v$parameter`.
    pub fn rows(&self) -> Vec<VParameter> {
        let state = self.state();
        let shown = |definition: &&Definition| {
            !definition.is_hidden() || state.in_force.contains_key(definition.name)
        };
        (1u64..)
            .zip(DEFINITIONS.iter())
            .filter(|(_, definition)| shown(definition))
            .map(|(num, definition)| state.row(num, definition))
            .collect()
    }
}

impl State {
    fn value(&self, definition: &Definition) -> Value {
        self.in_force.get(definition.name).cloned().unwrap_or_else(|| definition.default_value())
    }

    fn row(&self, num: u64, definition: &Definition) -> VParameter {
        let value = self.value(definition);
        let plain = match &value {
            Value::Size(bytes) => bytes.to_string(),
            other => other.to_string(),
        };
        VParameter {
            num,
            name: definition.name,
            kind: match definition.kind {
                Kind::Bool => 1,
                Kind::Choice(_) | Kind::GroupPath | Kind::List => 2,
                Kind::Integer { .. } => 3,
                Kind::Size { .. } => 6,
            },
            value: plain,
            display_value: value.to_string(),
            is_default: upper(!self.in_force.contains_key(definition.name)),
            is_session_modifiable: "FALSE",
            is_system_modifiable: if definition.dynamic { "IMMEDIATE" } else { "FALSE" },
            is_modified: if self.modified.contains_key(definition.name) {
                "SYSTEM_MOD"
            } else {
                "FALSE"
            },
            description: definition.description,
        }
    }
}

fn upper(flag: bool) -> &'static str {
    if flag { "TRUE" } else { "FALSE" }
}

fn find(name: &str) -> Result<&'static Definition> {
    definitions::find(name).ok_or_else(|| {
        let error = Error::new(2065, format!("there is no parameter \"{name}\""));
        if let Some(words) = elsewhere(name) {
            return error.hint(words);
        }
        match nearest(name) {
            Some(near) => {
                error.hint(format!("did you mean {near}? All: SELECT name FROM v$parameter"))
            }
            None => error.hint("all there are: SELECT name, value FROM v$parameter"),
        }
    })
}

/// The equivalents here of parameters of other databases.
fn elsewhere(name: &str) -> Option<&'static str> {
    let known: [(&[&str], &str); 6] = [
        (
            &["_disk_sector_size_override"],
            "none is needed: sectors are what a disk reports, and the block of a redo log is \
             measured; to say it: BLOCKSIZE 4096 in ADD LOGFILE, or ALTER SYSTEM SET \
             log_block_size = 4096",
        ),
        (
            &["asm_diskstring"],
            "that is disk_string: ALTER SYSTEM SET disk_string = '/dev/disk/by-id/*'",
        ),
        (
            &["sga_target", "pga_aggregate_target", "memory_max_target", "db_cache_size"],
            "that is memory_target, for all together: ALTER SYSTEM SET memory_target = 2G",
        ),
        (
            &["db_file_multiblock_read_count"],
            "that is scan_depth, reads of 1 MB in flight on each disk: ALTER SYSTEM SET scan_depth \
             = 32",
        ),
        (
            &["log_archive_dest_1", "db_recovery_file_dest"],
            "that is log_archive_dest: ALTER SYSTEM SET log_archive_dest = '+DATA'",
        ),
        (
            &["fast_start_mttr_target", "log_checkpoint_timeout", "log_checkpoint_interval"],
            "that is recovery_target, in seconds: ALTER SYSTEM SET recovery_target = 5",
        ),
    ];
    let is_it = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    known.into_iter().find(|(names, _)| is_it(names)).map(|(_, words)| words)
}

/// The name that needs the fewest changed letters, if those are few.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let visible = DEFINITIONS.iter().filter(|definition| !definition.is_hidden());
    let (distance, near) =
        visible.map(|definition| (edits(&name, definition.name), definition.name)).min()?;
    (distance <= 3).then_some(near)
}

/// How many letters must be put in, left out or changed.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let change = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
