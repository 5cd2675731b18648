//! Log groups that come and go while the log is open.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{Device, EnvExt};
use futures_util::future::join_all;

use crate::create::{GROUP_BLOCKS_MIN, NewGroup, check_file};
use crate::error::Error;
use crate::lsn::Abn;
use crate::on_disk::HEADER_BYTES;
use crate::on_disk::control::{GROUPS_MAX, GroupEntry};
use crate::on_disk::header::capacity_of;
use crate::options::Medium;
use crate::stats::{GroupReport, GroupStatus};
use crate::writer::control_writer::header_of;
use crate::writer::log::{Inner, Log};
use crate::writer::op::write_durably;
use crate::writer::queue::Sizes;
use crate::writer::state::{GroupAt, MustWait, State};

/// A log needs a second group to go on to while the first waits for its checkpoint.
const GROUPS_MIN: usize = 2;

/// Copies of a header to be written: where, and what.
type Headers = Vec<(Arc<dyn Device>, u64, Bytes)>;

impl Log {
    /// Adds a group; `files` are by name of the medium, one on each active medium. Returns when the
    /// control data lists the group: from then on an opening needs the files. Their previous contents
    /// are lost.
    ///
    /// # Errors
    /// [`Error::GroupExists`], [`Error::BadValue`], [`Error::FileSize`], [`Error::BlockSize`],
    /// [`Error::NoMedium`]; [`Error::Io`] when a header cannot be written, and nothing is changed;
    /// [`Error::Stopped`].
    #[boxed]
    pub async fn add_group(
        &self,
        group: NewGroup,
        files: BTreeMap<String, Arc<dyn Device>>,
    ) -> Result<(), Error> {
        let inner = &self.0;
        let (at, headers, fed) = inner.with(|state| {
            let files = state.check_new(group, &files, inner.block_size)?;
            let at = GroupAt {
                bad_second: 0,
                files,
                size: group.size,
                capacity: capacity_of(group.size, inner.block_size),
                sequence: 0,
                first: 0,
                used: None,
                has_headers: false,
                prepared: false,
                dropped: false,
            };
            let headers = state.first_headers(group, &at, inner.incarnation);
            Ok::<_, Error>((at, headers, state.fed()))
        })?;
        // A crash before the control data knows of the group leaves files that nobody asks for.
        // While headers are being written, no medium comes or goes, whoever asks for it.
        let adding = Adding::begin(inner);
        let writes = async move {
            let env = &adding.0.env;
            let writes = headers.into_iter().map(|(device, offset, bytes)| async move {
                write_durably(&*device, env, offset, vec![bytes]).await.0
            });
            join_all(writes).await.into_iter().collect::<Result<(), _>>()
        };
        match inner.env.run("redo headers", writes).await {
            Some(written) => written?,
            // The machine stops: nothing more will happen here.
            None => std::future::pending().await,
        }
        let generation = inner.with(|state| {
            state.check_number(group)?;
            state.check_joined(fed, at.files.len())?;
            state.control.groups.push(entry_of(group, at.capacity));
            state.groups.push(at);
            state.control_dirty = true;
            Ok::<_, Error>(state.control.generation + 1)
        })?;
        inner.stored(generation).await?;
        inner.room.notify(usize::MAX);
        Ok(())
    }

    /// Drops a group that nobody needs. Returns when the control data no longer lists it: then its files
    /// belong to the caller.
    ///
    /// # Errors
    /// [`Error::NoGroup`], [`Error::TooFewGroups`], [`Error::GroupCurrent`],
    /// [`Error::GroupNeeded`], [`Error::NotArchived`]; [`Error::Stopped`].
    #[boxed]
    pub async fn drop_group(&self, number: u32) -> Result<(), Error> {
        let generation = loop {
            let listener = self.0.control_written.listen();
            match self.0.with(|state| state.drop_group(&self.0.sizes, number))? {
                Some(generation) => break generation,
                None => listener.await,
            }
        };
        self.0.stored(generation).await
    }

    /// The groups, in the order in which they were added.
    pub fn groups(&self) -> Vec<GroupReport> {
        self.0.with(|state| {
            let all = state.groups.iter().enumerate().zip(&state.control.groups);
            let alive = all.filter(|((_, group), _)| !group.dropped);
            let report = |((place, group), entry): ((usize, &GroupAt), &GroupEntry)| GroupReport {
                group: entry.number,
                sequence: group.sequence,
                blocks: group.capacity,
                size: group.size,
                first: Abn(group.first).lsn(),
                archived: group.sequence > 0 && group.sequence <= state.archived,
                status: state.status(place),
            };
            alive.map(report).collect()
        })
    }
}

/// Headers of a new group are on their way.
struct Adding(Arc<Inner>);

impl Adding {
    fn begin(inner: &Arc<Inner>) -> Adding {
        inner.with(|state| state.adding += 1);
        Adding(Arc::clone(inner))
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        self.0.with(|state| state.adding -= 1);
    }
}

fn entry_of(group: NewGroup, capacity: u64) -> GroupEntry {
    let NewGroup { number, size } = group;
    GroupEntry { number, capacity, size, sequence: 0, first: Abn(0) }
}

impl State {
    /// Groups that are not dropped.
    fn alive(&self) -> usize {
        self.groups.iter().filter(|group| !group.dropped).count()
    }

    /// Where the group of that number is.
    pub fn place_of(&self, number: u32) -> Option<usize> {
        let at = |place: &usize| self.control.groups[*place].number == number;
        (0..self.groups.len()).find(|place| at(place) && !self.groups[*place].dropped)
    }

    fn check_number(&self, group: NewGroup) -> Result<(), Error> {
        if let Some(error) = Inner::stopped(self) {
            return Err(error);
        }
        if self.place_of(group.number).is_some() {
            return Err(Error::GroupExists { group: group.number });
        }
        if self.alive() >= GROUPS_MAX {
            let (what, value) = ("number of groups", self.alive() as u64 + 1);
            return Err(Error::BadValue { what, value, allowed: format!("2 to {GROUPS_MAX}") });
        }
        Ok(())
    }

    /// A medium that joins, or has joined meanwhile, has no header in the new group, and maybe no
    /// file.
    fn check_joined(&self, fed: u32, media: usize) -> Result<(), Error> {
        let more = (self.fed() & !fed).trailing_zeros() as usize;
        match self.joins || more < self.media.len() || media != self.media.len() {
            true => {
                let name = self.media.get(more).or(self.media.last()).map(|m| m.name.clone());
                Err(Error::MediumBusy { medium: name.unwrap_or_default() })
            }
            false => Ok(()),
        }
    }

    /// Refuses an invalid group; returns its files by number of the medium.
    fn check_new(
        &self,
        group: NewGroup,
        given: &BTreeMap<String, Arc<dyn Device>>,
        block_size: u32,
    ) -> Result<Vec<Option<Arc<dyn Device>>>, Error> {
        self.check_number(group)?;
        if capacity_of(group.size, block_size) < GROUP_BLOCKS_MIN {
            let allowed = "room for 8 blocks between two headers".to_owned();
            return Err(Error::BadValue { what: "group size", value: group.size, allowed });
        }
        if let Some(name) = given.keys().find(|name| self.media.iter().all(|m| m.name != **name)) {
            return Err(Error::NoMedium { medium: name.clone() });
        }
        let mut files = Vec::new();
        for medium in &self.media {
            let file = given.get(&medium.name).cloned();
            if medium.is_fed() || file.is_some() {
                let files = file.iter().map(|file| (group.number, Arc::clone(file))).collect();
                let of_medium = Medium { name: medium.name.clone(), files };
                check_file(&of_medium, group.number, group.size, block_size)?;
            }
            files.push(file);
        }
        Ok(files)
    }

    /// Headers that say that the group was never written, so that the previous contents of the files are
    /// not taken for blocks of this log.
    fn first_headers(&self, group: NewGroup, at: &GroupAt, incarnation: u32) -> Headers {
        let mut control = self.control.clone();
        // A header must not be newer than the control data that a crash leaves.
        control.generation = self.stored;
        control.groups.push(entry_of(group, at.capacity));
        let place = control.groups.len() - 1;
        let mut headers = Vec::new();
        for (medium, file) in at.files.iter().enumerate() {
            let Some(file) = file.as_ref().filter(|_| self.media[medium].is_fed()) else {
                continue;
            };
            let header = header_of(&control, place, medium, incarnation).encode();
            let bytes = Bytes::copy_from_slice(&header);
            headers.push((Arc::clone(file), 0, bytes.clone()));
            headers.push((Arc::clone(file), at.size - HEADER_BYTES as u64, bytes));
        }
        headers
    }

    /// Drops a group in the state: it is gone once control data of the returned generation is durable.
    /// `None`: not while the current group has no headers. The dropped group may have the only headers
    /// that know of this opening, and without them every medium would count as stale.
    fn drop_group(&mut self, sizes: &Sizes, number: u32) -> Result<Option<u64>, Error> {
        if let Some(error) = Inner::stopped(self) {
            return Err(error);
        }
        let place = self.check_drop(sizes, number)?;
        if !self.groups[self.current].prepared {
            return Ok(None);
        }
        // The next one is assigned again when it is needed.
        self.next.retain(|next| *next != place);
        let group = &mut self.groups[place];
        // Its sequence may become another's.
        (group.dropped, group.sequence, group.first) = (true, 0, 0);
        group.used = None;
        self.control_dirty = true;
        Ok(Some(self.control.generation + 1))
    }

    /// Where a group is that may be dropped.
    fn check_drop(&self, sizes: &Sizes, group: u32) -> Result<usize, Error> {
        let place = self.place_of(group).ok_or(Error::NoGroup { group })?;
        if self.alive() <= GROUPS_MIN {
            return Err(Error::TooFewGroups { group });
        }
        if self.next.back() == Some(&place) {
            // Nothing was written to it, and no other group was put after it. Reserved records may go
            // there.
            let capacity = self.groups[place].capacity;
            return match self.blocks_left(sizes) >= self.reserved.blocks + capacity {
                true => Ok(place),
                false => Err(Error::GroupNeeded { group }),
            };
        }
        let sequence = self.groups[place].sequence;
        if place == self.current || self.next.contains(&place) {
            return Err(Error::GroupCurrent { group });
        }
        match self.is_free(place) {
            Ok(()) => Ok(place),
            Err(MustWait::Archive) => Err(Error::NotArchived { group, sequence }),
            Err(MustWait::Checkpoint | MustWait::Buffer) => Err(Error::GroupNeeded { group }),
        }
    }

    fn status(&self, place: usize) -> GroupStatus {
        let next = self.next.contains(&place);
        match self.groups[place].sequence {
            _ if place == self.current => GroupStatus::Current,
            0 => GroupStatus::Unused,
            _ if next => GroupStatus::Next,
            _ if self.is_free(place) == Err(MustWait::Checkpoint) => GroupStatus::Active,
            _ => GroupStatus::Inactive,
        }
    }
}
