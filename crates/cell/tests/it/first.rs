//! What a hint and a limit bring: the row groups that matter come first, and a scan ends when it has
//! enough.

use cellar_cell::{Cache, Item};
use cellar_format::value::Value;
use cellar_io::sim::Sim;

use crate::ask::{between, everything};
use crate::rig::{disks, nothing, open_all, run, scan, scan_with};
use crate::seeds;
use crate::table::values_of;
use crate::tables::{Bag, Table};

/// The first number of each part of an answer.
fn firsts(items: &[Item]) -> Vec<i128> {
    let first = |item: &Item| {
        let Item::Rows(batch) = item else { panic!("rows were asked for") };
        values_of(batch.column(0))[0].as_ref().and_then(Value::number).expect("a number")
    };
    items.iter().map(first).collect()
}

#[test]
fn row_groups_with_the_greatest_or_least_values_come_first() {
    let (sim, table) = (Sim::new(1), Table::counted(&[3, 2]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let segments = open_all(&disks, &table).await;
        let mut request = everything(&table, &segments, &[0]);
        request.depth = 1;
        request.first = Some((0, true));
        let items = scan(&env, request.clone()).await.sound();
        assert_eq!(firsts(&items), [4000, 3000, 2000, 1000, 0]);
        request.first = Some((0, false));
        let items = scan(&env, request.clone()).await.sound();
        assert_eq!(firsts(&items), [0, 1000, 2000, 3000, 4000]);
        // Texts begin alike in each row group; whatever the order, all of them come.
        request.first = Some((1, true));
        let items = scan(&env, request).await.sound();
        assert_eq!(Bag::of(&items), table.rows(&[0], |_, _| true));
    });
}

#[test]
fn a_limit_reads_no_more_than_it_needs() {
    let (sim, table) = (Sim::new(2), Table::counted(&[8, 8]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let segments = open_all(&disks, &table).await;
        let mut request = everything(&table, &segments, &[0, 1]);
        request.depth = 2;
        let whole = scan(&env, request.clone()).await.totals;
        request.limit = Some(1500);
        let answer = scan(&env, request.clone()).await;
        let totals = answer.totals;
        // Two row groups of sixteen are enough, and two may have been on their way.
        assert!(
            totals.reads <= 4 && totals.disk_bytes * 4 <= whole.disk_bytes,
            "{totals:?} of {whole:?}"
        );
        assert_eq!(Bag::of(&answer.sound()).count, 1500);
        request.limit = Some(0);
        let answer = scan(&env, request.clone()).await;
        assert_eq!((answer.totals.reads, answer.sound().len()), (0, 0), "nobody wants a row");
        // A limit that is never reached is none.
        request.limit = Some(16_001);
        assert_eq!(Bag::of(&scan(&env, request).await.sound()).count, 16_000);
    });
}

#[test]
fn workers_share_a_limit() {
    seeds(20, |seed| {
        let (sim, table) = (Sim::new(seed), Table::counted(&[6, 6]));
        let (disks, env) = (disks(&sim, &table), sim.env());
        run(&sim, async {
            let segments = open_all(&disks, &table).await;
            let mut request = everything(&table, &segments, &[0]);
            request.conjuncts = vec![between(0, 500, 11_400)];
            let limit = [1, 999, 1000, 5001, 10_900][seed as usize % 5];
            request.limit = Some(limit);
            let answer = scan_with(&env, request, &Cache::new(0), (4, seed), nothing()).await;
            let found = Bag::of(&answer.sound());
            assert_eq!(found.count as u64, limit);
            let all = table.rows(&[0], |group, row| {
                group.values[0][row]
                    .as_ref()
                    .and_then(Value::number)
                    .is_some_and(|number| (500..=11_400).contains(&number))
            });
            assert!(found.is_within(&all), "each passes and comes once");
        });
    });
}
