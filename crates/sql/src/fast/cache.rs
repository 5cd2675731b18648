//! The plans of a session, by the statements without their constants. The one that was used least lately goes
//! where there are too many.

use std::collections::HashMap;
use std::sync::Arc;

use cellar_instance::catalog::Catalog;

use super::plan::Plan;

/// The most plans that a session keeps.
const PLANS_MAX: usize = 500;

/// A statement that was seen.
struct Entry {
    /// How it is run; `None`: the fast path has none for it.
    plan: Option<Arc<Plan>>,
    /// The catalog with which that was found out.
    catalog: Arc<Catalog>,
    used: u64,
}

/// The plans.
#[derive(Default)]
pub(crate) struct Cache {
    entries: HashMap<String, Entry>,
    clock: u64,
    /// The time zone with which plans were made.
    zone: Arc<str>,
}

/// What is known of a statement.
pub(crate) enum Found {
    /// Its plan.
    Plan(Arc<Plan>),
    /// That it has none.
    Declined,
    /// Nothing.
    Nothing,
    /// Nothing more: its table was changed.
    Stale,
}

impl Cache {
    /// The same where this is the time zone: with another one statements mean something else.
    pub fn in_zone(&mut self, zone: &Arc<str>) -> &mut Cache {
        if self.zone != *zone {
            self.entries.clear();
            self.zone = Arc::clone(zone);
        }
        self
    }

    /// The plan of a statement with the tables as they are now. `is_plain`: its names are always those of the same
    /// schema.
    pub fn find(&mut self, text: &str, catalog: &Arc<Catalog>, is_plain: bool) -> Found {
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

    /// Keeps a plan; whether another one had to go.
    pub fn keep(&mut self, text: String, catalog: Arc<Catalog>, plan: Option<Arc<Plan>>) -> bool {
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
