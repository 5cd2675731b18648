//! A disk group on the parts of disks under test.

use std::sync::Arc;
use std::time::Duration;

use cellar_diskgroup::{CreateGroup, FoundDisk, Group, MountOptions, NewDisk, Redundancy, create};
use cellar_io::{Device, EnvExt, SharedEnv};
use cellar_wait::{Kind, Waits};

use crate::error::LabError;
use crate::place::part::Part;

/// The time to wait for the group to finish its writes.
const QUIET_WITHIN: Duration = Duration::from_secs(30);

/// Creates a group of these parts, with sectors of 4096 bytes, and mounts it.
pub(crate) async fn mounted(
    env: &SharedEnv,
    parts: &[Arc<Part>],
    au_size: u64,
    redundancy: Redundancy,
) -> Result<Group, LabError> {
    let device = |part: &Arc<Part>| Arc::clone(part) as Arc<dyn Device>;
    let path = |part: &Arc<Part>| part.geometry().name.to_string();
    let new = parts.iter().map(|part| NewDisk {
        device: device(part),
        path: path(part),
        name: None,
        failgroup: None,
        size: None,
        force: false,
    });
    let spec = CreateGroup {
        name: "LAB".to_owned(),
        redundancy,
        au_size,
        sector_size: Some(4096),
        attributes: Default::default(),
        holds_catalog: false,
        disks: new.collect(),
    };
    for part in parts {
        part.wipe().await?;
    }
    create(env, spec).await?;
    let found = parts.iter().map(|p| FoundDisk { device: device(p), path: path(p) });
    let session = Waits::new().session("group LAB", Kind::Background);
    Ok(Group::mount(env, session, "LAB", found.collect(), MountOptions::default()).await?)
}

/// Waits until the group is idle, or for a limited time: its background work would otherwise be measured
/// with the first arm.
pub(crate) async fn settle(env: &SharedEnv, group: &Group) {
    let end = env.now().plus(QUIET_WITHIN);
    while group.resync().dirty_regions > 0 && env.now() < end {
        env.sleep(Duration::from_millis(100)).await;
    }
}
