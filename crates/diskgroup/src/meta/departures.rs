//! Departures of failed disks: they leave the group by a committed epoch, unless something would lose
//! its last copy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_io::IoError;

use crate::data::Data;
use crate::data::unflushed_history::UnflushedHistory;
use crate::disk::{Disk, lock};
use crate::meta::commit::{Committer, Fatal, apply_all};
use crate::meta::rules;
use crate::state::{DiskStatus, FileState, GroupState, Leg, OfflineBy, Op};

impl Committer {
    /// Disks that take part by the committed epoch and no longer answer.
    pub(super) fn failed_disks(&self) -> Vec<u16> {
        self.data.disks_taking_part().iter().filter(|d| !d.is_alive()).map(|d| d.no).collect()
    }

    /// Takes failed disks out by a committed epoch, then brings the metadata set back to size.
    /// Returns whether any disk left.
    pub(super) async fn take_out_failed(&mut self) -> Result<bool, Fatal> {
        // These very disks: their numbers may be reused by the time they have left.
        let failing = |data: &Data| -> Vec<Arc<Disk>> {
            data.disks_taking_part().into_iter().filter(|d| !d.is_alive()).collect()
        };
        let mut gone = failing(&self.data);
        if gone.is_empty() {
            return Ok(false);
        }
        let mut failed: Vec<u16>;
        loop {
            failed = gone.iter().map(|d| d.no).collect();
            self.check_survivable(&failed)?;
            for no in &failed {
                self.forget_member(*no);
            }
            let left: Vec<u16> = self.members.keys().copied().collect();
            if !rules::may_go_on(&self.committed, &left) {
                let why = self.lost_words(&failed);
                return Err(Fatal(format!("too few metadata disks are left: {why}")));
            }
            let payload = self.offline_ops(&failed, &left);
            self.write_set(&payload, left).await?;
            let again = failing(&self.data);
            if again.len() == gone.len() {
                break;
            }
            gone = again;
        }
        self.data.lost_unflushed(&failed);
        for disk in &gone {
            if let Some(well) = disk.lost_since() {
                self.data.unflushed.left(disk.no, well);
            }
        }
        UnflushedHistory::start_to_record(&self.data);
        for disk in &gone {
            disk.left();
            self.data.checksums.forget_disk(disk.no);
        }
        self.data.listeners.tell(|listener| listener.left(&failed));
        self.data.log.moved.notify(usize::MAX);
        self.regrow().await?;
        self.confirm();
        Ok(true)
    }

    /// Queues a record that changes nothing: whoever finds it knows that the change of the set
    /// before it was committed (see [`rules::is_proven_change`]). Only while disks that missed nothing
    /// are taken back is a mounted group clean, and has to stay so: they are proven by that.
    pub(super) fn confirm(&self) {
        let mut core = lock(&self.data.core);
        let clean = core.state.clean && !self.data.is_dismounting();
        let queued = core.enqueue(&[Op::Clean { clean }]);
        queued.expect("it fits every state");
    }

    fn lost_words(&self, failed: &[u16]) -> String {
        let words: Vec<String> = failed
            .iter()
            .filter_map(|no| self.data.disk(*no))
            .map(|disk| match disk.failure() {
                Some(why) => format!("{} ({why})", disk.name),
                None => disk.name.clone(),
            })
            .collect();
        words.join(", ")
    }

    /// A group that would lose the last copy of anything mirrored stops instead: when the disk
    /// comes back nothing is lost. An external group needs every disk that holds anything.
    ///
    /// A resource that this process lacked says nothing about a disk: no disk leaves for that.
    pub(super) fn check_survivable(&self, failed: &[u16]) -> Result<(), Fatal> {
        let is_ours = |disk: &Arc<Disk>| disk.failure().is_some_and(IoError::is_ours);
        if let Some(no) = failed.iter().find(|no| self.data.disk(**no).is_some_and(|d| is_ours(&d)))
        {
            let why = self.lost_words(&[*no]);
            return Err(Fatal(format!("{why}; that is no fault of the disk, which stays in")));
        }
        let core = lock(&self.data.core);
        let state = &core.state;
        let external = state.header.redundancy == crate::on_disk::label::Redundancy::External;
        let alive = |disk: u16| state.is_online(disk) && !failed.contains(&disk);
        let lost = state.files.values().find(|f| {
            (external || f.attributes.copies > 1)
                && !f.attributes.is_medium_of_a_log()
                && f.legs
                    .chunks(f.attributes.copies.into())
                    .any(|legs| !legs.iter().any(|leg| alive(leg.disk)))
        });
        let number = lost.map(|f| f.number);
        drop(core);
        match number {
            Some(file) => Err(Fatal(format!(
                "file {file} would lose its last copy with {}",
                self.lost_words(failed)
            ))),
            None => Ok(()),
        }
    }

    /// Applies the departure and encodes it. The queue is not touched: its order relative to this
    /// record does not matter. No queued change speaks of who takes part; read back behind this
    /// record, a first write that was queued before it counts as missed, which is one copy too many.
    fn offline_ops(&self, failed: &[u16], left: &[u16]) -> Vec<u8> {
        let at_ns = self.data.env.wall().unix_nanos;
        let mut core = lock(&self.data.core);
        let mut ops = vec![Op::Epoch { epoch: core.state.epoch + 1 }];
        let wanted = |no: u16| self.data.disk(no).is_some_and(|disk| disk.left_as_wanted());
        let by = |no: u16| if wanted(no) { OfflineBy::Command } else { OfflineBy::Itself };
        let mount_id = self.data.mount_id;
        let tried = self.data.end_life.load(Ordering::SeqCst);
        ops.extend(failed.iter().map(|no| Op::DiskOfflineBy {
            disk: *no,
            at_ns,
            mount_id,
            tried,
            by: by(*no),
        }));
        ops.push(Op::Members { members: left.to_vec() });
        let payload = apply_all(&mut core.state, &ops);
        for disk in failed {
            core.space.set_online(*disk, false);
        }
        // Moves to it would lack all writes while the disk is away.
        core.moving.retain(|_, moving| !failed.contains(&moving.to.disk));
        // What one of them still had to give away is to come from other copies now.
        if core.state.disks.values().any(|d| d.status == DiskStatus::Forcing) {
            self.data.listeners.tell(|listener| listener.has_to_move());
        }
        payload
    }
}

/// The first file that has an extent in sync on those disks alone, temporary ones aside.
pub(super) fn only_on(state: &GroupState, disks: &[u16]) -> Option<String> {
    let alone = |f: &&FileState| {
        let here = |l: &Leg| state.is_online(l.disk) && disks.contains(&l.disk);
        let elsewhere = |l: &Leg| state.is_online(l.disk) && !disks.contains(&l.disk);
        let mut sets = f.legs.chunks(f.attributes.copies.into());
        let counts = !f.temporary && !f.attributes.is_medium_of_a_log();
        counts && sets.any(|legs| legs.iter().any(here) && !legs.iter().any(elsewhere))
    };
    state.files.values().find(alone).map(|file| state.name_of(file))
}
