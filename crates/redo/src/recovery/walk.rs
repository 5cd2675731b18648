//! The walk over the log: a union of all media, block by block, until there is no valid copy.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use crate::error::Error;
use crate::lsn::{Abn, Lsn};
use crate::on_disk::block::{BlockHeader, SWITCH};
use crate::on_disk::control::ControlData;
use crate::on_disk::{UNIT_BYTES_MAX, UNITS_IN_FLIGHT_MAX};
use crate::recovery::judge::Standing;
use crate::recovery::read::{Copy, Place, ReadBlocks, Reader};

/// Where the walk is.
pub(crate) struct Walk {
    pub control: ControlData,
    pub standing: Vec<Standing>,
    /// The next block.
    pub abn: u64,
    /// Its group, by place.
    pub group: usize,
    /// The CRC of the block before, where it is known.
    pub chain: Option<u32>,
    /// Every block below was acknowledged.
    pub durable: u64,
    /// Whether the last block was the last of its group.
    pub switched: bool,
    /// Of groups that were finished, by place: the number behind the last block.
    pub used: BTreeMap<usize, u64>,
    /// Blocks that a medium lacks.
    pub repairs: Vec<Repair>,
    current: Option<ReadBlocks>,
}

/// A block that a medium lacks.
pub(crate) struct Repair {
    pub medium: usize,
    pub group: usize,
    pub abn: u64,
    pub block: Bytes,
}

/// What was found at a block number.
enum Found {
    Block(BlockHeader, u32, Bytes),
    Nothing,
}

/// What is known at the end of the log.
pub(crate) struct End {
    /// Media that cannot tell whether they have the block at the end.
    pub unknown: Vec<usize>,
}

impl Walk {
    /// A walk from the checkpoint.
    ///
    /// # Errors
    /// [`Error::ControlDamaged`] where the checkpoint is in no group.
    pub fn new(control: ControlData, standing: Vec<Standing>) -> Result<Walk, Error> {
        let abn = control.checkpoint.abn();
        let before = control.incarnation_of(abn);
        let damage = crate::on_disk::Damage::Field { field: "checkpoint", value: abn.0 };
        // Just behind the last block of a group whose successor was not assigned.
        let behind = |g: &crate::on_disk::control::GroupEntry| {
            g.sequence > 0 && g.first.0 + g.capacity == abn.0
        };
        let (group, switched) = match control.group_of(abn) {
            Some(group) => (group, false),
            None => match control.groups.iter().position(behind) {
                Some(group) => (group, true),
                None => return Err(Error::ControlDamaged { damage }),
            },
        };
        let chain = before.filter(|i| i.first == abn).map(|i| i.chain);
        let started = control.incarnation().first;
        let durable = control.durable.max(started).max(control.clean.map_or(Abn(0), |c| c.end));
        Ok(Walk {
            control,
            standing,
            abn: abn.0,
            group,
            chain,
            durable: durable.0,
            switched,
            used: BTreeMap::new(),
            repairs: Vec::new(),
            current: None,
        })
    }

    /// The blocks left in the group, then those of the groups that follow it.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        let (mut group, mut from) = (self.group, self.abn);
        loop {
            let entry = &self.control.groups[group];
            let end = entry.first.0 + entry.capacity;
            if from < end {
                places.push(Place { group, first: entry.first.0, blocks: from..end });
            }
            let next = |g: &crate::on_disk::control::GroupEntry| {
                g.sequence == entry.sequence + 1 && g.first.0 == end
            };
            match self.control.groups.iter().position(next) {
                Some(next) => (group, from) = (next, end),
                None => return places,
            }
        }
    }

    /// The next block of the log, or its end.
    pub async fn step(
        &mut self,
        reader: &mut Reader,
    ) -> Result<Result<(BlockHeader, Bytes), End>, Error> {
        if !self.load(reader).await {
            return Ok(Err(self.end_of_groups()));
        }
        let Some(incarnation) = self.control.incarnation_of(Abn(self.abn)) else {
            return Ok(Err(self.end_of_groups()));
        };
        if incarnation.first.0 == self.abn && self.chain.is_some_and(|c| c != incarnation.chain) {
            let what =
                format!("the control data has another block before it, {:#x}", incarnation.chain);
            return Err(Error::Divergent { at: Abn(self.abn).lsn(), what });
        }
        match self.union(incarnation.number)? {
            Found::Block(header, crc, block) => {
                self.durable = self.durable.max(header.durable.0);
                self.chain = Some(crc);
                let entry = &self.control.groups[self.group];
                let end = entry.first.0 + entry.capacity;
                self.switched = header.is(SWITCH) || self.abn + 1 == end;
                if self.switched {
                    self.used.insert(self.group, self.abn + 1);
                }
                self.abn = if self.switched { end } else { self.abn + 1 };
                Ok(Ok((header, block)))
            }
            Found::Nothing => Ok(Err(End { unknown: self.unknown() })),
        }
    }

    /// Media that do not answer are as good as missing.
    fn note_late(&mut self, reader: &Reader) {
        for medium in &reader.late {
            self.standing[*medium] = self.standing[*medium].unanswered();
        }
    }

    /// Makes sure that the blocks around the next one are loaded; false past the last group.
    async fn load(&mut self, reader: &mut Reader) -> bool {
        loop {
            if let Some(blocks) = &self.current
                && blocks.place.blocks.contains(&self.abn)
            {
                self.group = blocks.place.group;
                return true;
            }
            self.current = reader.next().await;
            self.note_late(reader);
            if self.current.is_none() {
                return false;
            }
        }
    }

    /// All copies of the next block, judged.
    fn union(&mut self, incarnation: u32) -> Result<Found, Error> {
        let blocks = self.current.as_ref().expect("the block was loaded");
        let at = Abn(self.abn).lsn();
        let mut found: Option<(BlockHeader, u32, &[u8])> = None;
        let (mut lacking, mut returning) = (Vec::new(), Vec::new());
        for medium in 0..self.standing.len() {
            let bytes = match blocks.copy(medium, self.abn) {
                Copy::Absent => continue,
                Copy::Unreadable => {
                    lacking.push(medium);
                    continue;
                }
                Copy::Bytes(bytes) => bytes,
            };
            let right = |(header, _): &(BlockHeader, u32)| {
                header.abn.0 == self.abn && header.incarnation == incarnation
            };
            let opened = BlockHeader::open(bytes, self.control.database).ok().filter(right);
            let Some((header, crc)) = opened else {
                lacking.push(medium);
                continue;
            };
            if self.standing[medium] == Standing::Returning {
                // Compared below, once it is known which copy is right.
                returning.push((medium, bytes));
                continue;
            }
            if self.chain.is_some_and(|chain| chain != header.chain) {
                let what = format!(
                    "on {} it follows another block than the one before it",
                    self.control.media[medium].name
                );
                return Err(Error::Divergent { at, what });
            }
            match &found {
                None => found = Some((header, crc, bytes)),
                Some((_, _, other)) if *other == bytes => {}
                Some(_) => {
                    let what = format!(
                        "{} has another block than the others",
                        self.control.media[medium].name
                    );
                    return Err(Error::Divergent { at, what });
                }
            }
        }
        let Some((header, crc, bytes)) = found else { return Ok(Found::Nothing) };
        let differs = returning.into_iter().filter(|(_, other)| *other != bytes);
        lacking.extend(differs.map(|(medium, _)| medium));
        let block = Bytes::copy_from_slice(bytes);
        let (group, abn) = (self.group, self.abn);
        let repair = |medium| Repair { medium, group, abn, block: block.clone() };
        self.repairs.extend(lacking.into_iter().map(repair));
        Ok(Found::Block(header, crc, block))
    }

    /// Media that cannot say whether they have the next block.
    fn unknown(&self) -> Vec<usize> {
        let blocks = self.current.as_ref();
        let unreadable = |medium: usize| {
            blocks.is_some_and(|b| matches!(b.copy(medium, self.abn), Copy::Unreadable))
        };
        let cannot = |(medium, standing): (usize, &Standing)| match standing {
            Standing::Missing | Standing::Stale => Some(medium),
            Standing::Failed | Standing::Returning => None,
            Standing::Whole => unreadable(medium).then_some(medium),
        };
        self.standing.iter().enumerate().filter_map(cannot).collect()
    }

    fn end_of_groups(&self) -> End {
        let lost = |s: &Standing| matches!(s, Standing::Missing | Standing::Stale);
        let all = self.standing.iter().enumerate();
        End { unknown: all.filter(|(_, s)| lost(s)).map(|(medium, _)| medium).collect() }
    }

    /// Looks past the gap for blocks that show how far the log was acknowledged: units in flight
    /// can reach that far, and into groups that follow.
    pub async fn look_behind(&mut self, reader: &mut Reader, end: &mut End) {
        let window =
            (UNITS_IN_FLIGHT_MAX * UNIT_BYTES_MAX) as u64 / u64::from(self.control.block_size);
        let cut = |place: Place| {
            let Range { start, end } = place.blocks;
            Place { blocks: start..end.min(start.saturating_add(window)), ..place }
        };
        reader.go(self.places().into_iter().map(cut));
        while let Some(blocks) = reader.next().await {
            for abn in blocks.place.blocks.clone() {
                let expected = self.control.incarnation_of(Abn(abn)).map(|i| i.number);
                let believed = |m: &usize| self.standing[*m] != Standing::Returning;
                for medium in (0..self.standing.len()).filter(believed) {
                    let Copy::Bytes(bytes) = blocks.copy(medium, abn) else { continue };
                    let Ok((header, _)) = BlockHeader::open(bytes, self.control.database) else {
                        continue;
                    };
                    if header.abn.0 == abn && Some(header.incarnation) == expected {
                        self.durable = self.durable.max(header.durable.0);
                    }
                }
            }
        }
        self.note_late(reader);
        // The medium that fell silent here may have been the one that shows how far it goes.
        let missing = |m: &usize| self.standing[*m] == Standing::Missing;
        let more = (0..self.standing.len()).filter(missing).filter(|m| !end.unknown.contains(m));
        let more: Vec<usize> = more.collect();
        end.unknown.extend(more);
    }

    /// Whether the log may end here, and what is wrong if not.
    pub fn judge_end(&self, end: &End, force: bool) -> Result<(), Error> {
        let from = Abn(self.abn).lsn();
        let known_until = (self.durable > self.abn).then(|| Abn(self.durable).lsn());
        let name = |medium: &usize| self.control.media[*medium].name.clone();
        let active = self.control.media.iter().filter(|m| m.state.is_active()).count();
        let quorum = self.control.quorum.of(active);
        // A log that was closed cleanly ends where it says, whichever media are missing.
        let closed = self.control.clean.is_some_and(|clean| clean.end.0 <= self.abn);
        // Then each active medium has everything; one that was not active lacks what is to be
        // archived.
        let has_all = self.standing.contains(&Standing::Whole);
        let closed = closed && (has_all || !self.owes_archives());
        let may_lack = (end.unknown.len() >= quorum && !closed) || known_until.is_some();
        if may_lack && !end.unknown.is_empty() {
            if force {
                return Ok(());
            }
            let media = end.unknown.iter().map(name).collect();
            return Err(Error::MediaMissing { from, known_until, media, causes: Vec::new() });
        }
        match known_until {
            None => Ok(()),
            Some(_) if force => Ok(()),
            Some(to) => {
                let whole = |(_, s): &(usize, &Standing)| **s == Standing::Whole;
                let whole = self.standing.iter().enumerate().filter(whole);
                let lost_writes = whole.map(|(medium, _)| name(&medium)).collect();
                Err(Error::Damaged { from, to, lost_writes })
            }
        }
    }

    /// Whether blocks below the checkpoint are still to be archived.
    fn owes_archives(&self) -> bool {
        let control = &self.control;
        let checkpoint = control.checkpoint.abn();
        let mut groups = control.groups.iter();
        control.archiving && groups.any(|g| g.sequence > control.archived && g.first < checkpoint)
    }

    /// An LSN among block numbers that a switch skipped stands for the place where the log
    /// continued.
    pub fn past_skipped(&self, lsn: Lsn) -> Lsn {
        let Some(group) = self.control.group_of(lsn.abn()) else { return lsn };
        let skipped = self.used.get(&group).is_some_and(|used| lsn.abn().0 >= *used);
        let entry = &self.control.groups[group];
        if skipped { Abn(entry.first.0 + entry.capacity).lsn() } else { lsn }
    }

    /// The LSN of the end.
    pub fn end(&self) -> Lsn {
        Abn(self.abn).lsn()
    }
}
