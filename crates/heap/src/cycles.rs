//! The search for circles of waits against one that looks at all of them. It is here and not beside that search,
//! which `checks/schedules` compiles with locks of its own.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;

use crate::locks::{LockOutcome, Locks, Mode, Owner, Resource};

const OWNERS: u64 = 10;

/// Whether one way leads from `from` to `to`.
fn leads(edges: &BTreeMap<Owner, Vec<Owner>>, from: Owner, to: Owner) -> bool {
    let (mut seen, mut next) = (HashSet::from([from]), vec![from]);
    while let Some(at) = next.pop() {
        if at == to {
            return true;
        }
        next.extend(edges.get(&at).into_iter().flatten().filter(|owner| seen.insert(**owner)));
    }
    false
}

proptest! {
    /// Nobody waits for ever, and nobody is refused who could have waited.
    #[test]
    fn a_circle_is_found_where_there_is_one(
        steps in prop::collection::vec((0..OWNERS, 0..6u32, any::<bool>(), 0..8u32), 1..400),
    ) {
        let locks = Locks::new(Arc::default());
        let mut held: BTreeMap<Owner, Vec<Resource>> = BTreeMap::new();
        let mut waits: BTreeMap<Owner, Resource> = BTreeMap::new();
        for (owner, table, is_share, end) in steps {
            if let Some(resource) = waits.remove(&owner) {
                // Granted meanwhile, or it gives up.
                if locks.leave(owner, resource) {
                    held.entry(owner).or_default().push(resource);
                }
            }
            if end == 0 {
                locks.release_all(owner, held.remove(&owner).unwrap_or_default().into_iter());
                continue;
            }
            let mode = if is_share { Mode::Share } else { Mode::Exclusive };
            let resource = Resource::Table(table);
            match locks.ask(owner, resource, mode, true) {
                LockOutcome::Busy(_) => unreachable!("it waits"),
                LockOutcome::Granted => held.entry(owner).or_default().push(resource),
                LockOutcome::Waits { .. } => {
                    let edges = locks.edges();
                    let direct = &edges[&owner];
                    let is_circle = direct.iter().any(|first| leads(&edges, *first, owner));
                    let found = locks.cycle(owner);
                    prop_assert_eq!(found.is_some(), is_circle, "{:?}", edges);
                    if let Some(first) = found {
                        prop_assert!(direct.contains(&first) && leads(&edges, first, owner));
                        locks.leave(owner, resource);
                    } else {
                        waits.insert(owner, resource);
                    }
                }
            }
        }
    }
}
