//! Scans of random tables answer what a plain look at every row answers.

use std::sync::Arc;

use cellar_cell::{Cache, DynamicFilter};
use cellar_io::sim::Sim;

use crate::ask::Asked;
use crate::rig::{Meanwhile, disks, is_released, open_all, run, scan_with};
use crate::seeds;
use crate::table::Rng;
use crate::tables::Table;

/// What happens beside a scan: memory is emptied or has another size, the live filter narrows.
fn meanwhile(rng: &mut Rng, asked: &Asked, cache: &Cache) -> Meanwhile {
    let live = asked.live.clone().filter(|_| asked.may_narrow());
    let (cache, is_restless) = (cache.clone(), rng.one_in(3));
    Arc::new(move |rng| {
        if is_restless && rng.one_in(4) {
            match rng.one_in(2) {
                true => cache.clear(),
                false => cache.resize(*rng.pick(&[0, 3000, 1 << 20])),
            }
        }
        if rng.one_in(3)
            && let Some(live) = &live
        {
            live.narrow();
        }
    })
}

/// Several scans of a random table, one after the other, with the same memory.
fn life(seed: u64) {
    let mut rng = Rng(seed);
    let (sim, table) = (Sim::new(seed), Table::random(&mut rng));
    let (disks, env) = (disks(&sim, &table), sim.env());
    let cache = Cache::new(*rng.pick(&[0, 1000, 20_000, 100_000, 64 << 20]));
    run(&sim, async {
        let segments = open_all(&disks, &table).await;
        for _ in 0..6 {
            let asked = Asked::random(&mut rng, &table, &segments);
            let before = asked.live.as_ref().map_or_else(Vec::new, |live| live.predicates());
            let meanwhile = meanwhile(&mut rng, &asked, &cache);
            let by = (1 + rng.below(4), rng.next());
            let answer = scan_with(&env, asked.request.clone(), &cache, by, meanwhile).await;
            asked.check(&table, &before, answer);
            drop(asked);
            assert!(is_released(&env, &segments).await, "nothing of a scan is left behind its end");
            assert!(cache.used() <= cache.size(), "{cache:?}");
        }
    });
}

#[test]
fn scans_answer_what_a_plain_look_at_every_row_answers() {
    seeds(60, life);
}
