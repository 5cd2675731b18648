//! Media in directories of a real file system: what a statement leaves there, what it takes, and whose it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cellar_diskgroup::Redundancy;
use cellar_instance::database::init;
use cellar_instance::directory::Directory;
use cellar_instance::{Database, Instance};
use cellar_io::EnvExt;
use cellar_io::real::{Runtime, RuntimeOptions};
use cellar_redo::on_disk::HEADER_BYTES;
use cellar_storage::OpenMode;
use cellar_storage::disks::RealDisks;
use cellar_storage::request::NewLogfile;
use cellar_storage::{InitDisk, InitSpec};
use cellar_wait::Waits;

use super::{logfile, session, statuses};

/// A machine with file systems, in a directory that goes with it.
struct Place {
    runtime: Runtime,
    parent: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let parent = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Place { runtime: Runtime::new(&RuntimeOptions::default()).unwrap(), parent }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.parent.path().join(name)
    }

    /// A new directory, and the word that names it.
    fn directory(&self, name: &str) -> (PathBuf, String) {
        let path = self.path(name);
        std::fs::create_dir(&path).unwrap();
        let word = path.to_str().unwrap().to_owned();
        (path, word)
    }

    fn parts(&self, directory: &Directory) -> (Arc<Instance>, Arc<RealDisks>) {
        let instance = Instance::open(self.runtime.env(), Waits::new(), directory).unwrap();
        let disks = RealDisks::new(self.runtime.real_env(), instance.parameters());
        (Arc::new(instance), Arc::new(disks))
    }

    /// A new database with two disks.
    async fn database(&self, name: &str) -> Database {
        let directory = Directory::create(&self.path(name)).unwrap();
        let (instance, disks) = self.parts(&directory);
        let spec = InitSpec {
            name: "DATA".into(),
            redundancy: Redundancy::Normal,
            au_size: 1 << 20,
            sector_size: None,
            disks: vec![InitDisk::File { size: 64 << 20 }; 2],
            failgroups: Vec::new(),
            erase: Default::default(),
        };
        init(instance, directory, disks, &spec, &|_, _| ()).await.unwrap()
    }

    async fn open(&self, name: &str) -> Database {
        let directory = Directory::open(&self.path(name)).unwrap();
        let (instance, disks) = self.parts(&directory);
        Database::open(instance, directory, disks, OpenMode::default()).await.unwrap()
    }
}

async fn make(database: &Database, media: &[&str]) -> u32 {
    let new = [logfile(Some(1), media), logfile(Some(2), &[])];
    number(database.storage().redo().add_logfiles(&new, &|_, _| {}).await)
}

async fn add_member(database: &Database, word: &str, reuse: bool) -> u32 {
    number(database.storage().redo().add_log_members(&[word.to_owned()], reuse, &|_, _| {}).await)
}

async fn add_group(database: &Database, group: u32, reuse: bool) -> u32 {
    let new = NewLogfile { reuse, ..logfile(Some(group), &[]) };
    number(database.storage().redo().add_logfiles(&[new], &|_, _| {}).await)
}

/// The number of a refusal; 0: it was done.
fn number<T>(result: cellar_instance::Result<T>) -> u32 {
    result.err().map_or(0, |error| error.number())
}

/// Names of the files that are there.
fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_medium_that_is_refused_leaves_nothing_and_can_be_named_again() {
    let place = Place::new();
    place.runtime.block_on(async {
        let database = place.database("db").await;
        assert_eq!(make(&database, &["+DATA"]).await, 0);
        let (flash, word) = place.directory("flash");
        let other = flash.join("group_2.redo");
        std::fs::write(&other, b"a letter").unwrap();
        assert_eq!(add_member(&database, &word, false).await, 27038);
        assert_eq!(files(&flash), ["group_2.redo"], "what was made went again");
        assert_eq!(std::fs::read(&other).unwrap(), b"a letter");
        std::fs::remove_file(&other).unwrap();
        assert_eq!(add_member(&database, &word, false).await, 0);
        // As a crash leaves it: the statement was carried out, and its files are there yet.
        let left: Vec<(PathBuf, Vec<u8>)> = files(&flash)
            .into_iter()
            .map(|name| (flash.join(&name), std::fs::read(flash.join(&name)).unwrap()))
            .collect();
        assert!(
            database
                .storage()
                .redo()
                .drop_log_members(std::slice::from_ref(&word))
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(files(&flash), [""; 0]);
        left.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        assert_eq!(add_member(&database, &word, false).await, 0, "its own, and of no medium");
        // Before it was carried out.
        std::fs::write(flash.join("group_3.redo"), vec![0; 2 * HEADER_BYTES]).unwrap();
        assert_eq!(add_group(&database, 3, false).await, 0, "there is nothing in it");
        assert_eq!(files(&flash), ["group_1.redo", "group_2.redo", "group_3.redo"]);
        // A file of a medium that takes part, in another place.
        let (_, twin) = place.directory("twin");
        std::fs::copy(flash.join("group_1.redo"), place.path("twin/group_1.redo")).unwrap();
        for reuse in [false, true] {
            assert_eq!(add_member(&database, &twin, reuse).await, 1577);
        }
        database.close().await.unwrap();
    });
}

#[test]
fn a_ninth_medium_leaves_nothing() {
    let place = Place::new();
    place.runtime.block_on(async {
        let database = place.database("db").await;
        assert_eq!(make(&database, &["+DATA"]).await, 0);
        for at in 3..=8 {
            let (_, word) = place.directory(&format!("flash{at}"));
            assert_eq!(add_member(&database, &word, false).await, 0, "medium {at}");
        }
        let (ninth, word) = place.directory("flash9");
        assert_ne!(add_member(&database, &word, false).await, 0);
        assert_eq!(files(&ninth), [""; 0]);
        assert_eq!(statuses(&database), ["ACTIVE"; 8]);
        database.close().await.unwrap();
    });
}

#[test]
fn redo_of_another_database_is_not_taken_whatever_is_said() {
    let place = Place::new();
    place.runtime.block_on(async {
        let (first, second) = (place.database("first").await, place.database("second").await);
        let (flash, word) = place.directory("flash");
        let (own, own_word) = place.directory("own");
        assert_eq!(make(&first, &[&word]).await, 0);
        assert_eq!(add_group(&first, 3, false).await, 0);
        first.close().await.unwrap();
        let theirs = std::fs::read(flash.join("group_3.redo")).unwrap();

        assert_eq!(make(&second, &[&word]).await, 27048, "no log of its own yet");
        assert_eq!(make(&second, &["+DATA", &own_word]).await, 0);
        for reuse in [false, true] {
            assert_eq!(add_member(&second, &word, reuse).await, 27048);
        }
        assert_eq!(files(&flash), ["group_1.redo", "group_2.redo", "group_3.redo"]);
        // Somebody put it beside: neither its number nor another is free.
        std::fs::copy(flash.join("group_3.redo"), own.join("group_3.redo")).unwrap();
        for (group, reuse) in [(3, false), (3, true), (4, true)] {
            assert_eq!(add_group(&second, group, reuse).await, 27048, "group {group}");
        }
        assert_eq!(files(&own), ["group_1.redo", "group_2.redo", "group_3.redo"]);
        assert!(std::fs::read(own.join("group_3.redo")).unwrap() == theirs);
        second.close().await.unwrap();
        let first = place.open("first").await;
        first.storage().redo().switch_logfile(session(&first).waits()).await.unwrap();
        first.close().await.unwrap();
    });
}

#[test]
fn a_directory_returns_by_itself_when_a_group_was_added_meanwhile() {
    let place = Place::new();
    place.runtime.block_on(async {
        let (flash, word) = place.directory("flash");
        let database = place.database("db").await;
        assert_eq!(make(&database, &["+DATA", &word]).await, 0);
        database.close().await.unwrap();
        std::fs::rename(&flash, place.path("away")).unwrap();
        let database = place.open("db").await;
        assert_eq!(statuses(&database), ["ACTIVE", "ACTIVE", "FAILED"]);
        assert_eq!(add_member(&database, &word, false).await, 301, "there is no such directory");
        assert_eq!(add_group(&database, 3, false).await, 0);
        std::fs::rename(place.path("away"), &flash).unwrap();
        let mut looks = 0;
        while statuses(&database)[2] == "FAILED" && looks < 600 {
            database.env().sleep(Duration::from_millis(100)).await;
            looks += 1;
        }
        assert_eq!(statuses(&database), ["ACTIVE"; 3]);
        assert_eq!(files(&flash), ["group_1.redo", "group_2.redo", "group_3.redo"]);
        database.close().await.unwrap();
    });
}
