//! A group on simulated disks: its rows, and the catalog in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellar_diskgroup::{CreateGroup, FoundDisk, Group, MountOptions, NewDisk, Redundancy, create};
use cellar_instance::catalog::{SharedCatalog, Table};
use cellar_instance::groups::{CATALOG_PATH, GroupCatalog, MountedGroup};
use cellar_instance::{Error, GroupViews};
use cellar_io::Device;
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_wait::{Kind, Waits};

fn machine() -> (Sim, Vec<Arc<SimDisk>>) {
    let sim = Sim::new(1);
    let options = || SimDiskOptions { size: 40 << 20, ..SimDiskOptions::default() };
    let disks = (0..3).map(|i| sim.disk(&format!("disk{i}"), options())).collect();
    (sim, disks)
}

async fn make(sim: &Sim, disks: &[Arc<SimDisk>]) {
    let disk = |(i, disk): (usize, &Arc<SimDisk>)| NewDisk {
        device: Arc::clone(disk) as Arc<dyn Device>,
        path: format!("/sim/disk{i}"),
        name: None,
        failgroup: None,
        size: None,
        force: false,
    };
    let group = CreateGroup {
        name: "DATA".into(),
        redundancy: Redundancy::Normal,
        au_size: 1 << 20,
        sector_size: None,
        attributes: BTreeMap::new(),
        holds_catalog: true,
        disks: disks.iter().enumerate().map(disk).collect(),
    };
    create(&sim.env(), group).await.unwrap();
}

async fn mount(sim: &Sim, disks: &[Arc<SimDisk>]) -> Group {
    let found = disks.iter().enumerate().map(|(i, disk)| FoundDisk {
        device: Arc::clone(disk) as Arc<dyn Device>,
        path: format!("/sim/disk{i}"),
    });
    let session = Waits::new().session("group DATA", Kind::Background);
    let options = MountOptions::default();
    Group::mount(&sim.env(), session, "DATA", found.collect(), options).await.unwrap()
}

fn table(name: &str) -> Table {
    let location = format!("+DATA/{name}.parquet");
    Table::external(name, "parquet", location, "x".repeat(5_000), BTreeMap::new())
}

#[test]
fn the_catalog_is_there_after_a_remount() {
    let (sim, disks) = machine();
    sim.run(async {
        make(&sim, &disks).await;
        let group = mount(&sim, &disks).await;
        let open = |group: &Group| SharedCatalog::open(Arc::new(GroupCatalog::new(group.clone())));
        let catalog = open(&group).await.unwrap();
        assert_eq!(catalog.current().tables, []);
        for name in ["a", "b", "c"] {
            catalog.add(table(name)).await.unwrap();
        }
        catalog.drop_table("b").await.unwrap();
        assert_eq!(group.files().len(), 1, "the old ones are gone");
        drop(catalog);
        group.dismount().await.unwrap();

        let group = mount(&sim, &disks).await;
        let catalog = open(&group).await.unwrap();
        assert_eq!(catalog.current().tables, [table("a"), table("c")]);
        assert_eq!(catalog.current().serial, 4);
        drop(catalog);
        group.dismount().await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_group_is_rows() {
    let (sim, disks) = machine();
    sim.run(async {
        make(&sim, &disks).await;
        let group = mount(&sim, &disks).await;
        let catalog = SharedCatalog::open(Arc::new(GroupCatalog::new(group.clone()))).await;
        catalog.unwrap().add(table("t")).await.unwrap();
        let shown = MountedGroup::new(group.clone(), 1, "cellar");

        let row = &shown.diskgroups()[0];
        assert_eq!((row.name.as_str(), row.redundancy, row.state), ("DATA", "NORMAL", "MOUNTED"));
        assert!(row.free_mb < row.total_mb && row.offline_disks == 0);
        let rows = shown.disks();
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[1].mode_status, rows[1].name.as_deref()), ("ONLINE", Some("DATA_0001")));
        assert_eq!(rows[1].compound_index, (1 << 24) + 1);
        assert!(rows.iter().all(|row| row.writes > Some(0) && row.write_errs == Some(0)));
        assert_eq!(shown.disk_iostat().len(), 3);
        let file = &shown.files()[0];
        assert_eq!((file.kind.as_str(), file.redundancy), ("CONTROLFILE", "MIRROR"));
        assert!(file.bytes > 5_000 && file.space == 2 << 20, "{file:?}");
        let aliases = shown.aliases();
        let names: Vec<_> = aliases.iter().map(|a| (a.name.as_str(), a.alias_directory)).collect();
        assert_eq!(names, [("cellar", "Y"), ("catalog", "N")]);
        assert_eq!(aliases[1].parent_index, aliases[0].reference_index);
        assert_eq!(aliases[1].file_number, Some(file.file_number));
        assert!(shown.attributes().iter().any(|a| a.name == "au_size" && a.read_only == "Y"));
        assert_eq!(shown.operations(), []);

        let error: Error = group.open("cellar/none").err().unwrap().into();
        assert_eq!((error.number(), error.sqlstate()), (15012, "58P01"));
        assert!(error.next_step().is_some());
        assert!(group.open(CATALOG_PATH).is_ok());
        group.dismount().await.unwrap();
    })
    .unwrap();
}
