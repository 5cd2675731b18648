//! A scan reads what it needs: as its numbers say, and as a device counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, BinaryArray, Int64Array};
use bytes::Bytes;
use cellar_cell::{Cache, Item, Output, Segment};
use cellar_format::aggregate::join;
use cellar_format::{Aggregate, AggregateFunction, Expr, Groups, State};
use cellar_io::sim::{Sim, SimDisk};
use cellar_io::{Buffer, Device, Discard, Durability, Geometry, Io, IoFuture};

use crate::ask::{Narrowing, between, everything};
use crate::rig::{Answer, disks, nothing, open, run, scan, scan_with};
use crate::table::Rng;
use crate::tables::{Bag, Table};

/// A disk that counts what is read.
struct Counting {
    disk: Arc<SimDisk>,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl Device for Counting {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.disk.read(io, offset, buffers)
    }

    fn write(&self, io: Io, at: u64, data: Vec<Bytes>, how: Durability) -> IoFuture<'_, ()> {
        self.disk.write(io, at, data, how)
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.disk.flush(io)
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        self.disk.discard(io, offset, length, how)
    }
}

/// Columns of a narrow and a wide table of eight row groups: the number of the row, one that is 1 in
/// the row groups at `ones` and 0 or 2 elsewhere, and 100 random bytes.
fn table(ones: &[usize]) -> Table {
    let mut rng = Rng(5);
    let mut group = |at: usize| -> Vec<ArrayRef> {
        let rows = 2000;
        let flag = |row: i64| if ones.contains(&at) && row == 77 { 1 } else { row % 2 * 2 };
        let mut random = || (0..100).map(|_| rng.next() as u8).collect::<Vec<u8>>();
        let wide: Vec<Vec<u8>> = (0..rows).map(|_| random()).collect();
        vec![
            Arc::new(Int64Array::from_iter_values((0..rows).map(|row| at as i64 * rows + row))),
            Arc::new(Int64Array::from_iter_values((0..rows).map(flag))),
            Arc::new(BinaryArray::from_iter_values(wide)),
        ]
    };
    Table::of(&[(0..8).map(&mut group).collect()])
}

struct Counted {
    device: Arc<Counting>,
    segments: Vec<Arc<Segment>>,
}

impl Counted {
    async fn open(table: &Table, disks: &[Arc<SimDisk>]) -> Counted {
        let disk = Arc::clone(&disks[0]);
        let device = Arc::new(Counting { disk, reads: 0.into(), bytes: 0.into() });
        let opened = open(Arc::clone(&device) as Arc<dyn Device>, table, &table.images[0]).await;
        let counted = Counted { device, segments: vec![opened.expect("a sound disk")] };
        let (reads, bytes) = counted.take();
        assert!(reads == 2 && bytes < 64 << 10, "a directory is read to open: {reads} {bytes}");
        counted
    }

    /// Reads and bytes since this was asked last.
    fn take(&self) -> (u64, u64) {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        (take(&self.device.reads), take(&self.device.bytes))
    }

    /// What was read for an answer, which must say the same.
    fn of(&self, answer: &Answer) -> (u64, u64) {
        let read = self.take();
        assert_eq!((answer.totals.reads, answer.totals.disk_bytes), read, "{:?}", answer.totals);
        read
    }
}

#[test]
fn only_columns_that_are_named_are_read() {
    let (sim, table) = (Sim::new(1), table(&[]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let counted = Counted::open(&table, &disks).await;
        let answer = scan(&env, everything(&table, &counted.segments, &[0, 1])).await;
        let (reads, bytes) = counted.of(&answer);
        assert_eq!(reads, 8, "two columns side by side are one read");
        assert!(bytes < table.bytes_of(2) / 8, "{bytes}");
        // Nothing at all of which only the number is wanted.
        let answer = scan(&env, everything(&table, &counted.segments, &[])).await;
        assert_eq!(counted.of(&answer), (0, 0));
        assert_eq!(Bag::of(&answer.sound()).count, 16_000);
    });
}

#[test]
fn row_groups_that_their_headers_leave_out_are_not_read() {
    let (sim, table) = (Sim::new(2), table(&[]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let counted = Counted::open(&table, &disks).await;
        let mut request = everything(&table, &counted.segments, &[0, 2]);
        request.conjuncts = vec![between(0, 4500, 5500)];
        let answer = scan(&env, request.clone()).await;
        let (_, bytes) = counted.of(&answer);
        let totals = answer.totals;
        assert_eq!((totals.row_groups, totals.pruned_row_groups), (8, 7));
        assert_eq!(totals.saved_bytes, totals.eligible_bytes / 8 * 7);
        assert!(bytes < totals.eligible_bytes / 6, "{bytes}: {totals:?}");
        assert_eq!(Bag::of(&answer.sound()).count, 1001);
        request.conjuncts = vec![between(0, -9, -1)];
        let answer = scan(&env, request).await;
        assert_eq!((counted.of(&answer), answer.sound().len()), ((0, 0), 0));
    });
}

#[test]
fn the_other_columns_are_read_only_where_rows_pass() {
    let (sim, table) = (Sim::new(3), table(&[2, 5]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let counted = Counted::open(&table, &disks).await;
        let mut request = everything(&table, &counted.segments, &[0, 2]);
        request.conjuncts = vec![between(1, 1, 1)];
        request.depth = 1;
        let answer = scan(&env, request.clone()).await;
        let (_, bytes) = counted.of(&answer);
        assert_eq!(answer.totals.filtered_row_groups, 6, "no header could leave them out");
        assert!(bytes < answer.totals.eligible_bytes / 3, "{bytes}: {:?}", answer.totals);
        assert_eq!(Bag::of(&answer.sound()).count, 2);
        // Where most row groups have rows that pass, a second wait would be for nothing.
        request.conjuncts = vec![between(1, 1, 2)];
        let answer = scan(&env, request.clone()).await;
        let (reads, _) = counted.of(&answer);
        assert!(reads <= 8 + 5, "{reads}");
        assert_eq!(Bag::of(&answer.sound()).count, 8 * 1000);
        // Nor where headers say that all rows pass.
        request.conjuncts = vec![between(1, i128::MIN, i128::MAX)];
        let answer = scan(&env, request).await;
        let (reads, _) = counted.of(&answer);
        assert_eq!(reads, answer.totals.row_groups, "one for each row group");
    });
}

#[test]
fn counts_and_sums_of_whole_row_groups_are_known_from_headers() {
    let (sim, table) = (Sim::new(4), table(&[2]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let counted = Counted::open(&table, &disks).await;
        let mut request = everything(&table, &counted.segments, &[]);
        let functions = vec![
            AggregateFunction::Rows,
            AggregateFunction::Count(2),
            AggregateFunction::Sum(Expr::Column(0)),
            AggregateFunction::Least(0),
            AggregateFunction::Greatest(1),
        ];
        request.output =
            Output::Groups(Aggregate { keys: vec![], functions }, table.schema(&[0, 1, 2]));
        let answer = scan(&env, request.clone()).await;
        assert_eq!(counted.of(&answer), (0, 0), "they read nothing");
        assert_eq!(answer.totals.header_row_groups, 8);
        assert_eq!(answer.totals.header_bytes, answer.totals.eligible_bytes);
        let of = |answer: Answer| {
            let mut all = Groups::new();
            for item in answer.sound() {
                let Item::Groups(groups) = item else { panic!("groups were asked for") };
                groups.into_iter().for_each(|(key, states)| join(&mut all, key, states));
            }
            all.remove(&[][..]).expect("one group")
        };
        let sum = |n: i128| n * (n - 1) / 2;
        let states = of(answer);
        assert_eq!(states[..2], [State::Count(16_000), State::Count(16_000)]);
        assert_eq!(states[2], State::Sum { sum: sum(16_000), rows: 16_000 });
        // A condition that cuts through one row group has that one read, and no other.
        request.conjuncts = vec![between(0, 0, 4999)];
        let answer = scan(&env, request).await;
        let (reads, bytes) = counted.of(&answer);
        assert!((1..=2).contains(&reads) && bytes < table.bytes_of(2) / 4, "{reads} {bytes}");
        assert_eq!((answer.totals.header_row_groups, answer.totals.pruned_row_groups), (2, 5));
        let states = of(answer);
        assert_eq!(states[..2], [State::Count(5000), State::Count(5000)]);
        assert_eq!(states[2], State::Sum { sum: sum(5000), rows: 5000 });
    });
}

#[test]
fn what_is_in_memory_is_not_read_again() {
    let (sim, table) = (Sim::new(5), table(&[]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let counted = Counted::open(&table, &disks).await;
        let (cache, request) =
            (Cache::new(64 << 20), everything(&table, &counted.segments, &[0, 2]));
        let by = (2, 9);
        let cold = scan_with(&env, request.clone(), &cache, by, nothing()).await;
        assert!(counted.of(&cold).1 >= cold.totals.eligible_bytes);
        let warm = scan_with(&env, request.clone(), &cache, by, nothing()).await;
        assert_eq!(counted.of(&warm), (0, 0));
        assert_eq!(warm.totals.cache_bytes, warm.totals.eligible_bytes);
        assert_eq!(Bag::of(&warm.sound()), Bag::of(&cold.sound()));
        cache.clear();
        let again = scan_with(&env, request, &cache, by, nothing()).await;
        assert!(counted.of(&again).1 > 0, "what is forgotten is");
    });
}

#[test]
fn a_live_filter_that_nearly_all_rows_pass_is_given_up_but_for_some_row_groups() {
    let sim = Sim::new(6);
    let rows = 2000;
    // In the first 40 row groups one row in a hundred fails; in the last 40 nearly all do.
    let group = |at: i64| -> Vec<ArrayRef> {
        let kept = |row: i64| if at < 40 { row % 100 != 7 } else { row % 100 == 7 };
        vec![Arc::new(Int64Array::from_iter_values((0..rows).map(|row| i64::from(kept(row)))))]
    };
    let table = Table::of(&[(0..80).map(group).collect()]);
    let (disks, env) = (disks(&sim, &table), sim.env());
    run(&sim, async {
        let segments = crate::rig::open_all(&disks, &table).await;
        let exact = 40 * 1980 + 40 * 20;
        let live = Narrowing::new(vec![between(0, 1, 1)]);
        live.narrow();
        let mut request = everything(&table, &segments, &[0]);
        request.ordered = true;
        request.live = vec![Arc::new(live)];
        let returned = Bag::of(&scan(&env, request.clone()).await.sound()).count;
        // It is asked of the first 17 row groups, then of each eighth, until it is seen to be of use.
        let most_failed = 40 * 20 + 17 * rows as usize;
        assert!(returned > exact + 20 * 20, "{returned} of {exact}: asked of each row");
        assert!(returned < exact + most_failed, "{returned} of {exact}: never asked again");
        // What the query itself asks is asked of each row, of whatever use it is.
        request.conjuncts = vec![between(0, 1, 1)];
        request.live = Vec::new();
        assert_eq!(Bag::of(&scan(&env, request).await.sound()).count, exact);
    });
}
