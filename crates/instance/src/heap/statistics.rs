//! Statistics of the heap as rows of views: of its tables and indexes, its buffer cache, its next
//! opening. A heap that is closed or read-only has none.

use std::collections::BTreeMap;

use cellar_heap::{COUNTERS, ObjectKind, ObjectStatistics, Store};
use cellar_redo::LSN_PER_BLOCK;
use cellar_wait::Event;

use super::catalog_rows::OWN_NAMES;
use super::{Heap, PAGE};
use crate::catalog::{Catalog, name};
use crate::views::{VBufferPoolStatistics, VInstanceRecovery, VSegmentStatistics};

/// Who owns what has no schema.
const SYS: &str = "SYS";

const TABLE: &str = "TABLE";
const INDEX: &str = "INDEX";

/// A table or an index as people know it.
struct Name {
    owner: String,
    object: String,
    object_type: Option<&'static str>,
}

impl Name {
    fn of_system(object: impl Into<String>, object_type: Option<&'static str>) -> Name {
        Name { owner: SYS.to_owned(), object: object.into(), object_type }
    }

    /// One that no catalog names: it is being made, or about to go.
    fn unknown(number: u32, object_type: Option<&'static str>) -> Name {
        Name::of_system(format!("object {number}"), object_type)
    }

    fn row(&self, number: u32, at: u32, statistic: &'static str, value: u64) -> VSegmentStatistics {
        VSegmentStatistics {
            owner: self.owner.clone(),
            object: self.object.clone(),
            part: None,
            number,
            object_type: self.object_type,
            statistic,
            statistic_number: at,
            value,
        }
    }
}

/// The names of all that is in the store, by number.
fn names(store: &Store, catalog: &Catalog) -> BTreeMap<u32, Name> {
    let mut names = BTreeMap::new();
    for object in store.objects() {
        let object_type = match object.kind {
            ObjectKind::Table => TABLE,
            ObjectKind::Index => INDEX,
        };
        let own = OWN_NAMES.iter().find(|(number, _)| *number == object.number);
        let name = match own {
            Some((_, own)) => Name::of_system(*own, Some(object_type)),
            None => Name::unknown(object.number, Some(object_type)),
        };
        names.insert(object.number, name);
    }
    names.insert(COUNTERS, Name::of_system("counters", Some(TABLE)));
    names.insert(0, Name::of_system("extent map and dropped objects", None));
    for table in &catalog.tables {
        let Some(rows) = &table.rows else { continue };
        let own = (rows.object, table.name.as_str(), TABLE);
        let indexes = rows.indexes.iter().map(|index| (index.object, index.name.as_str(), INDEX));
        for (number, key, object_type) in indexes.chain([own]) {
            let (owner, object) = name::parts(key);
            let (owner, object) = (owner.to_owned(), object.to_owned());
            names.insert(number, Name { owner, object, object_type: Some(object_type) });
        }
    }
    names
}

/// The statistics of an object, by Oracle's names where they have one.
fn statistics(of: &ObjectStatistics) -> [(&'static str, u64); 8] {
    [
        ("logical reads", of.logical_reads),
        ("buffer busy waits", of.buffer_busy_waits),
        ("db block changes", of.block_changes),
        ("physical reads", of.physical_reads()),
        ("physical reads multi block", of.multi_page_reads),
        ("physical writes", of.physical_writes + of.direct_writes),
        ("physical writes direct", of.direct_writes),
        ("row lock waits", of.row_lock_waits),
    ]
}

impl Heap {
    /// The rows of v$segment_statistics.
    pub(crate) fn segment_statistics(&self, catalog: &Catalog) -> Vec<VSegmentStatistics> {
        let Ok(store) = self.store() else { return Vec::new() };
        let names = names(&store, catalog);
        let rows = |of: &ObjectStatistics| {
            let new = Name::unknown(of.object, None);
            let name = names.get(&of.object).unwrap_or(&new);
            let row = |(at, (statistic, value))| name.row(of.object, at, statistic, value);
            (0..).zip(statistics(of)).map(row).collect::<Vec<_>>()
        };
        store.object_statistics().iter().flat_map(rows).collect()
    }

    /// The row of v$buffer_pool_statistics.
    pub(crate) fn buffer_pool(&self) -> Option<VBufferPoolStatistics> {
        let cache = self.store().ok()?.cache_statistics();
        let waits = self.0.sessions.waits().totals();
        let free_waits = waits.iter().find(|total| total.event == Event::FREE_BUFFER_WAITS);
        Some(VBufferPoolStatistics {
            name: "DEFAULT",
            block_size: PAGE as u32,
            capacity: cache.capacity,
            used: cache.used,
            dirty: cache.dirty,
            kept_images: cache.kept_images,
            spilled_images: cache.spilled_images,
            logical_reads: cache.logical_reads,
            physical_reads: cache.physical_reads,
            physical_writes: cache.physical_writes,
            changes: cache.block_changes,
            busy_waits: cache.buffer_busy_waits,
            free_waits: free_waits.map_or(0, |total| total.count),
            hit_ratio: (cache.logical_reads > 0).then(|| cache.hit_ratio()),
        })
    }

    /// The row of v$instance_recovery.
    pub(crate) fn instance_recovery(&self) -> Option<VInstanceRecovery> {
        let store = self.store().ok()?;
        let estimate = store.recovery_estimate();
        Some(VInstanceRecovery {
            pages: estimate.pages,
            redo: estimate.redo.div_ceil(LSN_PER_BLOCK),
            redo_target: estimate.redo_max / LSN_PER_BLOCK,
            target: estimate.target.as_secs(),
            estimate: estimate.time.as_secs_f64(),
            written: store.cache_statistics().physical_writes,
        })
    }
}
