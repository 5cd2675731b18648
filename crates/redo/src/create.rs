//! Creation of a new log.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{DeviceExt, Durability, Io, SharedEnv};
use futures_util::future::try_join_all;

use crate::error::Error;
use crate::lsn::Abn;
use crate::on_disk::control::{ControlData, GroupEntry, MediumEntry};
use crate::on_disk::header::{MediumState, Quorum, capacity_of};
use crate::on_disk::{DatabaseId, HEADER_BYTES, MEDIA_MAX};
use crate::options::{Control, Medium};
use crate::writer::header_of;

/// A log group to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewGroup {
    /// Its number, from 1.
    pub number: u32,
    /// Size of each of its files in bytes.
    pub size: u64,
}

/// The parameters of a log to create.
pub struct CreateLog {
    /// The database that it belongs to.
    pub database: DatabaseId,
    /// 512 or 4096.
    pub block_size: u32,
    /// How many media must have a block before it is acknowledged.
    pub quorum: Quorum,
    /// Whether a group must be archived before it is written again.
    pub archiving: bool,
    /// At least 2.
    pub groups: Vec<NewGroup>,
    /// 1 to 8, each with a file for every group. The files should have been written once already: a
    /// write into a hole costs more.
    pub media: Vec<Medium>,
}

/// The smallest group, in blocks.
pub(crate) const GROUP_BLOCKS_MIN: u64 = 8;

impl CreateLog {
    fn check(&self) -> Result<(), Error> {
        let bad = |what, value, allowed: &str| {
            Err(Error::BadValue { what, value, allowed: allowed.to_owned() })
        };
        if self.block_size != 512 && self.block_size != 4096 {
            return bad("log block size", self.block_size.into(), "512 or 4096");
        }
        if !(1..=MEDIA_MAX).contains(&self.media.len()) {
            return bad("number of media", self.media.len() as u64, "1 to 8");
        }
        if self.groups.len() < 2 {
            return bad("number of groups", self.groups.len() as u64, "2 or more");
        }
        for (at, group) in self.groups.iter().enumerate() {
            if self.groups[..at].iter().any(|other| other.number == group.number) {
                return Err(Error::GroupExists { group: group.number });
            }
            if capacity_of(group.size, self.block_size) < GROUP_BLOCKS_MIN {
                return bad("group size", group.size, "room for 8 blocks between two headers");
            }
            for medium in &self.media {
                check_file(medium, group.number, group.size, self.block_size)?;
            }
        }
        Ok(())
    }
}

/// Refuses a file that is missing, too small, or whose sectors are larger than a block.
pub(crate) fn check_file(
    medium: &Medium,
    group: u32,
    size: u64,
    block_size: u32,
) -> Result<(), Error> {
    let file = medium.files.get(&group);
    let found = file.map_or(0, |file| file.geometry().size);
    if found < size {
        let medium = medium.name.clone();
        return Err(Error::FileSize { group, medium, found, expected: size });
    }
    let sector = file.map_or(0, |file| file.geometry().logical_sector);
    match sector > block_size {
        true => Err(Error::BlockSize { block_size, medium: medium.name.clone(), sector }),
        false => Ok(()),
    }
}

/// Creates a log: headers on all media, then the control data. The previous contents of the files
/// are lost.
///
/// # Errors
/// [`Error::BadValue`], [`Error::GroupExists`], [`Error::FileSize`], [`Error::BlockSize`];
/// [`Error::Io`] when a device fails.
#[boxed]
pub async fn create(
    _env: &SharedEnv,
    control: &Arc<dyn Control>,
    log: CreateLog,
) -> Result<(), Error> {
    log.check()?;
    let groups = log.groups.iter().map(|group| GroupEntry {
        number: group.number,
        capacity: capacity_of(group.size, log.block_size),
        size: group.size,
        sequence: 0,
        first: Abn(0),
    });
    let media = log
        .media
        .iter()
        .map(|medium| MediumEntry { name: medium.name.clone(), state: MediumState::Active });
    let data = ControlData {
        database: log.database,
        generation: 1,
        block_size: log.block_size,
        quorum: log.quorum,
        archiving: log.archiving,
        checkpoint: Abn(1).lsn(),
        checkpoint_chain: 0,
        durable: Abn(1),
        archived: 0,
        confirmed: 0,
        clean: None,
        media: media.collect(),
        groups: groups.collect(),
        incarnations: Vec::new(),
    };
    let mut writes = Vec::new();
    for (number, medium) in log.media.iter().enumerate() {
        for (place, group) in log.groups.iter().enumerate() {
            let Some(file) = medium.files.get(&group.number) else { continue };
            let header = header_of(&data, place, number, 0).encode();
            let header = Bytes::copy_from_slice(&header);
            let last = group.size - HEADER_BYTES as u64;
            writes.push(async move {
                file.write_at(Io::COMMIT, 0, header.clone(), Durability::Durable).await?;
                file.write_at(Io::COMMIT, last, header, Durability::Durable).await
            });
        }
    }
    try_join_all(writes).await?;
    control.store(data.encode()).await?;
    Ok(())
}
