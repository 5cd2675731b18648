//! The search path of a session: the schemas in which unqualified names are looked up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cellar_instance::catalog::{Catalog, name};

use crate::error::Error;

/// The schema with the user's name, which does not exist yet.
const USER: &str = "$user";

/// The name, in statements, of the schema for temporary objects.
pub(crate) const TEMPORARY: &str = "pg_temp";

/// Schemas of ours, which the catalog does not have.
pub(crate) const SYSTEM: [&str; 3] = ["cellar", "information_schema", "pg_catalog"];

/// Schemas in the order in which names are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPath(pub Vec<String>);

impl SearchPath {
    /// A path as text: names separated by commas, quoted unless they are in lower case.
    ///
    /// # Errors
    /// 22023 it is not a path.
    pub fn of_text(text: &str) -> Result<SearchPath, Error> {
        let wrong = || {
            Error::new(68, "22023", format!("invalid list of schemas: \"{text}\""))
                .next("names with commas between: a, \"B c\"")
        };
        let (mut schemas, mut rest) = (Vec::new(), text.trim());
        while !rest.is_empty() {
            let mut name = String::new();
            match rest.strip_prefix('"') {
                Some(mut quoted) => loop {
                    let (before, behind) = quoted.split_once('"').ok_or_else(wrong)?;
                    name.push_str(before);
                    match behind.strip_prefix('"') {
                        Some(more) => {
                            name.push('"');
                            quoted = more;
                        }
                        None => {
                            rest = behind.trim_start();
                            break;
                        }
                    }
                },
                None => {
                    let end = rest.find(',').unwrap_or(rest.len());
                    name = rest[..end].trim().to_lowercase();
                    rest = &rest[end..];
                }
            }
            if name.is_empty() {
                return Err(wrong());
            }
            schemas.push(name);
            rest = match rest.strip_prefix(',').map(str::trim) {
                Some("") => return Err(wrong()),
                Some(more) => more,
                None if rest.is_empty() => rest,
                None => return Err(wrong()),
            };
        }
        Ok(SearchPath(schemas))
    }
}

impl Default for SearchPath {
    fn default() -> SearchPath {
        SearchPath(vec![USER.to_owned(), name::PUBLIC.to_owned()])
    }
}

impl std::fmt::Display for SearchPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        for (at, schema) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let is_plain = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
                && schema.chars().all(plain);
            match is_plain {
                true => write!(f, "{comma}{schema}")?,
                false => write!(f, "{comma}\"{}\"", schema.replace('"', "\"\""))?,
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct State {
    session: SearchPath,
    /// SET LOCAL: until the transaction ends.
    local: Option<SearchPath>,
    /// The path when the transaction began.
    before: Option<SearchPath>,
    /// The paths at savepoints, by their names: the session's, and that of SET LOCAL.
    savepoints: Vec<(String, SearchPath, Option<SearchPath>)>,
}

impl State {
    fn current(&self) -> &SearchPath {
        self.local.as_ref().unwrap_or(&self.session)
    }
}

/// The search path of a session, and its schema for temporary objects.
pub(crate) struct Paths {
    state: Mutex<State>,
    /// The session's temporary schema.
    temporary: String,
    has_temporary: AtomicBool,
    /// The path is the initial one, and there are no temporary objects.
    is_plain: AtomicBool,
}

impl std::fmt::Debug for Paths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Paths({})", self.current())
    }
}

impl Paths {
    /// The search path of the session with this number.
    pub fn new(session: u64) -> Paths {
        Paths {
            state: Mutex::default(),
            temporary: name::temporary_schema(session),
            has_temporary: AtomicBool::new(false),
            is_plain: AtomicBool::new(true),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, state: &State) {
        let has_temporary = self.has_temporary.load(Ordering::Relaxed);
        let is_plain = *state.current() == SearchPath::default() && !has_temporary;
        self.is_plain.store(is_plain, Ordering::Relaxed);
    }

    /// Whether names without a schema refer to `public`.
    pub fn is_plain(&self) -> bool {
        self.is_plain.load(Ordering::Relaxed)
    }

    /// The path as it was set.
    pub fn current(&self) -> SearchPath {
        self.state().current().clone()
    }

    /// SET, or SET LOCAL; `None`: the path at the start of the session.
    pub fn set(&self, path: Option<SearchPath>, is_local: bool) {
        let mut state = self.state();
        let path = path.unwrap_or_default();
        match is_local {
            true => state.local = Some(path),
            false => (state.session, state.local) = (path, None),
        }
        self.settle(&state);
    }

    /// A transaction has begun.
    pub fn begin(&self) {
        let mut state = self.state();
        state.before = Some(state.session.clone());
        state.savepoints.clear();
    }

    /// SAVEPOINT.
    pub fn savepoint(&self, name: &str) {
        let mut state = self.state();
        let kept = (name.to_owned(), state.session.clone(), state.local.clone());
        state.savepoints.push(kept);
    }

    /// ROLLBACK TO: restores the path of the savepoint.
    pub fn back_to(&self, name: &str) {
        let mut state = self.state();
        let Some(at) = state.savepoints.iter().rposition(|(own, ..)| own == name) else { return };
        state.savepoints.truncate(at + 1);
        let (_, session, local) = state.savepoints[at].clone();
        (state.session, state.local) = (session, local);
        self.settle(&state);
    }

    /// RELEASE.
    pub fn release(&self, name: &str) {
        let mut state = self.state();
        if let Some(at) = state.savepoints.iter().rposition(|(own, ..)| own == name) {
            state.savepoints.truncate(at);
        }
    }

    /// A transaction has ended.
    pub fn end(&self, is_committed: bool) {
        let mut state = self.state();
        let before = state.before.take();
        state.savepoints.clear();
        if let (Some(before), false) = (before, is_committed) {
            state.session = before;
        }
        state.local = None;
        self.settle(&state);
    }

    /// The session's temporary schema.
    pub fn temporary(&self) -> &str {
        &self.temporary
    }

    /// Whether it contains, or has contained, anything.
    pub fn has_temporary(&self) -> bool {
        self.has_temporary.load(Ordering::Relaxed)
    }

    /// Records that an object is created in the session's temporary schema.
    pub fn set_temporary(&self) {
        let state = self.state();
        self.has_temporary.store(true, Ordering::Relaxed);
        self.settle(&state);
    }

    /// The schema that a name stands for.
    pub fn schema<'a>(&'a self, said: &'a str) -> &'a str {
        if said == TEMPORARY { &self.temporary } else { said }
    }

    /// The existing schemas of the path, in order; for names of tables, with the session's temporary one.
    pub fn schemas(&self, catalog: &Catalog, with_temporary: bool) -> Vec<String> {
        let path = self.current().0;
        let is_named = path.iter().any(|schema| schema == TEMPORARY);
        let mut found: Vec<String> = Vec::new();
        if with_temporary && self.has_temporary() && !is_named {
            found.push(self.temporary.clone());
        }
        for schema in &path {
            let schema = self.schema(schema);
            let is_there = match schema == self.temporary {
                true => self.has_temporary(),
                false => schema != USER && catalog.has_schema(schema),
            };
            if is_there && !found.iter().any(|own| own == schema) {
                found.push(schema.to_owned());
            }
        }
        found
    }

    /// What a plan depends on besides its statement, for its key in a cache.
    pub fn key(&self) -> String {
        let mark = if self.has_temporary() { "+" } else { "" };
        format!("\u{0}{}{mark}", self.current())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &[&str]) -> SearchPath {
        SearchPath(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_path_is_shown_as_it_is_typed() {
        assert_eq!(SearchPath::default().to_string(), "\"$user\", public");
        assert_eq!(path(&["a", "B c"]).to_string(), "a, \"B c\"");
    }

    #[test]
    fn what_a_transaction_sets_goes_with_it() {
        let paths = Paths::new(7);
        paths.begin();
        paths.set(Some(path(&["a"])), false);
        paths.set(Some(path(&["b"])), true);
        assert_eq!(paths.current(), path(&["b"]));
        paths.end(true);
        assert_eq!(paths.current(), path(&["a"]));
        assert!(!paths.is_plain());
        paths.begin();
        paths.set(None, false);
        assert!(paths.is_plain());
        paths.end(false);
        assert_eq!(paths.current(), path(&["a"]));
    }
}
