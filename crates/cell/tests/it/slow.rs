//! Disks that are slow or do not answer: what others have is given out meanwhile, and nothing waits
//! for ever once they answer.

use std::sync::Arc;
use std::time::Duration;

use cellar_cell::{Cache, Scan};
use cellar_io::EnvExt;
use cellar_io::sim::Sim;

use crate::ask::everything;
use crate::rig::{disks, is_released, nothing, open_all, run, scan_with};
use crate::seeds;
use crate::tables::{Bag, Table};

#[test]
fn what_is_there_is_given_out_while_a_disk_does_not_answer() {
    seeds(10, |seed| {
        let (sim, table) = (Sim::new(seed), Table::counted(&[3, 6]));
        let (disks, env) = (disks(&sim, &table), sim.env());
        run(&sim, async {
            let segments = open_all(&disks, &table).await;
            let mut request = everything(&table, &segments, &[0]);
            request.depth = 4;
            disks[0].hang();
            let scan = Scan::new(request, Cache::new(0), Arc::clone(&env), Arc::default());
            let mut worker = scan.worker();
            let mut items = Vec::new();
            for _ in 0..6 {
                items.push(worker.next().await.expect("more").expect("the other disk is well"));
            }
            assert_eq!(Bag::of(&items).count, 6000, "all of the disk that answers");
            let (disk, own) = (Arc::clone(&disks[0]), Arc::clone(&env));
            env.spawn(
                "unhang",
                Box::pin(async move {
                    own.sleep(Duration::from_secs(3)).await;
                    disk.unhang();
                }),
            );
            while let Some(next) = worker.next().await {
                items.push(next.expect("it answers again"));
            }
            assert_eq!(Bag::of(&items), table.rows(&[0], |_, _| true));
        });
    });
}

#[test]
fn who_does_not_want_to_wait_any_more_need_not() {
    let (sim, table) = (Sim::new(3), Table::counted(&[3]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let segments = open_all(&disks, &table).await;
        disks[0].hang();
        let request = everything(&table, &segments, &[0]);
        let scan = Scan::new(request, Cache::new(0), Arc::clone(&env), Arc::default());
        let (mut worker, soon) = (scan.worker(), env.sleep(Duration::from_secs(9)));
        let waits = futures_util::future::select(Box::pin(worker.next()), soon).await;
        assert!(matches!(waits, futures_util::future::Either::Right(_)), "nothing can come");
        drop(waits);
        drop((worker, scan));
        disks[0].unhang();
        assert!(is_released(&env, &segments).await, "what was on its way has ended");
    });
}

#[test]
fn a_limit_that_is_reached_ends_a_scan_though_a_disk_does_not_answer() {
    seeds(20, |seed| {
        let (sim, table) = (Sim::new(seed), Table::counted(&[2, 6]));
        let (disks, env) = (disks(&sim, &table), sim.env());
        run(&sim, async {
            let segments = open_all(&disks, &table).await;
            disks[0].hang();
            let mut request = everything(&table, &segments, &[0]);
            (request.depth, request.limit) = (4, Some(6000));
            let answer = scan_with(&env, request, &Cache::new(0), (3, seed), nothing()).await;
            assert_eq!(Bag::of(&answer.sound()).count, 6000, "every worker has ended");
            disks[0].unhang();
            assert!(is_released(&env, &segments).await);
        });
    });
}

#[test]
fn a_slow_disk_only_takes_longer() {
    let (sim, table) = (Sim::new(5), Table::counted(&[4, 4]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let segments = open_all(&disks, &table).await;
        disks[1].slow(5000);
        let request = everything(&table, &segments, &[0, 1]);
        let answer = scan_with(&env, request, &Cache::new(0), (2, 1), nothing()).await;
        assert!(answer.totals.wait_nanos > 100_000_000, "{:?}", answer.totals);
        assert_eq!(Bag::of(&answer.sound()), table.rows(&[0, 1], |_, _| true));
    });
}
