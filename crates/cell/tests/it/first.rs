//! Hints and limits: the row groups that matter come first, and a scan ends when it has enough.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use cellar_cell::{Cache, Item, order_of};
use cellar_format::header::Order;
use cellar_format::{Predicate, Value};
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

/// A row group of these numbers, each with a text.
fn numbers(numbers: &[Option<i64>]) -> Vec<ArrayRef> {
    let texts = numbers.iter().map(|number| number.map(|number| format!("{number:05}")));
    vec![Arc::new(Int64Array::from(numbers.to_vec())), Arc::new(texts.collect::<StringArray>())]
}

#[test]
fn an_order_of_all_rows_is_known_where_there_is_one() {
    let order = |segments: &[&[&[i64]]]| {
        let group = |rows: &&[i64]| numbers(&rows.iter().copied().map(Some).collect::<Vec<_>>());
        let segment = |groups: &&[&[i64]]| groups.iter().map(group).collect();
        let table = Table::of(&segments.iter().map(segment).collect::<Vec<_>>());
        order_of_all(&table)
    };
    assert_eq!(order(&[&[&[1, 2, 5], &[6, 7]], &[&[8]]]), [Order::Strict; 2]);
    assert_eq!(order(&[&[&[6, 7]], &[&[1, 2], &[3, 5]]]), [Order::Strict; 2], "least first");
    assert_eq!(order(&[&[&[1, 1, 5]], &[&[6]]]), [Order::Ascending; 2]);
    assert_eq!(order(&[&[&[1, 5]], &[&[5, 6]]]), [Order::Ascending; 2]);
    assert_eq!(order(&[&[&[1, 5]], &[&[4, 6]]]), [Order::Any; 2], "they overlap");
    assert_eq!(order(&[&[&[1, 5]], &[&[7, 6]]]), [Order::Any; 2]);
    let table = Table::of(&[vec![numbers(&[Some(1), None]), numbers(&[Some(2)])]]);
    assert_eq!(order_of_all(&table), [Order::Any; 2], "where nulls belong is not ours to say");
    // Of long strings only the beginning is known from headers.
    let long = "x".repeat(30);
    let text = |texts: [&str; 2]| -> Vec<ArrayRef> {
        vec![Arc::new(StringArray::from_iter_values(texts.map(|end| format!("{long}{end}"))))]
    };
    assert_eq!(order_of_all(&Table::of(&[vec![text(["a", "b"])]])), [Order::Strict]);
    let two = Table::of(&[vec![text(["a", "b"]), text(["c", "d"])]]);
    assert_eq!(order_of_all(&two), [Order::Any]);
}

fn order_of_all(table: &Table) -> Vec<Order> {
    let sim = Sim::new(3);
    let disks = disks(&sim, table);
    run(&sim, async {
        let segments = open_all(&disks, table).await;
        (0..table.types.len()).map(|column| order_of(&segments, column)).collect()
    })
}

#[test]
fn rows_of_a_scan_in_order_come_in_order_whatever_is_read_first() {
    seeds(60, |seed| {
        let (sim, table) = (Sim::new(seed), Table::counted(&[5, 1, 6]));
        let (disks, env) = (disks(&sim, &table), sim.env());
        run(&sim, async {
            let mut segments = open_all(&disks, &table).await;
            segments.rotate_left(seed as usize % 3);
            let mut request = everything(&table, &segments, &[0, 1]);
            (request.first, request.ordered) = (Some((0, false)), true);
            request.depth = 1 + seed as usize % 7;
            if seed.is_multiple_of(2) {
                // Asked of the first column alone; the other one is read where rows pass.
                request.conjuncts = vec![between(0, 2_500, 9_499)];
                request
                    .conjuncts
                    .push(Predicate::Or(vec![between(0, 0, 4_999), between(0, 7_000, 12_000)]));
            }
            request.limit = [None, Some(1), Some(3_333)][seed as usize % 3];
            let wanted = (0..12_000).filter(|n| match seed.is_multiple_of(2) {
                true => (2_500..=9_499).contains(n) && !(5_000..7_000).contains(n),
                false => true,
            });
            let limit = request.limit.unwrap_or(u64::MAX);
            let wanted: Vec<i128> = wanted.take(limit.min(20_000) as usize).collect();
            let items =
                scan_with(&env, request, &Cache::new(seed << 12), (1, seed), nothing()).await;
            let mut found = Vec::new();
            for item in items.sound() {
                let Item::Rows(batch) = item else { panic!("rows were asked for") };
                let values = values_of(batch.column(0));
                found.extend(
                    values.iter().map(|v| v.as_ref().and_then(Value::number).expect("one")),
                );
            }
            assert_eq!(found, wanted, "seed {seed}");
        });
    });
}

#[test]
fn many_rows_come_in_parts_and_end_at_the_limit() {
    let many = |from: i64| numbers(&(from..from + 40_000).map(Some).collect::<Vec<_>>());
    let (sim, table) = (Sim::new(4), Table::of(&[vec![many(0), many(40_000)]]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let segments = open_all(&disks, &table).await;
        let mut request = everything(&table, &segments, &[0, 1]);
        (request.first, request.ordered) = (Some((0, false)), true);
        for (conjuncts, first) in [(vec![], 0), (vec![between(0, 1_000, 78_999)], 1_000)] {
            request.conjuncts = conjuncts;
            for limit in [16_384, 16_385, 39_000, 40_000, 55_000, 90_000] {
                request.limit = Some(limit);
                let items = scan(&env, request.clone()).await.sound();
                let mut next = first;
                for item in &items {
                    let Item::Rows(batch) = item else { panic!("rows were asked for") };
                    assert!(batch.num_rows() <= 32_768, "{} rows at once", batch.num_rows());
                    for value in values_of(batch.column(0)) {
                        assert_eq!(value.as_ref().and_then(Value::number), Some(next));
                        next += 1;
                    }
                }
                let all = 80_000 - 2 * first as u64;
                assert_eq!(next - first, i128::from(limit.min(all)), "from {first}");
            }
        }
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
