//! Columnar tables as a user makes, fills, empties and drops them.

use std::collections::BTreeMap;
use std::time::Duration;

use cellar_diskgroup::FileSpec;
use cellar_diskgroup::state::FileType;
use cellar_instance::catalog::{Segment, Table};
use cellar_instance::tables::{TABLES_DIR, is_system_file};
use cellar_instance::{Database, Error};
use cellar_io::EnvExt;
use cellar_storage::OpenMode;
use futures_util::FutureExt;
use futures_util::future::join;

use crate::machine::{
    Machine, append, byte_of, create, figures, files, free, named, new_table, rows, written,
};

/// A file with a name, as if a crash had left it.
async fn leave(database: &Database, group: &str, path: &str) {
    let (file, _) = written(database, group, 9).await;
    let group = database.group(group).unwrap().group;
    group.publish(&file, path, false).await.unwrap();
}

fn next_of(error: &Error) -> String {
    error.next_step().unwrap().to_string()
}

/// A name that a segment could have: that of one there is, with another number.
fn like(path: &str) -> String {
    let (rest, _) = path.rsplit_once('-').unwrap();
    format!("{rest}-0badf00d.seg")
}

#[test]
fn a_table_is_there_with_its_rows_after_a_restart() {
    let machine = Machine::new(1);
    machine.run(async {
        let database = machine.open().await;
        let id = create(&database, "orders", "DATA", 1).await;
        append(&database, "orders", id, 2).await.unwrap();
        create(&database, "Weird/Näme%", "MORE", 3).await;
        database.tables().add_columnar(new_table(&database, "empty", "more"), None).await.unwrap();
        let external = Table::external("e", "csv", "+DATA/x", "", BTreeMap::new());
        database.catalog().add(external).await.unwrap();
        database.close().await.unwrap();

        let database = machine.open().await;
        assert_eq!(rows(&database, "orders").await, [1, 2]);
        assert_eq!(rows(&database, "Weird/Näme%").await, [3]);
        assert_eq!(rows(&database, "empty").await.len(), 0);
        let catalog = database.catalog().current();
        let table = catalog.table("orders").unwrap();
        assert_eq!((table.id, table.rows(), table.location.as_str()), (id, 20, "+DATA"));
        let Segment { file, rows: 10, row_groups: 1, bytes, created } = &table.segments[0] else {
            panic!("{table:?}");
        };
        assert!(*created > 0 && *bytes == figures().bytes);
        assert!(file.starts_with(&format!("cellar/tables/orders_{id:016x}_")), "{file}");
        let weird = &catalog.table("Weird/Näme%").unwrap().segments[0].file;
        assert!(weird.starts_with("cellar/tables/Weird_Näme__"), "{weird}");
        assert_eq!(files(&database, "DATA"), named(&database, "DATA"));
        assert_eq!(database.tables().swept(), 0);
        append(&database, "Weird/Näme%", catalog.table("Weird/Näme%").unwrap().id, 4)
            .await
            .unwrap();
        append(&database, "empty", catalog.table("empty").unwrap().id, 5).await.unwrap();
        assert_eq!(rows(&database, "Weird/Näme%").await, [3, 4]);
        assert_eq!(rows(&database, "empty").await, [5]);
        database.close().await.unwrap();
    });
}

#[test]
fn a_name_is_used_once_and_the_rows_that_came_too_late_are_gone() {
    let machine = Machine::new(2);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t", "DATA", 1).await;
        let (before, listed) = (free(&database, "DATA"), files(&database, "DATA"));
        let segment = written(&database, "DATA", 2).await;
        let again = new_table(&database, "t", "DATA");
        let error = database.tables().add_columnar(again, Some(segment)).await.unwrap_err();
        assert_eq!(error.number(), 955);
        // Two at once: one of them finds the name used when its file has a name already.
        let (one, two) = (written(&database, "DATA", 3).await, written(&database, "DATA", 4).await);
        let (one, two) = join(
            database.tables().add_columnar(new_table(&database, "u", "DATA"), Some(one)),
            database.tables().add_columnar(new_table(&database, "u", "DATA"), Some(two)),
        )
        .await;
        assert_eq!([&one, &two].iter().filter(|done| done.is_ok()).count(), 1);
        assert_eq!(one.and(two).unwrap_err().number(), 955);
        assert_eq!(files(&database, "DATA"), named(&database, "DATA"));
        database.tables().drop_columnar("u").await.unwrap();
        assert_eq!(files(&database, "DATA"), listed);
        database.env().sleep(Duration::from_secs(1)).await;
        assert_eq!(free(&database, "DATA"), before);
        assert_eq!(rows(&database, "t").await, [1]);
        database.close().await.unwrap();
    });
}

#[test]
fn who_reads_a_table_that_is_truncated_or_dropped_reads_on() {
    let machine = Machine::new(3);
    machine.run(async {
        let database = machine.open().await;
        // The catalog takes room of its own in DATA.
        let id = create(&database, "t", "MORE", 1).await;
        database.tables().truncate_columnar("t").await.unwrap();
        let empty = free(&database, "MORE");
        for byte in [2, 3] {
            append(&database, "t", id, byte).await.unwrap();
        }
        assert!(free(&database, "MORE") < empty);
        let catalog = database.catalog().current();
        let table = catalog.table("t").unwrap();
        let open = |at: usize| database.tables().open_segment(table, &table.segments[at]);
        let (second, third) = (open(0).unwrap(), open(1).unwrap());
        let before = database.tables().truncate_columnar("t").await.unwrap();
        assert_eq!(before, *table);
        assert_eq!(rows(&database, "t").await.len(), 0);
        assert_eq!(byte_of(&second).await, 2);
        let error = open(0).unwrap_err();
        assert_eq!(error.number(), 942, "{error}");
        assert!(error.to_string().contains("dropped or truncated meanwhile"), "{error}");

        append(&database, "t", id, 4).await.unwrap();
        assert_eq!(rows(&database, "t").await, [4]);
        assert_eq!(database.tables().drop_columnar("t").await.unwrap().rows(), 10);
        assert_eq!(byte_of(&third).await, 3);
        assert_eq!(files(&database, "MORE"), [""; 0]);
        drop((second, third));
        database.env().sleep(Duration::from_secs(1)).await;
        assert_eq!(free(&database, "MORE"), empty);
        assert_eq!(database.tables().drop_columnar("t").await.unwrap_err().number(), 942);
        database.close().await.unwrap();
    });
}

#[test]
fn appends_at_the_same_time_all_land() {
    let machine = Machine::new(4);
    machine.run(async {
        let database = machine.open().await;
        let id = create(&database, "t", "DATA", 0).await;
        let appends = (1..=8).map(|byte| append(&database, "t", id, byte));
        for done in futures_util::future::join_all(appends).await {
            done.unwrap();
        }
        let mut all = rows(&database, "t").await;
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(files(&database, "DATA"), named(&database, "DATA"));
        database.close().await.unwrap();
    });
}

#[test]
fn rows_for_a_table_made_anew_meanwhile_are_refused() {
    let machine = Machine::new(5);
    machine.run(async {
        let database = machine.open().await;
        let id = create(&database, "t", "MORE", 1).await;
        let (file, figures) = written(&database, "MORE", 2).await;
        database.tables().drop_columnar("t").await.unwrap();
        create(&database, "t", "MORE", 3).await;
        let error = database.tables().append_segment("t", id, file, figures).await.unwrap_err();
        assert_eq!((error.number(), error.sqlstate()), (942, "42P01"));
        assert!(error.to_string().contains("was dropped or made anew meanwhile"), "{error}");
        assert!(error.next_step().is_some());
        assert_eq!(rows(&database, "t").await, [3]);
        database.env().sleep(Duration::from_secs(1)).await;
        let group = database.group("MORE").unwrap().group;
        assert_eq!(group.files().len(), 1, "the file of the refused rows is gone");
        database.close().await.unwrap();
    });
}

#[test]
fn a_caller_that_goes_away_leaves_the_table_whole() {
    let machine = Machine::new(6);
    machine.run(async {
        let database = machine.open().await;
        let id = create(&database, "t", "DATA", 1).await;
        let (file, figures) = written(&database, "DATA", 2).await;
        assert!(database.tables().append_segment("t", id, file, figures).now_or_never().is_none());
        database.env().sleep(Duration::from_secs(1)).await;
        assert_eq!(rows(&database, "t").await, [1, 2]);
        assert!(database.tables().truncate_columnar("t").now_or_never().is_none());
        database.env().sleep(Duration::from_secs(1)).await;
        assert_eq!((rows(&database, "t").await.len(), files(&database, "DATA").len()), (0, 0));
        database.close().await.unwrap();
    });
}

#[test]
fn the_sweep_takes_our_orphans_and_nothing_else() {
    let machine = Machine::new(7);
    machine.run(async {
        let database = machine.open().await;
        // Somebody wrote the group in lower case.
        let table = Table { location: "+more".into(), ..new_table(&database, "t", "MORE") };
        let segment = written(&database, "MORE", 1).await;
        database.tables().add_columnar(table, Some(segment)).await.unwrap();
        let own = named(&database, "MORE").remove(0);
        let orphan = like(&own);
        let (head, _) = own.rsplit_once('_').unwrap();
        let foreign = format!("{head}_00000000-00000000.seg");
        let others = [foreign, format!("{TABLES_DIR}/notes.txt"), format!("elsewhere/{own}")];
        for path in others.iter().chain([&orphan]) {
            leave(&database, "MORE", path).await;
        }
        database.close().await.unwrap();

        let read_only = OpenMode { read_only: true, ..OpenMode::default() };
        let database = machine.open_as(read_only).await;
        assert_eq!((database.tables().swept(), rows(&database, "t").await), (0, vec![1]));
        assert_eq!(database.tables().new_segment("MORE").await.unwrap_err().number(), 70041);
        assert_eq!(database.tables().truncate_columnar("t").await.unwrap_err().number(), 70041);
        database.close().await.unwrap();
        let database = machine.open_as(OpenMode { force: true, ..OpenMode::default() }).await;
        assert_eq!(database.tables().swept(), 0, "the catalog may be older than the files");
        database.close().await.unwrap();

        let database = machine.open().await;
        assert_eq!(database.tables().swept(), 1);
        let group = database.group("MORE").unwrap().group;
        assert!(group.open(&orphan).is_err());
        assert!(others.iter().all(|path| group.open(path).is_ok()));
        assert_eq!(rows(&database, "t").await, [1]);
        database.close().await.unwrap();
    });
}

#[test]
fn nothing_is_swept_while_there_is_no_catalog() {
    let machine = Machine::new(8);
    machine.run(async {
        let database = machine.open().await;
        let group = database.group("DATA").unwrap().group;
        create(&database, "t", "DATA", 1).await;
        group.remove("cellar/catalog").await.unwrap();
        database.close().await.unwrap();
        let database = machine.open().await;
        assert_eq!((database.tables().swept(), files(&database, "DATA").len()), (0, 1));
        create(&database, "u", "DATA", 2).await;
        database.close().await.unwrap();
        let database = machine.open().await;
        assert_eq!(
            (database.tables().swept(), files(&database, "DATA")),
            (1, named(&database, "DATA"))
        );
        assert_eq!(rows(&database, "u").await, [2]);
        database.close().await.unwrap();
    });
}

#[test]
fn a_table_whose_group_is_away_says_so_and_can_be_dropped() {
    let machine = Machine::new(9);
    machine.run(async {
        let database = machine.open().await;
        let id = create(&database, "t", "MORE", 1).await;
        create(&database, "u", "MORE", 2).await;
        let late = written(&database, "MORE", 3).await;
        database.storage().groups().dismount("MORE", false).await.unwrap();

        let catalog = database.catalog().current();
        let table = catalog.table("t").unwrap();
        let error = database.tables().open_segment(table, &table.segments[0]).unwrap_err();
        assert!(error.has(15001) && error.to_string().contains("table \"t\""), "{error}");
        assert_eq!(next_of(&error), "mount it first: ALTER DISKGROUP MORE MOUNT");
        let error = database.tables().append_segment("t", id, late.0, late.1).await.unwrap_err();
        assert!(error.has(15001), "{error}");
        let empty = new_table(&database, "v", "MORE");
        assert!(database.tables().add_columnar(empty, None).await.unwrap_err().has(15001));
        database.tables().drop_columnar("t").await.unwrap();

        database.mount_group("MORE", false).await.unwrap();
        assert_eq!(database.tables().swept(), 1, "what could not be removed then");
        assert_eq!(files(&database, "MORE"), named(&database, "MORE"));
        assert_eq!(rows(&database, "u").await, [2]);
        database.close().await.unwrap();
    });
}

#[test]
fn a_group_with_tables_is_not_dropped() {
    let machine = Machine::new(10);
    machine.run(async {
        let database = machine.open().await;
        database.tables().add_columnar(new_table(&database, "empty", "MORE"), None).await.unwrap();
        create(&database, "t", "MORE", 1).await;
        let error = database.drop_group("more", true).await.unwrap_err();
        assert!(error.has(15039) && error.number() == 15028, "{error}");
        assert!(error.to_string().contains("tables are kept in \"MORE\": empty, t"), "{error}");
        assert!(next_of(&error).ends_with(": drop table empty, t"));
        assert_eq!(rows(&database, "t").await, [1]);
        database.tables().drop_columnar("t").await.unwrap();
        database.tables().drop_columnar("empty").await.unwrap();

        // A load while the group is being dropped: one of them is refused, whichever is first.
        let table = new_table(&database, "late", "MORE");
        let segment = written(&database, "MORE", 2).await;
        let (loaded, dropped) = join(
            database.tables().add_columnar(table, Some(segment)),
            database.drop_group("more", true),
        )
        .await;
        assert!(loaded.is_ok() != dropped.is_ok(), "{loaded:?} {dropped:?}");
        assert_eq!(loaded.is_ok(), database.catalog().current().table("late").is_some());
        database.close().await.unwrap();
    });
}

#[test]
fn a_missing_file_is_told_with_its_table_and_the_next_step() {
    let machine = Machine::new(11);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t", "MORE", 1).await;
        let file = named(&database, "MORE").remove(0);
        database.group("MORE").unwrap().group.remove(&file).await.unwrap();
        let catalog = database.catalog().current();
        let table = catalog.table("t").unwrap();
        let error = database.tables().open_segment(table, &table.segments[0]).unwrap_err();
        assert_eq!((error.number(), error.sqlstate()), (70119, "XX001"));
        let text = error.to_string();
        assert!(text.contains("table \"t\"") && text.contains(&format!("+MORE/{file}")), "{text}");
        assert!(next_of(&error).contains("DROP TABLE t"), "{text}");
        database.tables().drop_columnar("t").await.unwrap();
        database.close().await.unwrap();
    });
}

#[test]
fn files_of_the_system_are_not_the_users() {
    let machine = Machine::new(12);
    machine.run(async {
        let database = machine.open().await;
        create(&database, "t", "MORE", 1).await;
        let file = named(&database, "MORE").remove(0);
        assert!(is_system_file(&file) && !is_system_file("data/x"));
        for (group, path, why) in [
            ("data", "/cellar//catalog", "holds the catalog"),
            ("data", "cellar", "holds the catalog"),
            ("data", "cellar/tables", "where columnar tables are kept"),
            ("more", file.as_str(), "holds rows of table \"t\""),
            ("more", "cellar/tables/x", "where columnar tables are kept"),
            ("more", "cellar", "where columnar tables are kept"),
        ] {
            let error = database.tables().check_user_file(group, path).unwrap_err();
            assert_eq!(error.number(), 15028, "{path}");
            assert!(error.to_string().contains(why) && error.next_step().is_some(), "{error}");
        }
        for (group, path) in [("more", "cellar/catalog"), ("data", "x/y"), ("data", "cellar/t")] {
            database.tables().check_user_file(group, path).unwrap();
        }
        database.close().await.unwrap();
    });
}

#[test]
fn a_catalog_that_cannot_be_written_leaves_no_file() {
    let machine = Machine::new(14);
    machine.run(async {
        let database = machine.open().await;
        let id = create(&database, "t", "MORE", 1).await;
        let before = free(&database, "MORE");
        let data = database.group("DATA").unwrap().group;
        // With the room that is kept for it the catalog can be written, however full the group is.
        data.remove("cellar/catalog.next").await.unwrap();
        let filler = data.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        let mut bytes = 1 << 20;
        while filler.allocate(bytes).await.is_ok() {
            bytes += 1 << 20;
        }
        let segment = written(&database, "MORE", 2).await;
        let table = new_table(&database, "u", "MORE");
        let error = database.tables().add_columnar(table, Some(segment)).await.unwrap_err();
        assert_eq!(error.sqlstate(), "53100", "{error}");
        assert_eq!(append(&database, "t", id, 3).await.unwrap_err().sqlstate(), "53100");
        assert!(database.tables().truncate_columnar("t").await.is_err());
        assert_eq!(rows(&database, "t").await, [1]);
        assert_eq!(files(&database, "MORE"), named(&database, "MORE"));
        assert_eq!(free(&database, "MORE"), before);
        drop(filler);
        database.env().sleep(Duration::from_secs(1)).await;
        append(&database, "t", id, 4).await.unwrap();
        assert_eq!(rows(&database, "t").await, [1, 4]);
        database.close().await.unwrap();
    });
}

#[test]
fn a_segment_of_another_group_is_not_taken() {
    let machine = Machine::new(13);
    machine.run(async {
        let database = machine.open().await;
        let wrong = database.group("DATA").unwrap().group;
        let file = wrong.create_file(&FileSpec::new(FileType::Datafile)).await.unwrap();
        let table = new_table(&database, "t", "MORE");
        let error =
            database.tables().add_columnar(table, Some((file, figures()))).await.unwrap_err();
        assert_eq!(error.number(), 600, "{error}");
        assert!(database.catalog().current().table("t").is_none());
        database.close().await.unwrap();
    });
}
