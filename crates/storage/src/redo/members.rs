//! Media that join and leave while the log is open: ALTER DATABASE ADD and DROP LOGFILE MEMBER, and
//! failed media whose place is well again.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_io::EnvExt;
use cellar_redo::Medium;

use super::RedoManager;
use super::log::RedoLog;
use super::media::{OpenMedium, Place};
use super::new_file::NewFile;
use super::open::decoded;
use crate::error::{Error, NextStep, Result};
use crate::files::{Progress, absolute};
use crate::mounted::Mounted;

/// Where the files of a medium come from.
#[derive(Clone, Copy)]
struct Files {
    /// The log knows the medium: those that are there are its own.
    is_known: bool,
    /// Others that are there are taken, and what is in them is lost.
    reuse: bool,
}

impl RedoManager {
    /// `ALTER DATABASE ADD LOGFILE MEMBER`: each medium gets a file for every log group, and counts for
    /// the quorum once it has all that the others have. A failed medium that is named takes part again.
    /// With `reuse`, files of a directory that exist already are taken, and their content is lost.
    ///
    /// # Errors
    /// 01577 it takes part already; no room; a place that will not do; it failed meanwhile;
    /// 27041 a file system does not answer; 27048 redo of another database is there. Files that were made
    /// for a medium that the log does not know are taken away again.
    #[boxed]
    pub async fn add_log_members(
        &self,
        words: &[String],
        reuse: bool,
        progress: &Progress<'_>,
    ) -> Result<()> {
        self.check_writable()?;
        let redo = self.shared();
        let own = decoded(self.log()?.control())?.database;
        self.check_directories(words, Some(own)).await?;
        let _changing = redo.changing.lock().await;
        let log = self.log()?;
        let media = log.log().media();
        let active = media.iter().filter(|medium| medium.active);
        let active: Vec<Place> = active.map(|medium| Place::of_name(&medium.name)).collect();
        let count = active.len();
        let places = self.places_beside(active, words, Some(1))?.split_off(count);
        for place in places {
            let is_known = media.iter().any(|medium| medium.name == place.to_string());
            let how = Files { is_known, reuse };
            let (opened, made) = self.files_for(&log, &place, how, progress).await?;
            log.add_files(opened.files);
            let added = match is_known {
                true => log.log().return_medium(opened.medium).await,
                false => log.log().add_medium(opened.medium).await,
            };
            let is_there = log.log().media().iter().any(|known| known.name == place.to_string());
            match added.map_err(Error::from) {
                // Nobody asks for its files, and the same statement again has no use for them.
                Err(error) if !is_there => {
                    log.release(&place, None);
                    return Err(with_more(error, self.take_away(made).await));
                }
                added => {
                    made.into_iter().for_each(NewFile::keep);
                    added?;
                }
            }
        }
        Ok(())
    }

    /// Refuses group numbers that the log does not have.
    ///
    /// # Errors
    /// 00359 for the first of them; there is no log, or it is not open.
    pub fn check_log_groups(&self, numbers: &[u32]) -> Result<()> {
        let groups = self.log()?.log().groups();
        let unknown = numbers.iter().find(|number| groups.iter().all(|g| g.group != **number));
        match unknown {
            Some(group) => Err(cellar_redo::Error::NoGroup { group: *group }.into()),
            None => Ok(()),
        }
    }

    /// Files of a medium for every group, new ones where there are none: those that are to be kept when
    /// the log knows them.
    async fn files_for(
        &self,
        log: &RedoLog,
        place: &Place,
        Files { is_known, reuse }: Files,
        progress: &Progress<'_>,
    ) -> Result<(OpenMedium, Vec<NewFile>)> {
        let groups = log.log().groups();
        let numbers: Vec<u32> = groups.iter().map(|group| group.group).collect();
        let sizes: Vec<(u32, u64)> = groups.iter().map(|group| (group.group, group.size)).collect();
        // Not where it takes part, or has not answered.
        if is_known {
            log.log().release(&place.to_string())?;
        }
        // Leftovers of an unknown medium belong to nobody.
        log.release(place, None);
        let mut opened = match is_known {
            true => {
                let own = decoded(log.control())?.database;
                self.open_medium_checked(place, &numbers, own).await
            }
            false => OpenMedium::none(place),
        };
        opened.problems.clear();
        let made = self.complete_medium(place, &sizes, &mut opened, reuse, progress).await;
        if opened.medium.files.len() == numbers.len() {
            return Ok((opened, made));
        }
        let why = std::mem::take(&mut opened.problems).into_iter().next();
        drop(opened);
        let why = why.unwrap_or_else(|| {
            Error::new(301, format!("redo cannot be kept in {place} now")).hint(
                NextStep::default().cellar("status", "").then(" tells which disks are missing"),
            )
        });
        if is_known {
            // They are found there the next time.
            made.into_iter().for_each(NewFile::keep);
            return Err(why);
        }
        Err(with_more(why, self.take_away(made).await))
    }

    /// `ALTER DATABASE DROP LOGFILE MEMBER`: the medium of that name, or of that file, with all its files.
    /// Returns what the user should also know.
    ///
    /// # Errors
    /// 00360 no such medium; too few would be left for the quorum.
    #[boxed]
    pub async fn drop_log_members(&self, words: &[String]) -> Result<Vec<String>> {
        self.check_writable()?;
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        let log = self.log()?;
        let own = decoded(log.control())?.database;
        let mut left = Vec::new();
        for word in words {
            let place = named(&log, word)?;
            log.log().drop_medium(&place.to_string()).await?;
            log.release(&place, None);
            for group in log.log().groups() {
                left.extend(self.removed_or_left(&place, group.group, own).await);
            }
        }
        Ok(left)
    }

    /// Removes the files of a failed medium in this failure group of a disk group, whose disk is lost for
    /// good: each file had its only copy there. The medium takes part again, with new files, once its
    /// place is well.
    ///
    /// # Errors
    /// The medium has not answered what it was given.
    pub(crate) async fn drop_lost_files(&self, group: &str, failgroup: &str) -> Result<()> {
        let redo = self.shared();
        let _changing = redo.changing.lock().await;
        let Some(log) = redo.log() else { return Ok(()) };
        let lost = Place::Group { group: group.to_owned(), failgroup: failgroup.to_owned() };
        if !failed_places(&log).contains(&lost) {
            return Ok(());
        }
        let own = decoded(log.control())?.database;
        log.log().release(&lost.to_string())?;
        log.release(&lost, None);
        for group in log.log().groups() {
            // One that stays is told by the disk group: nothing of it can be read.
            self.removed_or_left(&lost, group.group, own).await;
        }
        Ok(())
    }

    /// Lets failed media take part again if their place in this group is well, or is a directory that
    /// still has files of theirs.
    pub(crate) async fn return_failed_media(&self, mounted: &Mounted) {
        let Some(log) = self.shared().log() else { return };
        // A directory is looked at below: who looks at the disks must not wait for a file system.
        let may_be_here = |place: &Place| match place {
            Place::Group { .. } => self.is_well_in(place, mounted),
            Place::Directory(_) => true,
        };
        let mut places = failed_places(&log);
        places.retain(|place| may_be_here(place) && log.is_due(place));
        if places.is_empty() {
            return;
        }
        let this = self.clone();
        let work = async move {
            // What fails is tried again.
            let _ = this.return_places(&log, places).await;
        };
        self.env().spawn("redo medium returns", Box::pin(work));
    }

    /// Lets failed media in this group take part again where their place is well: they do when this
    /// returns.
    ///
    /// # Errors
    /// Of the first that does not; it is tried again.
    pub(crate) async fn return_media(&self, mounted: &Mounted) -> Result<()> {
        let Some(log) = self.shared().log() else { return Ok(()) };
        let mut places = failed_places(&log);
        places.retain(|place| self.is_well_in(place, mounted));
        if places.is_empty() {
            return Ok(());
        }
        let this = self.clone();
        // To its end although the caller goes away.
        let work = async move { this.return_places(&log, places).await };
        let ended = self.env().run("redo medium returns", work).await;
        ended.unwrap_or_else(|| Err(Error::new(1013, "the program ends")))
    }

    fn is_well_in(&self, place: &Place, mounted: &Mounted) -> bool {
        let is_here = matches!(place, Place::Group { group, .. } if group == mounted.group.name());
        is_here && self.is_well(place)
    }

    async fn return_places(&self, log: &Arc<RedoLog>, places: Vec<Place>) -> Result<()> {
        let redo = self.shared();
        let groups: Vec<u32> = log.log().groups().iter().map(|group| group.group).collect();
        let database = decoded(log.control())?.database;
        let mut back = Vec::new();
        for place in places {
            // With nothing held: a file system may hang. A directory without files of the log may be a
            // mount point with nothing mounted: whoever means it says ADD LOGFILE MEMBER. One file is
            // enough: groups that were added meanwhile have none yet.
            let is_group = matches!(place, Place::Group { .. });
            let found = self.check_place(&place, &groups, database).await;
            if is_group || found.is_ok_and(|found| found.all || found.own) {
                back.push(place);
            }
        }
        let mut failure = Ok(());
        if back.is_empty() {
            return failure;
        }
        let _changing = redo.changing.lock().await;
        for place in back {
            // Meanwhile the medium may have returned, or the log may have been dropped.
            let is_open = redo.log().is_some_and(|now| Arc::ptr_eq(&now, log));
            if is_open && failed_places(log).contains(&place) {
                failure = failure.and(self.return_one(log, &place).await);
            }
        }
        failure
    }

    async fn return_one(&self, log: &Arc<RedoLog>, place: &Place) -> Result<()> {
        let how = Files { is_known: true, reuse: false };
        let (opened, made) = self.files_for(log, place, how, &|_, _| {}).await?;
        made.into_iter().for_each(NewFile::keep);
        let medium: Medium = opened.medium;
        log.add_files(opened.files);
        Ok(log.log().return_medium(medium).await?)
    }
}

/// An error, and what went wrong when its traces were removed.
pub(super) fn with_more(error: Error, removed: Result<()>) -> Error {
    match removed {
        Ok(()) => error,
        Err(more) => error.over(more),
    }
}

/// Where media have failed.
fn failed_places(log: &RedoLog) -> Vec<Place> {
    let media = log.log().media().into_iter();
    media.filter(|medium| !medium.active).map(|medium| Place::of_name(&medium.name)).collect()
}

/// The medium that a word of a statement names: itself, or one of its files.
fn named(log: &RedoLog, word: &str) -> Result<Place> {
    let groups = log.log().groups();
    let media = log.log().media();
    let is_it = |place: &Place| {
        let name = place.to_string();
        let is_name = match place {
            Place::Group { .. } => name.eq_ignore_ascii_case(word.trim_end_matches('/')),
            Place::Directory(path) => *path == absolute(std::path::Path::new(word)),
        };
        is_name || groups.iter().any(|group| place.file_name(group.group) == word)
    };
    let mut places = media.iter().map(|medium| Place::of_name(&medium.name));
    places.find(is_it).ok_or_else(|| {
        let known: Vec<&str> = media.iter().map(|medium| medium.name.as_str()).collect();
        Error::new(360, format!("redo medium \"{word}\" does not exist"))
            .hint(format!("there are {}", known.join(", ")))
    })
}
