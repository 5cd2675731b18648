//! The redo log as users see it: made, switched, archived, looked into, given up; kept from what would
//! take it away; and there again after the program ends.

#![expect(clippy::disallowed_methods, reason = "the program has the real clock, and so its test")]

use std::path::Path;
use std::time::Duration;

use crate::program::{self, Shell, cellar, done, out, refused, rows, sql, told};
use serde_json::Value;

fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let words = ["init", "db", "--disk-size", "128M", "--au-size", "1M", "--redo-size", "none"];
    done(dir.path(), &words);
    dir
}

const MAKE: &str = "alter database add logfile group 1 ('+DATA') size 2M, group 2 size 2M";

/// Group, sequence and status of each log group.
fn groups(at: &Path) -> Vec<(u64, u64, String)> {
    let of = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap();
        (number("group#"), number("sequence#"), row["status"].as_str().unwrap().to_owned())
    };
    rows(at, "select * from v$log order by group#").iter().map(of).collect()
}

#[test]
fn init_makes_a_log_where_it_is_asked_to() {
    if !program::has_groups() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = dir.path();
    let init = |name: &str, size: &[&str]| {
        let words = ["--disk-size", "128M", "--au-size", "1M"];
        cellar(at, &[&["init", name], &words[..], size].concat())
    };
    let sizes = |at: &Path| rows(at, "select bytes from v$log");
    let mut made = 0;
    let mut sizes_of = |size: &[&str]| {
        let told = init("db", size);
        assert!(told.status.success(), "{told:?}");
        let found = sizes(at);
        made += 1;
        std::fs::rename(at.join("db"), at.join(format!("other{made}"))).unwrap();
        found
    };
    assert_eq!(sizes_of(&["--redo-size", "auto"]).len(), 3);
    let four = sizes_of(&["--redo-size", "4M"]);
    assert!(four.iter().all(|row| row["bytes"].as_u64().unwrap() > 3 << 20), "{four:?}");
    assert!(sizes_of(&["--redo-size", "none"]).is_empty());
    let told = init("no", &["--redo-size", "900M"]);
    assert!(!told.status.success() && !at.join("no").exists(), "{told:?}");
    let told = init("no", &["--redo-size", "much"]);
    assert_eq!(told.status.code(), Some(2), "{told:?}");
}

#[test]
fn a_replaced_disk_gets_the_log_files_of_the_lost_one() {
    if !program::has_groups() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = dir.path();
    let words = ["--disks", "3", "--disk-size", "96M", "--au-size", "1M", "--redo-size", "2M"];
    done(at, &[&["init", "db"][..], &words].concat());
    sql(at, "create table t (id int primary key); insert into t values (1)");
    done(at, &["asm", "db", "offline", "-D", "DATA_0001"]);
    std::fs::remove_file(at.join("db/disks/disk2")).unwrap();
    sql(at, "insert into t values (2)");
    done(at, &["asm", "db", "replace", "DATA_0001", "new", "--wait"]);
    // It comes back by itself when the new disk has what the others have, while a database is open.
    let shell = Shell::open(at);
    let active = "select count(distinct medium) as n from v$logfile where status is null";
    let is_whole = |_| {
        std::thread::sleep(Duration::from_millis(200));
        rows(at, active)[0]["n"] == 2
    };
    assert!((0..300).any(is_whole), "{:?}", rows(at, "select * from v$logfile"));
    shell.end();
    sql(at, "insert into t values (3)");
    assert_eq!(rows(at, "select count(*) as n from t")[0]["n"], 3);
    done(at, &["status", "db"]);
    done(at, &["validate", "db"]);
}

#[test]
fn a_log_is_made_switched_and_given_up_with_oracles_refusals() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    let state = |group, sequence, status: &str| (group, sequence, status.to_owned());
    assert!(rows(at, "select * from v$log").is_empty());
    assert!(refused(at, "alter system switch logfile").contains("CELLAR-70160"));
    let one = "alter database add logfile group 1 ('+DATA') size 2M";
    assert!(refused(at, one).contains("CELLAR-01567"), "one group is no log");
    let nowhere = "alter database add logfile ('+FLASH') size 2M, size 2M";
    assert!(refused(at, nowhere).contains("CELLAR-15001"));
    let small = "alter database add logfile size 4K, size 2M";
    assert!(refused(at, small).contains("CELLAR-00336"));
    sql(at, MAKE);
    assert_eq!(groups(at), [state(1, 1, "CURRENT"), state(2, 0, "UNUSED")]);
    // A normal group keeps two copies: two files in two failure groups.
    let files = rows(at, "select * from v$logfile where group# = 1 order by member");
    let media: Vec<&str> = files.iter().map(|f| f["medium"].as_str().unwrap()).collect();
    assert_eq!(media, ["+DATA.DATA_0000", "+DATA.DATA_0001"]);
    let found = rows(at, "select failgroup from v$asm_disk order by 1");
    assert_eq!(found.len(), 4, "each disk is its own failure group");
    let number = "alter database add logfile group 2 size 2M";
    assert!(refused(at, number).contains("CELLAR-01184"));
    let log = &rows(at, "select blocksize, blocksize_reason from v$log")[0];
    let (block, why) = (log["blocksize"].as_u64().unwrap(), log["blocksize_reason"].to_string());
    assert!(why.contains("measured") || why.contains("reported"), "{why}");
    let other = if block == 512 { 4096 } else { 512 };
    let statement = format!("alter database add logfile size 2M blocksize {other}");
    assert!(refused(at, &statement).contains("CELLAR-01378"));
    assert!(refused(at, "alter database drop logfile group 2").contains("CELLAR-01567"));
    sql(at, "alter database add logfile group 5 size 2M");
    sql(at, "alter system switch logfile");
    sql(at, "alter system switch logfile");
    let now = groups(at);
    let current = now.iter().find(|group| group.2 == "CURRENT").unwrap();
    assert_eq!(current.1, 3, "{now:?}");
    let statement = format!("alter database drop logfile group {}", current.0);
    assert!(refused(at, &statement).contains("CELLAR-01623"));
    assert!(refused(at, "alter database drop logfile group 7").contains("CELLAR-00359"));
    let history = rows(at, "select * from v$log_history order by sequence#");
    assert_eq!(history.len(), 2, "{history:?}");
    assert_eq!(history[0]["next_change#"], history[1]["first_change#"]);
    let idle = now.iter().find(|group| group.2 == "INACTIVE").unwrap().0;
    sql(at, &format!("alter database drop logfile group {idle}"));
    assert_eq!(groups(at).len(), 2);
    let left = rows(at, "select name from v$asm_alias where name like 'group_%'");
    assert_eq!(left.len(), 4, "the files went with the group: {left:?}");
    sql(at, "alter database drop logfile all");
    assert!(rows(at, "select * from v$log").is_empty());
    assert!(rows(at, "select name from v$asm_alias where name like 'group_%'").is_empty());
    assert!(told(&done(at, &["status", "db"])).is_empty());
    sql(at, MAKE);
}

#[test]
fn what_the_log_is_kept_in_is_nobody_elses_to_take_away() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    let place = at.join("flash");
    std::fs::create_dir(&place).unwrap();
    let text = place.to_str().unwrap();
    let two = format!("alter database add logfile ('+DATA.DATA_0003', '{text}') size 2M, size 2M");
    sql(at, &two);
    let file = "+DATA/cellar/redo/group_1.DATA_0003";
    for words in [&["rm", file][..], &["rm", "-rf", "+DATA/cellar"]] {
        let output = cellar(at, &[&["asm", "db"], words].concat());
        assert_eq!(output.status.code(), Some(1), "{words:?} {}", told(&output));
    }
    let status = out(&done(at, &["status", "db"]));
    assert!(status.contains("2 groups of 2 files") && status.contains("2 of 2 media"), "{status}");
    assert!(status.contains("any one disk"), "one copy on a disk is not all there is: {status}");
    // Media come and go while it is open.
    sql(at, "alter database add logfile member '+DATA.DATA_0000'");
    let name = "alter database add logfile member '+DATA.DATA_0003'";
    assert!(refused(at, name).contains("CELLAR-01577"));
    assert_eq!(rows(at, "select * from v$logfile").len(), 6);
    assert!(out(&done(at, &["status", "db"])).contains("2 of 3 media"));
    sql(at, "alter database drop logfile member '+DATA/cellar/redo/group_1.DATA_0000'");
    let none = "alter database drop logfile member '+DATA.DATA_0001'";
    assert!(refused(at, none).contains("CELLAR-00360"));
    assert_eq!(rows(at, "select * from v$logfile").len(), 4);
    assert!(!out(&cellar(at, &["asm", "db", "find", "+DATA", "group*"])).contains("DATA_0000"));
    // A file of the directory that is not there any more: its medium fails, the other goes on.
    let log = place.join("group_1.redo");
    assert!(log.metadata().unwrap().len() >= 2 << 20);
    let output = done(at, &["inspect", log.to_str().unwrap()]);
    assert!(out(&output).contains("group 1") && out(&output).contains("nothing that was read"));
    std::fs::remove_file(&log).unwrap();
    let output = cellar(at, &["status", "db"]);
    let status = out(&output).replace("\n         ", " ");
    assert!(status.contains("redo") && !output.status.success(), "{status}");
    assert!(done(at, &["validate", "db"]).status.success());
}

#[test]
fn finished_groups_are_archived_before_they_are_written_again() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    let bad = "alter system set log_archive_dest = 'DATA'";
    assert!(refused(at, bad).contains("CELLAR-00096"));
    sql(at, "alter system set log_archive_dest = '+DATA/arch'");
    sql(at, MAKE);
    for _ in 0..3 {
        sql(at, "alter system archive log current");
    }
    let history = rows(at, "select sequence#, archive from v$log_history order by 1");
    let archives: Vec<&str> = history.iter().map(|row| row["archive"].as_str().unwrap()).collect();
    assert_eq!(archives.len(), 3, "{history:?}");
    assert!(archives[0].starts_with("+DATA/arch/"), "{archives:?}");
    assert!(archives[0].ends_with("/redo-00000000000000000001.arc"), "{archives:?}");
    let copy = at.join("copy");
    done(at, &["asm", "db", "cp", archives[1], copy.to_str().unwrap()]);
    let output = done(at, &["inspect", copy.to_str().unwrap(), "--json"]);
    let shown: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&shown["name"], &shown["well"]), (&"archive".into(), &true.into()));
    // What is damaged is told, and as damaged.
    let mut bytes = std::fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&copy, bytes).unwrap();
    let output = cellar(at, &["inspect", copy.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", out(&output));
    // What is archived may be cleared, and what is written may not.
    let current = groups(at).into_iter().find(|group| group.2 == "CURRENT").unwrap().0;
    let statement = format!("alter database clear unarchived logfile group {current}");
    assert!(refused(at, &statement).contains("CELLAR-01623"));
    let idle = 3 - current;
    sql(at, &format!("alter database clear logfile group {idle}"));
    assert!(groups(at).contains(&(idle, 0, "UNUSED".to_owned())));
    // The log is given up; archives stay.
    sql(at, "alter database drop logfile all");
    done(at, &["asm", "db", "cp", archives[2], copy.to_str().unwrap()]);
}

/// Whoever has the database open may work somewhere else.
#[test]
fn a_directory_is_meant_from_where_the_statement_is_typed() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    let here = at.join("here");
    for place in [at.join("flash"), here.join("flash"), here.join("more")] {
        std::fs::create_dir_all(place).unwrap();
    }
    let db = at.join("db");
    let typed = |statement: &str| cellar(&here, &["sql", db.to_str().unwrap(), "-c", statement]);
    let shell = Shell::open(at);
    let made = typed("alter database add logfile ('+DATA', 'flash') size 2M, size 2M");
    let added = typed("alter database add logfile member 'more' to group 1, group 2");
    let wrong = typed("alter database add logfile member 'more' to group 9");
    let media = rows(at, "select medium from v$redo_medium order by 1");
    let gone = typed("alter database drop logfile member 'more'");
    shell.end();
    for output in [&made, &added, &gone] {
        assert!(output.status.success(), "{}", told(output));
    }
    assert!(told(&wrong).contains("CELLAR-00359"), "{}", told(&wrong));
    for place in ["flash", "more"] {
        let path = here.join(place);
        let is_there = media.iter().any(|row| row["medium"] == path.to_str().unwrap());
        assert!(is_there, "{place}: {media:?}");
    }
    assert!(here.join("flash/group_1.redo").exists());
    assert_eq!(at.join("flash").read_dir().unwrap().count(), 0);
}

#[test]
fn a_medium_in_a_directory_takes_part_again_when_its_files_are_back() {
    if !program::has_groups() {
        return;
    }
    let dir = database();
    let at = dir.path();
    let place = at.join("flash");
    std::fs::create_dir(&place).unwrap();
    let text = place.to_str().unwrap();
    sql(at, &format!("alter database add logfile ('+DATA', '{text}') size 2M, size 2M"));
    // Somebody has the database open for a while.
    let shell = Shell::open(at);
    let is = |status: &str| {
        let found = rows(at, &format!("select status from v$redo_medium where medium = '{text}'"));
        found[0]["status"] == status
    };
    let becomes = |status: &str| {
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(200));
            is(status)
        })
    };
    assert!(is("ACTIVE"));
    std::fs::rename(&place, at.join("away")).unwrap();
    std::thread::sleep(Duration::from_millis(600));
    sql(at, "alter system switch logfile");
    let failed = becomes("FAILED");
    // An empty directory is not enough: a file system may have been mounted there.
    std::fs::create_dir(&place).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let waits = is("FAILED") && place.read_dir().unwrap().next().is_none();
    std::fs::remove_dir(&place).unwrap();
    std::fs::rename(at.join("away"), &place).unwrap();
    let back = becomes("ACTIVE");
    sql(at, "alter system switch logfile");
    shell.end();
    assert!(failed && waits && back, "failed {failed}, waits {waits}, back {back}");
    assert!(done(at, &["status", "db"]).status.success());
}

#[test]
fn a_disk_with_the_log_on_it_leaves_as_the_error_says() {
    if !program::has_groups() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = dir.path();
    let words = ["--disk-size", "96M", "--au-size", "1M", "--redo-size", "2M"];
    done(at, &[&["init", "db"][..], &words].concat());
    sql(at, "create table t (id int primary key); insert into t values (1)");
    let drop = "alter diskgroup data drop disk data_0000 rebalance wait";
    let told = refused(at, drop);
    let add = "alter database add logfile member '+DATA'";
    let give_up = "alter database drop logfile member '+DATA.DATA_0000'";
    assert!(told.contains(add) && told.contains(give_up), "{told}");
    for statement in [add, give_up, drop] {
        sql(at, statement);
    }
    sql(at, "insert into t values (2)");
    assert_eq!(rows(at, "select count(*) as n from t")[0]["n"], 2);
    done(at, &["status", "db"]);
}
