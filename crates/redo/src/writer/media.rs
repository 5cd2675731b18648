//! Media that join, return and leave while the log is open.
//!
//! A medium that joins is listed as failed in the control data until it is whole. It gets every new
//! unit from the start, and older blocks are copied to it from the others; it does not count for
//! the quorum. When it has everything, one write of the control data lists it as active. While that
//! write is in flight, units need the quorum with it and the quorum without it, because a recovery
//! may go by either.

use std::future::Future;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{Device, Durability, EnvExt, Io, IoError};
use futures_util::future::try_join_all;

use crate::create::check_file;
use crate::error::Error;
use crate::lsn::{Abn, Lsn};
use crate::on_disk::control::{ControlData, GroupEntry, MediumEntry};
use crate::on_disk::header::{MediumState, Quorum};
use crate::on_disk::{HEADER_BYTES, MEDIA_MAX, UNIT_BYTES_MAX};
use crate::options::Medium;
use crate::recovery::judge::Standing;
use crate::recovery::read::{Files, LAST, Reader, in_time};
use crate::recovery::walk::Walk;
use crate::stats::MediumStats;
use crate::writer::control_writer::header_of;
use crate::writer::layout::offset_of;
use crate::writer::log::{Inner, Log};
use crate::writer::op::write_durably;
use crate::writer::state::{GroupAt, Health, MediumAt, State, Tracked};

/// What is copied to a medium that joins.
struct Copying {
    control: ControlData,
    files: Vec<Files>,
    /// The copy ends at this block: the medium gets what follows as it is written.
    until: u64,
}

/// A medium that catches up, until it is whole or given up.
struct Joining<'a> {
    inner: &'a Arc<Inner>,
    medium: usize,
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        self.inner.with(|state| {
            state.pin = None;
            state.joins = false;
            if matches!(state.media[self.medium].health, Health::CatchingUp { .. }) {
                state.leave(self.medium);
                state.forget();
            }
        });
        self.inner.room.notify(usize::MAX);
    }
}

impl Log {
    /// Adds a medium, with a file for each group. Returns when it has all that recovery or the
    /// archiver may need and counts for the quorum, durably. Until then an opening does without it.
    /// The previous contents of the files are lost. If copying fails, the medium is listed as
    /// failed: [`return_medium`](Log::return_medium) tries again.
    ///
    /// # Errors
    /// [`Error::MediumExists`], [`Error::BadValue`], [`Error::FileSize`], [`Error::BlockSize`];
    /// [`Error::MediumBusy`] while another joins; [`Error::MediumLost`] when it fails meanwhile;
    /// [`Error::Damaged`], [`Error::MediaMissing`] when the others cannot be read;
    /// [`Error::Stopped`].
    #[boxed]
    pub async fn add_medium(&self, medium: Medium) -> Result<(), Error> {
        let inner = &self.0;
        let name = medium.name.clone();
        let (number, generation) = inner.with(|state| {
            let number = state.place_for(&medium, inner.block_size)?;
            state.put_files(number, &medium);
            state.joins = true;
            state.control_dirty = true;
            Ok::<_, Error>((number, state.control.generation + 1))
        })?;
        let joining = Joining { inner, medium: number };
        inner.stored(generation).await?;
        self.resilver(joining, &name).await
    }

    /// Puts a failed medium back in use, with its files as they are opened now. Returns when it has
    /// all that it missed and counts for the quorum, durably.
    ///
    /// # Errors
    /// As [`add_medium`](Log::add_medium); [`Error::NoMedium`]; [`Error::MediumBusy`] also for one
    /// that takes part, or that has writes which were never answered: they may yet be done.
    #[boxed]
    pub async fn return_medium(&self, medium: Medium) -> Result<(), Error> {
        let inner = &self.0;
        let name = medium.name.clone();
        let number = inner.with(|state| {
            let number = state.failed_medium(&medium, inner.block_size)?;
            state.put_files(number, &medium);
            state.joins = true;
            Ok::<_, Error>(number)
        })?;
        self.resilver(Joining { inner, medium: number }, &name).await
    }

    /// Closes the files of a medium that has failed, so that they can be opened again for
    /// [`return_medium`](Log::return_medium): a file open for writing is locked exclusively. Not
    /// while a write is unanswered: then it is busy.
    ///
    /// # Errors
    /// [`Error::NoMedium`]; [`Error::MediumBusy`]; [`Error::Stopped`].
    pub fn release(&self, name: &str) -> Result<(), Error> {
        let closed = self.0.with(|state| {
            let number = state.failed_number(name)?;
            let files = state.groups.iter_mut().map(|group| group.files[number].take());
            Ok::<Vec<_>, Error>(files.collect())
        })?;
        // With no lock held.
        drop(closed);
        Ok(())
    }

    /// Drops a medium. Returns when the control data no longer lists it: then its files belong to
    /// the caller, once the medium has answered outstanding requests, which are waited for at most
    /// [`Options::write_timeout`](crate::Options::write_timeout). Everything acknowledged is on
    /// enough of the other media before that.
    ///
    /// # Errors
    /// [`Error::NoMedium`]; [`Error::LastMedium`] where too few would be left for the quorum;
    /// [`Error::MediumBusy`] while a group is added;
    /// [`Error::Stopped`].
    #[boxed]
    pub async fn drop_medium(&self, name: &str) -> Result<(), Error> {
        let inner = &self.0;
        let number = inner.with(|state| {
            if let Some(error) = Inner::stopped(state) {
                return Err(error);
            }
            let number = state.check_drop_medium(name)?;
            if state.media[number].is_fed() {
                state.set_aside(number);
            }
            Ok(number)
        })?;
        loop {
            let listener = inner.control_written.listen();
            let recorded = inner.with(|state| match Inner::stopped(state) {
                Some(error) => Err(error),
                None => Ok(matches!(state.media[number].health, Health::Failed)),
            })?;
            if recorded {
                break;
            }
            listener.await;
        }
        let (generation, files) = inner.with(|state| {
            // Its number is kept: the headers of the others have theirs.
            state.media[number].was = std::mem::take(&mut state.media[number].name);
            state.control.media[number].name.clear();
            let files = state.groups.iter_mut().map(|group| group.files[number].take());
            let files: Vec<_> = files.collect();
            state.control_dirty = true;
            (state.control.generation + 1, files)
        });
        // With no lock held: to close a file may take as long as its file system likes.
        drop(files);
        inner.stored(generation).await?;
        // Its writes in flight must not overwrite what comes next in its files. A medium that does
        // not answer is not waited for: it may return under another name only.
        let until = inner.env.now().plus(inner.options.write_timeout);
        while !inner.with(|state| state.media[number].is_answered()) && inner.env.now() < until {
            inner.env.sleep(inner.options.heartbeat_after).await;
        }
        Ok(())
    }

    /// Copies to a medium what it lacks while it gets new units, then makes it count.
    async fn resilver(&self, joining: Joining<'_>, name: &str) -> Result<(), Error> {
        let (inner, number) = (&self.0, joining.medium);
        let lost = || Error::MediumLost { medium: name.to_owned() };
        // Its headers first: what else is in the files must not be taken for ours.
        let headers = inner.with(|state| state.headers_of(number, inner.incarnation));
        let env = Arc::clone(&inner.env);
        let writes = async move {
            for (device, offset, bytes) in headers {
                write_durably(&*device, &env, offset, vec![bytes]).await.0?;
            }
            Ok(())
        };
        inner.watched(number, writes).await.ok_or_else(lost)?;
        let copying = inner.with(|state| match Inner::stopped(state) {
            Some(error) => Err(error),
            None => Ok(state.begin_to_feed(number)),
        })?;
        self.wait_durable(&inner.session, Abn(copying.until).lsn()).await?;
        self.copy_to(number, copying, &lost).await?;
        inner.with(|state| {
            state.pin = None;
            if let Health::CatchingUp { ready } = &mut state.media[number].health {
                *ready = true;
            }
        });
        inner.room.notify(usize::MAX);
        loop {
            let listener = inner.control_written.listen();
            let health = inner.with(|state| match Inner::stopped(state) {
                Some(error) => Err(error),
                None => Ok(state.media[number].health.clone()),
            })?;
            match health {
                Health::Active => return Ok(()),
                Health::CatchingUp { .. } | Health::Joining => listener.await,
                Health::Failing { .. } | Health::Failed => return Err(lost()),
            }
        }
    }

    /// Copies blocks from the oldest that is needed on.
    async fn copy_to(
        &self,
        medium: usize,
        copying: Copying,
        lost: &impl Fn() -> Error,
    ) -> Result<(), Error> {
        let inner = &self.0;
        let Copying { control, files, until } = copying;
        let standing = files.iter().map(|f| match f.iter().any(Option::is_some) {
            true => Standing::Whole,
            false => Standing::Failed,
        });
        let standing = standing.collect();
        let (env, session) = (Arc::clone(&inner.env), inner.session.clone());
        let read_timeout = inner.options.write_timeout;
        let mut reader = Reader::new(env, session, control.block_size, files, read_timeout);
        let mut walk = Walk::new(control, standing)?;
        reader.go(walk.places());
        let mut run = Run::default();
        while walk.abn < until {
            let abn = walk.abn;
            let Ok((_, block)) = walk.step(&mut reader).await? else {
                let (from, to) = (walk.end(), Abn(until).lsn());
                return Err(Error::Damaged { from, to, lost_writes: Vec::new() });
            };
            walk.repairs.clear();
            if !run.takes(walk.group, abn, block.len()) {
                self.put_run(medium, std::mem::take(&mut run), lost).await?;
            }
            run.push(walk.group, abn, block);
        }
        self.put_run(medium, run, lost).await?;
        let devices = inner.with(|state| {
            let file = |g: &GroupAt| g.files[medium].clone();
            state.groups.iter().filter_map(file).collect::<Vec<_>>()
        });
        let flushes = async move {
            try_join_all(devices.iter().map(|device| device.flush(Io::BACKGROUND))).await.map(drop)
        };
        inner.watched(medium, flushes).await.ok_or_else(lost)
    }

    /// Writes blocks that follow each other; their places may be written again afterwards.
    async fn put_run(
        &self,
        medium: usize,
        run: Run,
        lost: &impl Fn() -> Error,
    ) -> Result<(), Error> {
        let inner = &self.0;
        if run.blocks.is_empty() {
            return Ok(());
        }
        let place = inner.with(|state| {
            let is_fed = state.media[medium].is_fed();
            let group = &state.groups[run.group];
            let place = group.files[medium].clone().map(|device| (device, group.first));
            place.filter(|_| is_fed)
        });
        let (device, first) = place.ok_or_else(lost)?;
        let offset = offset_of(run.first - first, u64::from(inner.block_size));
        let end = run.end;
        let write = async move {
            device.write(Io::BACKGROUND, offset, run.blocks, Durability::Cached).await
        };
        inner.watched(medium, write).await.ok_or_else(lost)?;
        inner.with(|state| state.pin = state.pin.map(|pin| pin.max(end)));
        inner.room.notify(usize::MAX);
        Ok(())
    }
}

impl Inner {
    /// Makes a joining medium perform a request; `None` where it failed or took too long. Until the
    /// request is answered, however late, nothing else may rely on the contents of the files.
    async fn watched(
        self: &Arc<Self>,
        medium: usize,
        work: impl Future<Output = Result<(), IoError>> + Send + 'static,
    ) -> Option<()> {
        let now = self.now();
        let id = self.with(|state| {
            let id = state.next_write;
            state.next_write += 1;
            state.media[medium].headers.insert(id, now);
            id
        });
        let inner = Arc::clone(self);
        let task = self.env.run("redo copy", async move {
            let done = work.await;
            inner.with(|state| {
                let at = &mut state.media[medium];
                at.headers.remove(&id);
                at.error = done.as_ref().err().cloned().or(at.error.take());
            });
            inner.control_written.notify(usize::MAX);
            done
        });
        let limit = self.options.write_timeout * LAST;
        in_time(&self.env, limit, task).await.flatten()?.ok()
    }
}

/// Blocks of one group that follow each other.
#[derive(Default)]
struct Run {
    group: usize,
    first: u64,
    end: u64,
    bytes: usize,
    blocks: Vec<Bytes>,
}

impl Run {
    fn takes(&self, group: usize, abn: u64, bytes: usize) -> bool {
        self.blocks.is_empty()
            || (self.group == group && self.end == abn && self.bytes + bytes <= UNIT_BYTES_MAX)
    }

    fn push(&mut self, group: usize, abn: u64, block: Bytes) {
        if self.blocks.is_empty() {
            (self.group, self.first) = (group, abn);
        }
        self.end = abn + 1;
        self.bytes += block.len();
        self.blocks.push(block);
    }
}

impl State {
    /// A number for a new medium: one that was dropped, or one more.
    fn place_for(&mut self, medium: &Medium, block_size: u32) -> Result<usize, Error> {
        if let Some(error) = Inner::stopped(self) {
            return Err(error);
        }
        let name = medium.name.clone();
        if name.is_empty() || self.media.iter().any(|m| m.name == name) {
            return Err(Error::MediumExists { medium: name });
        }
        if self.media.iter().any(|m| m.was == name && !m.is_answered()) {
            return Err(Error::MediumBusy { medium: name });
        }
        self.check_files(medium, block_size)?;
        let is_free = |m: &MediumAt| m.name.is_empty() && m.is_answered();
        let state = MediumState::Failed { since: Abn(self.durable) };
        if let Some(number) = self.media.iter().position(is_free) {
            self.media[number].name.clone_from(&name);
            self.media[number].was.clear();
            self.media[number].error = None;
            self.media[number].stats = MediumStats::default();
            self.control.media[number] = MediumEntry { name, state };
            return Ok(number);
        }
        if self.media.len() >= MEDIA_MAX {
            let value = self.media.len() as u64 + 1;
            let allowed = format!("1 to {MEDIA_MAX}");
            return Err(Error::BadValue { what: "number of media", value, allowed });
        }
        self.control.media.push(MediumEntry { name: name.clone(), state });
        self.groups.iter_mut().for_each(|group| group.files.push(None));
        self.media.push(MediumAt::new(name, Health::Failed));
        Ok(self.media.len() - 1)
    }

    /// The number of a medium that failed and may come back.
    fn failed_medium(&self, medium: &Medium, block_size: u32) -> Result<usize, Error> {
        let number = self.failed_number(&medium.name)?;
        self.check_files(medium, block_size)?;
        Ok(number)
    }

    /// One that failed, and has answered whatever it was given.
    fn failed_number(&self, name: &str) -> Result<usize, Error> {
        if let Some(error) = Inner::stopped(self) {
            return Err(error);
        }
        let number = self.number_of(name)?;
        let at = &self.media[number];
        if !matches!(at.health, Health::Failed) || !at.is_answered() || self.joins {
            return Err(Error::MediumBusy { medium: name.to_owned() });
        }
        Ok(number)
    }

    fn number_of(&self, name: &str) -> Result<usize, Error> {
        let number = self.media.iter().position(|m| m.name == name && !name.is_empty());
        number.ok_or_else(|| Error::NoMedium { medium: name.to_owned() })
    }

    /// A medium that joins has a file for each group, and no other joins.
    fn check_files(&self, medium: &Medium, block_size: u32) -> Result<(), Error> {
        if self.joins || self.adding > 0 {
            return Err(Error::MediumBusy { medium: medium.name.clone() });
        }
        for (group, entry) in self.groups.iter().zip(&self.control.groups) {
            if !group.dropped {
                check_file(medium, entry.number, group.size, block_size)?;
            }
        }
        Ok(())
    }

    fn put_files(&mut self, number: usize, medium: &Medium) {
        for (group, entry) in self.groups.iter_mut().zip(&self.control.groups) {
            let file = medium.files.get(&entry.number).filter(|_| !group.dropped);
            group.files[number] = file.cloned();
        }
    }

    fn check_drop_medium(&self, name: &str) -> Result<usize, Error> {
        let number = self.number_of(name)?;
        // A joining medium is listed as failed until it has headers and its files are being
        // written.
        let may_join = self.joins && matches!(self.media[number].health, Health::Failed);
        if self.adding > 0 || may_join {
            return Err(Error::MediumBusy { medium: name.to_owned() });
        }
        let left = (self.active() & !(1 << number)).count_ones() as usize;
        let least = match self.control.quorum {
            Quorum::Auto => 1,
            Quorum::Of(k) => usize::from(k).max(1),
        };
        // One that does not take part is missed by nobody.
        if self.media[number].is_active() && left < least {
            return Err(Error::LastMedium { medium: name.to_owned() });
        }
        Ok(number)
    }

    /// The headers of every group for a medium that joins.
    fn headers_of(&self, medium: usize, incarnation: u32) -> Vec<(Arc<dyn Device>, u64, Bytes)> {
        let mut control = self.control.clone();
        // A header must not be newer than the control data that a crash leaves.
        control.generation = self.stored;
        let mut headers = Vec::new();
        for (place, group) in self.groups.iter().enumerate() {
            let Some(file) = &group.files[medium] else { continue };
            let header = header_of(&control, place, medium, incarnation).encode();
            let bytes = Bytes::copy_from_slice(&header);
            headers.push((Arc::clone(file), 0, bytes.clone()));
            headers.push((Arc::clone(file), group.size - HEADER_BYTES as u64, bytes));
        }
        headers
    }

    /// From now on the medium gets what is new; says what is to be copied.
    fn begin_to_feed(&mut self, medium: usize) -> Copying {
        let until = self.tracked.back().map_or(self.durable, |unit| unit.end);
        let from = self.next_unit();
        let at = &mut self.media[medium];
        at.health = Health::CatchingUp { ready: false };
        (at.fed_from, at.exposed, at.error) = (from, 0, None);
        let mut control = self.control.clone();
        for (entry, group) in control.groups.iter_mut().zip(&self.groups) {
            (entry.sequence, entry.first) = (group.sequence, Abn(group.first));
        }
        let owed = |g: &&GroupEntry| control.archiving && g.sequence > control.archived;
        let owed = control.groups.iter().filter(owed).map(|g| g.first).min();
        // Whoever calls it active stores this checkpoint, or a later one, with it.
        control.checkpoint = owed.map_or(Lsn(u64::MAX), Abn::lsn).min(control.checkpoint);
        self.pin = Some(control.checkpoint.abn().0);
        // A medium that is leaving may have blocks that those that stay do not have yet.
        let enrolled = self.enrolled();
        let files = (0..self.media.len()).map(|number| {
            let file = |g: &GroupAt| g.files[number].clone();
            self.groups.iter().map(|g| file(g).filter(|_| enrolled & 1 << number != 0)).collect()
        });
        Copying { files: files.collect(), control, until }
    }

    /// Media that have everything, where nothing speaks against counting them now.
    pub fn to_join(&self) -> u32 {
        let ready = self.mask(|health| matches!(health, Health::CatchingUp { ready: true }));
        if ready == 0 || self.has_failing() {
            return 0;
        }
        let with = self.enrolled() | ready;
        let acked = (self.unacked - self.base) as usize;
        let enough = |(at, unit): (usize, &Tracked)| {
            let number = self.base + at as u64;
            // What was launched before it was fed was copied to it.
            let copied = self.mask_of(|medium| number < medium.fed_from) & ready;
            ((unit.copies | copied) & with).count_ones() >= self.quorum(with)
        };
        let all = self.tracked.iter().enumerate().take(acked).all(enough);
        if all { ready } else { 0 }
    }

    /// Removes a medium that does not count; nothing need be recorded.
    pub fn leave(&mut self, medium: usize) {
        let at = &mut self.media[medium];
        at.health = Health::Failed;
        at.pending.clear();
        at.exposed = 0;
        self.has_left = true;
    }
}
