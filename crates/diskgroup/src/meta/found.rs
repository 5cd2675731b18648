//! The disks that a mount is given: whose they are, and the metadata that each of them holds.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Device, SharedEnv};
use futures_util::future::join_all;

use crate::base::request_timeout::within;
use crate::error::Error;
use crate::meta::chain::{Chain, History};
use crate::meta::labels::read_labels;
use crate::on_disk::label::{Label, LabelStatus};
use crate::on_disk::{Damage, Uuid};

/// A disk that may belong to the group.
#[derive(Clone)]
pub struct FoundDisk {
    /// The disk, opened.
    pub device: Arc<dyn Device>,
    /// Its path.
    pub path: String,
}

/// A disk whose label is the group's.
pub(crate) struct Labelled {
    pub label: Label,
    pub found: FoundDisk,
    pub chain: Option<Chain>,
}

impl Labelled {
    /// The furthest history that the disk tells.
    pub fn history(&self) -> Option<History> {
        self.chain.as_ref()?.histories(self.label.group).into_iter().next()
    }
}

/// Reads the labels of `found` and keeps the disks of the group called `name`.
pub(crate) async fn disks_of(
    env: &SharedEnv,
    name: &str,
    found: Vec<FoundDisk>,
    timeout: Duration,
) -> Result<(Uuid, Vec<Labelled>), Error> {
    let mut labelled: Vec<Labelled> = Vec::new();
    let mut damage = None;
    let scans = found.iter().map(|disk| within(env, timeout, read_labels(&disk.device)));
    let scans = join_all(scans).await;
    for (disk, scan) in found.into_iter().zip(scans) {
        let scan = match scan {
            Some(Ok(scan)) => scan,
            // That says nothing about the disk.
            Some(Err(error)) if error.is_ours() => return Err(Error::Io(error)),
            // A disk that does not answer counts as absent.
            _ => continue,
        };
        match scan.newest() {
            Some(label) if label.group_name == name && label.status != LabelStatus::Former => {
                labelled.push(Labelled { label: label.clone(), found: disk, chain: None });
            }
            Some(_) => {}
            None => damage = damage.or(scan.damage().cloned().map(|d| (disk.path.clone(), d))),
        }
    }
    // An interrupted CREATE of the same name must not hide a whole group.
    let whole = |l: &&Labelled| (l.label.status == LabelStatus::Member, l.label.created_ns);
    let Some(group) = labelled.iter().max_by_key(whole).map(|l| l.label.group) else {
        let why = match damage {
            Some((path, d)) if !matches!(d, Damage::Blank) => {
                format!("no disk of it was found; the label of {path} cannot be read: {d}")
            }
            _ => "no disk of it was found".to_owned(),
        };
        return Err(Error::NotProven { group: name.to_owned(), why, members: 0 });
    };
    labelled.retain(|l| l.label.group == group);
    labelled.sort_by_key(|l| (l.label.disk_no, l.label.disk));
    if let Some(pair) = labelled.windows(2).find(|p| p[0].label.disk == p[1].label.disk) {
        return Err(Error::DiskUnusable {
            disk: pair[1].found.path.clone(),
            why: format!("it is the same disk as {}", pair[0].found.path),
            number: 15020,
        });
    }
    Ok((group, labelled))
}

/// Reads the metadata of every disk, of all at once.
///
/// # Errors
/// This process lacks what it needs to read.
pub(super) async fn read_chains(
    env: &SharedEnv,
    group: Uuid,
    labelled: &mut [Labelled],
    timeout: Duration,
) -> Result<(), Error> {
    let reads = labelled.iter().map(|l| {
        let chain = Chain::read(&l.found.device, group, l.label.disk);
        within(env, timeout, chain)
    });
    let chains = join_all(reads).await;
    for (l, chain) in labelled.iter_mut().zip(chains) {
        // A disk whose metadata cannot be read, or not in time, counts as one without metadata.
        l.chain = match chain {
            Some(Err(error)) if error.is_ours() => return Err(Error::Io(error)),
            chain => chain.and_then(Result::ok),
        };
    }
    Ok(())
}
