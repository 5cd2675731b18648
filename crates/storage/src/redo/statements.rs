//! The statements about the log: ALTER DATABASE ... LOGFILE, SWITCH LOGFILE, ARCHIVE LOG CURRENT.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::Group;
use cellar_io::Device;
use cellar_redo::block_size::{Chosen, choose};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::on_disk::control::GROUPS_MAX;
use cellar_redo::on_disk::header::Quorum;
use cellar_redo::{CreateLog, Lsn, Medium, NewGroup};
use cellar_wait::Session;

use super::RedoManager;
use super::archives::GroupArchives;
use super::control::{CONTROL_PATH, ControlFile, Notes};
use super::log::RedoLog;
use super::media::Place;
use super::members::with_more;
use super::new_file::{NewFile, Owner, Take};
use super::open::decoded;
use crate::error::{Error, Result};
use crate::files::{Progress, absolute};
use crate::request::NewLogfile;
use crate::settings::{LOG_ARCHIVE_DEST, LOG_BLOCK_SIZE, REDO_QUORUM};

/// Default size of a log group, in bytes.
const SIZE_DEFAULT: u64 = 64 << 20;
/// The least and the most.
const SIZE_MIN: u64 = 1 << 20;
const SIZE_MAX: u64 = 1 << 40;

/// A log group whose number and size are settled.
#[derive(Clone, Copy)]
struct Settled {
    group: NewGroup,
    reuse: bool,
}

/// New files: for each log group, those of the media.
type Made = Vec<(u32, Vec<(Place, NewFile)>)>;

impl RedoManager {
    /// `ALTER DATABASE ADD LOGFILE`. The first one makes the log, of two groups or more. Returns what
    /// the user should also know.
    ///
    /// # Errors
    /// Oracle's refusals: 01184 group exists, 01378 block size, 01567 too few groups; no room; a place
    /// that will not do. Files that were made are taken away again.
    #[boxed]
    pub async fn add_logfiles(
        &self,
        new: &[NewLogfile],
        progress: &Progress<'_>,
    ) -> Result<Vec<String>> {
        self.check_writable()?;
        let redo = self.shared();
        if !redo.is_there() {
            for logfile in new {
                self.check_directories(&logfile.media, None).await?;
            }
        }
        let _changing = redo.changing.lock().await;
        if let Some(problem) = redo.problem() {
            return Err(problem);
        }
        match redo.log() {
            Some(log) => self.add_to(&log, new, progress).await,
            None => self.make_log(new, progress).await,
        }
    }

    async fn add_to(
        &self,
        log: &Arc<RedoLog>,
        new: &[NewLogfile],
        progress: &Progress<'_>,
    ) -> Result<Vec<String>> {
        let media = log.log().media();
        let places: Vec<Place> = media.iter().map(|m| Place::of_name(&m.name)).collect();
        // One that has failed gets its files when it takes part again.
        let active: Vec<Place> =
            media.iter().filter(|m| m.active).map(|m| Place::of_name(&m.name)).collect();
        let data = decoded(log.control())?;
        let block_size = data.block_size;
        for logfile in new {
            self.check_media(&logfile.media, &places)?;
            if let Some(asked) = logfile.block_size.filter(|asked| *asked != block_size) {
                let text = format!("block size {asked}: the log has blocks of {block_size} bytes");
                return Err(Error::new(1378, text).hint(format!(
                    "leave BLOCKSIZE out, or make the log anew: ALTER DATABASE DROP LOGFILE ALL, \
                     then ADD LOGFILE ... BLOCKSIZE {asked}"
                )));
            }
        }
        let taken: Vec<u32> = log.log().groups().iter().map(|group| group.group).collect();
        let settled = settle(new, &taken)?;
        let owner = Owner::of(&data);
        let made = self.make_log_files(&settled, &active, &owner, progress).await?;
        for (group, (number, files)) in settled.iter().zip(made) {
            self.add_files_of(log, group.group, number, files).await?;
        }
        Ok(Vec::new())
    }

    /// Adds a group with its new files; they go again where the log does not know it.
    async fn add_files_of(
        &self,
        log: &Arc<RedoLog>,
        group: NewGroup,
        number: u32,
        files: Vec<(Place, NewFile)>,
    ) -> Result<()> {
        let own =
            files.iter().map(|(place, new)| (place.clone(), number, Arc::clone(&new.file.own)));
        log.add_files(own.collect::<Vec<_>>());
        let devices = files.iter().map(|(place, new)| (place.to_string(), device(new)));
        let devices: BTreeMap<String, Arc<dyn Device>> = devices.collect();
        let (places, mut files): (Vec<Place>, Vec<NewFile>) = files.into_iter().unzip();
        let added = async {
            // Named before the log knows them: nobody asks for a file that has a name and is unknown.
            for new in &mut files {
                self.name_redo_file(new).await?;
            }
            log.log().add_group(group, devices).await.map_err(Error::from)
        };
        match added.await {
            // One that stopped meanwhile may know the group.
            Err(error) if !error.has(340) && !error.has(70152) => {
                places.iter().for_each(|place| log.release(place, Some(number)));
                Err(with_more(error, self.take_away(files).await))
            }
            added => {
                files.into_iter().for_each(NewFile::keep);
                added
            }
        }
    }

    /// Refuses media that are not those of the log.
    fn check_media(&self, words: &[String], places: &[Place]) -> Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        // '+DATA' means the failure groups that it meant before.
        let is_of = |word: &String| {
            let named = word.trim_end_matches('/').to_uppercase();
            let of = |place: &&Place| match place {
                Place::Group { group, failgroup } => {
                    named == format!("+{group}") || named == format!("+{group}.{failgroup}")
                }
                Place::Directory(path) => *path == absolute(std::path::Path::new(word)),
            };
            places.iter().filter(of).count()
        };
        let counts: Vec<usize> = words.iter().map(is_of).collect();
        if counts.iter().all(|count| *count > 0) && counts.iter().sum::<usize>() == places.len() {
            return Ok(());
        }
        let have: Vec<String> = places.iter().map(|place| format!("'{place}'")).collect();
        let text = format!("each log group has a file on each medium, {}", have.join(", "));
        Err(Error::new(301, text).hint(
            "leave the names out; ALTER DATABASE ADD LOGFILE MEMBER adds a medium to all groups",
        ))
    }

    async fn make_log(&self, new: &[NewLogfile], progress: &Progress<'_>) -> Result<Vec<String>> {
        let settled = settle(new, &[])?;
        if settled.len() < 2 {
            let text = "a redo log has at least two groups: while one is written, the other waits";
            return Err(Error::new(1567, text).hint(
                "name two: ALTER DATABASE ADD LOGFILE GROUP 1 ('+DATA') SIZE 64M, GROUP 2 SIZE 64M",
            ));
        }
        let first = new.iter().find(|logfile| !logfile.media.is_empty());
        let words = match first {
            Some(first) => first.media.clone(),
            None => vec![format!("+{}", self.first_group()?.name())],
        };
        let places = self.redo_places(&words)?;
        for logfile in new {
            self.check_media(&logfile.media, &places)?;
        }
        let group = self.first_group()?;
        if ControlFile::open(&group).await?.is_some() {
            let text = "there is a redo log that is not open";
            return Err(Error::new(1531, text).hint("end this command: the next one opens it"));
        }
        // Files of a log that never came to be, or was dropped, belong to nobody.
        let database =
            DatabaseId(u128::from(self.env().random()) << 64 | u128::from(self.env().random()));
        let archive_dest = match self.settings().text(LOG_ARCHIVE_DEST) {
            none if none.is_empty() => none,
            // Archives of a log that was given up stay beside those of this one.
            dest => archive_dest(&dest, database),
        };
        let notes = Notes { archive_dest, ..Notes::default() };
        GroupArchives::in_place(self.mounted(), &notes.archive_dest)?;
        let quorum = self.quorum(places.len())?;
        let owner = Owner::new(database);
        let made = self.make_log_files(&settled, &places, &owner, progress).await?;
        let chosen = self.choose_block_size(new, &made, quorum.of(places.len())).await?;
        let notes = Notes { block_size_reason: chosen.reason.clone(), ..notes };
        let archiving = !notes.archive_dest.is_empty();
        let control = ControlFile::create(&group, notes).await?;
        let log = CreateLog {
            database,
            block_size: chosen.block_size,
            quorum,
            archiving,
            groups: settled.iter().map(|settled| settled.group).collect(),
            media: media_of(&places, &made),
        };
        let control = Arc::new(control);
        let store = Arc::clone(&control) as Arc<dyn cellar_redo::Control>;
        cellar_redo::create(self.env(), &store, log).await?;
        let files = made.into_iter().flat_map(|(_, files)| files);
        let mut files: Vec<NewFile> = files.map(|(_, new)| new).collect();
        let named = async {
            for new in &mut files {
                self.name_redo_file(new).await?;
            }
            Ok(())
        };
        if let Err(error) = named.await {
            return Err(with_more(error, self.take_away(files).await));
        }
        files.into_iter().for_each(NewFile::keep);
        control.publish(&group).await?;
        drop((store, control));
        let control = ControlFile::open(&group).await?.ok_or_else(super::open::no_log)?;
        let data = decoded(&control)?;
        let opened = self.open_log(control, &data, false, &[], &|_, _| {}).await?;
        self.shared().state().open = Some(opened);
        Ok(chosen.warning.into_iter().chain(one_of_many(quorum, &places)).collect())
    }

    async fn choose_block_size(
        &self,
        new: &[NewLogfile],
        made: &Made,
        need: usize,
    ) -> Result<Chosen> {
        let mut asked: Vec<u32> = new.iter().filter_map(|logfile| logfile.block_size).collect();
        asked.dedup();
        if asked.len() > 1 {
            let text = "all groups of a log have blocks of one size";
            return Err(Error::new(1378, text).hint("say BLOCKSIZE once"));
        }
        let parameter = self.settings().choice(LOG_BLOCK_SIZE).parse().ok();
        let wanted = asked.first().copied().or(parameter);
        let files = made.first().map(|(_, files)| files.as_slice()).unwrap_or_default();
        let media: Vec<(String, Arc<dyn Device>)> =
            files.iter().map(|(place, new)| (place.to_string(), device(new))).collect();
        Ok(choose(self.env(), wanted, &media, need).await?)
    }

    /// What `redo_quorum` says for so many media.
    fn quorum(&self, media: usize) -> Result<Quorum> {
        let word = self.settings().choice(REDO_QUORUM);
        let Ok(k) = word.parse::<u8>() else { return Ok(Quorum::Auto) };
        if usize::from(k) > media {
            let text = format!("redo_quorum is {k}, and the log would have {media} media");
            return Err(Error::new(68, text).hint("name more media, or set redo_quorum = auto"));
        }
        Ok(Quorum::Of(k))
    }

    async fn make_log_files(
        &self,
        groups: &[Settled],
        places: &[Place],
        owner: &Owner,
        progress: &Progress<'_>,
    ) -> Result<Made> {
        let total: u64 = groups.iter().map(|g| g.group.size * places.len() as u64).sum();
        let (mut made, mut done) = (Vec::new(), 0);
        for Settled { group, reuse } in groups {
            let (number, size) = (group.number, group.size);
            let take = Take { owner: owner.clone(), reuse: *reuse };
            let mut files = Vec::new();
            for place in places {
                let tell = |now: u64, _: u64| progress(done + now, total);
                let new = self.make_redo_file(place, number, size, &take, &tell).await?;
                done += size;
                files.push((place.clone(), new));
            }
            made.push((number, files));
        }
        Ok(made)
    }

    /// `ALTER DATABASE DROP LOGFILE GROUP n, ...`. Returns what the user should also know.
    ///
    /// # Errors
    /// Oracle's refusals: 01567 too few groups left, 01623 current, 01624 needed for recovery, 00350
    /// not archived, 00359 no such group.
    #[boxed]
    pub async fn drop_logfiles(&self, numbers: &[u32]) -> Result<Vec<String>> {
        self.check_writable()?;
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        let log = self.log()?;
        let (places, own) = (log.places(), decoded(log.control())?.database);
        let mut left = Vec::new();
        for number in numbers {
            log.log().drop_group(*number).await?;
            // The log no longer knows them; what is left of them only takes space.
            for place in &places {
                log.release(place, Some(*number));
                left.extend(self.removed_or_left(place, *number, own).await);
            }
        }
        Ok(left)
    }

    /// `ALTER DATABASE CLEAR [UNARCHIVED] LOGFILE GROUP n, ...`: what is in the groups is given up, and
    /// they may be written again at once. Their files stay. Returns what the user should also know.
    ///
    /// # Errors
    /// Oracle's refusals: 01623 current, 01624 needed for recovery, 00350 not archived, also of an older
    /// group than the one that is named, 00359 no such group.
    #[boxed]
    pub async fn clear_logfiles(&self, numbers: &[u32], unarchived: bool) -> Result<Vec<String>> {
        self.check_writable()?;
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        let log = self.log()?;
        let mut notices = Vec::new();
        for number in numbers {
            let lost = log.clear(*number, unarchived).await?;
            notices.extend(lost.map(|sequence| {
                format!(
                    "log sequence {sequence} has no archive: what is restored from before it cannot \
                     be brought up to later ones with archives"
                )
            }));
        }
        Ok(notices)
    }

    /// `ALTER DATABASE DROP LOGFILE ALL`: gives the log up, with every record in it. Archives stay.
    ///
    /// # Errors
    /// There is no log; the group that has the control file has stopped. Of one whose control file is
    /// damaged the files stay: nobody knows which they were, and nobody needs them.
    #[boxed]
    pub async fn drop_log(&self) -> Result<()> {
        self.check_writable()?;
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        if redo.user().is_some() {
            let text = "the redo log is needed: the tables of this database are recovered from it";
            return Err(Error::new(1531, text).hint(
                "move it instead: ALTER DATABASE ADD LOGFILE MEMBER, then DROP LOGFILE MEMBER",
            ));
        }
        let group = self.first_group()?;
        match ControlFile::open(&group).await {
            Ok(Some(control)) => drop(control),
            Ok(None) => return Err(super::open::no_log()),
            Err(error) if error.has(227) && redo.log().is_none() => {
                group.remove(CONTROL_PATH).await?;
                *redo.state() = super::State::default();
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let open = redo.state().open.take();
        if let Some(log) = open {
            // One that has stopped is given up as well.
            let _ = log.close().await;
        }
        // Closing it wrote the control file.
        let given_up = async {
            let control = ControlFile::open(&group).await?.ok_or_else(super::open::no_log)?;
            control.note(|notes| notes.given_up = true).await?;
            self.finish_drop(&group, control).await
        };
        let given_up = given_up.await;
        let mut state = redo.state();
        *state = super::State { problem: given_up.as_ref().err().cloned(), ..Default::default() };
        given_up
    }

    /// Removes the files of a log that is given up, and at last what knows them.
    pub(super) async fn finish_drop(&self, group: &Group, control: ControlFile) -> Result<()> {
        // One that was dropped keeps its number and has no name. Of damaged control data no file is known.
        if let Ok(data) = decoded(&control) {
            for medium in data.media.iter().filter(|medium| !medium.name.is_empty()) {
                for entry in &data.groups {
                    // Of a medium that is not here nothing can be removed, and nobody asks for it.
                    let place = Place::of_name(&medium.name);
                    let own = Some(data.database);
                    let _ = self.remove_redo_file(&place, entry.number, own).await;
                }
            }
        }
        drop(control);
        Ok(group.remove(CONTROL_PATH).await?)
    }

    /// `ALTER SYSTEM SWITCH LOGFILE`: the LSN where the next group begins.
    ///
    /// # Errors
    /// There is no log, or it has stopped.
    #[boxed]
    pub async fn switch_logfile(&self, session: &Session) -> Result<Lsn> {
        self.check_writable()?;
        self.log()?.switch(session).await
    }

    /// `ALTER SYSTEM CHECKPOINT`: the LSN before which recovery needs nothing.
    ///
    /// # Errors
    /// There is no log, or it has stopped.
    #[boxed]
    pub async fn checkpoint(&self) -> Result<Lsn> {
        self.check_writable()?;
        self.log()?.checkpoint().await
    }

    /// `ALTER SYSTEM ARCHIVE LOG CURRENT`: ends the current group and waits until it is archived. The
    /// newest sequence that is.
    ///
    /// # Errors
    /// 00258 the log is not archived; why the archiver fails.
    #[boxed]
    pub async fn archive_log_current(&self, session: &Session) -> Result<u64> {
        self.check_writable()?;
        let log = self.log()?;
        if !log.is_archived() {
            return log.archive_finished().await;
        }
        if let Some(error) = log.archive_error() {
            return Err(error);
        }
        log.switch(session).await?;
        log.archive_finished().await
    }
}

fn device(new: &NewFile) -> Arc<dyn Device> {
    Arc::clone(&new.file.device)
}

/// Where a log archives to: a directory of its own in what was set.
pub(super) fn archive_dest(set: &str, log: DatabaseId) -> String {
    let set = set.trim_end_matches('/');
    let directory = if set.contains('/') { "" } else { "/archivelog" };
    format!("{set}{directory}/{:08x}", log.0 >> 96)
}

/// Media of a new log, each with its files.
fn media_of(places: &[Place], made: &Made) -> Vec<Medium> {
    let medium = |(at, place): (usize, &Place)| Medium {
        name: place.to_string(),
        files: made
            .iter()
            .filter_map(|(number, files)| Some((*number, device(&files.get(at)?.1))))
            .collect(),
    };
    places.iter().enumerate().map(medium).collect()
}

/// Numbers and sizes of new groups.
fn settle(new: &[NewLogfile], taken: &[u32]) -> Result<Vec<Settled>> {
    let mut used = taken.to_vec();
    used.extend(new.iter().filter_map(|logfile| logfile.number));
    let mut settled: Vec<Settled> = Vec::new();
    for logfile in new {
        let number = logfile.number.unwrap_or_else(|| {
            let free = (1..).find(|number| !used.contains(number)).unwrap_or(u32::MAX);
            used.push(free);
            free
        });
        if number == 0
            || taken.contains(&number)
            || settled.iter().any(|s| s.group.number == number)
        {
            let text = format!("log group {number} already exists");
            let text = if number == 0 { "log groups are numbered from 1".to_owned() } else { text };
            return Err(Error::new(1184, text).hint("choose another number, or leave GROUP out"));
        }
        if taken.len() + settled.len() >= GROUPS_MAX {
            let text = format!("a redo log has at most {GROUPS_MAX} groups");
            return Err(Error::new(70151, text).hint("add fewer, or drop others"));
        }
        let size = logfile.size.unwrap_or(SIZE_DEFAULT);
        if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
            let text = format!("a log group of {size} bytes is not allowed");
            return Err(Error::new(336, text).hint("SIZE is from 1M to 1T"));
        }
        let group = NewGroup { number, size: size.next_multiple_of(4096) };
        settled.push(Settled { group, reuse: logfile.reuse });
    }
    Ok(settled)
}

/// What one of several media means, for whoever set it.
fn one_of_many(quorum: Quorum, places: &[Place]) -> Option<String> {
    let is_one = quorum == Quorum::Of(1) && places.len() > 1;
    is_one.then(|| {
        "redo_quorum = 1: a commit is acknowledged when one medium has it. If that medium is lost \
         in a crash before the others have caught up, its last commits are lost"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_without_a_number_take_the_first_that_is_free() {
        let logfile = |number| NewLogfile { number, ..NewLogfile::default() };
        let numbers = |new: &[Option<u32>], taken: &[u32]| {
            let new: Vec<NewLogfile> = new.iter().copied().map(logfile).collect();
            settle(&new, taken)
                .map(|all| all.iter().map(|s| s.group.number).collect::<Vec<_>>())
                .map_err(|error| error.number())
        };
        assert_eq!(numbers(&[None, Some(1), None], &[]), Ok(vec![2, 1, 3]));
        assert_eq!(numbers(&[None, None], &[1, 3]), Ok(vec![2, 4]));
        assert_eq!(numbers(&[Some(3)], &[1, 3]), Err(1184));
        assert_eq!(numbers(&[Some(3), Some(3)], &[]), Err(1184));
        assert_eq!(numbers(&[Some(0)], &[]), Err(1184));
    }

    #[test]
    fn sizes_are_whole_blocks_and_within_bounds() {
        let size = |size| {
            let new = NewLogfile { size: Some(size), ..NewLogfile::default() };
            settle(&[new], &[]).map(|all| all[0].group.size).map_err(|error| error.number())
        };
        assert_eq!(size((1 << 20) + 1), Ok((1 << 20) + 4096));
        assert_eq!((size(4096), size(u64::MAX)), (Err(336), Err(336)));
    }
}
