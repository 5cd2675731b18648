//! Opening the log when its database is opened, and closing it with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_io::{DeviceExt, Io};
use cellar_redo::on_disk::HEADER_BYTES;
use cellar_redo::on_disk::control::ControlData;
use cellar_redo::on_disk::header::GroupHeader;
use cellar_redo::{Log, OpenLog, Options, Recovery, Report};

use super::RedoManager;
use super::control::ControlFile;
use super::log::{Parts, RedoLog};
use super::log_client::{LogClient, OpenError};
use super::media::{Place, REDO_DIR, groups_of};
use crate::error::{Error, Result};
use crate::mounted::split_group_path;
use crate::settings::LOG_BUFFER;

/// Openings within the groups that are not archived, of the 4,096 that control data can hold.
const OPENINGS_MANY: usize = 2048;

impl RedoManager {
    /// Opens the log, if there is one and it may be written. A log that cannot be opened is reported to
    /// those who ask for it: tables do not need it.
    #[boxed]
    pub async fn open(&self) {
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        // One that still waits for its writes stays as it is, and says so.
        if self.end_stopped().is_err() {
            return;
        }
        let opened = self.try_open_redo(false).await;
        if let Ok(Some(log)) = &opened {
            self.sweep_redo(log).await;
            self.see_to_archives(log).await;
        }
        let mut state = redo.state();
        match opened {
            Ok(Some(log)) => *state = super::State { open: Some(log), ..super::State::default() },
            Ok(None) => {}
            Err(error) => state.problem = Some(error),
        }
    }

    /// Opens the log anew for what its records are of from now on, and at each later opening; `None`: for
    /// whoever commits records by itself. Where it was open before it is closed in order.
    ///
    /// # Errors
    /// There is no log, or it cannot be opened.
    #[boxed]
    pub async fn open_for(&self, user: Option<Arc<dyn LogClient>>) -> Result<()> {
        self.check_writable()?;
        self.close().await?;
        self.shared().set_user(user);
        self.open().await;
        self.log().map(|_| ())
    }

    /// What the records of the log are of, before the log is opened.
    pub fn set_user(&self, user: Arc<dyn LogClient>) {
        self.shared().set_user(Some(user));
    }

    /// A group was mounted: it may be what the log lacked.
    #[boxed]
    pub async fn group_is_here(&self) {
        let redo = self.shared();
        let stopped = redo.log().is_some_and(|log| log.log().stopped().is_some());
        if stopped || redo.problem().is_some() {
            self.open().await;
        } else if let Some(log) = redo.log().filter(|_| !self.is_read_only()) {
            // It may be where the log is to be archived; if not, that was reported before.
            let _ = self.apply_archive_dest(&log).await;
        }
    }

    /// Opens a log that does not open as it is, even if acknowledged records may be lost: those that are
    /// only on missing media. Returns what was found.
    ///
    /// # Errors
    /// There is no log, it is open already, or it cannot be opened even so.
    #[boxed]
    pub async fn open_forced(&self) -> Result<Arc<RedoLog>> {
        self.check_writable()?;
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        self.end_stopped()?;
        if redo.log().is_some() {
            let error = Error::new(1531, "the redo log is open");
            return Err(error.hint("FORCE is for a log that does not open"));
        }
        let opened = self.try_open_redo(true).await;
        if let Ok(Some(log)) = &opened {
            self.see_to_archives(log).await;
        }
        let mut state = redo.state();
        match opened {
            Ok(Some(log)) => {
                *state = super::State { open: Some(Arc::clone(&log)), ..super::State::default() };
                Ok(log)
            }
            Ok(None) => {
                *state = super::State::default();
                Err(no_log())
            }
            Err(error) => {
                // Told by whoever asks for the log from now on, and reason to try again.
                state.problem = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Ends a log that has stopped, which is as good as closed: it releases its files, so that they can
    /// be opened anew.
    fn end_stopped(&self) -> Result<()> {
        let redo = self.shared();
        let Some(log) = redo.log().filter(|log| log.log().stopped().is_some()) else {
            return Ok(());
        };
        // Its last writes may yet overwrite what the next one acknowledges.
        if log.log().is_owed() {
            let error = Error::new(1531, "the redo log that has stopped waits for its writes");
            return Err(error.hint(
                "wait until its media have answered, or end the program that has the database \
                 open and start it again",
            ));
        }
        redo.state().open = None;
        log.end();
        Ok(())
    }

    /// Corrects what is known of archives, and has the log be archived to where it is to be now. What
    /// cannot be done now is tried again at the next opening.
    async fn see_to_archives(&self, log: &RedoLog) {
        let _ = log.look_for_archives(self.mounted()).await;
        let _ = self.apply_archive_dest(log).await;
    }

    /// Removes files of this log in mounted groups that it does not know, left by a statement that was
    /// cut off. A file with anything else in it may be what another log has lost sight of, and stays.
    async fn sweep_redo(&self, log: &RedoLog) {
        let Ok(data) = decoded(log.control()) else { return };
        let groups = log.log().groups();
        let mut known = BTreeSet::new();
        for medium in log.log().media() {
            let place = Place::of_name(&medium.name);
            known.extend(groups.iter().map(|group| place.file_name(group.group)));
        }
        for mounted in self.mounted().all() {
            let group = &mounted.group;
            for listed in group.list(&format!("{REDO_DIR}/*"), true) {
                let path = format!("+{}/{}", group.name(), listed.path);
                if listed.file.is_none() || known.contains(&path) {
                    continue;
                }
                let Ok(file) = group.open(&listed.path) else { continue };
                let head = file.read_at(Io::BACKGROUND, 0, HEADER_BYTES).await;
                drop(file);
                let is_ours = head.is_ok_and(|head| {
                    let of_this = |header: GroupHeader| header.database == data.database;
                    head.iter().all(|byte| *byte == 0)
                        || GroupHeader::decode(&head).is_ok_and(of_this)
                });
                if is_ours {
                    // It only takes space, and is checked again at the next opening.
                    let _ = group.remove(&listed.path).await;
                }
            }
        }
    }

    async fn try_open_redo(&self, force: bool) -> Result<Option<Arc<RedoLog>>> {
        let group = self.first_group()?;
        let Some(mut control) = ControlFile::open(&group).await? else {
            return Ok(None);
        };
        if control.notes().given_up {
            if !self.is_read_only() {
                self.finish_drop(&group, control).await?;
            }
            return Ok(None);
        }
        let (data, notes) = (decoded(&control)?, control.notes());
        {
            let mut state = self.shared().state();
            state.seen = Some((data.clone(), notes));
            state.control = Some((control.name(), control.copies()));
        }
        if self.is_read_only() {
            let missing = self.media_missing(&data).await;
            self.shared().state().missing = missing;
            if let Some(user) = self.shared().user() {
                self.read_log(control, &data, &*user).await?;
            }
            return Ok(None);
        }
        if force {
            // Noted before it is done: after a crash in between, the next opener must know. A log that
            // opens as it is has lost nothing, and is noted all the same.
            control.note(|notes| notes.was_forced = true).await?;
        }
        match control.in_more_copies(&group).await {
            Ok(Some(more)) => control = more,
            Ok(None) => {}
            // As many as there were will do. The name may have the new file: its content is the same.
            Err(_) => control = ControlFile::open(&group).await?.ok_or_else(no_log)?,
        }
        Ok(Some(self.open_log(control, &data, force, &[], &|_, _| {}).await?))
    }

    /// Has the records be read by what they are of; nothing is written.
    async fn read_log(
        &self,
        control: ControlFile,
        data: &ControlData,
        user: &dyn LogClient,
    ) -> Result<()> {
        let numbers: Vec<u32> = data.groups.iter().map(|group| group.number).collect();
        let (mut media, mut problems) = (Vec::new(), Vec::new());
        for entry in data.media.iter().filter(|entry| !entry.name.is_empty()) {
            let place = Place::of_name(&entry.name);
            let opened = self.open_medium_checked(&place, &numbers, data.database).await;
            media.push(opened.medium);
            problems.extend(opened.problems);
        }
        let session = self.host().background("redo log");
        let open = OpenLog {
            env: Arc::clone(self.env()),
            session: session.waits().clone(),
            control: Arc::new(control),
            media,
            options: Options::default(),
            returning: Vec::new(),
            force: false,
        };
        let read = async {
            let recovery = Recovery::start(open).await.map_err(OpenError::Log)?;
            user.read(recovery).await
        };
        read.await.map_err(|error| told(error, problems))
    }

    async fn media_missing(&self, data: &ControlData) -> Vec<String> {
        let numbers: Vec<u32> = data.groups.iter().map(|group| group.number).collect();
        let mut missing = Vec::new();
        for entry in data.media.iter().filter(|entry| entry.state.is_active()) {
            let place = Place::of_name(&entry.name);
            let found = self.check_place(&place, &numbers, data.database).await;
            if !found.is_ok_and(|found| found.all) {
                missing.push(entry.name.clone());
            }
        }
        missing
    }

    /// Recovers what the control file knows and opens the log. Failed media that still owe an answer to
    /// the previous log do not return.
    pub(super) async fn open_log(
        &self,
        control: ControlFile,
        data: &ControlData,
        force: bool,
        owing: &[String],
        each: &(dyn Fn(u8, &Bytes) + Send + Sync),
    ) -> Result<Arc<RedoLog>> {
        let numbers: Vec<u32> = data.groups.iter().map(|group| group.number).collect();
        let sizes: Vec<(u32, u64)> = data.groups.iter().map(|g| (g.number, g.size)).collect();
        let (mut media, mut files, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        // One that was dropped keeps its number and has no name.
        for entry in data.media.iter().filter(|entry| !entry.name.is_empty()) {
            let place = Place::of_name(&entry.name);
            let mut opened = self.open_medium_checked(&place, &numbers, data.database).await;
            // A directory with no file of the log may be where a file system was mounted.
            let is_the_place =
                matches!(place, Place::Group { .. }) || !opened.medium.files.is_empty();
            let lacks = opened.medium.files.len() < numbers.len();
            if !entry.state.is_active() && lacks && is_the_place {
                self.remake_medium(&place, &sizes, &mut opened, false, &|_, _| {}).await;
            }
            media.push(opened.medium);
            files.extend(opened.files);
            problems.extend(opened.problems);
        }
        // What this process could not open for reasons of its own is not missing: the log would go on
        // without it.
        if let Some(error) = problems.iter().find(|error| error.is_exhausted()) {
            return Err(error.clone().under(70161, "the redo log cannot be opened"));
        }
        // One that failed and is here takes part again.
        let is_back = |entry: &&cellar_redo::on_disk::control::MediumEntry| {
            let whole =
                |m: &&cellar_redo::Medium| m.name == entry.name && m.files.len() == numbers.len();
            let owes = owing.contains(&entry.name);
            !entry.state.is_active() && !owes && media.iter().any(|m| whole(&m))
        };
        let returning = data.media.iter().filter(is_back).map(|m| m.name.clone()).collect();
        let archiving = data.archiving.then(|| self.mounted().clone());
        let (control, env) = (Arc::new(control), Arc::clone(self.env()));
        let session = self.host().background("redo log");
        let log_buffer = self.settings().integer(LOG_BUFFER);
        let options = Options {
            log_buffer: usize::try_from(log_buffer).unwrap_or(usize::MAX),
            ..Options::default()
        };
        let store = Arc::clone(&control) as Arc<dyn cellar_redo::Control>;
        let open = OpenLog {
            env: Arc::clone(&env),
            session: session.waits().clone(),
            control: store,
            media,
            options,
            returning,
            force,
        };
        let user = self.shared().user();
        let opened = recover(open, user.as_deref(), each).await;
        let (log, report) = opened.map_err(|error| told(error, problems))?;
        let openings = decoded(&control)?.incarnations.len();
        let waits = session.waits().clone();
        let parts = Parts { log, control, env, session, archiving, report, user, files };
        let opened = RedoLog::new(parts);
        if openings > OPENINGS_MANY {
            // Those of a group are kept until it is archived, and there is an end to how many: it is
            // finished now. It may have to wait for the archiver; what is not done is at the next opening.
            let log = opened.log().clone();
            let switch = async move {
                let _ = log.switch(&waits).await;
            };
            self.env().spawn("redo switch", Box::pin(switch));
        }
        Ok(opened)
    }

    /// The log.
    ///
    /// # Errors
    /// There is none, or it could not be opened, with the reason.
    pub fn log(&self) -> Result<Arc<RedoLog>> {
        let redo = self.shared();
        match (redo.log(), redo.problem()) {
            (Some(log), _) => Ok(log),
            (None, Some(problem)) => Err(problem),
            (None, None) if redo.seen().is_some() && self.is_read_only() => {
                Err(Error::new(70041, "the database is open read-only: its redo log is not open"))
            }
            (None, None) if redo.seen().is_some() => {
                let error = Error::new(70161, "the redo log is not open yet");
                Err(error.hint("somebody opens it now: try again when that is done"))
            }
            (None, None) => Err(no_log()),
        }
    }

    /// Opens the log anew as if the program had been killed and started again: what was not written by
    /// then is gone. `each` is called with kind and bytes of the records found since the last checkpoint,
    /// unless they are those of a [`LogClient`].
    ///
    /// # Errors
    /// There is no log, or it cannot be opened again.
    #[boxed]
    pub async fn reread(&self, each: &(dyn Fn(u8, &Bytes) + Send + Sync)) -> Result<()> {
        self.check_writable()?;
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        let log = self.log()?;
        // Where this fails it stays what it is, a log that has stopped: what it owes may yet come over
        // what the next one acknowledges.
        if let Some(user) = redo.user() {
            user.abandon().await;
        }
        let owing = log.log().abandon().await?;
        redo.state().open = None;
        log.end();
        drop(log);
        let reopened = async {
            let control = ControlFile::open(&self.first_group()?).await?.ok_or_else(no_log)?;
            let data = decoded(&control)?;
            self.open_log(control, &data, false, &owing, each).await
        };
        let reopened = reopened.await;
        let mut state = redo.state();
        match reopened {
            Ok(log) => *state = super::State { open: Some(log), ..super::State::default() },
            Err(error) => {
                state.problem = Some(error.clone());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Closes the log, so that its groups can be dismounted.
    pub(crate) async fn close(&self) -> Result<()> {
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        let open = redo.state().open.take();
        match open {
            Some(log) => log.close().await,
            None => Ok(()),
        }
    }

    /// Refuses anything that would remove a disk group that the log is in.
    ///
    /// # Errors
    /// `number` with what is kept there and the next step.
    pub(crate) fn check_no_redo(&self, group: &str, number: u32, what: &str) -> Result<()> {
        let redo = self.shared();
        let (places, dest): (Vec<Place>, String) = match (redo.log(), redo.seen()) {
            (Some(log), _) => {
                let media = log.log().media();
                let places = media.iter().map(|medium| Place::of_name(&medium.name)).collect();
                (places, log.control().notes().archive_dest)
            }
            (None, Some((data, notes))) => {
                let places = data.media.iter().map(|medium| Place::of_name(&medium.name));
                (places.collect(), notes.archive_dest)
            }
            (None, None) => return Ok(()),
        };
        let archives = split_group_path(&dest).is_some_and(|(named, _)| named == group);
        if !groups_of(&places).contains(group) && !archives {
            return Ok(());
        }
        let text = format!("the redo log of this database is kept in \"{group}\"");
        Err(Error::new(15028, text)
            .hint("ALTER DATABASE DROP LOGFILE ALL gives the log up")
            .under(number, what.to_owned()))
    }
}

/// Has the records be read by what they are of, or tells each, and opens the log.
async fn recover(
    open: OpenLog,
    user: Option<&dyn LogClient>,
    each: &(dyn Fn(u8, &Bytes) + Send + Sync),
) -> std::result::Result<(Log, Report), OpenError> {
    let mut recovery = Recovery::start(open).await.map_err(OpenError::Log)?;
    if let Some(user) = user {
        return user.open(recovery).await;
    }
    while let Some(record) = recovery.next().await.map_err(OpenError::Log)? {
        each(record.kind, &record.body);
    }
    recovery.open().await.map_err(OpenError::Log)
}

/// Why the log does not open, with the files that are not here: first to last.
fn told(error: OpenError, problems: Vec<Error>) -> Error {
    match error {
        OpenError::Log(error) => problems.into_iter().fold(not_opened(error), Error::over),
        OpenError::Client(error) => error,
    }
}

pub(super) fn decoded(control: &ControlFile) -> Result<ControlData> {
    ControlData::decode(&control.redo())
        .map_err(|damage| Error::from(cellar_redo::Error::ControlDamaged { damage }))
}

pub(super) fn no_log() -> Error {
    Error::new(70160, "this database has no redo log").hint(
        "make one: ALTER DATABASE ADD LOGFILE GROUP 1 ('+DATA') SIZE 64M, GROUP 2 ('+DATA') SIZE 64M",
    )
}

fn not_opened(error: cellar_redo::Error) -> Error {
    let error = match &error {
        cellar_redo::Error::MediaMissing { media, .. } => {
            let media = media.join(", ");
            Error::from(error).hint(format!(
                "bring {media} back. If that cannot be, ALTER DATABASE RECOVER FORCE opens the database \
                 without, and what only they have is lost"
            ))
        }
        _ => Error::from(error),
    };
    error.under(70161, "the redo log cannot be opened")
}
