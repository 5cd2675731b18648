//! Cached plans, by statement text without constants: those that all sessions may use, and those of one
//! session. When there are too many, the least recently used one goes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellar_instance::catalog::Catalog;

use super::plan::Plan;

/// The most plans kept for a time zone.
const PLANS_MAX: usize = 500;
/// The most time zones for which plans are kept.
const ZONES_MAX: usize = 8;

/// A statement seen before.
struct Entry {
    /// Its plan; `None`: the fast path has none for it.
    plan: Option<Arc<Plan>>,
    /// The catalog it was planned with.
    catalog: Arc<Catalog>,
    used: u64,
}

/// The plans for a time zone: statements can mean something else in another.
#[derive(Default)]
struct Cache {
    entries: HashMap<String, Entry>,
    clock: u64,
}

/// Plans; those of the most recently used time zone come last.
#[derive(Default)]
pub(crate) struct Plans(Mutex<Vec<(Arc<str>, Cache)>>);

/// What is known of a statement.
pub(crate) enum Found {
    /// Its plan.
    Plan(Arc<Plan>),
    /// That it has none.
    Declined,
    /// Nothing.
    Nothing,
    /// A plan that is no longer valid: its table has changed.
    Stale,
}

impl Plans {
    fn zones(&self) -> MutexGuard<'_, Vec<(Arc<str>, Cache)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan of a statement for the tables as they are now. `is_plain`: its names always resolve to the same
    /// schema.
    pub fn find(&self, zone: &str, text: &str, catalog: &Arc<Catalog>, is_plain: bool) -> Found {
        let mut zones = self.zones();
        match zones.iter_mut().find(|(own, _)| **own == *zone) {
            Some((_, cache)) => cache.find(text, catalog, is_plain),
            None => Found::Nothing,
        }
    }

    /// Caches a plan; whether another one was evicted.
    pub fn keep(
        &self,
        zone: &Arc<str>,
        text: String,
        catalog: Arc<Catalog>,
        plan: Option<Arc<Plan>>,
    ) -> bool {
        let mut zones = self.zones();
        let at = match zones.iter().position(|(own, _)| own == zone) {
            Some(at) => at,
            None => {
                if zones.len() == ZONES_MAX {
                    zones.remove(0);
                }
                zones.push((Arc::clone(zone), Cache::default()));
                zones.len() - 1
            }
        };
        zones[at].1.keep(text, catalog, plan)
    }
}

impl Cache {
    fn find(&mut self, text: &str, catalog: &Arc<Catalog>, is_plain: bool) -> Found {
        self.clock += 1;
        let Some(entry) = self.entries.get_mut(text) else { return Found::Nothing };
        entry.used = self.clock;
        if !Arc::ptr_eq(&entry.catalog, catalog) {
            if !is_plain || !entry.plan.as_ref().is_some_and(|plan| plan.is_of(catalog)) {
                self.entries.remove(text);
                return Found::Stale;
            }
            entry.catalog = Arc::clone(catalog);
        }
        match &entry.plan {
            Some(plan) => Found::Plan(Arc::clone(plan)),
            None => Found::Declined,
        }
    }

    fn keep(&mut self, text: String, catalog: Arc<Catalog>, plan: Option<Arc<Plan>>) -> bool {
        let is_full = self.entries.len() >= PLANS_MAX && !self.entries.contains_key(&text);
        if is_full
            && let Some(oldest) = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| entry.used)
                .map(|(text, _)| text.clone())
        {
            self.entries.remove(&oldest);
        }
        self.entries.insert(text, Entry { plan, catalog, used: self.clock });
        is_full
    }
}
