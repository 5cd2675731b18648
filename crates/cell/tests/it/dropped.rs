//! Scans that nobody wants to the end: nothing of them is left, and who still wants them gets the rest.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use cellar_cell::{Cache, Item, Scan, ScanStats, Worker};
use cellar_io::EnvExt;
use cellar_io::sim::Sim;
use futures_util::FutureExt;

use crate::ask::{between, everything};
use crate::rig::{disks, is_released, nothing, open_all, run, scan_with};
use crate::seeds;
use crate::table::Rng;
use crate::tables::{Bag, Table};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

async fn next(worker: &mut Worker) -> Option<Item> {
    worker.next().await.map(|next| next.expect("a sound disk"))
}

#[test]
fn a_scan_that_is_dropped_leaves_nothing() {
    seeds(40, |seed| {
        let mut rng = Rng(seed);
        let (sim, table) = (Sim::new(seed), Table::counted(&[4, 4]));
        let (disks, env) = (disks(&sim, &table), sim.env());
        run(&sim, async {
            let held: Vec<usize> = disks.iter().map(Arc::strong_count).collect();
            let segments = open_all(&disks, &table).await;
            let mut request = everything(&table, &segments, &[0, 1]);
            request.depth = 1 + rng.below(12);
            request.conjuncts = vec![between(0, 0, rng.below(8000) as i128)];
            let scan = Scan::new(request, Cache::new(0), Arc::clone(&env), Arc::default());
            let mut workers: Vec<Worker> = (0..1 + rng.below(3)).map(|_| scan.worker()).collect();
            drop(scan);
            for _ in 0..rng.below(4) {
                let at = rng.below(workers.len());
                // Some are dropped while they wait, before they are asked for anything else.
                match rng.one_in(2) {
                    true => drop(next(&mut workers[at]).await),
                    false => drop(next(&mut workers[at]).now_or_never()),
                }
            }
            drop(workers);
            assert!(is_released(&env, &segments).await, "tasks of it go on");
            drop(segments);
            for (disk, held) in disks.iter().zip(held) {
                assert_eq!(disk.in_flight(), 0);
                assert_eq!(Arc::strong_count(disk), held, "as before the segments were opened");
            }
        });
    });
}

#[test]
fn who_goes_on_gets_all_that_others_have_not_had() {
    seeds(40, |seed| {
        let mut rng = Rng(seed);
        let (sim, table) = (Sim::new(seed), Table::counted(&[5, 3]));
        let (disks, env) = (disks(&sim, &table), sim.env());
        run(&sim, async {
            let segments = open_all(&disks, &table).await;
            let mut request = everything(&table, &segments, &[1, 0]);
            request.depth = 1 + rng.below(6);
            let cache = Cache::new([0, 1 << 20][rng.below(2)]);
            if rng.one_in(2) {
                scan_with(&env, request.clone(), &cache, (1, seed), nothing()).await.sound();
            }
            let scan = Scan::new(request, cache, Arc::clone(&env), Arc::default());
            let (mut goes, mut stays) = (scan.worker(), scan.worker());
            let stays = env.run("stays", async move {
                let mut items = Vec::new();
                while let Some(item) = next(&mut stays).await {
                    items.push(item);
                }
                items
            });
            let mut items = Vec::new();
            for _ in 0..rng.below(3) {
                items.extend(next(&mut goes).await);
            }
            let waits = next(&mut goes).now_or_never();
            items.extend(waits.flatten());
            drop(goes);
            items.extend(stays.await.expect("it comes to its end"));
            assert_eq!(Bag::of(&items), table.rows(&[1, 0], |_, _| true));
        });
    });
}

#[test]
fn a_worker_goes_on_though_the_other_stands_still_with_the_last_that_was_read() {
    // Threads, not tasks: what is looked for happens between two looks at the queue.
    let (sim, table) = (Sim::new(1), Table::counted(&[40]));
    let (disks, env) = (disks(&sim, &table), sim.env());
    let (segments, cache) = (run(&sim, open_all(&disks, &table)), Cache::new(64 << 20));
    let mut request = everything(&table, &segments, &[0]);
    request.depth = 1;
    run(&sim, scan_with(&env, request.clone(), &cache, (1, 0), nothing())).sound();
    for round in 0..3000 {
        let stats = Arc::new(ScanStats::default());
        let scan = Scan::new(request.clone(), cache.clone(), Arc::clone(&env), stats);
        let (mut stands, mut goes) = (scan.worker(), scan.worker());
        let (done, is_done) = channel();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                let mut items = 0;
                while block_on(next(&mut goes)).is_some() {
                    items += 1;
                }
                // Nobody listens any more where the test has failed.
                let _ = done.send(items);
            });
            let mut own = 0;
            for _ in 0..1 + round % 8 {
                own += usize::from(block_on(next(&mut stands)).is_some());
            }
            match is_done.recv_timeout(Duration::from_secs(20)) {
                Ok(other) => assert_eq!(own + other, 40, "row groups come once"),
                Err(_) => {
                    eprintln!("round {round}: a worker waits for what nobody reads");
                    std::process::abort();
                }
            }
            drop(stands);
        });
    }
}
