//! A disk group on a scratch file: its file is written like the bare one.

use std::sync::Arc;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    CreateGroup, File, FileSpec, FoundDisk, Group, MountOptions, NewDisk, Redundancy, create,
};
use cellar_io::{Device, DeviceExt, Durability, Io, SharedEnv};
use cellar_wait::{Kind, Waits};

use crate::error::LabError;
use crate::load::SPARE;

const NAME: &str = "LAB";
const FILE: &str = "+LAB/io-modes";
const AU: u64 = 4 << 20;

/// The disk size needed for a file of this many bytes.
pub(super) fn disk_bytes(file_bytes: u64) -> u64 {
    file_bytes + SPARE + 8 * AU
}

/// Creates a group of one disk with one file, all of which is written with `unit`.
pub(super) async fn make(
    env: &SharedEnv,
    device: &Arc<dyn Device>,
    bytes: u64,
    unit: &Bytes,
) -> Result<(), LabError> {
    let disk = NewDisk {
        device: Arc::clone(device),
        path: device.geometry().name.to_string(),
        name: None,
        failgroup: None,
        size: None,
        force: false,
    };
    let spec = CreateGroup {
        name: NAME.to_owned(),
        redundancy: Redundancy::External,
        au_size: AU,
        sector_size: Some(4096),
        attributes: Default::default(),
        holds_catalog: false,
        disks: vec![disk],
    };
    create(env, spec).await?;
    let group = mount(env, device).await?;
    let file = group.create_file(&FileSpec::new(FileType::Datafile)).await?;
    file.set_size(bytes).await?;
    for at in (0..bytes).step_by(unit.len()) {
        let part = unit.slice(..unit.len().min((bytes - at) as usize));
        file.write_at(Io::SCAN, at, part, Durability::Cached).await?;
    }
    file.flush(Io::COMMIT).await?;
    // Its name keeps the file while it is not open.
    group.publish(&file, FILE, false).await?;
    drop(file);
    Ok(group.dismount().await?)
}

/// Mounts the group and opens its file.
pub(super) async fn open(
    env: &SharedEnv,
    device: &Arc<dyn Device>,
) -> Result<(Group, File), LabError> {
    let group = mount(env, device).await?;
    let file = group.open(FILE)?;
    Ok((group, file))
}

async fn mount(env: &SharedEnv, device: &Arc<dyn Device>) -> Result<Group, LabError> {
    let path = device.geometry().name.to_string();
    let found = vec![FoundDisk { device: Arc::clone(device), path }];
    let session = Waits::new().session("group LAB", Kind::Background);
    Ok(Group::mount(env, session, NAME, found, MountOptions::default()).await?)
}
