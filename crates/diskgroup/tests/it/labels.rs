//! Labels: who may take a disk whose group was never finished, and disks that hang meanwhile.

use std::time::Duration;

use cellar_diskgroup::{Error, FoundDisk, Label, LabelStatus, MountOptions, label_offsets};
use cellar_io::{Device, EnvExt};

use cellar_sim::rig::{Rig, Shape};

fn status(rig: &Rig, disk: usize) -> LabelStatus {
    let size = rig.disks[disk].geometry().size;
    let labels = label_offsets(size).map(|at| Label::decode(&rig.disks[disk].peek(at, 4096)));
    let newest = labels.into_iter().flatten().max_by_key(|l| l.generation);
    newest.expect("a disk of the group has a label").status
}

/// As a CREATE leaves it that is cut off before the last labels.
fn make_creating(rig: &Rig, disk: usize) {
    let size = rig.disks[disk].geometry().size;
    for at in label_offsets(size) {
        let mut label = Label::decode(&rig.disks[disk].peek(at, 4096)).unwrap();
        label.status = LabelStatus::Creating;
        rig.disks[disk].poke(at, &label.encode().0);
    }
}

#[test]
fn a_disk_of_a_group_that_may_be_whole_is_not_taken_without_force() {
    let shape = Shape { disks: 4, ..Shape::default() };
    let (mut early, mut late) = (0, 0);
    for events in 1..200 {
        let rig = Rig::new(events, &shape);
        rig.sim.crash_after(events);
        if rig.run(rig.create(&shape)).is_some() {
            break;
        }
        rig.sim.restart();
        rig.sim.crash_never();
        rig.run(async {
            let read_only = MountOptions { read_only: true, ..MountOptions::default() };
            let whole = rig.mount_with(rig.found(), read_only).await.is_ok();
            let again = rig.create(&shape).await;
            match whole {
                true => assert!(matches!(again, Err(Error::DiskUnusable { number: 15033, .. }))),
                false if again.is_ok() => early += 1,
                false => {}
            }
            late += u32::from(whole);
            let group = rig.mount().await;
            if whole || again.is_ok() {
                let group = group.unwrap();
                group.mkdir("x", false).await.unwrap();
                assert!((0..4).all(|disk| status(&rig, disk) == LabelStatus::Member));
                group.dismount().await.unwrap();
            }
        })
        .unwrap();
    }
    assert!(early > 3 && late > 3, "{early} cut off early, {late} late");
}

#[test]
fn a_disk_that_hangs_when_its_label_is_corrected_leaves() {
    let shape = Shape { disks: 3, ..Shape::default() };
    let mut label_hung = 0;
    // From before the first read to after the last label, in steps.
    for step in 0..160 {
        let rig = Rig::new(50, &shape);
        rig.run(async {
            rig.create(&shape).await.unwrap();
            make_creating(&rig, 1);
            let disk = rig.disks[1].clone();
            let env = rig.env();
            let hang = async {
                env.sleep(Duration::from_micros(250 * step)).await;
                disk.hang();
            };
            let (group, ()) = futures_util::future::join(rig.mount(), hang).await;
            let group = group.unwrap();
            group.mkdir("x", false).await.unwrap();
            group.probe_disks().await;
            env.sleep(Duration::from_secs(600)).await;
            assert_eq!(group.info().offline_disks, 1, "step {step}");
            label_hung += u32::from(status(&rig, 1) == LabelStatus::Creating);
            group.mkdir("y", false).await.unwrap();
            group.abandon();
        })
        .unwrap();
    }
    assert!(label_hung > 3 && label_hung < 160, "{label_hung}");
}

#[test]
fn a_disk_whose_label_cannot_be_corrected_is_out_before_anything_is_on_it() {
    let shape = Shape { disks: 3, ..Shape::default() };
    let rig = Rig::new(51, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        make_creating(&rig, 2);
        for at in label_offsets(shape.disk_bytes) {
            rig.disks[2].fail_writes(at..at + 4096);
        }
        let group = rig.mount().await.unwrap();
        group.mkdir("x", false).await.unwrap();
        assert_eq!(group.info().offline_disks, 1);
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_create_on_a_disk_that_hangs_ends() {
    let shape = Shape { disks: 3, ..Shape::default() };
    for step in 0..40 {
        let rig = Rig::new(52, &shape);
        rig.run(async {
            let (disk, env) = (rig.disks[1].clone(), rig.env());
            let hang = async {
                env.sleep(Duration::from_micros(500 * step)).await;
                disk.hang();
            };
            let (created, ()) = futures_util::future::join(rig.create(&shape), hang).await;
            assert!(step > 0 || created.is_err());
        })
        .unwrap();
    }
}

#[test]
fn dropping_a_group_labels_the_disks_that_answer() {
    let shape = Shape { disks: 3, ..Shape::default() };
    let rig = Rig::new(53, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        rig.disks[0].hang();
        let error = group.drop_group(false).await.unwrap_err();
        assert!(matches!(error, Error::Io(_)), "{error}");
        rig.disks[0].heal();
        assert_eq!(status(&rig, 0), LabelStatus::Member);
        assert_eq!([status(&rig, 1), status(&rig, 2)], [LabelStatus::Former; 2]);
        let found: Vec<FoundDisk> = rig.found();
        let error = rig.mount_with(found, MountOptions::default()).await.unwrap_err();
        assert!(matches!(error, Error::NotProven { .. }), "{error}");
    })
    .unwrap();
}
