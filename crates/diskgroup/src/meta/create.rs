//! CREATE DISKGROUP: labels that say "being created", the first checkpoint, labels that say
//! "member".
//!
//! Stopped before the first checkpoint is durable: every disk may be taken again without FORCE.
//! Stopped after: a disk with metadata of the group, or with a label that says member, is taken
//! with FORCE only; a mount finds a whole group and completes the labels before anything is written
//! to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use cellar_io::{Device, IoError, IoErrorKind, Op, SharedEnv};

use crate::base::request_timeout::RequestTimeout;
use crate::base::request_timeout::within;
use crate::disk::{Disk, DiskIdentity, FLUSH_TIMES};
use crate::error::Error;
use crate::meta::attributes::check_attributes;
use crate::meta::chain::has_metadata;
use crate::meta::checkpoint::{self, Target};
use crate::meta::labels::{blank_marks, read_labels_within, write_labels};
use crate::meta::rules::{self, Candidate};
use crate::names::{DiskName, FailGroupName, GroupName};
use crate::on_disk::checkpoint::encode;
use crate::on_disk::label::{Label, LabelStatus, Redundancy};
use crate::on_disk::layout::{AU_SIZE_MAX, AU_SIZE_MIN, BLOCK_U64, DISK_BYTES_MIN, au_count};
use crate::on_disk::superblock::{AuRun, LogPosition};
use crate::on_disk::{Damage, Uuid};
use crate::state::{DiskState, DiskStatus, GroupHeader, GroupState, Offline, Stale};

/// The smallest number of AUs on a disk: checksums, two checkpoint areas and one for data.
pub(crate) const AUS_MIN: u32 = 4;
/// A request unanswered for this long fails the creation, as it fails a disk of a mounted group.
const DISK_TIMEOUT: Duration = Duration::from_secs(30);

/// The parameters of a group to create.
#[derive(Clone)]
pub struct CreateGroup {
    /// The group's name.
    pub name: String,
    /// The default number of copies.
    pub redundancy: Redundancy,
    /// Allocation unit in bytes: 1, 2, 4, ... 64 MiB.
    pub au_size: u64,
    /// 512 or 4096; `None` takes the largest logical sector among the disks.
    pub sector_size: Option<u32>,
    /// Attributes to set at creation.
    pub attributes: BTreeMap<String, String>,
    /// Whether an instance keeps its catalog here.
    pub holds_catalog: bool,
    /// The disks.
    pub disks: Vec<NewDisk>,
}

/// A disk for a new group.
#[derive(Clone)]
pub struct NewDisk {
    /// The disk, opened for writing.
    pub device: Arc<dyn Device>,
    /// Its path, for messages.
    pub path: String,
    /// Its name; `None` takes `GROUP_0000` and so on.
    pub name: Option<String>,
    /// Its failure group; `None` makes it one of its own.
    pub failgroup: Option<String>,
    /// The bytes to use, if fewer than it has.
    pub size: Option<u64>,
    /// FORCE: take the disk even if it carries another group's label.
    pub force: bool,
}

/// The identity of a disk of a group, without the mounts that used it.
pub(crate) fn label_of(
    header: &GroupHeader,
    no: u16,
    disk: &DiskState,
    holds_catalog: bool,
) -> Label {
    Label {
        features: 0,
        generation: 0,
        group: header.uuid,
        disk: disk.uuid,
        disk_no: no,
        status: LabelStatus::Member,
        redundancy: header.redundancy,
        au_size: header.au_size,
        sector_size: header.sector_size,
        disk_bytes: disk.bytes,
        created_ns: header.created_ns,
        group_name: header.name.clone(),
        disk_name: disk.name.clone(),
        failgroup: disk.failgroup.clone(),
        holds_catalog,
        mount_ids: [0, 0],
    }
}

/// A new disk that is acceptable.
pub(crate) struct Planned {
    pub disk: NewDisk,
    pub no: u16,
    pub name: String,
    pub failgroup: String,
    pub bytes: u64,
    pub uuid: Uuid,
}

impl Planned {
    /// The disk as the metadata has it when it joins. AU 0 holds checksums; 1 and 2 are for
    /// checkpoints, on every disk: a disk of a full group must still be able to take over from a
    /// member that fails.
    pub fn state(&self, created_ns: u64) -> DiskState {
        DiskState {
            uuid: self.uuid,
            name: self.name.clone(),
            failgroup: self.failgroup.clone(),
            bytes: self.bytes,
            status: DiskStatus::Online,
            stale: Stale::Nothing,
            offline_ns: 0,
            created_ns,
            areas: [1, 2].map(|start| vec![AuRun { start, count: 1 }]),
            shrink_to: 0,
            offline: Offline::default(),
        }
    }

    /// What stands on the disk itself.
    pub fn label(&self, header: &GroupHeader, status: LabelStatus, holds_catalog: bool) -> Label {
        let state = self.state(header.created_ns);
        Label { status, ..label_of(header, self.no, &state, holds_catalog) }
    }

    /// The disk as a mounted group uses it.
    pub fn opened(&self, env: &SharedEnv) -> Disk {
        let identity = DiskIdentity {
            no: self.no,
            uuid: self.uuid,
            name: self.name.clone(),
            failgroup: self.failgroup.clone(),
            path: self.disk.path.clone(),
        };
        Disk::new(identity, Arc::clone(&self.disk.device), Arc::clone(env))
    }
}

/// A disk whose logical sector is larger than the group's cannot join it.
pub(crate) fn check_sector(
    device: &Arc<dyn Device>,
    path: &str,
    sector_size: u32,
) -> Result<(), Error> {
    let has = device.geometry().logical_sector;
    if has <= sector_size {
        return Ok(());
    }
    Err(Error::DiskUnusable {
        disk: path.to_owned(),
        why: format!("its logical sector is {has} bytes, larger than the group's {sector_size}"),
        number: 15038,
    })
}

pub(crate) fn new_uuid(env: &SharedEnv) -> Uuid {
    Uuid(u128::from(env.random()) << 64 | u128::from(env.random()))
}

fn bad(what: &'static str, value: impl ToString, allowed: &str) -> Error {
    Error::BadValue { what, value: value.to_string(), allowed: allowed.to_owned() }
}

/// Creates a group on disks that nobody uses. It is not mounted.
///
/// # Errors
/// A name, size or disk that will not do, before anything is written; or a disk that fails.
#[boxed]
pub async fn create(env: &SharedEnv, spec: CreateGroup) -> Result<(), Error> {
    let name = GroupName::new(&spec.name)
        .map_err(|e| Error::BadName { name: spec.name.clone(), why: e.to_string() })?;
    let legal =
        spec.au_size.is_power_of_two() && (AU_SIZE_MIN..=AU_SIZE_MAX).contains(&spec.au_size);
    if !legal {
        return Err(bad("AU size", spec.au_size, "1M, 2M, 4M, 8M, 16M, 32M or 64M"));
    }
    let sector = sector_size(&spec)?;
    check_attributes(&spec.attributes)?;
    let planned = plan(env, &name, &spec)?;
    let request_timeout = RequestTimeout::new(env, DISK_TIMEOUT);
    for p in &planned {
        check_label(p, request_timeout).await?;
    }
    let header = GroupHeader {
        uuid: new_uuid(env),
        name: name.as_str().to_owned(),
        redundancy: spec.redundancy,
        au_size: u32::try_from(spec.au_size).expect("at most 64 MiB"),
        sector_size: sector,
        created_ns: env.wall().unix_nanos,
    };
    write_all(env, header, &spec, &planned).await
}

fn sector_size(spec: &CreateGroup) -> Result<u32, Error> {
    let largest = spec.disks.iter().map(|d| d.device.geometry().logical_sector).max();
    let largest = largest.unwrap_or(512);
    let sector = spec.sector_size.unwrap_or(largest);
    if sector != 512 && sector != 4096 {
        return Err(bad("sector size", sector, "512 or 4096"));
    }
    let too_coarse = spec.disks.iter().find(|d| d.device.geometry().logical_sector > sector);
    match too_coarse {
        None => Ok(sector),
        Some(disk) => Err(Error::DiskUnusable {
            disk: disk.path.clone(),
            why: format!(
                "its logical sector is {} bytes, larger than the group's {sector}; \
                 create the group with sector size 4096",
                disk.device.geometry().logical_sector
            ),
            number: 15038,
        }),
    }
}

fn plan(env: &SharedEnv, group: &GroupName, spec: &CreateGroup) -> Result<Vec<Planned>, Error> {
    let disks = (0u16..).zip(&spec.disks);
    let planned = plan_disks(env, group, spec.au_size, disks, BTreeSet::new())?;
    let failgroups: BTreeSet<&str> = planned.iter().map(|p| p.failgroup.as_str()).collect();
    let needed = usize::from(spec.redundancy.copies());
    if failgroups.len() < needed {
        return Err(Error::FailGroups {
            redundancy: spec.redundancy.name(),
            needed,
            found: failgroups.len(),
        });
    }
    Ok(planned)
}

/// Checks names and sizes of new disks of a group in which `names` are taken.
pub(crate) fn plan_disks<'a>(
    env: &SharedEnv,
    group: &GroupName,
    au_size: u64,
    disks: impl Iterator<Item = (u16, &'a NewDisk)>,
    mut names: BTreeSet<DiskName>,
) -> Result<Vec<Planned>, Error> {
    let mut planned = Vec::new();
    for (no, disk) in disks {
        let wrong = |name: &str, why: String| Error::BadName { name: name.to_owned(), why };
        let name = match &disk.name {
            Some(name) => DiskName::new(name).map_err(|e| wrong(name, e.to_string()))?,
            None => DiskName::numbered(group, no),
        };
        if !names.insert(name.clone()) {
            let disk = name.as_str().to_owned();
            let why = "a disk of the group has that name already".to_owned();
            return Err(Error::DiskUnusable { disk, why, number: 15010 });
        }
        let failgroup = match &disk.failgroup {
            Some(f) => FailGroupName::new(f).map_err(|e| wrong(f, e.to_string()))?,
            None => FailGroupName::from(&name),
        };
        let size = disk.device.geometry().size / BLOCK_U64 * BLOCK_U64;
        let bytes = disk.size.map_or(size, |s| s / BLOCK_U64 * BLOCK_U64);
        let unusable =
            |why: String, number| Error::DiskUnusable { disk: disk.path.clone(), why, number };
        if bytes > size {
            return Err(unusable(format!("it has {size} bytes, SIZE asks for {bytes}"), 15036));
        }
        if bytes < DISK_BYTES_MIN || au_count(bytes, au_size) < AUS_MIN {
            let least = DISK_BYTES_MIN.max(u64::from(AUS_MIN) * au_size + (9 << 20));
            let (mb, least) = (bytes >> 20, least.div_ceil(1 << 20));
            let why = format!("it has {mb} MB, at least {least} are needed with this AU size");
            return Err(unusable(why, 15036));
        }
        planned.push(Planned {
            disk: disk.clone(),
            no,
            name: name.as_str().to_owned(),
            failgroup: failgroup.as_str().to_owned(),
            bytes,
            uuid: new_uuid(env),
        });
    }
    Ok(planned)
}

/// Checks that nobody's data is on a new disk, or that FORCE was given.
pub(crate) async fn check_label(
    p: &Planned,
    request_timeout: RequestTimeout<'_>,
) -> Result<(), Error> {
    let unusable =
        |why: String, number| Error::DiskUnusable { disk: p.disk.path.clone(), why, number };
    let device = &p.disk.device;
    let found = read_labels_within(device, request_timeout).await?;
    let free = match found.newest() {
        Some(label) if label.status == LabelStatus::Former => true,
        Some(label) => {
            let is_member = label.status == LabelStatus::Member;
            // A CREATE that was cut off: was it early, or is all of its metadata there?
            let is_whole = is_member || {
                let slots = has_metadata(device, label.group, label.disk);
                request_timeout.wait(device, Op::Read, slots).await?
            };
            if is_whole && !p.disk.force {
                let cut_off = if is_member { "" } else { ", whose creation was cut off" };
                let why = format!(
                    "it belongs to disk group \"{}\" as \"{}\"{cut_off}",
                    label.group_name, label.disk_name
                );
                return Err(unusable(why, 15033));
            }
            if is_whole {
                return Ok(());
            }
            true
        }
        None => !matches!(
            found.damage(),
            Some(Damage::Version { .. } | Damage::Features { .. } | Damage::Checksum)
        ),
    };
    if free && p.disk.force {
        return Err(Error::ForceNotNeeded { disk: p.disk.path.clone() });
    }
    if !free && !p.disk.force {
        let damage = found.damage().map(ToString::to_string).unwrap_or_default();
        return Err(unusable(format!("it carries a Cellar label, but {damage}"), 15033));
    }
    Ok(())
}

async fn write_all(
    env: &SharedEnv,
    header: GroupHeader,
    spec: &CreateGroup,
    planned: &[Planned],
) -> Result<(), Error> {
    // As if a mount had come before: an image taken before the first mount is detected too.
    let mount_id = env.random();
    let label = |p: &Planned, status| Label {
        mount_ids: [mount_id, 0],
        ..p.label(&header, status, spec.holds_catalog)
    };
    let request_timeout = RequestTimeout::new(env, DISK_TIMEOUT);
    for p in planned {
        blank_marks(&p.disk.device, request_timeout).await?;
        write_labels(&p.disk.device, &label(p, LabelStatus::Creating), request_timeout).await?;
    }
    write_metadata(env, &header, spec, planned, mount_id).await?;
    for p in planned {
        write_labels(&p.disk.device, &label(p, LabelStatus::Member), request_timeout).await?;
    }
    Ok(())
}

/// The first checkpoint, on every member of the metadata set.
async fn write_metadata(
    env: &SharedEnv,
    header: &GroupHeader,
    spec: &CreateGroup,
    planned: &[Planned],
    mount_id: u64,
) -> Result<(), Error> {
    let candidates: Vec<Candidate> = (0u16..)
        .zip(planned)
        .map(|(disk, p)| Candidate { disk, failgroup: p.failgroup.clone() })
        .collect();
    let members = rules::choose(header.redundancy, &[], &candidates);
    let disks: BTreeMap<u16, DiskState> =
        (0u16..).zip(planned).map(|(no, p)| (no, p.state(header.created_ns))).collect();
    let au_size = u64::from(header.au_size);
    let mut state = GroupState::new(header.clone(), disks, members.clone());
    state.attributes = spec.attributes.clone();
    let position = LogPosition { lsn: 0, previous_crc: 0, previous_mount: mount_id, epoch: 1 };
    let encoded = encode(header.uuid, position.lsn, &state.encode());
    for no in &members {
        let disk = planned[usize::from(*no)].opened(env);
        let target = Target {
            disk: &disk,
            group: header.uuid,
            au_size,
            area: 0,
            runs: &state.disks[no].areas[0],
            generation: 1,
        };
        let written = checkpoint::write(&target, &encoded, position);
        within(env, DISK_TIMEOUT * FLUSH_TIMES, written).await.unwrap_or_else(|| {
            let after_ms = DISK_TIMEOUT.as_millis() as u64;
            let name = &disk.device().geometry().name;
            Err(IoError::new(IoErrorKind::Timeout { after_ms }, name, Op::Write, 0, 0))
        })?;
    }
    Ok(())
}
