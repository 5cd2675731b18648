//! Rebalances, and the power cut at many places in them: the next mount goes on, nothing is lost,
//! nothing has two owners, and what was moved is not moved again. `CELLAR_CRASH_POINTS=n` cuts each
//! of the four at n places; 250 are a thousand in all.

use std::cell::Cell;

use cellar_diskgroup::{AlterDisks, DropDisk, Group, NewDisk, ResizeDisk};
use cellar_io::EnvExt;
use cellar_io::sim::Snapshot;

use crate::moves::{check_content, filled, new_disk, sound};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;
/// Places in each rebalance, if nobody asks for more.
const POINTS: u64 = 60;
const POWER: u32 = 4;
const BYTES: u64 = 20 * MB;

fn shape() -> Shape {
    Shape { disks: 4, disk_bytes: 40 * MB, ..Shape::default() }
}

/// A machine with four disks of a group, as they were when `images` were taken, and two of nobody.
fn machine(seed: u64, images: &[Snapshot]) -> (Rig, Vec<NewDisk>) {
    let mut rig = Rig::new(seed, &shape());
    let add = (0..2).map(|_| new_disk(&mut rig, &shape())).collect();
    for (disk, image) in rig.disks.iter().zip(images) {
        disk.replace_with_snapshot(image);
    }
    (rig, add)
}

async fn mounted(rig: &Rig) -> Group {
    let group = rig.mount_with(rig.found_of(&[0, 1, 2, 3]), Default::default()).await;
    group.expect("mounted")
}

/// The four disks of a group with a file.
fn prepared(seed: u64) -> Vec<Snapshot> {
    let (rig, _) = machine(seed, &[]);
    rig.run(async {
        let mut spec = rig.spec(&shape());
        spec.disks.truncate(4);
        cellar_diskgroup::create(&rig.env(), spec).await.expect("created");
        let group = mounted(&rig).await;
        drop(filled(&group, "f", 1, BYTES).await);
        group.dismount().await.expect("dismounted");
    });
    rig.disks[..4].iter().map(|disk| disk.snapshot()).collect()
}

/// What is changed in each of the rebalances: one change, one rebalance.
fn change(which: u64, mut add: Vec<NewDisk>) -> AlterDisks {
    let drop = vec![DropDisk { name: "DATA_0001".into(), force: false }];
    let resize = vec![ResizeDisk { name: "DATA_0002".into(), bytes: Some(26 * MB) }];
    let power = Some(POWER);
    match which {
        0 => AlterDisks { add, power, ..Default::default() },
        1 => AlterDisks { drop, power, ..Default::default() },
        2 => AlterDisks { resize, power, ..Default::default() },
        _ => {
            add.truncate(1);
            AlterDisks { add, drop, resize, power }
        }
    }
}

/// Disks afterwards, and bytes of the one that may have become smaller.
fn aim(which: u64) -> (usize, u64) {
    match which {
        0 => (6, 40 * MB),
        1 => (3, 40 * MB),
        2 => (4, 26 * MB),
        _ => (4, 26 * MB),
    }
}

fn reached(group: &Group, which: u64) -> bool {
    let disks = group.disks();
    let small = disks.iter().find(|d| d.name == "DATA_0002").map_or(0, |d| d.bytes);
    (disks.len(), small) == aim(which)
}

#[test]
fn rebalances_cut_off_anywhere_lose_and_double_nothing() {
    let asked = std::env::var("CELLAR_CRASH_POINTS");
    let points = asked.map_or(POINTS, |text| text.parse().expect("a number"));
    let (mut resumed, mut ended, mut events) = (0, 0, 0);
    for which in 0..4 {
        let seed = 41 + which;
        let images = prepared(seed);
        let (rig, add) = machine(seed, &images);
        let (count, moves) = rig
            .run(async {
                let group = mounted(&rig).await;
                let change = change(which, add);
                let work = group.explain_work(&change).expect("explained");
                let moves = work.plan.moves.len() as u64;
                assert!(moves * 100 <= work.plan.minimum * 102, "{moves} of {}", work.plan.minimum);
                let first = rig.sim.io_events();
                group.alter_disks(&change).await.expect("begun");
                group.wait_rebalanced().await.expect("done");
                let count = rig.sim.io_events() - first;
                assert!(reached(&group, which));
                group.dismount().await.expect("dismounted");
                (count, moves)
            })
            .expect("nothing is cut off");
        assert!(count > 100 && moves > 2, "{which}: {count} I/Os, {moves} moves");
        events += count;
        for point in 0..points {
            let left = cut_off(which, &images, 1 + count * point / points, moves);
            resumed += u64::from(left);
            ended += u64::from(!left);
        }
    }
    eprintln!(
        "4 rebalances of {events} I/Os in all, {points} places each: {resumed} went on, {ended} were over"
    );
    assert!(resumed > 2 * points, "{resumed} were cut off while it moved");
}

/// Cuts the power after so many I/Os, and goes on. Whether something was left to do.
fn cut_off(which: u64, images: &[Snapshot], after: u64, moves: u64) -> bool {
    let (rig, add) = machine(41 + which, images);
    let (begun, done) = (Cell::new(false), Cell::new(0));
    let crashed = rig.run(async {
        let group = mounted(&rig).await;
        rig.sim.crash_after(after);
        group.alter_disks(&change(which, add)).await.expect("begun");
        begun.set(true);
        loop {
            done.set(done.get().max(group.operation().map_or(0, |o| o.done)));
            rig.env().sleep(std::time::Duration::from_micros(200)).await;
        }
    });
    assert!(crashed.is_none(), "the power was cut");
    rig.sim.restart();
    let at = format!("change {which}, cut after {after} I/Os");
    rig.run(async {
        let group = rig.mount().await.unwrap_or_else(|e| panic!("{at}: {e}"));
        let left = group.operation().is_some();
        if left {
            let again = group.explain_work(&AlterDisks::default()).expect("explained");
            let again = again.plan.moves.len() as u64;
            let (done, in_flight) = (done.get(), u64::from(POWER));
            assert!(again + done <= moves + in_flight, "{at}: {again} and {done} of {moves}");
        }
        sound(&group).await;
        group.wait_rebalanced().await.unwrap_or_else(|e| panic!("{at}: {e}"));
        assert!(reached(&group, which) || !begun.get(), "{at}: {:?}", group.disks());
        check_content(&group.open("f").expect("there"), 1, BYTES).await;
        sound(&group).await;
        group.dismount().await.expect("dismounted");
        left
    })
    .expect("nothing is cut off")
}
