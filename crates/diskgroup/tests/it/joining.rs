//! Disks that are to join or leave and are not what they seem: nobody's data is destroyed, nothing is
//! told that is not so.

use std::sync::Arc;
use std::time::Duration;

use cellar_diskgroup::{
    AlterDisks, DropDisk, Group, LabelStatus, NewDisk, ProbeSpec, ProbeTarget, Protection,
    TemplateChange, TemplateWords, read_labels,
};
use cellar_diskgroup::{FileSpec, state::FileType};
use cellar_io::sim::SimDisk;
use cellar_io::{Device, EnvExt};

use crate::moves::{filled, new_disk, sound};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;

fn shape() -> Shape {
    Shape { disks: 3, disk_bytes: 60 * MB, ..Shape::default() }
}

/// A rig whose first `members` disks are a mounted group with a file in it.
async fn group_of(rig: &Rig, members: usize) -> Group {
    let mut spec = rig.spec(&shape());
    spec.disks.truncate(members);
    cellar_diskgroup::create(&rig.env(), spec).await.expect("created");
    let found = rig.found_of(&(0..members).collect::<Vec<_>>());
    let group = rig.mount_with(found, Default::default()).await.expect("mounted");
    drop(filled(&group, "f", 1, 10 * MB).await);
    group
}

fn add(disks: Vec<NewDisk>) -> AlterDisks {
    AlterDisks { add: disks, power: Some(8), ..AlterDisks::default() }
}

async fn label_status(disk: &Arc<SimDisk>) -> Option<LabelStatus> {
    let device = Arc::clone(disk) as Arc<dyn Device>;
    read_labels(&device).await.expect("readable").newest().map(|label| label.status)
}

#[test]
fn a_disk_in_use_is_not_taken_by_another_path_even_with_force() {
    let rig = Rig::new(61, &shape());
    rig.run(async {
        let group = group_of(&rig, 3).await;
        let device = Arc::clone(&rig.disks[1]) as Arc<dyn Device>;
        let again = NewDisk {
            device,
            path: "/sim/other-path".into(),
            name: None,
            failgroup: None,
            size: None,
            force: true,
        };
        let refused = group.alter_disks(&add(vec![again])).await.expect_err("it is here");
        assert_eq!(refused.number(), 15029, "{refused}");
        assert!(refused.to_string().contains("DATA_0001"), "{refused}");
        sound(&group).await;
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("whole");
        assert!(group.disks().iter().all(|d| d.in_sync));
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn what_others_left_at_both_ends_of_a_disk_is_gone_when_it_is_used() {
    let mut rig = Rig::new(62, &shape());
    let new = new_disk(&mut rig, &shape());
    let rig = rig;
    let size = rig.disks[0].geometry().size;
    // An md array at 4096, the second header of LUKS, md 0.90 and a second GPT at the end.
    let marks = [4096, 32 << 10, (64 << 10) + 8192, size - (64 << 10) - 4096, size - 512];
    rig.run(async {
        for disk in &rig.disks {
            marks.iter().for_each(|at| disk.poke(*at, &[0xA5; 512]));
        }
        let group = group_of(&rig, 3).await;
        group.alter_disks(&add(vec![new])).await.expect("added");
        group.wait_rebalanced().await.expect("rebalanced");
        for disk in &rig.disks {
            for at in marks {
                assert_ne!(disk.peek(at, 512), [0xA5; 512], "{} at {at}", disk.name());
            }
        }
        sound(&group).await;
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounted");
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_disk_that_did_not_join_because_of_another_is_nobodys() {
    let mut rig = Rig::new(63, &shape());
    let pair = vec![new_disk(&mut rig, &shape()), new_disk(&mut rig, &shape())];
    let rig = rig;
    rig.run(async {
        let group = group_of(&rig, 3).await;
        rig.disks[4].fail_writes(0..8 * MB);
        let failed = group.alter_disks(&add(pair.clone())).await.expect_err("it cannot be written");
        assert_eq!(failed.number(), 15080, "{failed}");
        assert_eq!(label_status(&rig.disks[3]).await, Some(LabelStatus::Former));
        group.alter_disks(&add(vec![pair[0].clone()])).await.expect("added without FORCE");
        group.wait_rebalanced().await.expect("rebalanced");
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_probe_writes_to_no_disk_that_holds_something() {
    let mut rig = Rig::new(64, &shape());
    let new = new_disk(&mut rig, &shape());
    let rig = rig;
    rig.run(async {
        let group = group_of(&rig, 3).await;
        rig.disks[3].poke(8 * MB, &[7; 4096]);
        let device = Arc::clone(&rig.disks[3]) as Arc<dyn Device>;
        let spec = ProbeSpec {
            time: Duration::from_secs(4),
            powers: vec![1, 8],
            targets: vec![ProbeTarget::Itself(device)],
        };
        let change = add(vec![new]);
        let probe = group.probe(&change, &spec);
        // Somebody else writes there meanwhile.
        let other = async {
            rig.env().sleep(Duration::from_millis(500)).await;
            rig.disks[3].poke(8 * MB, &[9; 4096]);
        };
        let (rates, ()) = futures_util::future::join(probe, other).await;
        let rates = rates.expect("told");
        assert_eq!(rates.holds.as_deref(), Some("/sim/disk3"));
        assert!(rates.by_power.is_empty());
        assert_eq!(rig.disks[3].peek(8 * MB, 4096), [9; 4096], "as the other one wrote it");
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn files_that_have_one_copy_are_told_among_what_a_loss_costs() {
    let rig = Rig::new(65, &shape());
    rig.run(async {
        let group = group_of(&rig, 3).await;
        assert!(group.losses().iter().all(|loss| !loss.data && !loss.single));
        let alone = TemplateWords {
            protection: Some(Protection::Unprotected),
            failgroup: Some("DATA_0002".into()),
            ..TemplateWords::default()
        };
        let templates = [("one".into(), alone)];
        group.set_templates(TemplateChange::Add, &templates).await.expect("made");
        let spec = FileSpec { template: Some("one".into()), ..FileSpec::new(FileType::Datafile) };
        let file = group.create_file(&spec).await.expect("made");
        file.set_size(4 * MB).await.expect("room");
        group.publish(&file, "u", false).await.expect("named");
        let told: Vec<(String, bool, bool)> =
            group.losses().into_iter().map(|l| (l.failgroup, l.data, l.single)).collect();
        assert_eq!(told[2], ("DATA_0002".to_owned(), true, true));
        assert!(told[..2].iter().all(|(_, data, single)| !data && !single), "{told:?}");
        drop(file);
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_drop_after_which_nothing_could_be_written_is_refused_of_an_empty_group_too() {
    let rig = Rig::new(66, &shape());
    rig.run(async {
        let group = group_of(&rig, 3).await;
        group.remove("f").await.expect("removed");
        let names = ["DATA_0000", "DATA_0001"];
        let drop = |force| names.map(|name| DropDisk { name: name.into(), force }).to_vec();
        let change = AlterDisks { drop: drop(false), ..AlterDisks::default() };
        let refused = group.alter_disks(&change).await.expect_err("two copies need two");
        assert_eq!(refused.number(), 15072, "{refused}");
        assert!(group.operation().is_none());
        group.dismount().await.expect("dismounted");
    });
}
