//! The disks that a mount can use, and whether the group is whole with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellar_io::SharedEnv;

use crate::disk::{Disk, DiskIdentity};
use crate::error::Error;
use crate::meta::found::Labelled;
use crate::meta::lineage::diverged;
use crate::meta::options::MountOptions;
use crate::on_disk::label::Redundancy;
use crate::refused::Refused;
use crate::state::{DiskStatus, FileState, GroupState, Op, Stale};

/// The disks of the group that are here.
#[derive(Default)]
pub(super) struct Here {
    /// By number.
    pub disks: BTreeMap<u16, Arc<Disk>>,
    /// Those that the state counts on and that are missing, or refused.
    pub missing: Vec<u16>,
    /// Those that are away, missed nothing, and are needed.
    pub current: Vec<u16>,
}

/// The disks that a mount begins without.
#[derive(Clone, Copy)]
pub(crate) struct Gone<'a> {
    /// Missing, or refused.
    pub missing: &'a [u16],
    /// Offline, and as they left: they are about to come back.
    pub current: &'a [u16],
}

/// What is known of the disks found.
pub(super) struct Found<'a> {
    pub env: &'a SharedEnv,
    pub name: &'a str,
    pub state: &'a GroupState,
    pub labelled: &'a [Labelled],
    pub refused: &'a BTreeMap<u16, Refused>,
}

impl Found<'_> {
    /// Picks the disks that can be used; refuses a group that is not whole with them.
    pub fn usable(&self, options: &MountOptions) -> Result<Here, Error> {
        let stale = options.rescue.as_ref().is_some_and(|rescue| rescue.stale);
        let mut here = self.matched(stale);
        if let Some(rescue) = options.rescue.as_ref().filter(|_| options.read_only) {
            let left_out = rescue.leave_out.iter().filter_map(|no| here.disks.get(no));
            left_out.for_each(|disk| disk.refuse(Refused::OutOfDate));
            self.take_current(&mut here, &|no| !rescue.leave_out.contains(&no));
            if stale {
                let rest = here.disks.values().filter(|d| d.is_alive() && !d.is_in_sync());
                rest.for_each(|disk| disk.caught_up());
            }
            let current = std::mem::take(&mut here.current);
            current.iter().filter_map(|no| here.disks.get(no)).for_each(|disk| disk.caught_up());
            return Ok(here);
        }
        let Err(refused) = self.check_complete(&here) else {
            // An interrupted mount counted on disks that it had not taken back yet.
            if self.state.clean && !self.without_copy(&here).is_empty() {
                self.take_current(&mut here, &|_| true);
            }
            return Ok(here);
        };
        self.take_current(&mut here, &|_| true);
        if self.check_complete(&here).is_ok() {
            return Ok(here);
        }
        // FORCE accepts an older image as it is if there is nothing newer.
        let mut here = self.matched(true);
        self.take_current(&mut here, &|_| true);
        self.check_complete(&here).map_err(|_| refused.clone())?;
        if !options.force {
            return Err(Error::NotProven {
                group: self.name.to_owned(),
                why: words_of(refused),
                members: self.state.members.len(),
            });
        }
        // Some extent is nowhere else; for all others the newer copy counts.
        let images = self.refused.keys().filter_map(|no| here.disks.get(no));
        images.filter(|disk| disk.is_in_sync()).for_each(|disk| disk.age());
        Ok(here)
    }

    /// The disks as the labels tell; with `images` also those that are of another time.
    fn matched(&self, images: bool) -> Here {
        let mut out = Here::default();
        for (no, d) in &self.state.disks {
            let Some(l) = self.labelled.iter().find(|l| l.label.disk == d.uuid) else {
                out.missing.extend(self.state.is_online(*no).then_some(*no));
                continue;
            };
            let identity = DiskIdentity {
                no: *no,
                uuid: d.uuid,
                name: d.name.clone(),
                failgroup: d.failgroup.clone(),
                path: l.found.path.clone(),
            };
            let device = Arc::clone(&l.found.device);
            let disk = Disk::new(identity, device, Arc::clone(self.env));
            let refused = self.refused.get(no).copied();
            let refused = refused.filter(|why| !images || !why.is_of_another_time());
            match (self.state.is_online(*no), refused) {
                (true, None) => {}
                (true, Some(why)) => {
                    disk.refuse(why);
                    out.missing.push(*no);
                }
                // For a disk that is away, only its return decides what it is.
                (false, Some(why @ Refused::CutOff { .. })) => disk.refuse(why),
                (false, _) => disk.left(),
            }
            out.disks.insert(*no, Arc::new(disk));
        }
        out
    }

    /// Takes disks that are away, and whose copies are shown to be what they are on the others.
    fn take_current(&self, here: &mut Here, may: &dyn Fn(u16) -> bool) {
        let away = self.state.disks.keys().filter(|no| may(**no) && self.is_current(**no));
        let away = away.filter(|no| here.disks.get(no).is_some_and(|disk| disk.is_alive()));
        here.current = away.copied().collect();
    }

    /// Whether a disk that is away is as it left, and missed nothing: the group was dismounted in
    /// order, and nothing that is on it was written since.
    fn is_current(&self, no: u16) -> bool {
        let Some(d) = self.state.disks.get(&no) else { return false };
        let returning = d.status == DiskStatus::Returning;
        let mapped = (returning || d.status == DiskStatus::Offline) && d.stale == Stale::Mapped;
        if !mapped || !self.state.clean || self.state.stale_pieces(no) > 0 {
            return false;
        }
        let Some(l) = self.labelled.iter().find(|l| l.label.disk == d.uuid) else { return false };
        let own = l.history();
        let later = own.as_ref().is_some_and(|own| own.refused.is_some());
        let ends = own.map(|own| own.end.epoch);
        let large_enough = l.found.device.geometry().size >= d.bytes;
        if returning {
            // A mount that took it back was cut off; its label is that of the mount.
            return large_enough && !later && !self.refused.contains_key(&no);
        }
        large_enough && !later && diverged(&d.offline, &l.label, ends).is_none()
    }

    /// Files of which something has no copy here.
    fn without_copy(&self, here: &Here) -> Vec<&FileState> {
        let in_sync = |disk: u16| here.disks.get(&disk).is_some_and(|d| d.is_in_sync());
        self.state.without_copy(&|disk| in_sync(disk) || here.current.contains(&disk))
    }

    /// Every mirrored extent must have a copy in sync here; an external group needs every disk that
    /// holds anything.
    fn check_complete(&self, here: &Here) -> Result<(), Error> {
        let Here { disks, missing, .. } = here;
        if missing.is_empty() {
            return Ok(());
        }
        let state = self.state;
        let external = state.header.redundancy == Redundancy::External;
        let lost = self.without_copy(here);
        let named = |no: &u16| {
            let name = &state.disks.get(no)?.name;
            Some(match disks.get(no).and_then(|d| Some((&d.path, d.refused()?))) {
                Some((path, why)) => format!("{name} ({path}: {why})"),
                None => format!("{name} (not found)"),
            })
        };
        let names: Vec<String> = missing.iter().filter_map(named).collect();
        let names = names.join(", ");
        if lost.is_empty() {
            return Ok(());
        }
        let why = match external {
            true => format!("without {names}; external redundancy keeps one copy"),
            false => format!("without {names} {} no whole copy", self.state.named_files(&lost)),
        };
        Err(Error::Incomplete { group: self.name.to_owned(), why })
    }
}

/// What is wrong with a group that is not whole, in words.
fn words_of(error: Error) -> String {
    match error {
        Error::Incomplete { why, .. } => why,
        other => other.to_string(),
    }
}

/// The note about files that are partly on older images alone, where FORCE continues with such
/// images.
pub(super) fn note_older(in_sync: &[Arc<Disk>], state: &GroupState, at_ns: u64) -> Option<Op> {
    in_sync.iter().find(|disk| disk.is_aged())?;
    let is_newer = |no| in_sync.iter().any(|disk| disk.no == no && !disk.is_aged());
    state.note_older(&state.without_copy(&is_newer), at_ns / 1_000_000_000)
}
