//! Checks of a redo medium in a directory. A file system that hangs, such as one over a network, must
//! stop nobody, and a log file of another database is not ours to write or to remove.

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

use super::RedoManager;
use super::media::{OpenMedium, Place, check_directory};
use super::new_file::Owner;
use crate::error::{Error, Result};
use crate::files::absolute;

/// Time that a file system may take to say what is in some files; a slower one is done without.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
/// Time that making or removing a file may take.
pub(super) const CHANGE_PATIENCE: Duration = Duration::from_secs(30);
/// How often somebody looks whether another has his answer.
const LOOK: Duration = Duration::from_millis(10);

/// What was found where files of the log should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// All are there.
    pub all: bool,
    /// One of them is of this database.
    pub own: bool,
    /// One that is of another database.
    pub foreign: Option<PathBuf>,
}

/// Directories that were asked and have not answered yet, each by a thread of its own, and since when.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<Mutex<BTreeMap<PathBuf, Instant>>>);

/// The right to query a directory, until it is dropped.
struct Turn {
    asked: Asked,
    directory: PathBuf,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.asked.with(|asked| asked.remove(&self.directory));
    }
}

impl Asked {
    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<PathBuf, Instant>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until nobody else asks this directory; `None` where it has not answered another in time.
    async fn turn(&self, env: &SharedEnv, directory: &Path) -> Option<Turn> {
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
                None => {
                    return Some(Turn { asked: self.clone(), directory: directory.to_owned() });
                }
                Some(since) if now.since(since) >= TIMEOUT => return None,
                Some(_) => env.sleep(LOOK).await,
            }
        }
    }

    /// What `work` finds in `directory`, run in a thread; `None` if the directory does not answer, now or
    /// since an earlier query.
    async fn run<T: Send + 'static>(
        &self,
        env: &SharedEnv,
        directory: &Path,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = self.turn(env, directory).await?;
        let (send, receive) = oneshot::channel();
        let look = move || {
            let answer = work();
            // Nobody waits for it any more where it was late. It is dropped before the next has his turn.
            let _ = send.send((answer, turn));
        };
        // A thread may wait for as long as it likes; a worker of the runtime has other tasks to serve.
        std::thread::Builder::new().name("redo place".to_owned()).spawn(look).ok()?;
        match select(receive, env.sleep(patience)).await {
            Either::Left((answer, _)) => answer.ok().map(|(answer, _turn)| answer),
            Either::Right(_) => None,
        }
    }
}

/// What the headers of a file say. What cannot be read says nothing: recovery deals with damage.
#[derive(Default)]
struct Headers {
    found: Vec<GroupHeader>,
    /// There is nothing but zeros where they should be.
    is_blank: bool,
}

fn headers_of(path: &Path) -> Headers {
    // Something that is no file, such as a pipe, may never answer.
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else {
        return Headers::default();
    };
    let Ok(size) = file.metadata().map(|metadata| metadata.len()) else {
        return Headers::default();
    };
    let length = usize::try_from(size).map_or(HEADER_BYTES, |size| size.min(HEADER_BYTES));
    let mut headers = Headers { found: Vec::new(), is_blank: true };
    for at in [0, size.saturating_sub(HEADER_BYTES as u64)] {
        let mut bytes = vec![0; length];
        let is_read = file.read_exact_at(&mut bytes, at).is_ok();
        headers.is_blank &= is_read && bytes.iter().all(|byte| *byte == 0);
        if is_read && length == HEADER_BYTES {
            headers.found.extend(GroupHeader::decode(&bytes).ok());
        }
    }
    headers
}

/// Whether a header in it says so.
fn is_own(path: &Path, own: DatabaseId) -> bool {
    headers_of(path).found.iter().any(|header| header.database == own)
}

/// Whether a header in it says so; without `own` any header does.
pub(super) fn is_of_another(path: &Path, own: Option<DatabaseId>) -> bool {
    headers_of(path).found.iter().any(|header| own != Some(header.database))
}

/// What is in a file that is where one of the log is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Zeros where the headers are.
    Nothing,
    /// Redo of this database in a group or of a medium that the log does not have.
    Left,
    /// Redo of this log, on the medium of this name.
    Live(String),
    /// Redo of another database.
    Foreign,
    /// Anything else, or what cannot be read.
    Other,
}

/// What is in a file; `None`: there is none.
pub(super) fn content_of(path: &Path, owner: &Owner) -> Option<Content> {
    if !path.exists() {
        return None;
    }
    let headers = headers_of(path);
    if headers.is_blank {
        return Some(Content::Nothing);
    }
    if headers.found.iter().any(|header| header.database != owner.database) {
        return Some(Content::Foreign);
    }
    let live = headers.found.iter().find_map(|header| {
        let medium = owner.media.get(usize::from(header.medium));
        medium.filter(|name| !name.is_empty() && owner.groups.contains(&header.group))
    });
    Some(match live {
        Some(medium) => Content::Live(medium.clone()),
        None if headers.found.is_empty() => Content::Other,
        None => Content::Left,
    })
}

/// Refuses a directory with redo of another database, or with any where there is no `own`: the two would
/// take the same names sooner or later.
pub(super) fn check_foreign(directory: &Path, own: Option<DatabaseId>) -> Result<()> {
    let failed = |error: &std::io::Error| Error::system("read", directory, error);
    for entry in std::fs::read_dir(directory).map_err(|error| failed(&error))? {
        let entry = entry.map_err(|error| failed(&error))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_log = name.starts_with("group_") && name.ends_with(".redo");
        if is_log && is_of_another(&entry.path(), own) {
            return Err(foreign(&entry.path()));
        }
    }
    Ok(())
}

/// What refuses a file of another database's log.
pub(super) fn foreign(file: &Path) -> Error {
    let text = format!("{} is of the redo log of another database", file.display());
    Error::new(27048, text)
        .hint("give each database a directory of its own; if that log is no more, remove its files")
}

fn silent(place: &str) -> Error {
    let text = format!("the file system of {place} does not answer");
    Error::new(27041, text).hint("look at its server or its device")
}

impl RedoManager {
    /// What `work` finds in a directory, or does there, in a thread of its own.
    ///
    /// # Errors
    /// 27041 it does not answer; what `work` says.
    pub(super) async fn in_directory<T: Send + 'static>(
        &self,
        directory: &Path,
        patience: Duration,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let asked = &self.shared().asked;
        let answer = asked.run(self.env(), directory, patience, work).await;
        answer.unwrap_or_else(|| Err(silent(&directory.display().to_string())))
    }

    /// Refuses words of a statement that name what is no directory, or one that does not answer, or
    /// that has redo of another database than `own`. With nothing held: a file system may hang.
    pub(super) async fn check_directories(
        &self,
        words: &[String],
        own: Option<DatabaseId>,
    ) -> Result<()> {
        for word in words.iter().filter(|word| !word.starts_with('+')) {
            let directory = absolute(Path::new(word));
            let path = directory.clone();
            let look = move || {
                check_directory(&path)?;
                check_foreign(&path, own)
            };
            self.in_directory(&directory, TIMEOUT, look).await?;
        }
        Ok(())
    }

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
                Some(Found { all, own: all, foreign: None })
            }
            Place::Directory(path) => {
                let files: Vec<PathBuf> = groups.iter().map(|number| place.path(*number)).collect();
                let look = move || Found {
                    all: files.iter().all(|file| file.is_file()),
                    own: files.iter().any(|file| is_own(file, own)),
                    foreign: files.into_iter().find(|file| is_of_another(file, Some(own))),
                };
                let asked = &self.shared().asked;
                asked.run(self.env(), path, TIMEOUT, look).await
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
        let found = self.ask_place(place, groups, own).await;
        let found = found.ok_or_else(|| silent(&place.to_string()))?;
        match &found.foreign {
            Some(file) => Err(foreign(file)),
            None => Ok(found),
        }
    }

    /// As [`open_medium`](RedoManager::open_medium), with no file where the place does not answer, or has
    /// files of another database.
    pub(super) async fn open_medium_checked(
        &self,
        place: &Place,
        groups: &[u32],
        own: DatabaseId,
    ) -> OpenMedium {
        match self.check_place(place, groups, own).await {
            Ok(_) => self.open_medium(place, groups).await,
            Err(problem) => OpenMedium { problems: vec![problem], ..OpenMedium::none(place) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use cellar_io::sim::Sim;

    use super::*;

    /// Says when it is dropped.
    struct Made(mpsc::Sender<()>);

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn a_directory_that_hangs_is_waited_for_once_and_what_it_makes_late_is_dropped() {
        let sim = Sim::new(1);
        let (env, asked, place) = (sim.env(), Asked::default(), Path::new("/mnt/nfs"));
        let (wake, hangs) = mpsc::channel::<()>();
        let (dropped, is_dropped) = mpsc::channel();
        let done = sim.run(async {
            let work = move || {
                let _ = hangs.recv();
                Made(dropped)
            };
            assert!(asked.run(&env, place, TIMEOUT, work).await.is_none());
            let start = env.now();
            assert!(asked.run(&env, place, TIMEOUT, || ()).await.is_none());
            assert_eq!(env.now(), start, "who comes later does not wait at all");
        });
        assert!(done.is_some());
        wake.send(()).unwrap();
        is_dropped.recv().unwrap();
        // Its turn ends behind that.
        while asked.with(|asked| !asked.is_empty()) {
            std::thread::yield_now();
        }
    }
}
