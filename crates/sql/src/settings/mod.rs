//! The settings of a session: the values for SET, RESET and SHOW, and those that end with a transaction.

mod acting;
mod clock;
mod known;
mod value;
mod zone;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

pub(crate) use self::acting::{denied, no_role};
use self::clock::Clock;
use self::known::{Definition, Kind};
use crate::error::Error;

/// The settings of a session.
#[derive(Debug)]
pub(crate) struct Settings {
    values: Mutex<Values>,
    /// The current values, rebuilt with each change: statements read only this.
    now: RwLock<Arc<Now>>,
    /// The number of changes.
    changes: AtomicU64,
    /// The start of its transaction and of its statement.
    pub clock: Clock,
    /// The role that it acts as.
    acting: acting::Kept,
}

/// Settings by name in lower case; one that is not in here has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Values {
    /// The client's settings at connection: the defaults of the session.
    first: BTreeMap<String, String>,
    session: BTreeMap<String, String>,
    /// Values until the transaction ends.
    local: BTreeMap<String, String>,
}

/// A setting as shown by pg_settings.
#[derive(Clone, Debug)]
pub(crate) struct SettingRow {
    pub name: &'static str,
    pub value: String,
    pub default: &'static str,
    /// Its description.
    pub about: &'static str,
    /// PostgreSQL's word for the kind of its values.
    pub kind: &'static str,
    pub is_settable: bool,
}

/// A saved state of the settings, which can be restored.
#[derive(Clone, Debug)]
pub(crate) struct Savepoint(Values);

/// The current values of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Statements by key run without DataFusion.
    pub is_fast: bool,
    /// The longest wait for a lock; `None`: unlimited.
    pub lock_timeout: Option<Duration>,
    /// The longest run time of a statement.
    pub statement_timeout: Option<Duration>,
    /// The longest time that a transaction may be open without a statement.
    pub idle_timeout: Option<Duration>,
    /// Transactions begin REPEATABLE READ.
    pub is_snapshot: bool,
    /// Transactions begin READ ONLY.
    pub is_read_only: bool,
    /// Messages below errors are not sent.
    pub is_quiet: bool,
    /// The time zone, as in Arrow's types.
    pub zone: Arc<str>,
    /// CREATE TABLE makes a table in the heap.
    pub makes_heap: bool,
    /// CREATE TABLE AS makes a table in the heap, too.
    pub fills_heap: bool,
    /// The role of the session, and the one that it acts as.
    pub session_role: Arc<str>,
    pub role: Arc<str>,
    /// The latter may do everything.
    pub is_superuser: bool,
}

/// Settings of the roles of a session, which have statements of their own.
const ROLE: &str = "role";
const SESSION_ROLE: &str = "session_authorization";
const IS_SUPERUSER: &str = "is_superuser";

/// A change of the roles of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acts<'a> {
    /// Act as a role; `None`: as that of the session.
    As(Option<&'a str>),
    /// Change the role of the session; `None`: to the one that connected.
    Session(Option<&'a str>),
}

impl Default for Settings {
    fn default() -> Settings {
        let values = Values::default();
        let now = RwLock::new(Arc::new(values.now()));
        let changes = AtomicU64::new(0);
        let (clock, acting) = (Clock::default(), acting::Kept::default());
        Settings { now, changes, values: Mutex::new(values), clock, acting }
    }
}

impl Values {
    fn get(&self, key: &str) -> Option<&str> {
        let set = self.local.get(key).or_else(|| self.session.get(key));
        set.or_else(|| self.first.get(key)).map(String::as_str)
    }

    fn of(&self, known: &Definition) -> &str {
        self.get(&known.name.to_ascii_lowercase()).unwrap_or(known.default)
    }

    fn named(&self, name: &str) -> &str {
        known::find(name).map_or("", |known| self.of(known))
    }

    fn now(&self) -> Now {
        let time = |name| Some(value::millis(self.named(name))).filter(|time| !time.is_zero());
        Now {
            is_fast: self.named("cellar.fast_path") == "on",
            lock_timeout: time("lock_timeout"),
            statement_timeout: time("statement_timeout"),
            idle_timeout: time("idle_in_transaction_session_timeout"),
            is_snapshot: self.named("default_transaction_isolation") == "repeatable read",
            is_read_only: self.named("default_transaction_read_only") == "on",
            is_quiet: matches!(self.named("client_min_messages"), "warning" | "error"),
            zone: zone::for_arrow(self.named("timezone"))
                .unwrap_or_else(|| "UTC".to_owned())
                .into(),
            makes_heap: self.named("default_table_access_method") == "heap",
            fills_heap: self.named("default_ctas_access_method") == "heap",
            session_role: self.named(SESSION_ROLE).into(),
            is_superuser: self.named(IS_SUPERUSER) == "on",
            role: match self.named(ROLE) {
                "none" => self.named(SESSION_ROLE).into(),
                role => role.into(),
            },
        }
    }
}

/// A time zone, by a name that SET TIME ZONE accepts, in Arrow's form.
///
/// # Errors
/// 22023 there is no zone of that name.
pub(crate) fn zone(name: &str) -> Result<String, Error> {
    let found = zone::named(name.trim()).and_then(|name| zone::for_arrow(&name));
    found.ok_or_else(|| {
        Error::new(1882, "22023", format!("time zone \"{name}\" not recognized"))
            .next("a name such as Europe/Berlin, or UTC")
    })
}

fn unknown(name: &str) -> Error {
    let names = crate::suggestions::suggestions(
        name,
        known::all().map(|own| own.name.to_owned()).collect(),
    );
    Error::new(70250, "42704", format!("unrecognized configuration parameter \"{name}\""))
        .next(format!("the nearest names are {}; SHOW ALL lists all", names.join(", ")))
}

/// Whether a name is that of a custom setting: two words with a dot between them, for programs.
fn is_custom(name: &str) -> bool {
    let (space, _) = name.split_once('.').unwrap_or_default();
    !space.is_empty() && space != "cellar" && space != "datafusion"
}

impl Settings {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current values.
    pub fn now(&self) -> Arc<Now> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn changed(&self, values: &Values) {
        let now = Arc::new(values.now());
        self.changes.fetch_add(1, Ordering::Release);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// The number of changes.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Sets one; `None`: to its default. `is_local`: until the transaction ends.
    ///
    /// # Errors
    /// 42704 there is no setting of that name; 22023 the value is invalid; 55P02 it cannot be set.
    pub fn set(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<(), Error> {
        let key = name.to_ascii_lowercase();
        let value = match known::find(&key) {
            Some(Definition { kind: Kind::ReadOnly, name, .. }) => {
                let text = format!("parameter \"{name}\" cannot be changed");
                return Err(Error::new(2095, "55P02", text));
            }
            Some(known) => match value {
                Some(value) => value::read(known, value)?,
                None => {
                    let first = self.values().first.get(&key).cloned();
                    first.unwrap_or_else(|| known.default.to_owned())
                }
            },
            None if is_custom(&key) => value.unwrap_or_default().to_owned(),
            None => return Err(unknown(name)),
        };
        let mut values = self.values();
        match is_local {
            true => drop(values.local.insert(key, value)),
            false => {
                values.local.remove(&key);
                values.session.insert(key, value);
            }
        }
        self.changed(&values);
        Ok(())
    }

    /// Sets one at connection, for the client: RESET goes back to that.
    ///
    /// # Errors
    /// Those of [`Settings::set`].
    pub fn set_first(&self, name: &str, value: &str) -> Result<(), Error> {
        self.set(name, Some(value), false)?;
        let mut values = self.values();
        if let Some((key, value)) = values.session.remove_entry(&name.to_ascii_lowercase()) {
            values.first.insert(key, value);
        }
        Ok(())
    }

    /// Sets the role that the session has connected as.
    pub fn connected_as(&self, role: &str, is_superuser: bool) {
        let mut values = self.values();
        values.first.insert(SESSION_ROLE.to_owned(), role.to_owned());
        let word = if is_superuser { "on" } else { "off" };
        values.first.insert(IS_SUPERUSER.to_owned(), word.to_owned());
        self.changed(&values);
    }

    /// The role that connected.
    pub fn connected(&self) -> String {
        self.values().first.get(SESSION_ROLE).map_or("cellar", |role| role).to_owned()
    }

    /// Makes the session act as another role. `is_superuser`: whether that role is a superuser.
    pub fn act(&self, acts: Acts<'_>, is_superuser: bool, is_local: bool) {
        let mut values = self.values();
        let mut put = |key: &str, value: Option<&str>| {
            values.local.remove(key);
            let Values { local, session, .. } = &mut *values;
            match value {
                Some(value) if is_local => drop(local.insert(key.to_owned(), value.to_owned())),
                Some(value) => drop(session.insert(key.to_owned(), value.to_owned())),
                None => drop(session.remove(key)),
            }
        };
        match acts {
            Acts::As(role) => put(ROLE, Some(role.unwrap_or("none"))),
            Acts::Session(role) => {
                put(ROLE, Some("none"));
                put(SESSION_ROLE, role);
            }
        }
        put(IS_SUPERUSER, Some(if is_superuser { "on" } else { "off" }));
        self.changed(&values);
    }

    /// Resets all settings to their defaults, except the role.
    pub fn reset_all(&self) {
        let mut values = self.values();
        let is_kept = |key: &str| [ROLE, SESSION_ROLE, IS_SUPERUSER].contains(&key);
        values.session.retain(|key, _| is_kept(key));
        values.local.retain(|key, _| is_kept(key));
        self.changed(&values);
    }

    /// The value of one, with its canonical name.
    ///
    /// # Errors
    /// 42704 there is no setting of that name.
    pub fn get(&self, name: &str) -> Result<(String, String), Error> {
        let key = name.to_ascii_lowercase();
        let values = self.values();
        match (known::find(&key), values.get(&key)) {
            (Some(known), _) => Ok((known.name.to_owned(), values.of(known).to_owned())),
            (None, Some(value)) => Ok((key, value.to_owned())),
            (None, None) => Err(unknown(name)),
        }
    }

    /// All of them: name, value, and description.
    pub fn all(&self) -> Vec<(&'static str, String, &'static str)> {
        let values = self.values();
        known::all().map(|own| (own.name, values.of(own).to_owned(), own.about)).collect()
    }

    /// All of them, as shown by pg_settings.
    pub fn told(&self) -> Vec<SettingRow> {
        let values = self.values();
        let told = |own: &'static Definition| SettingRow {
            name: own.name,
            value: values.of(own).to_owned(),
            default: own.default,
            about: own.about,
            kind: own.kind.word(),
            is_settable: !matches!(own.kind, Kind::ReadOnly),
        };
        known::all().map(told).collect()
    }

    /// Saves the current settings.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.values().clone())
    }

    /// Restores saved settings.
    pub fn back_to(&self, savepoint: &Savepoint) {
        let mut values = self.values();
        if *values != savepoint.0 {
            *values = savepoint.0.clone();
            self.changed(&values);
        }
    }

    /// Ends a transaction: values set for it are dropped.
    pub fn end_transaction(&self) {
        let mut values = self.values();
        if !values.local.is_empty() {
            values.local.clear();
            self.changed(&values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_postgresql_reads_them() {
        let settings = Settings::default();
        for (name, given, shown) in [
            ("lock_timeout", "1500", "1500ms"),
            ("LOCK_TIMEOUT", "2s", "2s"),
            ("statement_timeout", "90 min", "90min"),
            ("statement_timeout", "120min", "2h"),
            ("statement_timeout", "1.5s", "1500ms"),
            ("statement_timeout", "0", "0"),
            ("cellar.fast_path", "of", "off"),
            ("cellar.fast_path", "yes", "on"),
            ("timezone", "europe/berlin", "Europe/Berlin"),
            ("timezone", "GMT-03:00", "GMT-03:00"),
            ("client_encoding", "unicode", "UTF8"),
            ("DateStyle", "iso", "ISO, MDY"),
            ("default_transaction_isolation", "REPEATABLE READ", "repeatable read"),
            ("my.own", "Anything", "Anything"),
        ] {
            settings.set(name, Some(given), false).unwrap();
            assert_eq!(settings.get(name).unwrap().1, shown, "{name} {given}");
        }
        assert_eq!(settings.now().zone.as_ref(), "+03:00");
        for (name, given, state) in [
            ("lock_timeout", "-1", "22023"),
            ("lock_timeout", "1 lightyear", "22023"),
            ("lock_timeout", "99999999999", "22023"),
            ("cellar.fast_path", "o", "22023"),
            ("timezone", "Europe/Nowhere", "22023"),
            ("client_encoding", "latin1", "22023"),
            ("default_transaction_isolation", "serializable", "22023"),
            ("no_such", "1", "42704"),
            ("cellar.nosuch", "1", "42704"),
            ("server_encoding", "UTF8", "55P02"),
        ] {
            assert_eq!(
                settings.set(name, Some(given), false).unwrap_err().sqlstate,
                state,
                "{name}"
            );
        }
    }

    #[test]
    fn what_a_client_connects_with_is_the_default_of_its_session() {
        let settings = Settings::default();
        settings.set_first("TimeZone", "Asia/Tokyo").unwrap();
        settings.set("timezone", Some("UTC"), false).unwrap();
        assert_eq!(settings.now().zone.as_ref(), "UTC");
        settings.set("timezone", None, false).unwrap();
        assert_eq!(settings.get("timezone").unwrap().1, "Asia/Tokyo");
        settings.set("timezone", Some("UTC"), false).unwrap();
        settings.reset_all();
        assert_eq!(settings.now().zone.as_ref(), "Asia/Tokyo");
        assert_eq!(settings.set_first("nosuch", "1").unwrap_err().sqlstate, "42704");
    }

    #[test]
    fn what_is_local_goes_with_the_transaction_and_a_mark_takes_all_back() {
        let settings = Settings::default();
        settings.set("lock_timeout", Some("1s"), false).unwrap();
        let savepoint = settings.savepoint();
        settings.set("lock_timeout", Some("2s"), true).unwrap();
        assert_eq!(settings.now().lock_timeout, Some(Duration::from_secs(2)));
        settings.end_transaction();
        assert_eq!(settings.now().lock_timeout, Some(Duration::from_secs(1)));
        settings.set("lock_timeout", Some("3s"), true).unwrap();
        settings.set("lock_timeout", Some("4s"), false).unwrap();
        settings.end_transaction();
        assert_eq!(settings.now().lock_timeout, Some(Duration::from_secs(4)));
        settings.back_to(&savepoint);
        assert_eq!(settings.now().lock_timeout, Some(Duration::from_secs(1)));
        settings.reset_all();
        assert_eq!(settings.now().lock_timeout, None);
    }
}
