//! One rebalance, and the power cut at a thousand places in it: the next mount goes on, nothing is
//! lost, nothing has two owners, and what was moved is not moved again.

use std::cell::Cell;

use cellar_diskgroup::{AlterDisks, DropDisk, Group, NewDisk, ResizeDisk};
use cellar_io::EnvExt;

use crate::moves::{check_content, filled, new_disk, sound};
use crate::rig::{Rig, Shape};

const MB: u64 = 1 << 20;
const POINTS: u64 = 1000;
const POWER: u32 = 4;
const BYTES: u64 = 40 * MB;

fn shape() -> Shape {
    Shape { disks: 4, disk_bytes: 64 * MB, ..Shape::default() }
}

/// A machine with four disks of a group and two of nobody.
fn machine() -> (Rig, Vec<NewDisk>) {
    let mut rig = Rig::new(41, &shape());
    let add = (0..2).map(|_| new_disk(&mut rig, &shape())).collect();
    (rig, add)
}

async fn mounted(rig: &Rig) -> Group {
    let mut spec = rig.spec(&shape());
    spec.disks.truncate(4);
    cellar_diskgroup::create(&rig.env(), spec).await.expect("created");
    let group = rig.mount_with(rig.found_of(&[0, 1, 2, 3]), Default::default()).await;
    let group = group.expect("mounted");
    drop(filled(&group, "f", 1, BYTES).await);
    group
}

/// Two disks come, one goes, one becomes smaller: one change, one rebalance.
fn change(add: Vec<NewDisk>) -> AlterDisks {
    AlterDisks {
        add,
        drop: vec![DropDisk { name: "DATA_0001".into(), force: false }],
        resize: vec![ResizeDisk { name: "DATA_0002".into(), bytes: Some(40 * MB) }],
        power: Some(POWER),
    }
}

#[test]
fn a_rebalance_cut_off_at_a_thousand_places_loses_and_doubles_nothing() {
    let (rig, add) = machine();
    let (first, last, moves) = rig
        .run(async {
            let group = mounted(&rig).await;
            let change = change(add);
            let work = group.explain_work(&change).expect("explained");
            let moves = work.plan.moves.len() as u64;
            assert!(moves * 100 <= work.plan.minimum * 102, "{moves} of {}", work.plan.minimum);
            let first = rig.sim.io_events();
            group.alter_disks(&change).await.expect("begun");
            group.wait_rebalanced().await.expect("done");
            let last = rig.sim.io_events();
            group.dismount().await.expect("dismounted");
            (first, last, moves)
        })
        .expect("nothing is cut off");
    assert!(last - first > POINTS, "{} I/Os", last - first);
    let (mut resumed, mut ended) = (0, 0);
    for point in 0..POINTS {
        let (rig, add) = machine();
        let (begun, done) = (Cell::new(false), Cell::new(0));
        let crashed = rig.run(async {
            let group = mounted(&rig).await;
            rig.sim.crash_after(1 + (last - first) * point / POINTS);
            group.alter_disks(&change(add)).await.expect("begun");
            begun.set(true);
            loop {
                done.set(done.get().max(group.operation().map_or(0, |o| o.done)));
                rig.env().sleep(std::time::Duration::from_micros(200)).await;
            }
        });
        assert!(crashed.is_none(), "the power was cut");
        rig.sim.restart();
        rig.run(async {
            let group = rig.mount().await.unwrap_or_else(|e| panic!("point {point}: {e}"));
            match group.operation() {
                Some(_) => {
                    resumed += 1;
                    let left = group.explain_work(&AlterDisks::default()).expect("explained");
                    let left = left.plan.moves.len() as u64;
                    let again = u64::from(POWER);
                    let done = done.get();
                    assert!(left + done <= moves + again, "{point}: {left} and {done} of {moves}");
                }
                None => ended += u64::from(begun.get()),
            }
            assert!(group.operation().is_some() || !begun.get() || group.disks().len() == 5);
            sound(&group).await;
            group.wait_rebalanced().await.unwrap_or_else(|e| panic!("point {point}: {e}"));
            if begun.get() {
                assert_eq!(group.disks().len(), 5, "point {point}");
                let small = group.disks().into_iter().find(|d| d.name == "DATA_0002");
                assert_eq!(small.expect("it stays").bytes, 40 * MB, "point {point}");
            }
            check_content(&group.open("f").expect("there"), 1, BYTES).await;
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        });
    }
    eprintln!("{POINTS} points in {} I/Os: {resumed} went on, {ended} were over", last - first);
    assert!(resumed > POINTS / 2, "{resumed} of {POINTS} were cut off while it moved");
}
