//! The committer: one task that writes the metadata log, takes failed disks out, and writes
//! checkpoints. Everything that changes what is on the metadata disks happens here, one thing
//! after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::future::join_all;

use crate::base::core::{Batch, LogRoom};
use crate::base::log::{MakeOps, Request, Wanted};
use crate::codec::Writer;
use crate::data::Data;
use crate::data::dirty_log::DirtyLog;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::meta::checkpoint::{self, Target};
use crate::meta::departures::only_on;
use crate::meta::labels::relabel;
use crate::meta::ring::{clear_ring, write_to_ring};
use crate::meta::rules::{self, Candidate};
use crate::meta::usable::{Gone, note_older};
use crate::on_disk::checkpoint::{EncodedCheckpoint, encode};
use crate::on_disk::label::LabelStatus;
use crate::on_disk::layout::{BLOCK_U64, LOG_BLOCKS, LOG_CHECKPOINT_AT, RECORD_BLOCKS_MAX};
use crate::on_disk::record;
use crate::on_disk::superblock::LogPosition;
use crate::state::{DiskStatus, GroupState, OfflineBy, Op};

/// What the committer knows of the metadata on one disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberState {
    /// Where its newest superblock says the log begins.
    pub log_start: u64,
    /// Generation of its newest superblock.
    pub generation: u64,
    /// The checkpoint area that superblock names.
    pub area: u8,
}

/// A member that lacks the end of the newest history.
pub(crate) struct Lagging {
    pub no: u16,
    pub member: MemberState,
    /// The records it lacks: where in the endless log, and their bytes.
    pub lacks: Vec<(u64, Bytes)>,
}

/// The task's own state.
pub(crate) struct Committer {
    pub(super) data: Arc<Data>,
    position: LogPosition,
    /// The disks that get every record: the newest set, committed or not yet.
    pub(super) members: BTreeMap<u16, MemberState>,
    /// The committed set; until the first record of a mount is written everywhere, each set that may
    /// be committed (see [`rules::may_go_on`]).
    pub(super) committed: Vec<Vec<u16>>,
    /// The newest superblocks of disks that are not members now: generation, and the checkpoint
    /// area that it names.
    generations: BTreeMap<u16, (u64, u8)>,
    /// Blocks of the log that were in use when a checkpoint last could not be written; else 0.
    tried_at: u64,
    /// The id of a mount that was cut off before its first record, as far as labels tell.
    pub tried_life: u64,
}

/// Blocks of the log after which a checkpoint for which there was no room is tried again.
const TRY_AGAIN_AFTER: u64 = 4;

/// Stops the group when the committer ends in any way but cleanly: nobody else would notify those who
/// wait for it.
struct StopUnlessEnded {
    data: Arc<Data>,
    in_order: bool,
}

impl Drop for StopUnlessEnded {
    fn drop(&mut self) {
        if !self.in_order {
            self.data.stop("the metadata log task ended");
        }
    }
}

/// The group cannot go on.
pub(super) struct Fatal(pub String);

impl Committer {
    pub fn new(
        data: Arc<Data>,
        position: LogPosition,
        members: BTreeMap<u16, MemberState>,
        committed: Vec<Vec<u16>>,
        generations: BTreeMap<u16, (u64, u8)>,
    ) -> Committer {
        for (no, member) in &members {
            data.disk(*no).into_iter().for_each(|d| d.wrote_superblock(member.generation));
        }
        Committer { data, position, members, committed, generations, tried_at: 0, tried_life: 0 }
    }

    /// Brings members that lag behind the newest history up to date, before anything is written
    /// that they would lack: each gets the records it has not, as they are. A disk that fails
    /// meanwhile stays behind; the new epoch goes without it.
    pub async fn catch_up(&mut self, lagging: Vec<Lagging>) {
        for Lagging { no, member, lacks } in lagging {
            let disk = self.disk(no);
            if write_to_ring(&disk, &lacks).await.is_ok() {
                disk.wrote_superblock(member.generation);
                self.members.insert(no, member);
            }
        }
    }

    /// Whether the first record may be written with no other members than those of `disks`.
    pub fn may_go_on_with(&self, disks: &BTreeSet<u16>) -> bool {
        let left = self.members.keys().copied().filter(|no| disks.contains(no));
        rules::may_go_on(&self.committed, &left.collect::<Vec<_>>())
    }

    /// The disks that the first record takes out: those that are missing, and those that could not be
    /// marked as used by this mount.
    pub fn with_unmarked(&self, mut missing: Vec<u16>) -> Result<Vec<u16>, String> {
        let failed = self.failed_disks();
        missing.extend(failed.iter().filter(|no| !missing.contains(no)).collect::<Vec<_>>());
        if !failed.is_empty() {
            self.check_survivable(&missing).map_err(|Fatal(why)| why)?;
        }
        Ok(missing)
    }

    /// The first record of a mount: a new epoch, without the disks that are missing. With `force`
    /// the members that are here go on, however few they are. Where disks that are away are about to
    /// come back the group stays as clean as it is.
    pub async fn new_epoch(&mut self, gone: Gone<'_>, force: bool) -> Result<(), String> {
        let Gone { missing, current } = gone;
        for no in self.failed_disks() {
            self.forget_member(no);
        }
        let members: Vec<u16> = self.members.keys().copied().collect();
        if force && !rules::may_go_on(&self.committed, &members) {
            self.committed.clear();
        }
        if !rules::may_go_on(&self.committed, &members) {
            let of = self.committed.iter().map(Vec::len).max().unwrap_or(0);
            return Err(format!("only {} of {of} metadata disks can be written", members.len()));
        }
        let at_ns = self.data.env.wall().unix_nanos;
        let mount_id = self.position.previous_mount;
        // One that could not be marked whole may have the mark of this mount.
        let failed = self.failed_disks();
        let tried_by =
            |no: &u16| if failed.contains(no) { self.data.mount_id } else { self.tried_life };
        let forced = self.committed.is_empty();
        let payload = {
            let mut core = lock(&self.data.core);
            let mut ops = vec![Op::Epoch { epoch: core.state.epoch + 1 }];
            // Nothing is known about an older image, or about what other disks may know.
            let is_known = |no: &u16| {
                !forced && self.data.disk(*no).is_none_or(|disk| disk.refused().is_none())
            };
            let by = OfflineBy::Itself;
            let disks = core.state.disks.iter();
            let away = |status| matches!(status, DiskStatus::Offline | DiskStatus::Returning);
            ops.extend(disks.filter(|(_, d)| away(d.status)).filter_map(|(no, d)| {
                let disk = *no;
                match d.status {
                    // As this history sees it, it is as it left.
                    DiskStatus::Offline if current.contains(no) => None,
                    // FORCE may have gone back to before that was recorded.
                    _ if forced && !current.contains(no) => Some(Op::DiskOffline { disk, at_ns }),
                    DiskStatus::Returning => {
                        Some(Op::DiskOfflineBy { disk, at_ns, mount_id, tried: 0, by })
                    }
                    _ => None,
                }
            }));
            ops.extend(missing.iter().map(|disk| match is_known(disk) {
                true => {
                    Op::DiskOfflineBy { disk: *disk, at_ns, mount_id, tried: tried_by(disk), by }
                }
                false => Op::DiskOffline { disk: *disk, at_ns },
            }));
            ops.extend(note_older(&self.data.disks_in_sync(), &core.state, at_ns));
            ops.push(Op::Members { members: members.clone() });
            ops.push(Op::Clean { clean: !current.is_empty() });
            let payload = apply_all(&mut core.state, &ops);
            for disk in missing {
                core.space.set_online(*disk, false);
            }
            payload
        };
        let result = async {
            self.write_set(&payload, members).await?;
            for disk in missing.iter().filter_map(|no| self.data.disk(*no)) {
                disk.left();
            }
            self.take_out_failed().await?;
            self.regrow().await?;
            // With disks that come back the first record of that confirms it.
            if current.is_empty() {
                self.confirm();
            }
            Ok(())
        }
        .await;
        result.map_err(|Fatal(why)| why)
    }

    /// Labels that a CREATE which was cut off left as "being created" say "member" from here on,
    /// before anything of the group's users is on these disks: nobody may take them without FORCE.
    /// A disk that cannot be labelled in time fails, and leaves.
    pub async fn correct_labels(&self, creating: &[u16]) {
        let request_timeout = self.data.request_timeout();
        let disks = creating.iter().filter_map(|no| self.data.disk(*no));
        let relabelled = disks.map(|disk| async move {
            let _ = relabel(&disk, LabelStatus::Member, request_timeout).await;
        });
        join_all(relabelled).await;
    }

    /// Runs until the group is dismounted or cannot go on.
    pub async fn run(mut self) {
        let mut ends = StopUnlessEnded { data: Arc::clone(&self.data), in_order: false };
        loop {
            let listener = self.data.log.wanted.listen();
            if self.data.is_stopped() {
                return;
            }
            match self.step().await {
                Ok(true) => {}
                Ok(false) if self.data.log.end.load(Ordering::Acquire) => {
                    ends.in_order = true;
                    self.data.stop("dismounted");
                    return;
                }
                Ok(false) => listener.await,
                Err(Fatal(why)) => {
                    self.data.stop(why);
                    return;
                }
            }
        }
    }

    /// Does what is due; false when nothing was.
    async fn step(&mut self) -> Result<bool, Fatal> {
        let mut worked = self.take_out_failed().await?;
        let batch = lock(&self.data.core).take_batch();
        if let Some(batch) = batch {
            self.write_record(&batch.payload).await?;
            // Failed members are taken out before anybody is notified.
            self.take_out_failed().await?;
            self.data.made_durable(batch.ticket);
            worked = true;
        }
        let request = lock(&self.data.log.requests).pop_front();
        if let Some(request) = request {
            self.change_disks(request).await?;
            worked = true;
        }
        if self.log_in_use() > LOG_CHECKPOINT_AT.max(self.tried_at + TRY_AGAIN_AFTER) {
            self.checkpoint_all().await?;
            worked = true;
        }
        Ok(worked)
    }

    /// Changes who takes part: one record, behind all that was queued before it. Then the metadata
    /// set follows.
    async fn change_disks(&mut self, request: Request) -> Result<(), Fatal> {
        let Request { wanted, done } = request;
        let make = match wanted {
            Wanted::Change(make) => make,
            Wanted::Checkpoint => {
                self.checkpoint_all().await?;
                // Who asked may have gone away.
                let _ = done.send(Ok(()));
                return Ok(());
            }
            Wanted::ClearLog(disk, blocks) => {
                if let Some((member, disk)) = self.members.get(&disk).zip(self.in_sync(disk)) {
                    // Nobody else writes to the ring; a disk that does not accept it has failed.
                    let _ = clear_ring(&disk, &blocks, member.log_start..self.position.lsn).await;
                    self.take_out_failed().await?;
                }
                let _ = done.send(Ok(()));
                return Ok(());
            }
            Wanted::TakeOut(disks) => {
                let result = self.take_out_wanted(&disks).await?;
                let _ = done.send(result);
                return Ok(());
            }
        };
        match self.change_and_follow(make).await {
            Ok(result) => {
                // Who asked may have gone away.
                let _ = done.send(result);
                Ok(())
            }
            Err(Fatal(why)) => {
                // Before the caller is released, who would think that it was refused: the record may
                // be written.
                self.data.stop(why.clone());
                Err(Fatal(why))
            }
        }
    }

    /// OFFLINE: disks leave on request, as if they had failed; refused if anything would be lost or
    /// the group could not go on.
    async fn take_out_wanted(&mut self, wanted: &[u16]) -> Result<Result<(), Error>, Fatal> {
        self.take_out_failed().await?;
        let refused = |why: String| Error::CannotOffline { group: self.data.name.clone(), why };
        let disks: Vec<Arc<Disk>> = wanted.iter().filter_map(|no| self.data.disk(*no)).collect();
        if let Err(Fatal(why)) = self.check_survivable(wanted) {
            return Ok(Err(refused(why)));
        }
        let left = self.members.keys().copied().filter(|no| !wanted.contains(no));
        if !rules::may_go_on(&self.committed, &left.collect::<Vec<_>>()) {
            let why = "too few disks that hold the metadata would be left".to_owned();
            return Ok(Err(refused(why)));
        }
        {
            // In one step: nothing is put there that would have no other copy.
            let mut core = lock(&self.data.core);
            if let Some(file) = only_on(&core.state, wanted) {
                return Ok(Err(refused(format!("{file} has its only copy there"))));
            }
            for disk in disks.iter().filter(|disk| disk.takes_part()) {
                core.space.set_online(disk.no, false);
                disk.fail_as_wanted();
            }
        }
        self.take_out_failed().await?;
        Ok(Ok(()))
    }

    async fn change_and_follow(&mut self, make: MakeOps) -> Result<Result<(), Error>, Fatal> {
        let (batches, result) = {
            let mut core = lock(&self.data.core);
            let batches: Vec<Batch> = std::iter::from_fn(|| core.take_batch()).collect();
            // Before it takes anything: a nearly full ring is reserved for changes of which disks
            // take part.
            let result = core
                .check_log_room(&self.data.name, &[Op::Rebalance { power: None }])
                .and_then(|()| make(&mut core))
                .and_then(|ops| match ops.is_empty() {
                    true => Ok(None),
                    false => self.data.enqueue(&mut core, &ops).map(Some),
                });
            (batches, result)
        };
        for batch in &batches {
            self.write_record(&batch.payload).await?;
        }
        // It is queued first now. A failed disk is taken out after this record, which may be the one
        // by which it joined.
        let own = lock(&self.data.core).take_batch();
        if let Some(own) = &own {
            self.write_record(&own.payload).await?;
        }
        self.take_out_failed().await?;
        if let Some(last) = own.as_ref().or(batches.last()) {
            self.data.made_durable(last.ticket);
        }
        self.data.check_running().map_err(|error| Fatal(error.to_string()))?;
        if let Ok(Some(_)) = result {
            self.regrow().await?;
            self.confirm();
        }
        Ok(result.map(|_| ()))
    }

    fn log_in_use(&self) -> u64 {
        let start = self.members.values().map(|m| m.log_start).min().unwrap_or(0);
        self.position.lsn - start
    }

    /// A member, or a disk that becomes one: of the group for certain.
    fn disk(&self, no: u16) -> Arc<Disk> {
        self.data.disk(no).expect("members are disks of the group")
    }

    /// The disk with that number, if it is in sync and answers.
    fn in_sync(&self, no: u16) -> Option<Arc<Disk>> {
        self.data.disk(no).filter(|disk| disk.is_in_sync() && disk.is_alive())
    }

    /// Writes one record to every member that still answers. Returns whether all have it;
    /// [`Committer::take_out_failed`] decides whether enough of them do.
    async fn write_record(&mut self, payload: &[u8]) -> Result<bool, Fatal> {
        let epoch = lock(&self.data.core).state.epoch;
        let (group, mount_id) = (self.data.uuid, self.data.log_mount_id.load(Ordering::SeqCst));
        let bytes_needed = (record::RECORD_HEADER + payload.len()) as u64;
        let left = LOG_BLOCKS - self.position.lsn % LOG_BLOCKS;
        let mut writes: Vec<(u64, Bytes)> = Vec::new();
        if bytes_needed.div_ceil(BLOCK_U64) > left {
            let (bytes, next) = record::encode_filler(group, self.position, mount_id);
            writes.push((self.position.lsn, Bytes::from(bytes)));
            self.position = next;
        }
        let (bytes, next) = record::encode(group, self.position, epoch, mount_id, payload);
        writes.push((self.position.lsn, Bytes::from(bytes)));
        self.position = next;
        if self.log_in_use() > LOG_BLOCKS {
            return Err(Fatal("the metadata log is full".into()));
        }
        let members: Vec<Arc<Disk>> = self.members.keys().map(|no| self.disk(*no)).collect();
        let all = join_all(members.iter().map(|disk| write_to_ring(disk, &writes))).await;
        let mut came_through = true;
        for (disk, result) in members.iter().zip(all) {
            if let Err(error) = result {
                // Whatever the reason: a disk that lacks a record is not a member.
                disk.fail(error);
                came_through = false;
            }
        }
        self.data.log.wrote_upto(self.position.lsn);
        Ok(came_through)
    }

    /// Writes a record that names the set. From then on, if all of it have the record, that set is
    /// the committed one.
    pub(super) async fn write_set(
        &mut self,
        payload: &[u8],
        members: Vec<u16>,
    ) -> Result<(), Fatal> {
        if self.write_record(payload).await? {
            self.committed = vec![members];
        }
        Ok(())
    }

    /// Brings the set back to its size onto disks in sync: first their own checkpoint, then a
    /// record that old and new members have. A disk without room for a checkpoint is passed over.
    pub(super) async fn regrow(&mut self) -> Result<(), Fatal> {
        let mut full: Vec<u16> = Vec::new();
        loop {
            let (redundancy, current) = {
                let core = lock(&self.data.core);
                (core.state.header.redundancy, core.state.members.clone())
            };
            let mut candidates = Committer::candidates(&self.data);
            candidates.retain(|c| !full.contains(&c.disk));
            let leaving = self.leaving_members(&current);
            let wanted = rules::next_set(redundancy, &current, &candidates, &leaving);
            let new: Vec<u16> = wanted.iter().copied().filter(|d| !current.contains(d)).collect();
            if wanted == current {
                return Ok(());
            }
            let roomy = self.make_areas(&new);
            if roomy != new {
                full.extend(new.iter().filter(|no| !roomy.contains(no)));
                continue;
            }
            if !new.is_empty() {
                self.checkpoint(&new).await?;
            }
            // From here on they get every mark of a dirty region too. A failure fails the disk.
            let mut has_marks = true;
            for no in &new {
                let joined = match self.in_sync(*no) {
                    Some(disk) => DirtyLog::join(&self.data, &disk).await,
                    None => Ok(false),
                };
                has_marks &= matches!(joined, Ok(true));
            }
            let failed = !self.failed_disks().is_empty();
            let here = new.iter().all(|no| self.in_sync(*no).is_some());
            if failed || !here || !has_marks || !self.all_members(&new) || self.set() != current {
                self.not_joined(&new, &mut full);
                if self.data.is_stopped() {
                    return Ok(());
                }
                if failed {
                    Box::pin(self.take_out_failed()).await?;
                } else if !has_marks {
                    // Not asked again: it answers, but does not accept them.
                    full.extend(&new);
                }
                continue;
            }
            let payload = {
                let mut core = lock(&self.data.core);
                let epoch = core.state.epoch + 1;
                let members = wanted.clone();
                apply_all(&mut core.state, &[Op::Epoch { epoch }, Op::Members { members }])
            };
            self.write_set(&payload, wanted.clone()).await?;
            for no in current.iter().filter(|no| !wanted.contains(no)) {
                self.forget_member(*no);
            }
            for no in &new {
                self.data.dirty_log.joined(*no);
            }
            if !self.failed_disks().is_empty() {
                Box::pin(self.take_out_failed()).await?;
            }
        }
    }

    /// Candidates for the metadata set among the disks that are here and in sync.
    fn candidates(data: &Data) -> Vec<Candidate> {
        let disks = data.disks_in_sync().into_iter();
        let core = lock(&data.core);
        disks
            .filter(|d| d.is_alive() && core.state.takes_extents(d.no))
            .map(|d| Candidate { disk: d.no, failgroup: d.failgroup.clone() })
            .collect()
    }

    /// The members that are here, in sync and being dropped.
    fn leaving_members(&self, current: &[u16]) -> Vec<Candidate> {
        let disks = self.data.disks_in_sync();
        let core = lock(&self.data.core);
        let goes = |no: &u16| core.state.disks.get(no).is_some_and(|d| d.status.is_leaving());
        disks
            .iter()
            .filter(|d| d.is_alive() && current.contains(&d.no) && goes(&d.no))
            .map(|d| Candidate { disk: d.no, failgroup: d.failgroup.clone() })
            .collect()
    }

    /// The newest set, as the state has it.
    fn set(&self) -> Vec<u16> {
        lock(&self.data.core).state.members.clone()
    }

    fn all_members(&self, disks: &[u16]) -> bool {
        disks.iter().all(|no| self.members.contains_key(no))
    }

    /// These disks were about to become members, but something intervened. Those that answer and got
    /// no checkpoint have no room for it.
    fn not_joined(&mut self, new: &[u16], full: &mut Vec<u16>) {
        let set = self.set();
        for no in new {
            if self.in_sync(*no).is_some() && !self.members.contains_key(no) {
                full.push(*no);
            }
            if !set.contains(no) {
                self.forget_member(*no);
            }
            self.data.dirty_log.joined(*no);
        }
    }

    pub(super) fn forget_member(&mut self, no: u16) {
        if let Some(member) = self.members.remove(&no) {
            self.generations.insert(no, (member.generation, member.area));
        }
    }

    /// Advances the beginning of the log. If the metadata does not fit the room that a member has for
    /// it, only changes that make it smaller are allowed until it does.
    async fn checkpoint_all(&mut self) -> Result<(), Fatal> {
        lock(&self.data.core).gate = true;
        let members: Vec<u16> = self.members.keys().copied().collect();
        let written = self.checkpoint(&members).await;
        let taken_out = match written {
            Ok(()) => self.take_out_failed().await,
            Err(fatal) => Err(fatal),
        };
        let in_use = self.log_in_use();
        let stuck = in_use > LOG_CHECKPOINT_AT;
        self.tried_at = if stuck { in_use } else { 0 };
        let mut core = lock(&self.data.core);
        core.gate = false;
        core.log_room = match stuck {
            false => LogRoom::Plenty,
            true if in_use < LOG_BLOCKS - 2 * RECORD_BLOCKS_MAX => LogRoom::Shrink,
            true => LogRoom::Nothing,
        };
        drop(core);
        self.data.log.moved.notify(usize::MAX);
        taken_out.map(|_| ())
    }

    /// Writes a checkpoint of the state as of now to `disks` and makes them members in RAM. A disk
    /// that fails here is found failed afterwards; one without room for it gets none.
    async fn checkpoint(&mut self, disks: &[u16]) -> Result<(), Fatal> {
        let mut disks = self.make_areas(disks);
        // The snapshot must be the state at a position of the log: behind all that is queued in one
        // moment.
        let (encoded, position) = loop {
            let (batches, content) = {
                let mut core = lock(&self.data.core);
                if core.is_broken() || self.data.core.is_poisoned() {
                    return Err(Fatal("a change of the metadata was left half-way".into()));
                }
                let batches: Vec<Batch> = std::iter::from_fn(|| core.take_batch()).collect();
                core.measure();
                (batches, core.state.encode())
            };
            // All of them first: taking out failed disks may write another checkpoint, which must not
            // include what is in no record yet.
            for batch in &batches {
                self.write_record(&batch.payload).await?;
            }
            if let Some(last) = batches.last() {
                // Nobody is notified yet; failed disks are taken out first. That writes further
                // records, which the content taken above lacks: it must be taken again.
                let again = Box::pin(self.take_out_failed()).await?;
                self.data.made_durable(last.ticket);
                if again {
                    disks.retain(|no| self.in_sync(*no).is_some());
                    continue;
                }
            }
            let encoded = encode(self.data.uuid, self.position.lsn, &content);
            if self.areas_hold(&disks, encoded.bytes.len() as u64) {
                break (encoded, self.position);
            }
            // Others queued more than the areas were sized for.
            disks = self.make_areas(&disks);
        };
        for no in &disks {
            self.checkpoint_disk(*no, &encoded, position).await;
        }
        Ok(())
    }

    /// The generation of a disk's next superblock, and the area of its next checkpoint: never the
    /// one that its newest superblock names.
    pub(super) fn next_checkpoint(&self, no: u16) -> (u64, u8) {
        let newest = match self.members.get(&no) {
            Some(member) => Some((member.generation, member.area)),
            // From the superblock of a disk that came back, or from what was written to it since.
            None => {
                let own = self.data.disk(no).and_then(|disk| disk.superblock());
                self.generations.get(&no).copied().max(own)
            }
        };
        newest.map_or((1, 0), |(generation, area)| (generation + 1, 1 - area))
    }

    async fn checkpoint_disk(&mut self, no: u16, encoded: &EncodedCheckpoint, at: LogPosition) {
        // It may have left, and even come back, while others were taken out.
        let Some(disk) = self.in_sync(no) else { return };
        let (generation, area) = self.next_checkpoint(no);
        let runs = {
            let core = lock(&self.data.core);
            core.state.disks[&no].areas[usize::from(area)].clone()
        };
        let target = Target {
            disk: &disk,
            group: self.data.uuid,
            au_size: self.data.au_size,
            area,
            runs: &runs,
            generation,
        };
        if let Ok(()) = checkpoint::write(&target, encoded, at).await {
            let member = MemberState { log_start: at.lsn, generation, area };
            self.members.insert(no, member);
        }
    }
}

/// Applies operations of the committer's own and encodes them.
pub(super) fn apply_all(state: &mut GroupState, ops: &[Op]) -> Vec<u8> {
    let mut w = Writer::new();
    for op in ops {
        state.apply(op).expect("disks and members exist");
        op.put(&mut w);
    }
    let online = state.members.iter().all(|no| state.is_online(*no));
    debug_assert!(online, "a member of the metadata set is a disk in sync");
    w.into_bytes()
}
