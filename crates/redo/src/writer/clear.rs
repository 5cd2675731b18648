//! Clearing a group: its contents are given up, archived or not, and it may be reused.

use crate::error::Error;
use crate::writer::log::{Inner, Log};
use crate::writer::state::{Health, MediumAt, MustWait, State};
use async_recursion::async_recursion as boxed;

/// The result of checking a group that is to be cleared.
enum Look {
    /// Its archive is just being published: wait for the outcome.
    Published,
    /// It is cleared when control data of this generation is durable; also the sequence that then
    /// has no archive.
    Cleared(u64, Option<u64>),
}

impl Log {
    /// Clears a group: its contents are given up, and it may be reused at once. Its files stay.
    /// With `unarchived` this also works for a group that was not archived, for use when it cannot
    /// be: the archiver goes on with the next sequence, and this one never gets an archive.
    /// Sequences are given up in order, the oldest first. Returns when that is durable, with the
    /// sequence that has no archive because of it. A group that is already empty stays as it is.
    ///
    /// # Errors
    /// [`Error::NoGroup`]; [`Error::GroupCurrent`], [`Error::GroupNeeded`]; [`Error::MediumBusy`]
    /// while a medium that catches up needs it;
    /// [`Error::NotArchived`], with `unarchived` for an older group than this one;
    /// [`Error::Stopped`]: whether it was cleared is known at the next opening.
    #[boxed]
    pub async fn clear_group(&self, number: u32, unarchived: bool) -> Result<Option<u64>, Error> {
        let (generation, lost) = loop {
            let listener = self.0.control_written.listen();
            match self.0.with(|state| state.clear(number, unarchived))? {
                Look::Cleared(generation, lost) => break (generation, lost),
                Look::Published => listener.await,
            }
        };
        self.0.stored(generation).await?;
        Ok(lost)
    }
}

impl State {
    /// Clears a group in the state; it takes effect with one write of the control data. Its headers
    /// and blocks stay as they are until the group is reused: only the control data says which
    /// sequence a group has.
    fn clear(&mut self, number: u32, unarchived: bool) -> Result<Look, Error> {
        if let Some(error) = Inner::stopped(self) {
            return Err(error);
        }
        let place = self.place_of(number).ok_or(Error::NoGroup { group: number })?;
        let sequence = self.groups[place].sequence;
        if place == self.current {
            return Err(Error::GroupCurrent { group: number });
        }
        if sequence == 0 || self.next.contains(&place) {
            // Empty; it may have been cleared a moment ago.
            let generation = self.control.generation + u64::from(self.control_dirty);
            return Ok(Look::Cleared(generation, None));
        }
        let lost = match self.is_free(place) {
            Ok(()) => None,
            Err(MustWait::Archive) => {
                let (group, oldest) = self.oldest_unarchived().unwrap_or((number, sequence));
                if !unarchived {
                    return Err(Error::NotArchived { group: number, sequence });
                }
                if self.publishing == Some(sequence) {
                    return Ok(Look::Published);
                }
                if oldest < sequence {
                    return Err(Error::NotArchived { group, sequence: oldest });
                }
                Some(sequence)
            }
            Err(_) if self.is_pinned(place) => {
                let joins = |m: &&MediumAt| matches!(m.health, Health::CatchingUp { .. });
                let medium = self.media.iter().find(joins).map(|m| m.name.clone());
                return Err(Error::MediumBusy { medium: medium.unwrap_or_default() });
            }
            Err(MustWait::Checkpoint | MustWait::Buffer) => {
                return Err(Error::GroupNeeded { group: number });
            }
        };
        self.control.archived = self.control.archived.max(lost.unwrap_or(0));
        let group = &mut self.groups[place];
        (group.sequence, group.first, group.used) = (0, 0, None);
        (group.has_headers, group.prepared) = (false, false);
        self.control_dirty = true;
        Ok(Look::Cleared(self.control.generation + 1, lost))
    }

    /// Whether only a medium that catches up needs the group.
    fn is_pinned(&self, place: usize) -> bool {
        let end = self.groups[place].end();
        self.checkpoint >= end && self.pin.is_some_and(|pin| pin < end)
    }

    /// Number and sequence of the oldest group that was not archived.
    fn oldest_unarchived(&self) -> Option<(u32, u64)> {
        let all = self.groups.iter().zip(&self.control.groups);
        let owed = all.filter(|(group, _)| group.sequence > self.control.archived);
        owed.map(|(group, entry)| (entry.number, group.sequence)).min_by_key(|(_, s)| *s)
    }

    /// Whether a group still has that sequence, and was not cleared.
    pub fn has_sequence(&self, sequence: u64) -> bool {
        self.groups.iter().any(|group| group.sequence == sequence)
    }

    /// Announces that an archive is about to be published; false where its group was cleared
    /// meanwhile. Until that is over the group is not cleared, so that what the log says about the
    /// archive stays true.
    pub fn begin_to_publish(&mut self, sequence: u64) -> bool {
        let has = self.has_sequence(sequence);
        self.publishing = has.then_some(sequence);
        has
    }
}
