//! Deferred checks of foreign keys: made when the transaction commits, or when SET CONSTRAINTS asks for
//! them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_instance::catalog::{Action, Deferral, ForeignKey};

use super::pending::{Gone, New};
use crate::error::Error;

/// The checks that a transaction has deferred.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deferred(Arc<Mutex<PutOff>>);

#[derive(Debug, Default)]
struct PutOff {
    entries: Vec<Entry>,
    /// The entry with a foreign key's latest values, by its table and name.
    latest: HashMap<(String, String), usize>,
    /// Settled entries, in the order of settling.
    settled: Vec<usize>,
    /// How many leading entries get no more values: a savepoint follows them.
    sealed: usize,
    modes: Arc<Modes>,
}

#[derive(Debug)]
struct Entry {
    check: Check,
    is_settled: bool,
}

/// What is to be checked.
#[derive(Clone, Debug)]
pub(super) enum Check {
    /// That the keys rows refer to exist.
    New(New),
    /// That no row refers to removed keys.
    Gone(Gone),
}

impl Check {
    fn table(&self) -> &str {
        match self {
            Check::New(new) => &new.table,
            Check::Gone(gone) => &gone.table,
        }
    }
}

/// What SET CONSTRAINTS has set: whether checks are deferred.
#[derive(Clone, Debug, Default)]
struct Modes {
    /// For all foreign keys.
    all: Option<bool>,
    /// For single ones, by table and name; said later than `all`.
    each: BTreeMap<(String, String), bool>,
}

/// A point among the deferred checks that a transaction can roll back to.
#[derive(Clone, Debug)]
pub(crate) struct Savepoint {
    entries: usize,
    settled: usize,
    modes: Arc<Modes>,
}

impl Deferred {
    fn postponed(&self) -> MutexGuard<'_, PutOff> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the check of a foreign key is deferred.
    pub fn puts_off(&self, table: &str, key: &ForeignKey) -> bool {
        let is_first = match key.deferral {
            Deferral::Never => return false,
            Deferral::Immediate => false,
            Deferral::Deferred => true,
        };
        let postponed = self.postponed();
        let modes = &postponed.modes;
        let own = match modes.each.is_empty() {
            true => None,
            false => modes.each.get(&(table.to_owned(), key.name.clone())).copied(),
        };
        own.or(modes.all).unwrap_or(is_first)
    }

    /// The same, where rows may have lost the key they refer to. RESTRICT is never deferred.
    pub(super) fn puts_off_loss(&self, table: &str, key: &ForeignKey, action: Action) -> bool {
        action == Action::Nothing && self.puts_off(table, key)
    }

    /// Defers a check.
    ///
    /// # Errors
    /// There is no memory for its values.
    pub(super) fn add(&self, check: Check) -> Result<(), Error> {
        let mut postponed = self.postponed();
        let postponed = &mut *postponed;
        if let Check::New(new) = &check {
            let place = (new.table.clone(), new.key.name.clone());
            let latest = postponed.latest.insert(place.clone(), postponed.entries.len());
            if let Some(at) = latest.filter(|at| *at >= postponed.sealed)
                && let Some(Entry { check: Check::New(own), is_settled: false }) =
                    postponed.entries.get_mut(at)
                && own.is_of(&new.table, &new.key)
            {
                postponed.latest.insert(place, at);
                return own.append(new);
            }
        }
        postponed.entries.push(Entry { check, is_settled: false });
        Ok(())
    }

    /// All deferred checks, each with its position.
    pub(super) fn unsettled(&self) -> Vec<(usize, Check)> {
        let postponed = self.postponed();
        let left = postponed.entries.iter().enumerate().filter(|(_, own)| !own.is_settled);
        left.map(|(at, own)| (at, own.check.clone())).collect()
    }

    /// Whether nothing is deferred.
    pub fn is_empty(&self) -> bool {
        let postponed = self.postponed();
        postponed.settled.len() == postponed.entries.len()
    }

    /// Marks checks as made.
    pub(super) fn settle(&self, places: &[usize]) {
        let mut postponed = self.postponed();
        for at in places {
            postponed.entries[*at].is_settled = true;
        }
        postponed.settled.extend(places);
    }

    /// Refuses DDL on a table with deferred checks: what was recorded of its columns would no longer fit.
    ///
    /// # Errors
    /// 55006.
    pub fn refuse_definition(&self, table: &str) -> Result<(), Error> {
        let postponed = self.postponed();
        let mut left = postponed.entries.iter().filter(|own| !own.is_settled);
        if !left.any(|own| own.check.table() == table) {
            return Ok(());
        }
        let text = format!(
            "table \"{table}\" cannot be altered: foreign keys of its rows are still to be checked"
        );
        let next = "set constraints all immediate first: it checks them; or commit";
        Err(Error::new(70230, "55006", text).next(next))
    }

    /// SET CONSTRAINTS ALL.
    pub fn set_all(&self, is_deferred: bool) {
        let modes = Modes { all: Some(is_deferred), each: BTreeMap::new() };
        self.postponed().modes = Arc::new(modes);
    }

    /// SET CONSTRAINTS of some: each a table, and the name of a foreign key.
    pub fn set(&self, keys: impl IntoIterator<Item = (String, String)>, is_deferred: bool) {
        let mut postponed = self.postponed();
        let each = keys.into_iter().map(|key| (key, is_deferred));
        Arc::make_mut(&mut postponed.modes).each.extend(each);
    }

    /// The current point.
    pub fn savepoint(&self) -> Savepoint {
        let mut postponed = self.postponed();
        postponed.sealed = postponed.entries.len();
        let (entries, settled) = (postponed.entries.len(), postponed.settled.len());
        Savepoint { entries, settled, modes: Arc::clone(&postponed.modes) }
    }

    /// Discards what was recorded after a savepoint: it was undone.
    pub fn back_to(&self, savepoint: &Savepoint) {
        let mut postponed = self.postponed();
        postponed.entries.truncate(savepoint.entries);
        postponed.sealed = savepoint.entries;
        postponed.modes = Arc::clone(&savepoint.modes);
        for at in postponed.settled.split_off(savepoint.settled) {
            if let Some(entry) = postponed.entries.get_mut(at) {
                entry.is_settled = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use cellar_instance::catalog::{Action, Deferral, ForeignKey};

    use super::{Check, Deferred};
    use crate::rows::pending::New;

    fn key(deferral: Deferral) -> ForeignKey {
        let (name, index) = ("f".to_owned(), "p_pkey".to_owned());
        let (on_delete, on_update) = (Action::Nothing, Action::Nothing);
        ForeignKey { name, columns: vec![0], index, on_delete, on_update, deferral }
    }

    fn new(value: i64) -> Check {
        let mut new = New::of("c", &key(Deferral::Deferred));
        let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        new.add(vec![values]).expect("it is one value");
        Check::New(new)
    }

    fn rows(deferred: &Deferred) -> Vec<usize> {
        let left = deferred.unsettled();
        left.iter()
            .map(|(_, check)| match check {
                Check::New(new) => new.values().expect("they are few")[0].len(),
                Check::Gone(_) => 0,
            })
            .collect()
    }

    #[test]
    fn what_is_put_off_goes_back_to_a_savepoint() {
        let deferred = Deferred::default();
        deferred.add(new(1)).expect("it is one value");
        deferred.add(new(2)).expect("it is one value");
        assert_eq!(rows(&deferred), [2], "of one foreign key they are together");
        let savepoint = deferred.savepoint();
        deferred.add(new(3)).expect("it is one value");
        assert_eq!(rows(&deferred), [2, 1], "but apart behind a savepoint");
        deferred.settle(&[0, 1]);
        assert!(deferred.is_empty());
        deferred.add(new(4)).expect("it is one value");
        assert_eq!(rows(&deferred), [1], "what is settled gets no more");
        deferred.back_to(&savepoint);
        assert_eq!(rows(&deferred), [2], "what was settled behind the savepoint is so no more");
    }

    #[test]
    fn set_constraints_goes_back_to_a_savepoint() {
        let deferred = Deferred::default();
        let (never, at_once, later) =
            (key(Deferral::Never), key(Deferral::Immediate), key(Deferral::Deferred));
        let now =
            |deferred: &Deferred| [&never, &at_once, &later].map(|key| deferred.puts_off("c", key));
        assert_eq!(now(&deferred), [false, false, true]);
        let savepoint = deferred.savepoint();
        deferred.set_all(true);
        assert_eq!(now(&deferred), [false, true, true]);
        deferred.set([("c".to_owned(), "f".to_owned())], false);
        assert_eq!(now(&deferred), [false, false, false]);
        deferred.set([("other".to_owned(), "f".to_owned())], true);
        assert_eq!(now(&deferred), [false, false, false], "it is another table's");
        deferred.set_all(true);
        assert_eq!(now(&deferred), [false, true, true], "ALL is of all");
        assert!(!deferred.puts_off_loss("c", &later, Action::Restrict));
        deferred.back_to(&savepoint);
        assert_eq!(now(&deferred), [false, false, true]);
    }
}
