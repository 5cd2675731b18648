//! Disks of which the group uses more, or less, than it did.

use cellar_diskgroup::{
    AlterDisks, DiskInfo, Group, LabelStatus, Redundancy, ResizeDisk, read_labels,
};
use cellar_io::EnvExt;

use crate::moves::{check_content, filled, held, sound, spread};
use cellar_sim::rig::{Rig, Shape};

const MB: u64 = 1 << 20;

fn to(name: &str, bytes: Option<u64>) -> ResizeDisk {
    ResizeDisk { name: name.into(), bytes }
}

fn resize(disks: Vec<ResizeDisk>) -> AlterDisks {
    AlterDisks { resize: disks, power: Some(16), ..AlterDisks::default() }
}

async fn resized(group: &Group, disks: Vec<ResizeDisk>) {
    group.alter_disks(&resize(disks)).await.expect("it will do");
    group.wait_rebalanced().await.expect("it is over");
}

fn disk(group: &Group, name: &str) -> DiskInfo {
    group.disks().into_iter().find(|d| d.name == name).expect("a disk of the group")
}

#[test]
fn a_disk_that_grew_takes_its_share_and_says_so_on_its_label() {
    let shape = Shape { disks: 4, disk_bytes: 80 * MB, ..Shape::default() };
    let rig = Rig::new(21, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let file = filled(&group, "f", 1, 60 * MB).await;
        let before = held(&group);
        for disk in &rig.disks[..2] {
            disk.resize(160 * MB);
        }
        resized(&group, vec![to("data_0000", None), to("DATA_0001", Some(160 * MB))]).await;
        assert_eq!(disk(&group, "DATA_0000").bytes, 160 * MB);
        let after = held(&group);
        assert!(after[0].1 > before[0].1 + 5 && after[2].1 < before[2].1, "{before:?} {after:?}");
        check_content(&file, 1, 60 * MB).await;
        sound(&group).await;
        // More fits than did before.
        let more = filled(&group, "g", 2, 120 * MB).await;
        check_content(&more, 2, 120 * MB).await;
        drop((file, more));
        group.dismount().await.expect("dismounted");
        let label = read_labels(&rig.found()[0].device).await.expect("read");
        let label = label.newest().expect("a label").clone();
        assert_eq!((label.status, label.disk_bytes), (LabelStatus::Member, 160 * MB));
        let group = rig.mount().await.expect("mounted");
        check_content(&group.open("f").expect("there"), 1, 60 * MB).await;
        check_content(&group.open("g").expect("there"), 2, 120 * MB).await;
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_disk_that_shrinks_is_emptied_behind_its_new_end_and_may_be_cut_there() {
    for redundancy in [Redundancy::External, Redundancy::Normal, Redundancy::High] {
        let shape = Shape { disks: 4, redundancy, disk_bytes: 80 * MB, ..Shape::default() };
        let rig = Rig::new(22, &shape);
        rig.run(async {
            rig.create(&shape).await.expect("created");
            let group = rig.mount().await.expect("mounted");
            let file = filled(&group, "f", 1, 60 * MB).await;
            let all = ["DATA_0000", "DATA_0001", "DATA_0002", "DATA_0003"];
            // One of them; then all, with a gap on each: what moves stays on its disk.
            resized(&group, vec![to(all[1], Some(60 * MB))]).await;
            assert_eq!(disk(&group, all[1]).bytes, 60 * MB);
            check_content(&file, 1, 60 * MB).await;
            resized(&group, all.map(|name| to(name, Some(70 * MB))).to_vec()).await;
            assert!(spread(&group) <= 1, "{:?}", held(&group));
            resized(&group, all.map(|name| to(name, Some(65 * MB))).to_vec()).await;
            check_content(&file, 1, 60 * MB).await;
            sound(&group).await;
            drop(file);
            group.dismount().await.expect("dismounted");
            for disk in &rig.disks {
                disk.resize(65 * MB);
            }
            let group = rig.mount().await.expect("mounted on what is left of the disks");
            assert_eq!(group.disks().len(), 4);
            check_content(&group.open("f").expect("there"), 1, 60 * MB).await;
            sound(&group).await;
            group.dismount().await.expect("dismounted");
        });
    }
}

#[test]
fn a_size_that_will_not_do_is_refused_before_anything_changes() {
    let shape = Shape { disks: 3, disk_bytes: 80 * MB, ..Shape::default() };
    let rig = Rig::new(23, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let _file = filled(&group, "f", 1, 70 * MB).await;
        let before = held(&group);
        let group = &group;
        let refused = |disks| {
            let change = resize(disks);
            async move { group.alter_disks(&change).await.expect_err("refused").number() }
        };
        assert_eq!(refused(vec![to("DATA_0007", None)]).await, 15054);
        assert_eq!(refused(vec![to("DATA_0001", Some(81 * MB))]).await, 15057);
        assert_eq!(refused(vec![to("DATA_0001", Some(11 * MB))]).await, 15036);
        assert_eq!(refused(vec![to("DATA_0001", Some(40 * MB)); 2]).await, 15054);
        let two = ["DATA_0000", "DATA_0001"].map(|name| to(name, Some(40 * MB)));
        assert_eq!(refused(two.to_vec()).await, 15041);
        assert!(group.operation().is_none());
        assert_eq!((held(group), disk(group, "DATA_0001").bytes), (before, 80 * MB));
        // Exactly what it has is no change, and no error.
        resized(group, vec![to("DATA_0001", None)]).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_shrink_can_be_taken_back_while_it_goes_on() {
    let shape = Shape { disks: 3, disk_bytes: 80 * MB, ..Shape::default() };
    let rig = Rig::new(24, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let file = filled(&group, "f", 1, 60 * MB).await;
        let stopped = AlterDisks { power: Some(0), ..resize(vec![to("DATA_0001", Some(60 * MB))]) };
        group.alter_disks(&stopped).await.expect("begun");
        let total = |group: &Group| disk(group, "DATA_0001").total_mb;
        assert!(total(&group) < 70, "no room behind its end is counted: {}", total(&group));
        resized(&group, vec![to("DATA_0001", None)]).await;
        assert_eq!(disk(&group, "DATA_0001").bytes, 80 * MB);
        assert!(total(&group) > 60, "{}", total(&group));
        check_content(&file, 1, 60 * MB).await;
        sound(&group).await;
        drop(file);
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn checkpoint_areas_behind_the_new_end_move_before_it() {
    let shape = Shape { disks: 4, disk_bytes: 120 * MB, ..Shape::default() };
    let rig = Rig::new(25, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        // Data first, low on the disks; then metadata behind it, and the data goes away.
        let file = filled(&group, "f", 1, 120 * MB).await;
        for round in 0..14 {
            for i in 0..700 {
                let long = format!("{round}/{i:04}{}", "n".repeat(100));
                group.mkdir(&long, true).await.expect("made");
            }
        }
        drop(file);
        group.remove("f").await.expect("removed");
        let small = filled(&group, "g", 2, 30 * MB).await;
        let names = ["DATA_0000", "DATA_0001", "DATA_0002", "DATA_0003"];
        resized(&group, names.map(|name| to(name, Some(50 * MB))).to_vec()).await;
        assert!(group.disks().iter().all(|d| d.bytes == 50 * MB), "{:?}", group.disks());
        check_content(&small, 2, 30 * MB).await;
        sound(&group).await;
        drop(small);
        group.abandon();
        rig.env().sleep(std::time::Duration::from_secs(1)).await;
        for disk in &rig.disks {
            disk.resize(50 * MB);
        }
        let group = rig.mount().await.expect("mounted on what is left of the disks");
        check_content(&group.open("g").expect("there"), 2, 30 * MB).await;
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    });
}

#[test]
fn a_group_of_small_disks_grows_to_four_terabytes_and_back() {
    const TB: u64 = 1 << 40;
    let shape = Shape { disks: 4, disk_bytes: 128 * MB, au_size: 4 * MB, ..Shape::default() };
    let rig = Rig::new(26, &shape);
    rig.run(async {
        rig.create(&shape).await.expect("created");
        let group = rig.mount().await.expect("mounted");
        let file = filled(&group, "f", 1, 80 * MB).await;
        let names = ["DATA_0000", "DATA_0001", "DATA_0002", "DATA_0003"];
        for disk in &rig.disks {
            disk.resize(TB);
        }
        resized(&group, names.map(|name| to(name, None)).to_vec()).await;
        let total: u64 = group.disks().iter().map(|d| d.total_mb).sum();
        assert!(total > 4 * (TB >> 20) * 995 / 1000, "{total}");
        assert!(spread(&group) <= 1, "{:?}", held(&group));
        // Something far behind the first disks' ends, and back.
        let wide = filled(&group, "g", 2, 200 * MB).await;
        check_content(&wide, 2, 200 * MB).await;
        drop(wide);
        group.remove("g").await.expect("removed");
        resized(&group, names.map(|name| to(name, Some(128 * MB))).to_vec()).await;
        for disk in &rig.disks {
            disk.resize(128 * MB);
        }
        check_content(&file, 1, 80 * MB).await;
        sound(&group).await;
        drop(file);
        group.dismount().await.expect("dismounted");
        let group = rig.mount().await.expect("mounted");
        check_content(&group.open("f").expect("there"), 1, 80 * MB).await;
        sound(&group).await;
        group.dismount().await.expect("dismounted");
    });
}
