//! The redo log of a database while it is open.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{EnvExt, Instant, SharedEnv};
use cellar_redo::{
    ArchiveStore, Archived, Breakdown, Committed, GroupReport, GroupStatus, Log, Lsn, Report,
};
use cellar_wait::Session;
use futures_util::future::select;

use super::archives::GroupArchives;
use super::control::{ControlFile, Notes, Switch};
use super::log_client::LogClient;
use super::media::{OwnFile, Place};
use crate::error::{Error, Result};
use crate::host::Background;
use crate::mounted::MountedGroups;

/// Pause before an archiver that failed tries again.
const ARCHIVE_RETRY: Duration = Duration::from_secs(5);

/// A medium that could not return, or failed again, is tried again after this; the most that becomes.
const RETURN_AFTER: Duration = Duration::from_secs(10);
const RETURN_AFTER_MAX: Duration = Duration::from_secs(120);

/// How often, and how many times, it is looked whether the group after a switch has begun.
const SWITCH_LOOK: Duration = Duration::from_millis(2);
const SWITCH_LOOKS: usize = 100;

/// Where the time of all commits went, in total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakdownTotals {
    /// Commits.
    pub commits: u64,
    /// Each part of them all, in the order in which they come.
    pub parts: Vec<(&'static str, Duration)>,
    /// The longest commit.
    pub longest: Breakdown,
}

impl BreakdownTotals {
    /// Adds a commit.
    pub fn add(&mut self, breakdown: &Breakdown) {
        self.commits += 1;
        let parts = breakdown.parts();
        if self.parts.is_empty() {
            self.parts = parts.iter().map(|(name, _)| (*name, Duration::ZERO)).collect();
        }
        for ((_, sum), (_, part)) in self.parts.iter_mut().zip(parts) {
            *sum += part;
        }
        if breakdown.total() > self.longest.total() {
            self.longest = *breakdown;
        }
    }

    /// All commits together: the sum of the parts.
    pub fn total(&self) -> Duration {
        self.parts.iter().map(|(_, part)| *part).sum()
    }
}

/// The open log.
pub struct RedoLog {
    log: Log,
    control: Arc<ControlFile>,
    env: SharedEnv,
    /// In v$session for as long as the log is open.
    _session: Background,
    /// Where the disk group of the archives is looked for at each attempt; `None`: it is not archived.
    archiving: Option<MountedGroups>,
    report: Report,
    /// What its records are of.
    user: Option<Arc<dyn LogClient>>,
    files: Mutex<Vec<OwnFile>>,
    /// For each place, when its failed medium was last asked to return, and the pause after that.
    returned: Mutex<BTreeMap<String, (Instant, Duration)>>,
    /// The archiver will do nothing more.
    archiver_ended: AtomicBool,
    breakdown: Mutex<BreakdownTotals>,
    checkpointing: AtomicBool,
    /// No checkpoint is made by itself.
    keeps: AtomicBool,
    archive_error: Mutex<Option<Error>>,
    /// An archive was written, or failed.
    archived: event_listener::Event,
    /// The archiver is to try again at once, or the log ends.
    wake: event_listener::Event,
}

impl std::fmt::Debug for RedoLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RedoLog({:?})", self.control)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an open log is made of.
pub(super) struct Parts {
    pub log: Log,
    pub control: Arc<ControlFile>,
    pub env: SharedEnv,
    pub session: Background,
    pub archiving: Option<MountedGroups>,
    pub report: Report,
    pub user: Option<Arc<dyn LogClient>>,
    pub files: Vec<OwnFile>,
}

impl RedoLog {
    pub(super) fn new(parts: Parts) -> Arc<RedoLog> {
        let Parts { log, control, env, session, archiving, report, user, files } = parts;
        let opened = Arc::new(RedoLog {
            log,
            control,
            env,
            _session: session,
            archiving,
            report,
            user,
            files: Mutex::new(files),
            returned: Mutex::default(),
            archiver_ended: AtomicBool::new(false),
            breakdown: Mutex::default(),
            checkpointing: AtomicBool::new(false),
            keeps: AtomicBool::new(false),
            archive_error: Mutex::default(),
            archived: event_listener::Event::new(),
            wake: event_listener::Event::new(),
        });
        if opened.archiving.is_some() {
            let archiver = Arc::clone(&opened);
            opened.env.spawn("archiver", Box::pin(async move { archiver.archive_all().await }));
        }
        opened
    }

    /// The log itself.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Its control file.
    pub fn control(&self) -> &Arc<ControlFile> {
        &self.control
    }

    /// What its recovery did.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Where the time of the commits went since it was opened.
    pub fn breakdown(&self) -> BreakdownTotals {
        lock(&self.breakdown).clone()
    }

    /// Why the last attempt to archive failed, while it does.
    pub fn archive_error(&self) -> Option<Error> {
        lock(&self.archive_error).clone()
    }

    /// Its media.
    pub(super) fn places(&self) -> Vec<Place> {
        self.log.media().iter().map(|medium| Place::of_name(&medium.name)).collect()
    }

    /// Whether a group is archived before it is written again.
    pub fn is_archived(&self) -> bool {
        self.archiving.is_some()
    }

    /// Files that were added.
    pub(super) fn add_files(&self, files: impl IntoIterator<Item = OwnFile>) {
        lock(&self.files).extend(files);
    }

    /// Whether it is time to let a failed medium return. The pause doubles each time, so that a medium
    /// which fails again and again is not refilled again and again.
    pub(super) fn is_due(&self, place: &Place) -> bool {
        let now = self.env.now();
        let mut returned = lock(&self.returned);
        let Some((last, pause)) = returned.get_mut(&place.to_string()) else {
            returned.insert(place.to_string(), (now, RETURN_AFTER));
            return true;
        };
        let since = now.since(*last);
        if since < *pause {
            return false;
        }
        // A medium that was well for long starts over.
        let was_well = since > *pause * 4;
        *pause = if was_well { RETURN_AFTER } else { (*pause * 2).min(RETURN_AFTER_MAX) };
        *last = now;
        true
    }

    /// Closes the files of a medium: of one log group, or of all.
    pub(super) fn release(&self, place: &Place, number: Option<u32>) {
        let goes =
            |file: &mut OwnFile| file.0 == *place && number.is_none_or(|number| number == file.1);
        let gone: Vec<OwnFile> = lock(&self.files).extract_if(.., goes).collect();
        // With no lock held: closing a file may take as long as its file system likes.
        gone.iter().for_each(|file| file.2.release());
    }

    /// Makes a log that has stopped or was closed release its files, whoever still holds the log, and end
    /// its archiver: files in directories are locked, and the next log has to open them.
    pub(super) fn end(&self) {
        let files = std::mem::take(&mut *lock(&self.files));
        files.iter().for_each(|file| file.2.release());
        self.wake.notify(usize::MAX);
    }

    /// Appends a record and waits until it is durable on enough media. `kind` is given back by
    /// recovery.
    ///
    /// # Errors
    /// 70150 too long; 00340 the log has stopped; 70152 whether it is durable is not known.
    pub async fn commit(
        self: &Arc<Self>,
        session: &Session,
        kind: u8,
        record: Bytes,
    ) -> Result<Committed> {
        let committed = self.log.commit(session, kind, 0, record).await?;
        lock(&self.breakdown).add(&committed.breakdown);
        // The blocks after the checkpoint: the group being written counts as used, however little it
        // holds.
        let (behind, ring) = self.log.behind();
        let wanted = behind > ring / 8 && !self.keeps.load(Ordering::Acquire);
        if wanted && !self.checkpointing.swap(true, Ordering::AcqRel) {
            let this = Arc::clone(self);
            self.env.spawn(
                "redo checkpoint",
                Box::pin(async move {
                    // A checkpoint that fails leaves a stopped log, which the next commit reports.
                    let _ = this.checkpoint().await;
                    this.checkpointing.store(false, Ordering::Release);
                }),
            );
        }
        Ok(committed)
    }

    /// Whether records stay in the log until [`checkpoint`](RedoLog::checkpoint) is called, so that
    /// they are found again when it is opened. Once the log is full commits wait for that.
    pub fn keep_records(&self, keep: bool) {
        self.keeps.store(keep, Ordering::Release);
    }

    /// Recovery needs nothing before what is durable now: no table waits for its records.
    ///
    /// # Errors
    /// The log has stopped.
    #[boxed]
    pub async fn checkpoint(&self) -> Result<Lsn> {
        let durable = self.log.durable_lsn();
        self.note_switches(None).await?;
        match &self.user {
            Some(user) => user.checkpoint().await,
            None => {
                self.log.set_checkpoint(durable).await?;
                Ok(durable)
            }
        }
    }

    /// Ends the current group and continues in the next. Returns the LSN where that begins.
    ///
    /// # Errors
    /// The log has stopped.
    #[boxed]
    pub async fn switch(&self, session: &Session) -> Result<Lsn> {
        // The next group may wait for a checkpoint.
        self.checkpoint().await?;
        let next = self.log.switch(session).await?;
        self.note_switches(Some(next)).await?;
        // The next group is entered with the first block that is written to it: at the latest the one
        // that follows some idleness.
        for _ in 0..SWITCH_LOOKS {
            let current =
                |group: &GroupReport| group.status == GroupStatus::Current && group.first >= next;
            if self.log.stopped().is_some() || self.log.groups().iter().any(current) {
                break;
            }
            self.env.sleep(SWITCH_LOOK).await;
        }
        Ok(next)
    }

    /// Writes down which groups were finished since the last time; `ended`: one ends there, and the next
    /// may not have begun.
    async fn note_switches(&self, ended: Option<Lsn>) -> Result<()> {
        let finished = self.finished(&self.control.notes(), ended);
        match finished.is_empty() {
            true => Ok(()),
            false => {
                let add = |notes: &mut Notes| {
                    finished.into_iter().for_each(|switch| notes.remember(switch));
                };
                self.control.note(add).await
            }
        }
    }

    /// Groups that were finished and are not among these notes.
    fn finished(&self, notes: &Notes, ended: Option<Lsn>) -> Vec<Switch> {
        let at = self.env.wall().unix_nanos;
        let known = notes.history.last().map_or(0, |last| last.sequence);
        let mut groups = self.log.groups();
        groups.retain(|group| group.sequence > 0);
        groups.sort_by_key(|group| group.sequence);
        let durable = self.log.durable_lsn().max(ended.unwrap_or(Lsn(0)));
        let finished = groups.iter().filter_map(|group| {
            // Block numbers continue after the last that fits, even if a group was not filled.
            let next = group.first.0 + group.blocks * cellar_redo::LSN_PER_BLOCK;
            (group.sequence > known && next <= durable.0).then_some(Switch {
                sequence: group.sequence,
                group: group.group,
                first: group.first.0,
                next,
                at,
                cleared: false,
                archive: None,
            })
        });
        finished.collect()
    }

    /// Archives groups to another place from now on, and retries at once those that could not be
    /// archived.
    pub(super) async fn archive_to(&self, place: String) -> Result<()> {
        let change = |notes: &mut Notes| {
            if notes.archive_dest == place {
                return;
            }
            // What has an archive in the old place is to be known there.
            self.finished(notes, None).into_iter().for_each(|switch| notes.remember(switch));
            notes.archive_to(place, self.log.archived());
        };
        self.control.note_if_new(change).await?;
        // The reason why it could not be archived in the old place no longer matters.
        *lock(&self.archive_error) = None;
        self.wake.notify(usize::MAX);
        Ok(())
    }

    /// Clears a log group; with `unarchived` even if it was not archived. Returns the sequence that then
    /// has no archive.
    ///
    /// # Errors
    /// 00359 no such group, 01623 current, 01624 needed for recovery, 00350 it, or an older one, is to
    /// be archived; the log has stopped.
    pub(super) async fn clear(&self, number: u32, unarchived: bool) -> Result<Option<u64>> {
        let group = self.log.groups().into_iter().find(|group| group.group == number);
        let owed = |group: &GroupReport| {
            self.is_archived() && !group.archived && group.status == GroupStatus::Inactive
        };
        let sequence = group.filter(|group| unarchived && owed(group)).map(|group| group.sequence);
        if let Some(sequence) = sequence {
            // Noted before: a crash behind it must not leave a gap that nobody knows of. While the
            // log still has the group nothing is said to be archived.
            self.note_switches(None).await?;
            self.control.note(|notes| notes.set_cleared(sequence, true)).await?;
        }
        let cleared = self.log.clear_group(number, unarchived).await;
        if matches!(cleared, Err(cellar_redo::Error::Stopped { .. })) {
            // It may be cleared or not.
            return Ok(cleared?);
        }
        let lost = cleared.as_ref().ok().copied().flatten();
        if lost != sequence {
            let correct = |notes: &mut Notes| {
                sequence.into_iter().for_each(|sequence| notes.set_cleared(sequence, false));
                lost.into_iter().for_each(|sequence| notes.set_cleared(sequence, true));
            };
            self.control.note(correct).await?;
        }
        if lost.is_some() {
            // The reason why it could not be archived no longer matters.
            *lock(&self.archive_error) = None;
            self.archived.notify(usize::MAX);
        }
        Ok(cleared?)
    }

    /// Sequences of the history without an archive although later ones have one: CLEAR UNARCHIVED gave
    /// them up.
    pub fn gaps(&self) -> Vec<u64> {
        let archived = self.log.archived();
        let history = self.control.notes().history.into_iter();
        let is_gap = |switch: &Switch| switch.cleared && switch.sequence <= archived;
        history.filter(is_gap).map(|switch| switch.sequence).collect()
    }

    /// Corrects the history by the archives that are there. A statement that was cut off may have noted
    /// that a group would be cleared, and the program may have ended between naming its archive and
    /// noting it.
    pub(super) async fn look_for_archives(&self, groups: &MountedGroups) -> Result<()> {
        let (notes, gaps) = (self.control.notes(), self.gaps());
        for switch in notes.history.iter().filter(|switch| gaps.contains(&switch.sequence)) {
            let name = cellar_redo::archive_name(switch.sequence);
            let own = notes.place_of(switch);
            let other = (own != notes.archive_dest).then_some(notes.archive_dest.as_str());
            for place in std::iter::once(own).chain(other) {
                // One in a disk group that is not mounted is looked for at the next opening.
                let Ok(Some(store)) = GroupArchives::in_place(groups, place) else { continue };
                // Only a whole archive has a name.
                if store.read(&name, 0, 1).await.is_ok_and(|found| !found.is_empty()) {
                    let is_there = |notes: &mut Notes| {
                        notes.set_cleared(switch.sequence, false);
                        notes.set_place(switch.sequence, place);
                    };
                    self.control.note(is_there).await?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Archives what is finished now, waits for it, and returns the newest archived sequence.
    ///
    /// # Errors
    /// 00258 the log is not archived; or why the archiver fails.
    #[boxed]
    pub async fn archive_finished(&self) -> Result<u64> {
        if !self.is_archived() {
            let error = Error::new(258, "the redo log is not archived");
            return Err(error.hint(
                "set log_archive_dest = '+DATA' before the first ALTER DATABASE ADD LOGFILE",
            ));
        }
        self.note_switches(None).await?;
        let finished = self.control.notes().history.last().map_or(0, |last| last.sequence);
        loop {
            let listener = self.archived.listen();
            let archived = self.log.archived();
            if archived >= finished {
                return Ok(archived);
            }
            if let Some(error) = self.archive_error() {
                return Err(error);
            }
            if self.archiver_ended.load(Ordering::Acquire) {
                let why = self.log.stopped().unwrap_or_else(|| "it was closed".into());
                return Err(cellar_redo::Error::Stopped { why }.into());
            }
            listener.await;
        }
    }

    /// The archiver: until the log is closed.
    async fn archive_all(&self) {
        while self.log.archivable().await.is_ok() {
            // Listens before it tries: whatever is changed meanwhile to help it is then noticed.
            let wake = self.wake.listen();
            let place = self.control.notes().archive_dest;
            let failed = self.archive_one(&place).await.err();
            let is_failing = failed.is_some();
            {
                let mut error = lock(&self.archive_error);
                // Of a place that was left meanwhile nothing is said. Who leaves it clears this after.
                let is_left = self.control.notes().archive_dest != place;
                *error = failed.filter(|_| !is_left);
            }
            self.archived.notify(usize::MAX);
            if is_failing && self.log.stopped().is_none() {
                select(wake, self.env.sleep(ARCHIVE_RETRY)).await;
            }
        }
        self.archiver_ended.store(true, Ordering::Release);
        self.archived.notify(usize::MAX);
    }

    async fn archive_one(&self, place: &str) -> Result<Option<Archived>> {
        let Some(groups) = &self.archiving else { return Ok(None) };
        // Its group may have been mounted anew since the last time.
        match GroupArchives::in_place(groups, place)? {
            Some(store) => {
                let archived = self.log.archive(&store).await;
                let archived = archived.map_err(|error| self.not_archived(error))?;
                let sequence = archived.as_ref().map_or(0, |archived| archived.sequence);
                let correct = |notes: &mut Notes| {
                    // A statement that was cut off may have said that it would be cleared.
                    notes.set_cleared(sequence, false);
                    // The place may have been left while it was on its way there.
                    if notes.archive_dest != place {
                        let finished = self.finished(notes, None);
                        finished.into_iter().for_each(|switch| notes.remember(switch));
                        notes.set_place(sequence, place);
                    }
                };
                self.control.note_if_new(correct).await?;
                Ok(archived)
            }
            None => Err(Error::new(258, "log_archive_dest is empty, and the redo log is archived")
                .hint("name a disk group: ALTER SYSTEM SET log_archive_dest = '+DATA'")),
        }
    }

    /// Why the oldest group is not archived, and the way out if it never can be.
    fn not_archived(&self, error: cellar_redo::Error) -> Error {
        use cellar_redo::Error::{Corrupt, Damaged, Divergent};
        let groups = self.log.groups();
        let owed = groups.iter().filter(|group| group.sequence > 0 && !group.archived);
        match (&error, owed.min_by_key(|group| group.sequence)) {
            (Damaged { .. } | Divergent { .. } | Corrupt { .. }, Some(group)) => {
                let GroupReport { group, sequence, .. } = group;
                Error::from(error).hint(format!(
                    "ALTER DATABASE CLEAR UNARCHIVED LOGFILE GROUP {group} gives log sequence \
                     {sequence} up, and the log goes on"
                ))
            }
            _ => error.into(),
        }
    }

    /// Closes the log cleanly: what was appended is durable, and the next opening reads nothing.
    pub(super) async fn close(&self) -> Result<()> {
        let keeps = self.keeps.load(Ordering::Acquire);
        let checkpoint = match self.log.stopped().is_none() && !keeps {
            true => self.checkpoint().await.map(|_| ()),
            false => Ok(()),
        };
        // A log without a checkpoint is closed too, or its tasks would go on.
        let closed = match &self.user {
            Some(user) => user.close().await,
            None => self.log.clone().close().await.map_err(Error::from),
        };
        self.end();
        checkpoint.and(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_all_commits_sum_to_the_whole() {
        let micros = Duration::from_micros;
        let short = Breakdown { queue: micros(3), first: micros(90), ..Breakdown::default() };
        let long = Breakdown { first: micros(400), wake: micros(7), ..Breakdown::default() };
        let mut totals = BreakdownTotals::default();
        [short, long, short].iter().for_each(|breakdown| totals.add(breakdown));
        assert_eq!((totals.commits, totals.longest), (3, long));
        assert_eq!(totals.total(), short.total() * 2 + long.total());
    }
}
