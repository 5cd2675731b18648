//! The end of recovery: media are repaired, a new incarnation becomes durable, the log is open.

use std::collections::{BTreeMap, VecDeque};

use async_recursion::async_recursion as boxed;
use cellar_io::{DeviceExt, Durability, Io};
use futures_util::future::{join_all, try_join_all};

use crate::error::Error;
use crate::lsn::Abn;
use crate::on_disk::HEADER_BYTES;
use crate::on_disk::block::Seed;
use crate::on_disk::control::{ControlData, INCARNATIONS_MAX, Incarnation};
use crate::on_disk::header::MediumState;
use crate::recovery::judge::{Standing, device};
use crate::recovery::read::{LAST, in_time};
use crate::recovery::walk::{Repair, Walk};
use crate::recovery::{REPAIRS_MAX, Recovery, Report};
use crate::stats::Stats;
use crate::writer::{
    GroupAt, Health, Log, MediumAt, Opening, Reserved, State, forget_incarnations, header_of,
    offset_of,
};

impl Recovery {
    /// Reads what was not read yet, repairs the media and opens the log.
    ///
    /// # Errors
    /// As [`next`](Recovery::next); [`Error::TooManyOpenings`]; [`Error::Stopped`] when control data or
    /// every medium cannot be written.
    #[boxed]
    pub async fn open(mut self) -> Result<(Log, Report), Error> {
        if self.is_read_only {
            return Err(Error::Stopped { why: "it was opened to be read only".into() });
        }
        while self.next().await?.is_some() {}
        self.repair().await;
        self.repair_unarchived().await;
        self.note_late();
        Box::pin(self.write_returning_headers()).await;
        self.flush().await;
        let active = |m: &usize| self.is_used(*m);
        let used: Vec<usize> = (0..self.judged.len()).filter(active).collect();
        if used.is_empty() {
            let unable = |m: usize| self.walk.control.media[m].name.clone();
            let media = (0..self.judged.len()).map(unable).collect();
            let (from, causes) = (self.walk.end(), self.report.refused.clone());
            return Err(Error::MediaMissing { from, known_until: None, media, causes });
        }
        let mut report = self.report.clone();
        report.end = self.walk.end();
        let start = Incarnation {
            number: self.walk.control.incarnation().number + 1,
            first: Abn(self.walk.abn),
            chain: self.walk.chain.unwrap_or(self.walk.control.checkpoint_chain),
        };
        let control = self.next_control(start, &used, &mut report);
        let openings = control.incarnations.len();
        if openings > INCARNATIONS_MAX {
            return Err(Error::TooManyOpenings { openings });
        }
        let state = self.state(control, start);
        let seed = Seed::new(state.control.database, start.number);
        let inner = crate::writer::Inner::new(Opening {
            env: self.env,
            control: self.control,
            session: self.session,
            options: self.options,
            seed,
            incarnation: start.number,
            state,
        });
        inner.opened().await?;
        Ok((Log(inner), report))
    }

    /// Media that did not answer a read are not used.
    fn note_late(&mut self) {
        for medium in &self.reader.late {
            let standing = &mut self.judged[*medium].standing;
            *standing = standing.unanswered();
            self.walk.standing[*medium] = *standing;
        }
    }

    /// Whether a medium stays in use.
    fn is_used(&self, medium: usize) -> bool {
        let standing = self.judged[medium].standing;
        let there = !matches!(standing, Standing::Failed | Standing::Missing);
        there && !self.unrepaired.contains(&medium)
    }

    /// The control data of the new incarnation.
    fn next_control(&self, start: Incarnation, used: &[usize], report: &mut Report) -> ControlData {
        let mut control = self.walk.control.clone();
        // An opening that wrote nothing leaves no trace in the log.
        control.incarnations.retain(|i| i.first < start.first);
        control.incarnations.push(start);
        control.clean = None;
        let replayed = self.walk.past_skipped(self.replayed);
        if replayed > control.checkpoint {
            control.checkpoint = replayed.min(start.first.lsn());
            if control.checkpoint.abn() == start.first {
                control.checkpoint_chain = start.chain;
            }
        }
        if report.forced {
            // Blocks written from here on replace what was archived past this point. The group that the
            // log ends in is archived again if the openings that wrote its blocks are known.
            let ends_in = &control.groups[self.walk.group];
            let is_known = control.incarnation_of(ends_in.first).is_some();
            let kept = ends_in.sequence.saturating_sub(u64::from(is_known));
            control.archived = control.archived.min(kept);
        }
        forget_incarnations(&mut control);
        control.durable = start.first;
        for (number, medium) in control.media.iter_mut().enumerate() {
            // A returning medium is active once every header is written: the control writer records it
            // then.
            let used = used.contains(&number);
            if medium.state.is_active() && !used {
                medium.state = MediumState::Failed { since: start.first };
            }
            if !medium.state.is_active() && !used && !medium.name.is_empty() {
                report.left_out.push(medium.name.clone());
            }
        }
        control
    }

    /// A bit for each medium whose second header of a group is damaged.
    fn bad_second(&self, place: usize) -> u32 {
        let bad = |(medium, j): (usize, &super::judge::Judged)| {
            u32::from(j.bad_second.contains(&place)) << medium
        };
        self.judged.iter().enumerate().map(bad).sum()
    }

    fn groups(&self, control: &ControlData) -> Vec<GroupAt> {
        let groups = control.groups.iter().enumerate().map(|(place, entry)| GroupAt {
            files: self.judged.iter().map(|j| j.files[place].clone()).collect(),
            size: entry.size,
            capacity: entry.capacity,
            sequence: entry.sequence,
            first: entry.first.0,
            used: self.walk.used.get(&place).copied(),
            has_headers: false,
            bad_second: self.bad_second(place),
            prepared: false,
            dropped: false,
        });
        groups.collect()
    }

    fn state(&self, control: ControlData, start: Incarnation) -> State {
        let groups = self.groups(&control);
        let media = control.media.iter().enumerate().map(|(number, medium)| {
            let health = if self.is_used(number) { Health::Active } else { Health::Failed };
            MediumAt::new(medium.name.clone(), health)
        });
        let media = media.collect();
        let mut next: Vec<usize> = (0..groups.len()).collect();
        let current = self.walk.group;
        next.retain(|g| groups[*g].sequence > groups[current].sequence);
        next.sort_by_key(|g| groups[*g].sequence);
        State {
            open: None,
            full: VecDeque::new(),
            queued_bytes: 0,
            reserved: Reserved::default(),
            line: VecDeque::new(),
            next_in_line: 0,
            paused: 0,
            at: start.first.0,
            current,
            next: next.into(),
            chain: start.chain,
            forming: None,
            formed: VecDeque::new(),
            tracked: VecDeque::new(),
            base: 0,
            unacked: 0,
            durable: start.first.0,
            durable_crc: start.chain,
            busy_since: None,
            busy_total: 0,
            next_write: 0,
            alone: 0,
            groups,
            media,
            // A new one is durable when the control data is.
            checkpoint: self.walk.control.checkpoint.abn().0,
            archived: control.archived,
            stored: 0,
            control,
            control_dirty: true,
            recording: 0,
            enlisting: 0,
            has_left: false,
            joins: false,
            adding: 0,
            pin: None,
            control_writer: false,
            archiver: false,
            archive_began: None,
            publishing: None,
            archiver_waits: false,
            idle_timer: false,
            last_ack: 0,
            last_was_heartbeat: false,
            last_launch: 0,
            closing: false,
            poisoned: None,
            stats: Stats::default(),
        }
    }

    /// Afterwards the groups below the checkpoint that are still to be archived have as many copies as
    /// the others. Blocks of them that no medium has do not prevent an opening: the archiver reports
    /// them.
    async fn repair_unarchived(&mut self) {
        let control = &self.walk.control;
        let checkpoint = control.checkpoint.abn();
        let mut owed: Vec<Abn> = control
            .groups
            .iter()
            .filter(|g| control.archiving && g.sequence > control.archived)
            .map(|g| g.first)
            .filter(|first| *first < checkpoint)
            .collect();
        owed.sort();
        for first in owed {
            let mut control = self.walk.control.clone();
            control.checkpoint = first.lsn();
            let Ok(mut walk) = Walk::new(control, self.walk.standing.clone()) else { continue };
            self.reader.go(walk.places().into_iter().take(1));
            while !walk.switched && walk.abn < checkpoint.0 {
                let Ok(Ok(_)) = walk.step(&mut self.reader).await else {
                    // A returning medium does not have what cannot be read: it counts after a later
                    // attempt.
                    let returning = |m: &usize| self.judged[*m].standing == Standing::Returning;
                    self.unrepaired.extend((0..self.judged.len()).filter(returning));
                    break;
                };
                self.walk.repairs.append(&mut walk.repairs);
                if self.walk.repairs.len() >= REPAIRS_MAX {
                    self.repair().await;
                }
            }
            self.repair().await;
        }
    }

    /// Writes the blocks of the log that media lack, with the very bytes that other media have. A
    /// medium that cannot take them is not used from now on.
    pub(super) async fn repair(&mut self) {
        self.note_late();
        let repairs = std::mem::take(&mut self.walk.repairs).into_iter();
        let repairs: Vec<Repair> = repairs.filter(|r| self.is_used(r.medium)).collect();
        if repairs.is_empty() {
            return;
        }
        self.report.repaired += repairs.len() as u64;
        let mut by_medium: BTreeMap<usize, Vec<Repair>> = BTreeMap::new();
        for repair in repairs {
            let whole = self.judged[repair.medium].standing == Standing::Whole;
            let name = &self.walk.control.media[repair.medium].name;
            if whole && self.had_it(repair.abn) && !self.report.lost_writes.contains(name) {
                self.report.lost_writes.push(name.clone());
            }
            by_medium.entry(repair.medium).or_default().push(repair);
        }
        let this = &*self;
        let limit = this.options.write_timeout * LAST;
        let writes = by_medium.into_iter().map(|(medium, repairs)| async move {
            let repaired = in_time(&this.env, limit, this.repair_medium(medium, repairs));
            (medium, repaired.await == Some(true))
        });
        let failed = join_all(writes).await.into_iter().filter(|(_, ok)| !ok);
        let failed: Vec<usize> = failed.map(|(medium, _)| medium).collect();
        self.unrepaired.extend(failed);
    }

    /// Whether every medium must have had a block, because it was acknowledged and that required all of
    /// them.
    fn had_it(&self, abn: u64) -> bool {
        let active = self.walk.control.media.iter().filter(|m| m.state.is_active()).count();
        abn < self.walk.durable && self.walk.control.quorum.of(active) == active
    }

    async fn repair_medium(&self, medium: usize, repairs: Vec<Repair>) -> bool {
        let files = &self.judged[medium].files;
        let mut runs: Vec<(usize, u64, Vec<bytes::Bytes>)> = Vec::new();
        for repair in repairs {
            match runs.last_mut() {
                Some((group, first, run))
                    if *group == repair.group && *first + run.len() as u64 == repair.abn =>
                {
                    run.push(repair.block);
                }
                _ => runs.push((repair.group, repair.abn, vec![repair.block])),
            }
        }
        let block_size = u64::from(self.walk.control.block_size);
        for (group, first, run) in runs {
            let start = self.walk.control.groups[group].first.0;
            let offset = offset_of(first - start, block_size);
            let file = device(files, group);
            if file.write(Io::COMMIT, offset, run, Durability::Cached).await.is_err() {
                return false;
            }
        }
        true
    }

    /// A returning medium may never have had our headers, or may have had them under another number:
    /// all of its files get them, because the next opening reads all of them.
    async fn write_returning_headers(&mut self) {
        let control = &self.walk.control;
        let newest = control.incarnation().number;
        let returning = |m: &usize| {
            self.judged[*m].standing == Standing::Returning && !self.unrepaired.contains(m)
        };
        let limit = self.options.write_timeout * LAST;
        let mut failed = Vec::new();
        for medium in (0..self.judged.len()).filter(returning) {
            let write = async {
                for (place, group) in control.groups.iter().enumerate() {
                    let file = device(&self.judged[medium].files, place);
                    let header = header_of(control, place, medium, newest).encode();
                    let header = bytes::Bytes::copy_from_slice(&header);
                    for at in [0, group.size - HEADER_BYTES as u64] {
                        let (header, durable) = (header.clone(), Durability::Durable);
                        file.write_at(Io::COMMIT, at, header, durable).await?;
                    }
                }
                Ok::<_, cellar_io::IoError>(())
            };
            if in_time(&self.env, limit, write).await.is_none_or(|written| written.is_err()) {
                failed.push(medium);
            }
        }
        self.unrepaired.extend(failed);
    }

    /// Makes durable what was read: a write that was cut off may still be in the cache of a device that
    /// did not lose power, and it counts as written from now on.
    async fn flush(&mut self) {
        let control = &self.walk.control;
        let checkpoint = control.checkpoint.abn().0;
        let behind = |place: &usize| {
            let group = &self.walk.control.groups[*place];
            let owed = control.archiving && group.sequence > control.archived;
            group.sequence > 0 && (owed || group.first.0 + group.capacity >= checkpoint)
        };
        let groups: Vec<usize> = (0..self.walk.control.groups.len()).filter(behind).collect();
        let used = (0..self.judged.len()).filter(|medium| self.is_used(*medium));
        let (env, limit) = (&self.env, self.options.write_timeout * LAST);
        let flushes = used.map(|medium| {
            let (files, groups) = (&self.judged[medium].files, &groups);
            async move {
                let all = groups.iter().map(|group| {
                    let file = device(files, *group);
                    async move { file.flush(Io::COMMIT).await }
                });
                let done = in_time(env, limit, try_join_all(all)).await;
                (medium, done.is_some_and(|done| done.is_ok()))
            }
        });
        let done = join_all(flushes).await;
        self.unrepaired.extend(done.into_iter().filter(|(_, ok)| !ok).map(|(medium, _)| medium));
    }
}
