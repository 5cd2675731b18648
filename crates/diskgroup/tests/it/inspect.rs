//! Tests of `inspect` on a disk.

use std::sync::Arc;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{FileSpec, inspect};
use cellar_io::{Device, DeviceExt, Durability, Io};

use cellar_sim::rig::{Rig, Shape};

#[test]
fn a_disk_is_shown_structure_by_structure_and_damage_with_its_reason() {
    let shape = Shape::default();
    let rig = Rig::new(21, &shape);
    rig.run(async {
        rig.create(&shape).await.unwrap();
        let group = rig.mount().await.unwrap();
        let file = group.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        file.set_size(1 << 20).await.unwrap();
        let data = Bytes::from(vec![3; 64 << 10]);
        file.write_at(Io::SCAN, 0, data, Durability::Durable).await.unwrap();
        group.publish(&file, "d/f", false).await.unwrap();
        drop(file);
        group.dismount().await.unwrap();
        let device: Arc<dyn Device> = rig.disks[0].clone();
        let shown = inspect(&device).await;
        let text = shown.to_string();
        assert_eq!(shown.find("clean").unwrap().value, "true", "{text}");
        let named = shown.find("file").unwrap();
        assert!(
            named.value.contains("d/f 1048576 bytes, 1 extents of 2 copies, 1 pieces"),
            "{text}"
        );
        for wanted in ["label at 0: generation", "FilePublish", "Link", "epoch: ", "never written"]
        {
            assert!(text.contains(wanted), "{wanted} is missing:\n{text}");
        }
        assert!(!text.contains("DAMAGED"), "{text}");
        rig.disks[0].corrupt(300, 1);
        let text = inspect(&device).await.to_string();
        assert!(text.contains("label at 0: DAMAGED: its checksum is wrong"), "{text}");
    })
    .unwrap();
}
