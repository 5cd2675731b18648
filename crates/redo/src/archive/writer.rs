//! The writer of an archive: a finished group is read back from all media, checked and packed.

use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{Instant, IoError};

use crate::archive::{ArchiveFile, ArchiveStore, archive_name};
use crate::error::Error;
use crate::lsn::{Abn, Lsn};
use crate::on_disk::Damage;
use crate::on_disk::archive::{ArchiveEnd, ArchiveHeader, CHUNK_BYTES_MAX, pack};
use crate::on_disk::block::BlockHeader;
use crate::on_disk::control::ControlData;
use crate::recovery::judge::Standing;
use crate::recovery::read::{Files, Reader};
use crate::recovery::walk::Walk;
use crate::writer::{Inner, Log, State};

/// A group that was archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// The sequence that it had.
    pub sequence: u64,
    /// What the archive is called.
    pub name: String,
    /// Its records begin at or after this.
    pub first: Lsn,
    /// The next archive begins here.
    pub end: Lsn,
    /// How many blocks were in use.
    pub blocks: u64,
    /// Bytes of the archive.
    pub bytes: u64,
}

/// The longest time that one archive is spread over.
const PACE_MAX: Duration = Duration::from_secs(5);

/// What is needed to read a finished group.
struct Job {
    sequence: u64,
    first: Abn,
    end: Abn,
    /// When it began, and how long it may take.
    pace: (Instant, Duration),
    control: ControlData,
    files: Vec<Files>,
}

impl State {
    /// The group to archive next, by place, if it is finished and nobody is archiving it.
    pub fn to_archive(&self) -> Option<usize> {
        let next = |g: &crate::writer::GroupAt| {
            g.sequence == self.control.archived + 1 && g.end() <= self.durable
        };
        // A medium that is late does not have it yet, and the one that has it may just have failed.
        let settled = |place: &usize| self.tracked.iter().all(|unit| unit.group != *place);
        let wanted = self.control.archiving && !self.archiver;
        self.groups.iter().position(next).filter(settled).filter(|_| wanted)
    }

    /// Groups are finished about as often as they are archived. An archive is spread over half that interval, so
    /// that it costs committers little at any moment and is done before the next group is full.
    fn archive_pace(&mut self, now: Instant) -> (Instant, Duration) {
        let before = self.archive_began.replace(now);
        (now, before.map_or(Duration::ZERO, |before| now.since(before) / 2).min(PACE_MAX))
    }

    /// Whether the archive is urgent: the log has no other group to go on to after the one it is filling, another
    /// group waits for its turn, or the log is being closed.
    fn wants_archive_now(&self) -> bool {
        let waits = |g: &&crate::writer::GroupAt| {
            g.sequence > self.control.archived && g.used.is_some() && g.end() <= self.durable
        };
        let is_usable = |place: &usize| {
            let group = &self.groups[*place];
            let is_free = match *place == self.current {
                true => group.used.is_none(),
                false => self.next.contains(place) || self.is_free(*place).is_ok(),
            };
            is_free && !group.dropped
        };
        let usable = (0..self.groups.len()).filter(is_usable).count();
        let waiting = self.groups.iter().filter(waits).count();
        Inner::stopped(self).is_some() || usable < 2 || waiting > 1
    }

    fn archive_job(&mut self, now: Instant) -> Option<Job> {
        let place = self.to_archive()?;
        self.archiver = true;
        let pace = self.archive_pace(now);
        let mut control = self.control.clone();
        for (entry, group) in control.groups.iter_mut().zip(&self.groups) {
            (entry.sequence, entry.first) = (group.sequence, Abn(group.first));
        }
        let group = &self.groups[place];
        // The walk begins where recovery would: at the first block of the group.
        control.checkpoint = Abn(group.first).lsn();
        let files = self.media.iter().enumerate().map(|(number, medium)| {
            let file = |g: &crate::writer::GroupAt| g.files[number].clone();
            self.groups.iter().map(|g| file(g).filter(|_| medium.is_active())).collect()
        });
        let files = files.collect();
        let (sequence, first, end) = (group.sequence, Abn(group.first), Abn(group.end()));
        Some(Job { sequence, first, end, pace, control, files })
    }
}

/// When this is dropped, nobody is archiving.
struct Turn<'a>(&'a Arc<Inner>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.with(|state| (state.archiver, state.publishing) = (false, None));
        // Whoever clears the group may wait for it.
        self.0.control_written.notify(usize::MAX);
    }
}

impl Log {
    /// Archives the oldest finished group that has not been archived, so that it can be reused; `None` where there
    /// is no such group, somebody is archiving it already, or it was cleared meanwhile. A failed call can be
    /// repeated.
    ///
    /// # Errors
    /// [`Error::NotArchiving`]; [`Error::Damaged`], [`Error::Divergent`], [`Error::Corrupt`] when
    /// the group cannot be read, [`Error::MediaMissing`] when media do not answer that may have
    /// it; [`Error::Archive`] from the store; [`Error::Stopped`].
    #[boxed]
    pub async fn archive(&self, store: &dyn ArchiveStore) -> Result<Option<Archived>, Error> {
        let Some(job) = self.0.with(|state| match Inner::stopped(state) {
            Some(error) => Err(error),
            None if !state.control.archiving => Err(Error::NotArchiving),
            None => Ok(state.archive_job(self.0.env.now())),
        })?
        else {
            return Ok(None);
        };
        let _turn = Turn(&self.0);
        let sequence = job.sequence;
        let archived = match self.write_archive(store, job).await {
            Ok(Some(archived)) => archived,
            Ok(None) => return Ok(None),
            // What was read may have been overwritten already.
            Err(_) if !self.0.with(|state| state.has_sequence(sequence)) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.0.change_control(|state| state.control.archived = sequence).await?;
        Ok(Some(archived))
    }

    /// Waits until there is a group that [`archive`](Log::archive) would take.
    ///
    /// # Errors
    /// [`Error::NotArchiving`]; [`Error::Stopped`], also when the log is closed.
    #[boxed]
    pub async fn archivable(&self) -> Result<(), Error> {
        loop {
            let listener = self.0.finished.listen();
            let ready = self.0.with(|state| match Inner::stopped(state) {
                Some(error) => Err(error),
                None if !state.control.archiving => Err(Error::NotArchiving),
                None => {
                    let ready = state.to_archive().is_some();
                    state.archiver_waits |= !ready;
                    Ok(ready)
                }
            })?;
            if ready {
                return Ok(());
            }
            listener.await;
        }
    }

    /// The newest sequence that is durably archived, or cleared without an archive.
    pub fn archived(&self) -> u64 {
        self.0.with(|state| state.archived)
    }

    /// Writes the archive of a group; `None` where the group was cleared before it was published.
    async fn write_archive(
        &self,
        store: &dyn ArchiveStore,
        job: Job,
    ) -> Result<Option<Archived>, Error> {
        let inner = &self.0;
        let Job { sequence, first, end, pace, control, files } = job;
        let name = archive_name(sequence);
        let failed = |error: IoError| Error::Archive { archive: name.clone(), error };
        let standing = files.iter().map(|_| Standing::Whole).collect();
        let (env, session) = (Arc::clone(&inner.env), inner.session.clone());
        let read_timeout = inner.options.write_timeout;
        let mut reader = Reader::new(env, session, control.block_size, files, read_timeout);
        let mut out = Packer::new(&control, sequence, end);
        let mut walk = Walk::new(control, standing)?;
        reader.go(walk.places().into_iter().take(1));
        let mut file = store.create(&name).await.map_err(failed)?;
        let mut chunks = 0;
        while !walk.switched {
            match walk.step(&mut reader).await? {
                Ok((header, block)) => {
                    // Blocks that a medium lacks are not the archiver's task: the medium is late, or recovery
                    // repairs it.
                    walk.repairs.clear();
                    let crc = walk.chain.expect("a block was just read");
                    out.put(&mut *file, &header, crc, &block).await?.map_err(failed)?;
                    if std::mem::replace(&mut chunks, out.tail.chunks) != out.tail.chunks {
                        let share = (header.abn.0 - first.0) as f64 / (end.0 - first.0) as f64;
                        self.keep_pace(pace, share).await;
                    }
                }
                Err(_) => return Err(unreadable(&walk, &reader, end.lsn())),
            }
        }
        let archived = out.end(&mut *file, &name).await.map_err(failed)?;
        file.sync().await.map_err(failed)?;
        if !inner.with(|state| state.begin_to_publish(sequence)) {
            return Ok(None);
        }
        file.publish().await.map_err(failed)?;
        Ok(Some(archived))
    }

    /// Waits until so much of an archive is due.
    async fn keep_pace(&self, (began, pace): (Instant, Duration), share: f64) {
        let due = began.plus(pace.mul_f64(share.min(1.0)));
        let inner = &self.0;
        if due > inner.env.now() && !inner.with(|state| state.wants_archive_now()) {
            inner.env.sleep_until(due).await;
        }
    }
}

/// Why a group cannot be read to its end.
fn unreadable(walk: &Walk, reader: &Reader, to: Lsn) -> Error {
    let from = walk.end();
    let media: Vec<String> =
        reader.late.iter().map(|m| walk.control.media[*m].name.clone()).collect();
    match media.is_empty() {
        true => Error::Damaged { from, to, lost_writes: Vec::new() },
        false => Error::MediaMissing { from, known_until: Some(to), media, causes: Vec::new() },
    }
}

/// Blocks on their way into an archive.
struct Packer {
    header: ArchiveHeader,
    raw: Vec<u8>,
    /// The first block in `raw`, and how many there are.
    chunk: (Abn, u32),
    tail: ArchiveEnd,
    bytes: u64,
}

impl Packer {
    fn new(control: &ControlData, sequence: u64, end: Abn) -> Packer {
        let first = control.checkpoint.abn();
        let header = ArchiveHeader {
            database: control.database,
            block_size: control.block_size,
            sequence,
            first,
            end,
            chain: 0,
        };
        let tail = ArchiveEnd { chunks: 0, blocks: 0, last_crc: 0, behind: first };
        Packer { header, raw: Vec::new(), chunk: (first, 0), tail, bytes: 0 }
    }

    async fn append(&mut self, to: &mut dyn ArchiveFile, bytes: Bytes) -> Result<(), IoError> {
        self.bytes += bytes.len() as u64;
        to.append(bytes).await
    }

    /// Takes a block whose CRC was checked. The outer error is about the block, the inner one
    /// about the store.
    async fn put(
        &mut self,
        to: &mut dyn ArchiveFile,
        header: &BlockHeader,
        crc: u32,
        block: &[u8],
    ) -> Result<Result<(), IoError>, Error> {
        let (used, padding) = block.split_at(usize::from(header.used));
        if let Some(byte) = padding.iter().find(|byte| **byte != 0) {
            // Its padding could not be restored, and no writer leaves such a block.
            let damage = Damage::Field { field: "padding", value: u64::from(*byte) };
            return Err(Error::Corrupt { abn: header.abn, damage });
        }
        if self.tail.blocks == 0 {
            self.header.chain = header.chain;
            let head = Bytes::copy_from_slice(&self.header.encode());
            if let Err(error) = self.append(to, head).await {
                return Ok(Err(error));
            }
        }
        if self.raw.len() + used.len() > CHUNK_BYTES_MAX
            && let Err(error) = self.cut(to).await
        {
            return Ok(Err(error));
        }
        if self.chunk.1 == 0 {
            self.chunk.0 = header.abn;
        }
        self.raw.extend_from_slice(used);
        self.chunk.1 += 1;
        self.tail.blocks += 1;
        self.tail.last_crc = crc;
        self.tail.behind = Abn(header.abn.0 + 1);
        Ok(Ok(()))
    }

    /// Ends the chunk.
    async fn cut(&mut self, to: &mut dyn ArchiveFile) -> Result<(), IoError> {
        let (first, blocks) = self.chunk;
        let bytes = pack(self.tail.chunks, first, blocks, &self.raw);
        self.raw.clear();
        self.chunk.1 = 0;
        self.tail.chunks += 1;
        self.append(to, Bytes::from(bytes)).await
    }

    async fn end(&mut self, to: &mut dyn ArchiveFile, name: &str) -> Result<Archived, IoError> {
        assert!(self.chunk.1 > 0, "a finished group has a block with a switch");
        self.cut(to).await?;
        let tail = Bytes::copy_from_slice(&self.tail.encode());
        self.append(to, tail).await?;
        Ok(Archived {
            sequence: self.header.sequence,
            name: name.to_owned(),
            first: self.header.first.lsn(),
            end: self.header.end.lsn(),
            blocks: self.tail.blocks,
            bytes: self.bytes,
        })
    }
}
