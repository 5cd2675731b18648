//! The directory is gone, or the ends of the disks are: files come out by `rescue`, and a group that is
//! whole is opened again by `init --import`. Changes of state are told by `status --alert`; what groups
//! are is kept by `md_backup`.

#![cfg(feature = "sql")]
#![expect(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::program::{
    ROWS, cellar, check, check_data, command, done, group, json, out, refused, sql, told,
};
use serde_json::Value;

const MB: u64 = 1 << 20;

/// The first and the last MiB are gone.
fn wipe(disk: &Path) {
    let file = OpenOptions::new().write(true).open(disk).unwrap();
    let size = file.metadata().unwrap().len();
    for at in [0, size - MB] {
        file.write_all_at(&vec![0; MB as usize], at).unwrap();
    }
}

fn same(dir: &Path, extracted: &str) {
    let (f, back) = (std::fs::read(dir.join("f")).unwrap(), std::fs::read(dir.join(extracted)));
    assert!(back.unwrap() == f, "{extracted}");
}

#[test]
fn files_come_out_when_directory_and_both_ends_of_the_other_disks_are_gone() {
    let dir = group("4");
    let dir = dir.path();
    done(dir, &["asm", "db", "mkdir", "+DATA/in"]);
    done(dir, &["asm", "db", "cp", "f", "+DATA/in/g"]);
    std::fs::rename(dir.join("db/disks"), dir.join("disks")).unwrap();
    std::fs::remove_dir_all(dir.join("db")).unwrap();
    let listed = out(&cellar(dir, &["rescue", "--disks", "disks/*", "--list"]));
    assert!(listed.contains("+DATA/in/g") && listed.contains("DATA: 5 files"), "{listed}");
    // Any three of four have a copy of everything.
    wipe(&dir.join("disks/disk2"));
    let words = ["rescue", "--disks", "disks/disk*", "--extract", "one"];
    let one = done(dir, &words);
    assert!(
        out(&one).contains("DATA_0001 of DATA, identified by its checksum blocks"),
        "{}",
        out(&one)
    );
    same(dir, "one/DATA/in/g");
    // Here only one has its labels, and no metadata disk has its superblocks: everything comes out, and
    // it is told that it cannot be shown to be the newest.
    for disk in ["disks/disk1", "disks/disk3"] {
        wipe(&dir.join(disk));
    }
    let before: Vec<Vec<u8>> =
        (1..=4).map(|i| std::fs::read(dir.join(format!("disks/disk{i}"))).unwrap()).collect();
    let words = ["rescue", "--disks", "disks/*", "--extract", "out", "--format", "json"];
    let all = cellar(dir, &words);
    assert_eq!(all.status.code(), Some(1), "{}", told(&all));
    let all: Value = serde_json::from_str(&out(&all)).unwrap();
    assert_eq!(all["groups"][0]["files"].as_array().unwrap().len(), 5, "{all}");
    assert_eq!(all["groups"][0]["missing"], Value::Array(vec![]));
    assert_eq!(all["groups"][0]["proven"], false);
    let lost = |file: &Value| file["lost_bytes"] == 0 && file["doubtful_bytes"] == 0;
    assert!(all["groups"][0]["files"].as_array().unwrap().iter().all(lost), "{all}");
    same(dir, "out/DATA/f");
    same(dir, "out/DATA/in/g");
    // A table is a file like any other: its segment is loaded as it is.
    let tables = std::fs::read_dir(dir.join("out/DATA/cellar/tables")).unwrap();
    let segments: Vec<_> = tables.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(segments.len(), 1, "{segments:?}");
    let segment = segments[0].to_str().unwrap();
    done(dir, &["init", "new", "--disks", "2", "--disk-size", "64M", "--au-size", "1M"]);
    done(dir, &["load", "new", segment, "--table", "t"]);
    let sum = rows_of(dir, "new", "select count(*) as n, sum(a) as s from t");
    assert_eq!((&sum["n"], &sum["s"]), (&ROWS.into(), &(ROWS * (ROWS - 1) / 2).into()));
    // The same without one of them, and with one that is cut off.
    std::fs::remove_file(dir.join("disks/disk2")).unwrap();
    let three = ["rescue", "--disks", "disks/disk3,disks/disk1,disks/disk4", "--extract", "two"];
    let three = out(&cellar(dir, &three));
    assert!(three.contains("not here: DATA_0001") && !three.contains("LOST"), "{three}");
    same(dir, "two/DATA/f");
    for (i, bytes) in before.iter().enumerate().filter(|(i, _)| *i != 1) {
        let now = std::fs::read(dir.join(format!("disks/disk{}", i + 1))).unwrap();
        assert!(now == *bytes, "nothing was written to disk{}", i + 1);
    }
    let again = refused(dir, "select 1");
    assert!(again.contains("no such directory"), "{again}");
    let exists = cellar(dir, &["rescue", "--disks", "disks/*", "--extract", "two"]);
    assert!(told(&exists).contains("CELLAR-70102"), "{}", told(&exists));
}

fn rows_of(dir: &Path, db: &str, query: &str) -> Value {
    let output = cellar(dir, &["sql", db, "--format", "json", "-c", query]);
    serde_json::from_str::<Vec<Value>>(&out(&output)).unwrap().remove(0)
}

#[test]
fn what_is_lost_is_told_with_its_range_and_the_rest_comes_out() {
    let dir = group("3");
    let dir = dir.path();
    let lost = cellar(dir, &["rescue", "--disks", "db/disks/disk1", "--extract", "out"]);
    assert_eq!(lost.status.code(), Some(1), "{}", told(&lost));
    assert!(out(&lost).contains("LOST") && out(&lost).contains("zeros"), "{}", out(&lost));
    assert!(out(&lost).contains("not here: DATA_0001, DATA_0002"), "{}", out(&lost));
    // Nobody may write meanwhile.
    let mut holder = command(dir, &["asm", "db", "iostat", "1"]).spawn().unwrap();
    let open = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        dir.join("db/cellar.sock").exists()
    });
    let busy = cellar(dir, &["rescue", "--disks", "db/disks/*"]);
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(open && told(&busy).contains("in use by another process"), "{}", told(&busy));
    let nothing = cellar(dir, &["rescue", "--disks", "t.csv"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(told(&nothing).contains("nothing of a disk group"), "{}", told(&nothing));
    let nowhere = cellar(dir, &["rescue", "--disks", "nowhere"]);
    assert!(told(&nowhere).contains("no such file"), "{}", told(&nowhere));
}

#[test]
fn a_group_found_on_disks_is_opened_again() {
    let dir = group("3");
    let dir = dir.path();
    std::fs::rename(dir.join("db/disks"), dir.join("disks")).unwrap();
    std::fs::remove_dir_all(dir.join("db")).unwrap();
    let away = dir.join("away");
    std::fs::rename(dir.join("disks/disk2"), &away).unwrap();
    let missing = cellar(dir, &["init", "db", "--import", "disks/*"]);
    assert!(
        told(&missing).contains("CELLAR-15042") && told(&missing).contains("DATA_0001"),
        "{}",
        told(&missing)
    );
    assert!(!dir.join("db").exists(), "nothing is left of what was refused");
    // Nor is one that is older than the others.
    std::fs::copy(&away, dir.join("older")).unwrap();
    done(dir, &["init", "db", "--import", "disks/*,away"]);
    check(dir);
    std::fs::remove_dir_all(dir.join("db")).unwrap();
    let older = cellar(dir, &["init", "db", "--import", "disks/*,older"]);
    assert!(told(&older).contains("CELLAR-15042"), "{}", told(&older));
    done(dir, &["init", "db", "--import", "disks/*,away"]);
    check(dir);
    // Found again by the next start, and it goes on as any other.
    done(dir, &["asm", "db", "cp", "f", "+DATA/again"]);
    check(dir);
    let twice = cellar(dir, &["init", "db", "--import", "disks/*,away"]);
    assert!(told(&twice).contains("CELLAR-70102"), "{}", told(&twice));
    std::fs::remove_dir_all(dir.join("db")).unwrap();
    std::fs::remove_file(&away).unwrap();
    done(dir, &["init", "db", "--import", "disks/*", "--force", "data"]);
    let status = out(&cellar(dir, &["status", "db", "--json"]));
    assert!(status.contains("\"state\":\"DEGRADED\""), "{status}");
    check_data(dir);
    let none = cellar(dir, &["init", "other", "--import", "nothing*"]);
    assert!(told(&none).contains("CELLAR-15031"), "{}", told(&none));
    let both = cellar(dir, &["init", "other", "--import", "disks/*", "--disks", "4"]);
    assert_eq!(both.status.code(), Some(2));
}

/// What the command of --alert wrote, once it has so many lines.
fn lines(log: &Path, count: usize) -> Vec<String> {
    for _ in 0..200 {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if text.lines().count() >= count {
            return text.lines().map(str::to_owned).collect();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{count} lines: {:?}", std::fs::read_to_string(log));
}

#[test]
fn every_change_of_state_runs_the_command_of_alert() {
    let dir = group("3");
    let dir = dir.path();
    let log = dir.join("log");
    let tell = format!("echo \"$CELLAR_GROUP $CELLAR_WAS $CELLAR_STATE\" >> {}", log.display());
    let watch = ["status", "db", "--every", "0.1s", "--alert", &tell];
    let mut watcher =
        command(dir, &watch).stdout(File::create(dir.join("w")).unwrap()).spawn().unwrap();
    let seen = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        dir.join("db/alerts.json").exists()
    });
    assert!(seen && !log.exists(), "what is well from the first is no news");
    sql(dir, "alter diskgroup data offline disk data_0001");
    assert_eq!(lines(&log, 1), ["DATA WHOLE DEGRADED"]);
    done(dir, &["asm", "db", "online", "-a", "--wait"]);
    let told = lines(&log, 2);
    assert_eq!(told.last().unwrap(), "DATA DEGRADED WHOLE");
    // The command ran; that it did is noted then.
    let noted = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let kept = std::fs::read_to_string(dir.join("db/alerts.json")).unwrap();
        kept.contains("\"state\":\"WHOLE\"")
    });
    assert!(noted);
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    // What comes while nobody looks is told by the next look, and one that fails is told again.
    let told = told.len();
    sql(dir, "alter diskgroup data offline disk data_0002");
    let once = |run: &str| cellar(dir, &["status", "db", "--alert", run, "--once"]);
    assert_eq!(once("exit 3").status.code(), Some(1));
    assert_eq!(once(&tell).status.code(), Some(1), "it is not well");
    assert_eq!(once(&tell).status.code(), Some(1));
    assert_eq!(lines(&log, told + 1)[told..], ["DATA WHOLE DEGRADED"]);
    done(dir, &["asm", "db", "online", "-a", "--wait"]);
    assert_eq!(once("cat > stdin").status.code(), Some(0));
    let json: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.join("stdin")).unwrap()).unwrap();
    assert_eq!(json["state"], "WHOLE");
    let wrong = cellar(dir, &["status", "db", "--alert", "true", "--every", "0s"]);
    assert_eq!(wrong.status.code(), Some(2));
    let nothing = cellar(dir, &["status", "nowhere", "--alert", "true", "--once"]);
    assert_ne!(nothing.status.code(), Some(0));
}

#[test]
fn what_groups_are_is_kept_and_made_again() {
    let dir = group("2");
    let dir = dir.path();
    for name in ["x1", "x2"] {
        File::create(dir.join(name)).unwrap().set_len(64 * MB).unwrap();
    }
    sql(
        dir,
        "create diskgroup fra normal redundancy disk 'x1', 'x2' \
              attribute 'au_size' = '2M'",
    );
    done(dir, &["asm", "db", "mktmpl", "-G", "FRA", "--checksums", "off", "scratch"]);
    sql(dir, "alter diskgroup fra set attribute 'disk_repair_time' = '7h'");
    done(dir, &["asm", "db", "mkdir", "-p", "+FRA/a/b"]);
    done(dir, &["asm", "db", "md_backup", "groups.json"]);
    let there = cellar(dir, &["asm", "db", "md_backup", "groups.json"]);
    assert_eq!(there.status.code(), Some(1), "a backup is not written over");
    sql(dir, "drop diskgroup fra including contents");
    done(dir, &["asm", "db", "md_restore", "groups.json", "--full", "-G", "fra"]);
    let template = json(dir, &["asm", "db", "lstmpl", "-G", "FRA", "SCRATCH"]);
    assert_eq!(template[0]["checksums"], "N");
    let attributes = json(dir, &["asm", "db", "lsattr", "-l", "-G", "FRA", "disk_repair_time"]);
    assert_eq!(attributes[0]["value"], "7h", "{attributes:?}");
    let found = out(&cellar(dir, &["asm", "db", "find", "+FRA", "b"]));
    assert!(found.contains("+FRA/a/b"), "{found}");
    done(dir, &["asm", "db", "md_restore", "groups.json", "--nodg"]);
    check(dir);
    let exists = cellar(dir, &["asm", "db", "md_restore", "groups.json", "--full", "-G", "data"]);
    assert!(told(&exists).contains("CELLAR-15030"), "{}", told(&exists));
    sql(dir, "drop diskgroup fra including contents");
    done(dir, &["asm", "db", "md_restore", "groups.json", "--newdg", "FRA:LOGS"]);
    assert_eq!(json(dir, &["asm", "db", "lsdg"]).len(), 2);
    std::fs::write(dir.join("bad"), "{}").unwrap();
    let bad = cellar(dir, &["asm", "db", "md_restore", "bad", "--nodg"]);
    assert!(told(&bad).contains("CELLAR-70117"), "{}", told(&bad));
}
