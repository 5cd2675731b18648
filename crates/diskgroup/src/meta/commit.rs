//! The committer: one task that writes the metadata log, takes failed disks out, and writes
//! checkpoints. Everything that changes what is on the metadata disks happens here, one thing
//! after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cellar_io::{Durability, Io};
use futures_util::future::join_all;

use crate::codec::Writer;
use crate::data::dirty_log::DirtyLog;
use crate::disk::{Disk, lock};
use crate::group::inner::Inner;
use crate::meta::checkpoint::{self, Target};
use crate::meta::rules;
use crate::on_disk::checkpoint::{EncodedCheckpoint, chunks_for, encode};
use crate::on_disk::layout::{BLOCK_U64, CHUNK_BYTES, LOG_BLOCKS, LOG_CHECKPOINT_AT, LOG_START};
use crate::on_disk::record;
use crate::on_disk::superblock::{AuRun, LogPosition};
use crate::state::Op;

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

/// The task's own state.
pub(crate) struct Committer {
    inner: Arc<Inner>,
    position: LogPosition,
    /// The committed set, as it is on disk.
    members: BTreeMap<u16, MemberState>,
    /// The newest superblocks of disks that are not members now: generation, and the checkpoint
    /// area that it names.
    generations: BTreeMap<u16, (u64, u8)>,
}

/// The group cannot go on.
struct Fatal(String);

impl Committer {
    pub fn new(
        inner: Arc<Inner>,
        position: LogPosition,
        members: BTreeMap<u16, MemberState>,
        generations: BTreeMap<u16, (u64, u8)>,
    ) -> Committer {
        Committer { inner, position, members, generations }
    }

    /// Brings members that lag behind the newest history up to date, before anything is written
    /// that they would lack: each gets a checkpoint of the state as of the end of that history.
    pub async fn catch_up(&mut self, lagging: &[u16]) -> Result<(), String> {
        if !lagging.is_empty() {
            self.checkpoint(lagging).await.map_err(|Fatal(why)| why)?;
        }
        Ok(())
    }

    /// The first record of a mount: a new epoch, without the disks that are missing. With `force`
    /// the members that are here go on, however few they are.
    pub async fn new_epoch(&mut self, missing: &[u16], force: bool) -> Result<(), String> {
        let payload = {
            let at_ns = self.inner.env.wall().unix_nanos;
            let mut core = lock(&self.inner.core);
            let old = core.state.members.len();
            let members: Vec<u16> = self.members.keys().copied().collect();
            let enough = members.len() == old || rules::may_continue(old, members.len());
            if members.is_empty() || !(enough || force) {
                return Err(format!(
                    "only {} of {old} metadata disks can be written",
                    members.len()
                ));
            }
            let mut ops = vec![Op::Epoch { epoch: core.state.epoch + 1 }];
            ops.extend(missing.iter().map(|disk| Op::DiskOffline { disk: *disk, at_ns }));
            ops.push(Op::Members { members });
            ops.push(Op::Clean { clean: false });
            let mut w = Writer::new();
            for op in &ops {
                core.state.apply(op).expect("disks and members exist");
                op.put(&mut w);
            }
            for disk in missing {
                core.space.set_online(*disk, false);
            }
            w.into_bytes()
        };
        let result = async {
            self.write_record(&payload).await?;
            self.take_out_failed().await?;
            self.regrow().await?;
            self.confirm();
            Ok(())
        }
        .await;
        result.map_err(|Fatal(why)| why)
    }

    /// Runs until the group is dismounted or cannot go on.
    pub async fn run(mut self) {
        loop {
            let listener = self.inner.log.wanted.listen();
            if self.inner.is_stopped() {
                return;
            }
            match self.step().await {
                Ok(true) => {}
                Ok(false) if self.inner.log.end.load(Ordering::Acquire) => {
                    self.inner.stop("dismounted");
                    return;
                }
                Ok(false) => listener.await,
                Err(Fatal(why)) => {
                    self.inner.stop(why);
                    return;
                }
            }
        }
    }

    /// Does what is due; false when nothing was.
    async fn step(&mut self) -> Result<bool, Fatal> {
        let mut worked = self.take_out_failed().await?;
        let batch = lock(&self.inner.core).take_batch();
        if let Some(batch) = batch {
            self.write_record(&batch.payload).await?;
            // Members that failed meanwhile are taken out before anybody is told.
            self.take_out_failed().await?;
            self.inner.made_durable(batch.ticket);
            worked = true;
        }
        if self.log_in_use() > LOG_CHECKPOINT_AT {
            self.checkpoint_all().await?;
            worked = true;
        }
        Ok(worked)
    }

    fn log_in_use(&self) -> u64 {
        let start = self.members.values().map(|m| m.log_start).min().unwrap_or(0);
        self.position.lsn - start
    }

    fn disk(&self, no: u16) -> Arc<Disk> {
        Arc::clone(self.inner.disk(no).expect("members are disks of the group"))
    }

    /// Writes one record to every member that still answers. Whether enough of them did is for
    /// [`Committer::take_out_failed`] to say.
    async fn write_record(&mut self, payload: &[u8]) -> Result<(), Fatal> {
        let epoch = lock(&self.inner.core).state.epoch;
        let (group, life) = (self.inner.uuid, self.inner.life);
        let bytes_needed = (record::RECORD_HEADER + payload.len()) as u64;
        let left = LOG_BLOCKS - self.position.lsn % LOG_BLOCKS;
        let mut writes: Vec<(u64, Bytes)> = Vec::new();
        if bytes_needed.div_ceil(BLOCK_U64) > left {
            let (bytes, next) = record::encode_filler(group, self.position, life);
            writes.push((self.position.lsn, Bytes::from(bytes)));
            self.position = next;
        }
        let (bytes, next) = record::encode(group, self.position, epoch, life, payload);
        writes.push((self.position.lsn, Bytes::from(bytes)));
        self.position = next;
        assert!(self.log_in_use() <= LOG_BLOCKS, "a checkpoint comes before the ring is full");
        let members: Vec<Arc<Disk>> = self.members.keys().map(|no| self.disk(*no)).collect();
        let all = members.iter().map(|disk| {
            let writes = writes.clone();
            async move {
                for (lsn, bytes) in writes {
                    let at = LOG_START + lsn % LOG_BLOCKS * BLOCK_U64;
                    disk.write(Io::COMMIT, at, vec![bytes], Durability::Durable).await?;
                }
                Ok::<(), cellar_io::IoError>(())
            }
        });
        // A failed write has failed its disk; there is nothing more to learn from the result.
        join_all(all).await;
        Ok(())
    }

    /// Disks that are in sync by the committed epoch and no longer answer.
    fn failed_disks(&self) -> Vec<u16> {
        self.inner.disks_in_sync().filter(|d| !d.is_alive()).map(|d| d.no).collect()
    }

    /// Takes failed disks out by a committed epoch, then brings the metadata set back to size.
    /// Returns whether any disk left.
    async fn take_out_failed(&mut self) -> Result<bool, Fatal> {
        let mut failed = self.failed_disks();
        if failed.is_empty() {
            return Ok(false);
        }
        let old_size = self.members.len();
        loop {
            self.check_survivable(&failed)?;
            let left: Vec<u16> =
                self.members.keys().copied().filter(|m| !failed.contains(m)).collect();
            if left.len() < self.members.len() || left.len() < old_size {
                if !rules::may_continue(old_size, left.len()) {
                    let why = self.lost_words(&failed);
                    return Err(Fatal(format!("too few metadata disks are left: {why}")));
                }
                for gone in &failed {
                    if let Some(member) = self.members.remove(gone) {
                        self.generations.insert(*gone, (member.generation, member.area));
                    }
                }
            }
            let payload = self.offline_ops(&failed, &left);
            self.write_record(&payload).await?;
            let again = self.failed_disks();
            if again.len() == failed.len() {
                break;
            }
            failed = again;
        }
        for no in &failed {
            self.disk(*no).left();
        }
        self.inner.log.moved.notify(usize::MAX);
        self.regrow().await?;
        self.confirm();
        Ok(true)
    }

    /// Queues a record that changes nothing: whoever finds it knows that the change of the set
    /// before it was committed (see [`rules::is_proven_change`]).
    fn confirm(&self) {
        lock(&self.inner.core).enqueue(&[Op::Clean { clean: false }]);
    }

    fn lost_words(&self, failed: &[u16]) -> String {
        let words: Vec<String> = failed
            .iter()
            .map(|no| {
                let disk = self.disk(*no);
                match disk.failure() {
                    Some(why) => format!("{} ({why})", disk.name),
                    None => disk.name.clone(),
                }
            })
            .collect();
        words.join(", ")
    }

    /// A group that would lose the last copy of anything mirrored stops instead: when the disk
    /// comes back nothing is lost. An external group needs every disk.
    fn check_survivable(&self, failed: &[u16]) -> Result<(), Fatal> {
        let core = lock(&self.inner.core);
        let state = &core.state;
        if state.header.redundancy == crate::on_disk::label::Redundancy::External {
            drop(core);
            return Err(Fatal(format!("lost {}", self.lost_words(failed))));
        }
        let alive = |disk: u16| state.is_online(disk) && !failed.contains(&disk);
        let lost = state.files.values().find(|f| {
            f.attributes.copies > 1
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
    /// record does not matter, as no queued change speaks of who takes part.
    fn offline_ops(&self, failed: &[u16], left: &[u16]) -> Vec<u8> {
        let at_ns = self.inner.env.wall().unix_nanos;
        let mut core = lock(&self.inner.core);
        let mut ops = vec![Op::Epoch { epoch: core.state.epoch + 1 }];
        ops.extend(failed.iter().map(|disk| Op::DiskOffline { disk: *disk, at_ns }));
        ops.push(Op::Members { members: left.to_vec() });
        let mut w = Writer::new();
        for op in &ops {
            core.state.apply(op).expect("disks and members exist");
            op.put(&mut w);
        }
        for disk in failed {
            core.space.set_online(*disk, false);
        }
        w.into_bytes()
    }

    /// Brings the set back to its size onto disks in sync: first their own checkpoint, then a
    /// record that old and new members have.
    async fn regrow(&mut self) -> Result<(), Fatal> {
        loop {
            let (redundancy, current, candidates) = {
                let core = lock(&self.inner.core);
                let candidates = Committer::candidates(&self.inner);
                (core.state.header.redundancy, core.state.members.clone(), candidates)
            };
            let wanted = rules::choose(redundancy, &current, &candidates);
            let new: Vec<u16> = wanted.iter().copied().filter(|d| !current.contains(d)).collect();
            if new.is_empty() || wanted.len() <= current.len() {
                return Ok(());
            }
            self.checkpoint(&new).await?;
            // From here on they get every mark of a dirty region too. A failure fails the disk.
            for no in &new {
                let _ = DirtyLog::join(&self.inner, &self.disk(*no)).await;
            }
            if !self.failed_disks().is_empty() {
                for no in &new {
                    self.forget_member(*no);
                    self.inner.data.dirty_log.joined(*no);
                }
                Box::pin(self.take_out_failed()).await?;
                continue;
            }
            let payload = {
                let mut core = lock(&self.inner.core);
                let ops =
                    [Op::Epoch { epoch: core.state.epoch + 1 }, Op::Members { members: wanted }];
                let mut w = Writer::new();
                for op in &ops {
                    core.state.apply(op).expect("members are disks");
                    op.put(&mut w);
                }
                w.into_bytes()
            };
            self.write_record(&payload).await?;
            for no in &new {
                self.inner.data.dirty_log.joined(*no);
            }
            if !self.failed_disks().is_empty() {
                Box::pin(self.take_out_failed()).await?;
            }
            return Ok(());
        }
    }

    fn forget_member(&mut self, no: u16) {
        if let Some(member) = self.members.remove(&no) {
            self.generations.insert(no, (member.generation, member.area));
        }
    }

    async fn checkpoint_all(&mut self) -> Result<(), Fatal> {
        let members: Vec<u16> = self.members.keys().copied().collect();
        self.checkpoint(&members).await?;
        self.take_out_failed().await?;
        Ok(())
    }

    /// Writes a checkpoint of the state as of now to `disks` and makes them members in RAM. A disk
    /// that fails here is found failed afterwards.
    async fn checkpoint(&mut self, disks: &[u16]) -> Result<(), Fatal> {
        self.make_areas(disks)?;
        // The snapshot must be the state at a position of the log: write what is queued until the
        // state and the log are equal in one moment.
        let (encoded, position) = loop {
            let (batch, content) = {
                let mut core = lock(&self.inner.core);
                let batch = core.take_batch();
                let content = (!core.has_queued()).then(|| core.state.encode());
                (batch, content)
            };
            if let Some(batch) = batch {
                self.write_record(&batch.payload).await?;
                // Told nobody yet; taking the failed out comes first. That writes records of its
                // own, which the content taken above lacks: it must be taken again.
                let again = Box::pin(self.take_out_failed()).await?;
                self.inner.made_durable(batch.ticket);
                if again {
                    continue;
                }
            }
            if let Some(content) = content {
                let encoded = encode(self.inner.uuid, self.position.lsn, &content);
                if self.areas_hold(disks, encoded.bytes.len() as u64) {
                    break (encoded, self.position);
                }
                // Others queued more than the areas were made for.
                self.make_areas(disks)?;
            }
        };
        for no in disks {
            self.checkpoint_disk(*no, &encoded, position).await;
        }
        Ok(())
    }

    /// The generation of a disk's next superblock, and the area of its next checkpoint: never the
    /// one that its newest superblock names.
    fn next_checkpoint(&self, no: u16) -> (u64, u8) {
        let newest = match self.members.get(&no) {
            Some(member) => Some((member.generation, member.area)),
            None => self.generations.get(&no).copied(),
        };
        newest.map_or((1, 0), |(generation, area)| (generation + 1, 1 - area))
    }

    async fn checkpoint_disk(&mut self, no: u16, encoded: &EncodedCheckpoint, at: LogPosition) {
        let disk = self.disk(no);
        if !disk.is_alive() {
            return;
        }
        let (generation, area) = self.next_checkpoint(no);
        let runs = {
            let core = lock(&self.inner.core);
            core.state.disks[&no].areas[usize::from(area)].clone()
        };
        let target = Target {
            disk: &disk,
            group: self.inner.uuid,
            au_size: self.inner.au_size,
            area,
            runs: &runs,
            generation,
        };
        if let Ok(()) = checkpoint::write(&target, encoded, at).await {
            let member = MemberState { log_start: at.lsn, generation, area };
            self.members.insert(no, member);
        }
    }

    /// Whether the area of each disk's next checkpoint holds that many bytes.
    fn areas_hold(&self, disks: &[u16], bytes: u64) -> bool {
        let core = lock(&self.inner.core);
        disks.iter().all(|no| {
            let (_, area) = self.next_checkpoint(*no);
            let runs = &core.state.disks[no].areas[usize::from(area)];
            runs.iter().map(|r| u64::from(r.count) * self.inner.au_size).sum::<u64>() >= bytes
        })
    }

    /// Makes the area that the next checkpoint goes to large enough on each disk, with room to
    /// grow. The operations are queued, so they are in the log before the area is named.
    fn make_areas(&mut self, disks: &[u16]) -> Result<(), Fatal> {
        let mut core = lock(&self.inner.core);
        // The state grows a little by the very operations queued here, and by what others queue
        // until the snapshot: an eighth and 64 KiB on top covers both.
        let content = core.state.encode().len() as u64;
        let wanted = chunks_for(content + content / 8 + (64 << 10)) * CHUNK_BYTES as u64;
        let au_size = self.inner.au_size;
        for no in disks {
            let (_, area) = self.next_checkpoint(*no);
            let runs = &core.state.disks[no].areas[usize::from(area)];
            let have: u64 = runs.iter().map(|r| u64::from(r.count) * au_size).sum();
            if have >= wanted {
                continue;
            }
            let mut runs = runs.clone();
            let missing = (wanted - have).div_ceil(au_size);
            for _ in 0..missing {
                let Some(au) = core.space.reserve(*no) else {
                    // The group is full. What is there will do as long as the content itself fits.
                    let have: u64 = runs.iter().map(|r| u64::from(r.count) * au_size).sum();
                    if chunks_for(content) * CHUNK_BYTES as u64 <= have {
                        break;
                    }
                    return Err(Fatal(format!("no room for metadata on disk {no}")));
                };
                match runs.last_mut() {
                    Some(run) if run.start + run.count == au => run.count += 1,
                    _ => runs.push(AuRun { start: au, count: 1 }),
                }
            }
            core.enqueue(&[Op::Area { disk: *no, area, runs }]);
        }
        Ok(())
    }
}
