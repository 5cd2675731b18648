//! The standing of each medium before any block is read: present, stale, failed or missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{Device, DeviceExt, Io, SharedEnv};
use futures_util::future::{Either, join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::create::check_file;
use crate::error::Error;
use crate::on_disk::control::{ControlData, GroupEntry};
use crate::on_disk::header::GroupHeader;
use crate::on_disk::{Damage, HEADER_BYTES};
use crate::options::Medium;
use crate::recovery::read::{Files, LAST};

/// How far a medium is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has everything that it was given.
    Whole,
    /// It is there but missed the last opening: what it lacks proves nothing.
    Stale,
    /// The control data says that it failed: not read.
    Failed,
    /// It failed and is to return: it is never trusted, and what it lacks is written to it.
    Returning,
    /// It is absent, its headers cannot be read, or its files are not the ones that belong here.
    Missing,
}

impl Standing {
    /// The standing of a medium that does not answer.
    pub fn unanswered(self) -> Standing {
        match self {
            Standing::Whole | Standing::Stale | Standing::Missing => Standing::Missing,
            // It was not trusted in the first place.
            Standing::Returning | Standing::Failed => Standing::Failed,
        }
    }
}

/// A medium as it was found.
pub(crate) struct Judged {
    pub standing: Standing,
    /// Its files, also where they are not read.
    pub files: Files,
    /// Headers that were damaged in one copy or both.
    pub bad_headers: u32,
    /// Groups, by place, whose second copy is damaged: that copy is rewritten first, because the
    /// other one is the only good one.
    pub bad_second: Vec<usize>,
    /// Why it is not used although it is here: [`Error::Foreign`], [`Error::FileSize`] or
    /// [`Error::BlockSize`].
    pub refused: Option<Error>,
}

/// Judges every medium that the control data lists. A medium whose files do not belong here counts
/// as missing: the others may be enough.
///
/// # Errors
/// [`Error::NoMedium`] for a medium that it does not know; [`Error::ControlOld`].
pub(crate) async fn judge(
    control: &ControlData,
    given: &[Medium],
    returning: &[String],
    env: &SharedEnv,
    read_timeout: Duration,
) -> Result<Vec<Judged>, Error> {
    if let Some(unknown) = returning.iter().find(|r| control.media.iter().all(|m| m.name != **r)) {
        return Err(Error::NoMedium { medium: unknown.clone() });
    }
    if let Some(unknown) = given.iter().find(|g| control.media.iter().all(|m| m.name != g.name)) {
        return Err(Error::NoMedium { medium: unknown.name.clone() });
    }
    let media = 0..control.media.len();
    let mut open: FuturesUnordered<_> = media
        .clone()
        .map(|number| async move { (number, judge_one(control, number, given, returning).await) })
        .collect();
    let mut all: BTreeMap<usize, Judged> = BTreeMap::new();
    let start = env.now();
    let (soon, last) = (start.plus(read_timeout), start.plus(read_timeout * LAST));
    let mut answered = false;
    while !open.is_empty() {
        // As with blocks: somebody must answer, so there is more time.
        let limit = if answered { soon } else { last };
        let Either::Left((Some((number, judged)), _)) =
            select(open.next(), env.sleep_until(limit)).await
        else {
            break;
        };
        let judged = judged?;
        answered |= matches!(judged.standing, Standing::Whole | Standing::Stale);
        all.insert(number, judged);
    }
    let unanswered = |number| absent(control, number, files_of(control, number, given).1);
    Ok(media.map(|n| all.remove(&n).unwrap_or_else(|| unanswered(n))).collect())
}

/// What is given of a medium, and its files by place of the group.
fn files_of<'a>(
    control: &ControlData,
    number: usize,
    given: &'a [Medium],
) -> (Option<&'a Medium>, Files) {
    let name = &control.media[number].name;
    let medium = given.iter().find(|medium| medium.name == *name);
    let file = |number: u32| medium.and_then(|medium| medium.files.get(&number).cloned());
    (medium, control.groups.iter().map(|group| file(group.number)).collect())
}

/// A medium that is absent. One that is known to have failed is not counted as missing.
fn absent(control: &ControlData, number: usize, files: Files) -> Judged {
    let standing = match control.media[number].state.is_active() {
        true => Standing::Missing,
        false => Standing::Failed,
    };
    Judged { standing, files, bad_headers: 0, bad_second: Vec::new(), refused: None }
}

async fn judge_one(
    control: &ControlData,
    number: usize,
    given: &[Medium],
    returning: &[String],
) -> Result<Judged, Error> {
    let entry = &control.media[number];
    let (medium, files) = files_of(control, number, given);
    let Some(medium) = medium.filter(|_| files.iter().all(Option::is_some)) else {
        return Ok(absent(control, number, files));
    };
    let check =
        |group: &GroupEntry| check_file(medium, group.number, group.size, control.block_size);
    if let Err(error) = control.groups.iter().try_for_each(check) {
        return Ok(Judged { refused: Some(error), ..absent(control, number, files) });
    }
    if !entry.state.is_active() {
        let standing = match returning.contains(&entry.name) {
            true => Standing::Returning,
            false => Standing::Failed,
        };
        return Ok(Judged { standing, ..absent(control, number, files) });
    }
    let found = join_all(files.iter().zip(&control.groups).map(|(file, group)| {
        let file = file.clone().expect("absent files were sorted out above");
        async move { read_headers(&*file, group.size).await }
    }));
    let (mut newest, mut bad_headers, mut seen) = (0, 0, 0);
    let (mut bad_second, mut refused) = (Vec::new(), None);
    for (place, (group, found)) in control.groups.iter().zip(found.await).enumerate() {
        bad_headers += found.bad;
        bad_second.extend(found.bad_second.then_some(place));
        let Some(header) = found.header else { continue };
        seen += 1;
        let identity = check_identity(control, group.number, number, &header);
        if header.database != control.database {
            refused = refused.or(identity.err());
            continue;
        }
        newest = newest.max(header.incarnation);
        let known = control.incarnation().number;
        // An opening that was cut off may have written headers of the number that is next.
        if header.incarnation > known || header.generation > control.generation {
            let (medium, found) = (entry.name.clone(), header.incarnation);
            return Err(Error::ControlOld { medium, found, known });
        }
        refused = refused.or(identity.err());
    }
    let standing = match seen {
        _ if refused.is_some() => Standing::Missing,
        0 => Standing::Missing,
        _ if newest < control.confirmed => Standing::Stale,
        _ => Standing::Whole,
    };
    Ok(Judged { standing, files, bad_headers, bad_second, refused })
}

/// The headers of one file.
struct Found {
    /// The newest copy that is whole.
    header: Option<GroupHeader>,
    /// Copies that are not.
    bad: u32,
    /// The one at the end is not.
    bad_second: bool,
}

async fn read_headers(file: &dyn Device, size: u64) -> Found {
    let mut found = Found { header: None, bad: 0, bad_second: false };
    for offset in [0, size - HEADER_BYTES as u64] {
        let read = file.read_at(Io::FOREGROUND, offset, HEADER_BYTES).await;
        let header = read.map_err(|_| Damage::Checksum).and_then(|b| GroupHeader::decode(&b));
        match header {
            Ok(header) => {
                let newer = found.header.as_ref().is_none_or(|h| h.generation < header.generation);
                if newer {
                    found.header = Some(header);
                }
            }
            Err(_) => {
                found.bad += 1;
                found.bad_second = offset > 0;
            }
        }
    }
    found
}

fn check_identity(
    control: &ControlData,
    group: u32,
    medium: usize,
    header: &GroupHeader,
) -> Result<(), Error> {
    let what = if header.database != control.database {
        "another database"
    } else if header.group != group {
        "another group"
    } else if usize::from(header.medium) != medium {
        "another medium"
    } else if header.block_size != control.block_size {
        "another block size"
    } else {
        return Ok(());
    };
    Err(Error::Foreign { group, medium: control.media[medium].name.clone(), what })
}

/// The device of a medium that is asked for by place of the group.
pub(crate) fn device(files: &Files, group: usize) -> Arc<dyn Device> {
    files[group].clone().expect("a medium that is used has a file in each group")
}
