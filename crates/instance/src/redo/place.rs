//! What a directory says of the files of a medium: a file system that hangs, as over a network, must
//! stop nobody, and a file of another database's log is not ours to write or to remove.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cellar_io::{EnvExt, Instant, SharedEnv};
use cellar_redo::on_disk::header::GroupHeader;
use cellar_redo::on_disk::{DatabaseId, HEADER_BYTES};
use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::media::{OpenMedium, Place};
use crate::database::Database;
use crate::error::{Error, Result};

/// A file system that takes longer to say what is in some files is done without.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often somebody looks whether another has his answer.
const LOOK: Duration = Duration::from_millis(10);

/// What was found where files of the log should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// All are there.
    pub all: bool,
    /// One that is of another database.
    pub foreign: Option<PathBuf>,
}

/// Directories that were asked and have not answered yet, each by a thread of its own, and since when.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<Mutex<BTreeMap<PathBuf, Instant>>>);

impl Asked {
    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<PathBuf, Instant>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until nobody else asks this directory; false where it has not answered another in time.
    async fn is_my_turn(&self, env: &SharedEnv, directory: &Path) -> bool {
        loop {
            let now = env.now();
            let since = self.with(|asked| match asked.get(directory) {
                Some(since) => Some(*since),
                None => {
                    asked.insert(directory.to_owned(), now);
                    None
                }
            });
            match since {
                None => return true,
                Some(since) if now.since(since) >= PATIENCE => return false,
                Some(_) => env.sleep(LOOK).await,
            }
        }
    }

    /// What `directory` says of these files; `None` where it does not, now or from before.
    async fn ask(
        &self,
        env: &SharedEnv,
        directory: &Path,
        files: Vec<PathBuf>,
        own: DatabaseId,
    ) -> Option<Found> {
        if !self.is_my_turn(env, directory).await {
            return None;
        }
        let (send, receive) = oneshot::channel();
        let (asked, place) = (self.clone(), directory.to_owned());
        let look = move || {
            let all = files.iter().all(|file| file.is_file());
            let foreign = files.into_iter().find(|file| is_of_another(file, own));
            asked.with(|asked| asked.remove(&place));
            // Nobody waits for it any more where it was late.
            let _ = send.send(Found { all, foreign });
        };
        // A thread may wait for as long as it likes; a worker of the runtime has others to serve.
        if std::thread::Builder::new().name("redo place".to_owned()).spawn(look).is_err() {
            self.with(|asked| asked.remove(directory));
            return None;
        }
        match select(receive, env.sleep(PATIENCE)).await {
            Either::Left((answer, _)) => answer.ok(),
            Either::Right(_) => None,
        }
    }
}

/// Whether a header in it says so. One that cannot be read says nothing: recovery deals with damage.
fn is_of_another(path: &Path, own: DatabaseId) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut databases =
        [0, size.saturating_sub(HEADER_BYTES as u64)].into_iter().filter_map(|at| {
            let mut bytes = vec![0; HEADER_BYTES];
            file.read_exact_at(&mut bytes, at).ok()?;
            GroupHeader::decode(&bytes).ok().map(|header| header.database)
        });
    databases.any(|database| database != own)
}

impl Database {
    /// What is found at a place of a medium of this database; `None` where its file system does not say.
    pub(super) async fn ask_place(
        &self,
        place: &Place,
        groups: &[u32],
        own: DatabaseId,
    ) -> Option<Found> {
        match place {
            Place::Group { .. } => {
                let all = groups.iter().all(|number| self.has_redo_file(place, *number));
                Some(Found { all, foreign: None })
            }
            Place::Directory(path) => {
                let files = groups.iter().map(|number| place.path(*number)).collect();
                self.instance().redo().asked.ask(self.env(), path, files, own).await
            }
        }
    }

    /// Refuses a place that does not answer, or has files of another database.
    pub(super) async fn check_place(
        &self,
        place: &Place,
        groups: &[u32],
        own: DatabaseId,
    ) -> Result<Found> {
        let Some(found) = self.ask_place(place, groups, own).await else {
            let text = format!("the file system of {place} does not answer");
            return Err(Error::new(27041, text).hint("look at its server or its device"));
        };
        match &found.foreign {
            Some(file) => {
                let text = format!("{} is of the redo log of another database", file.display());
                Err(Error::new(27048, text).hint("give each database a directory of its own"))
            }
            None => Ok(found),
        }
    }

    /// As [`open_medium`](Database::open_medium), with no file where the place does not answer, or has
    /// files of another database.
    pub(super) async fn open_medium_checked(
        &self,
        place: &Place,
        groups: &[u32],
        own: DatabaseId,
    ) -> OpenMedium {
        match self.check_place(place, groups, own).await {
            Ok(_) => self.open_medium(place, groups),
            Err(problem) => OpenMedium { problems: vec![problem], ..OpenMedium::none(place) },
        }
    }
}
