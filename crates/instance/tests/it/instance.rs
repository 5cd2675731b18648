//! An instance answers for every view and obeys its parameters.

use std::sync::Arc;

use cellar_instance::budget::{Consumer, Memory};
use cellar_instance::directory::Directory;
use cellar_instance::parameters::{Parameters, Scope};
use cellar_instance::views::{
    self, VAsmAlias, VAsmAttribute, VAsmDisk, VAsmDiskIostat, VAsmDiskgroup, VAsmFile,
    VAsmOperation, VAsmTemplate, VIEWS, VIostatFile, Value,
};
use cellar_instance::{GroupViews, Instance};
use cellar_wait::Waits;

use crate::env::threads;

fn instance() -> Instance {
    let memory = Memory { bytes: 4_000, source: "test".into() };
    Instance::new(threads(), Waits::new(), Parameters::without_file(), memory)
}

struct OneGroup(u32);

impl GroupViews for OneGroup {
    fn diskgroups(&self) -> Vec<VAsmDiskgroup> {
        vec![VAsmDiskgroup {
            group_number: self.0,
            name: format!("G{}", self.0),
            sector_size: 4096,
            logical_sector_size: 512,
            block_size: 4096,
            allocation_unit_size: 4 << 20,
            state: "MOUNTED",
            redundancy: "NORMAL",
            total_mb: 100,
            free_mb: 60,
            required_mirror_free_mb: 70,
            usable_file_mb: -5,
            offline_disks: 1,
        }]
    }
    fn disks(&self) -> Vec<VAsmDisk> {
        Vec::new()
    }
    fn disk_iostat(&self) -> Vec<VAsmDiskIostat> {
        Vec::new()
    }
    fn files(&self) -> Vec<VAsmFile> {
        Vec::new()
    }
    fn aliases(&self) -> Vec<VAsmAlias> {
        Vec::new()
    }
    fn attributes(&self) -> Vec<VAsmAttribute> {
        Vec::new()
    }
    fn templates(&self) -> Vec<VAsmTemplate> {
        Vec::new()
    }
    fn operations(&self) -> Vec<VAsmOperation> {
        Vec::new()
    }
    fn iostat_files(&self) -> Vec<VIostatFile> {
        Vec::new()
    }
}

#[test]
fn every_view_has_an_answer() {
    let instance = instance();
    instance.add_group("G1", Arc::new(OneGroup(1)));
    let _session = instance.sessions().user("test", "anna");
    // These are of a database, not of its instance.
    let others = [
        "v$buffer_pool_statistics",
        "v$comment",
        "v$health",
        "v$instance_recovery",
        "v$segment_statistics",
    ];
    for view in VIEWS.iter().filter(|view| !others.contains(&view.name)) {
        for row in instance.rows(view).unwrap() {
            assert_eq!(row.len(), view.columns.len(), "{}", view.name);
        }
    }
    assert_eq!(instance.rows(views::find("v$session").unwrap()).unwrap().len(), 1);
}

#[test]
fn groups_are_shown_while_they_are_there() {
    let instance = instance();
    let view = views::find("cellar.asm_diskgroup").unwrap();
    instance.add_group("G1", Arc::new(OneGroup(1)));
    instance.add_group("G2", Arc::new(OneGroup(2)));
    let rows = instance.rows(view).unwrap();
    let names: Vec<&Value> = rows.iter().map(|row| &row[1]).collect();
    assert_eq!(names, [&Value::Text("G1".into()), &Value::Text("G2".into())]);
    let usable = view.columns.iter().position(|c| c.name == "usable_file_mb").unwrap();
    assert_eq!(rows[0][usable], Value::Int(-5));
    instance.remove_group("G1");
    assert_eq!(instance.rows(view).unwrap().len(), 1);
}

#[test]
fn memory_target_divides_the_memory_at_once() {
    let instance = instance();
    assert_eq!(instance.budget().limit(Consumer::SqlWork), 350, "of a quarter of 4000");
    instance.alter_system_set("memory_target", "20M", Some(Scope::Memory)).unwrap();
    assert_eq!(instance.budget().limit(Consumer::SqlWork), 7_340_032);
    instance.alter_system_reset("memory_target", Some(Scope::Memory)).unwrap();
    assert_eq!(instance.budget().limit(Consumer::SqlWork), 350);
}

#[test]
fn a_directory_opens_with_its_parameters_and_this_machine() {
    let parent = tempfile::tempdir().unwrap();
    let directory = Directory::create(&parent.path().join("db")).unwrap();
    let open = || Instance::open(threads(), Waits::new(), &directory).unwrap();
    open().alter_system_set("memory_target", "64M", Some(Scope::Spfile)).unwrap();
    let again = open();
    assert_eq!(again.budget().limit(Consumer::IoBuffers), (64 << 20) / 10);
    assert!(again.memory().bytes > 64 << 20);
}
