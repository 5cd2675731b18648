//! Disks that leave for a while under the real program: OFFLINE and ONLINE, a file that is away and
//! comes back, one that is replaced, one that stays away until its time is over; and a kill -9 while
//! what was missed is written or copied.

#![cfg(feature = "sql")]
#![expect(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::path::Path;
use std::time::Duration;

use crate::program::{
    self, Shell, check, check_data, command, done, group, json, refused, rows, sql, told,
};
use serde_json::Value;

/// MODE_STATUS of a disk.
fn mode(dir: &Path, disk: &str) -> String {
    let query = format!("select mode_status from v$asm_disk where name = '{disk}'");
    rows(dir, &query)[0]["mode_status"].as_str().unwrap().to_owned()
}

fn status(dir: &Path) -> Value {
    let output = program::cellar(dir, &["status", "db", "--format", "json"]);
    let all: Vec<Value> = serde_json::from_str(&program::out(&output)).unwrap();
    all[0].clone()
}

/// The status while somebody has the database open: a disk that the machine made slow for a moment is
/// told as such until it is well.
fn settled(dir: &Path) -> Value {
    for _ in 0..150 {
        let now = status(dir);
        if now["state"] != "SLOW" {
            return now;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    status(dir)
}

/// Puts another file into the group, of so many KB.
fn write(dir: &Path, name: &str, kb: usize) {
    std::fs::write(dir.join("new"), vec![name.as_bytes()[0]; kb << 10]).unwrap();
    done(dir, &["asm", "db", "cp", "new", &format!("+DATA/{name}")]);
}

#[test]
fn a_disk_that_was_offline_gets_what_it_missed() {
    let dir = group("3");
    let dir = dir.path();
    let offline = sql(dir, "alter diskgroup data offline disk data_0001 drop after 2h");
    assert!(
        offline.contains("DATA: 1 disk offline") && offline.contains("120 minutes"),
        "{offline}"
    );
    assert_eq!(mode(dir, "DATA_0001"), "OFFLINE");
    let timer = rows(dir, "select repair_timer as t from v$asm_disk where disk_number = 1");
    assert!((7000..=7200).contains(&timer[0]["t"].as_u64().unwrap()), "{timer:?}");
    let now = status(dir);
    assert_eq!(now["state"], "DEGRADED");
    let action = now["action"].as_str().unwrap();
    assert!(action.contains("asm db online -D DATA_0001"), "{action}");
    assert!(now["work"].as_str().unwrap().contains("rebuild of"), "{now}");
    write(dir, "x", 900);
    check_data(dir);
    // It stays away over restarts until somebody wants it.
    assert_eq!(mode(dir, "DATA_0001"), "OFFLINE");
    let online = json(dir, &["asm", "db", "online", "-D", "data_0001", "--wait"]);
    assert_eq!(online[0]["mode_stat"], "ONLINE");
    let missed = online[0]["missed_mb"].as_u64().unwrap();
    assert!(missed <= 2, "not all of it, but {missed} MB");
    assert_eq!(status(dir)["state"], "WHOLE");
    check(dir);
    let again = refused(dir, "alter diskgroup data online disk data_0001");
    assert!(again.contains("CELLAR-15281") && again.contains("it is online"), "{again}");
    let nobody = refused(dir, "alter diskgroup data offline disk data_0009");
    assert!(nobody.contains("CELLAR-15054"), "{nobody}");
    let wrong = program::cellar(dir, &["asm", "db", "online"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
}

#[test]
fn a_file_that_was_away_comes_back_and_one_that_does_not_is_replaced() {
    let dir = group("3");
    let dir = dir.path();
    std::fs::rename(dir.join("db/disks/disk2"), dir.join("away")).unwrap();
    write(dir, "x", 500);
    assert_eq!(mode(dir, "DATA_0001"), "OFFLINE");
    std::fs::rename(dir.join("away"), dir.join("db/disks/disk2")).unwrap();
    // Any command that may write brings it back, as far as it gets until it ends.
    let mut modes = (0..50).map(|_| {
        done(dir, &["asm", "db", "lsop"]);
        mode(dir, "DATA_0001")
    });
    assert!(modes.any(|mode| mode == "ONLINE"));
    check(dir);

    std::fs::remove_file(dir.join("db/disks/disk3")).unwrap();
    write(dir, "y", 500);
    let missing = refused(dir, "alter diskgroup data online disk data_0002");
    assert!(missing.contains("CELLAR-15075") && missing.contains("REPLACE"), "{missing}");
    let replaced = json(dir, &["asm", "db", "replace", "DATA_0002", "db/disks/new", "--wait"]);
    assert_eq!(
        (&replaced[0]["name"], &replaced[0]["mode_stat"]),
        (&"DATA_0002".into(), &"ONLINE".into())
    );
    assert_eq!(status(dir)["state"], "WHOLE");
    check(dir);
    // The new one counts: another may go.
    std::fs::remove_file(dir.join("db/disks/disk1")).unwrap();
    check_data(dir);
}

#[test]
fn a_disk_that_stays_away_is_dropped_when_its_time_is_over() {
    let dir = group("4");
    let dir = dir.path();
    sql(dir, "alter diskgroup data set attribute 'disk_repair_time' = '0.03m'");
    std::fs::remove_file(dir.join("db/disks/disk4")).unwrap();
    // Somebody has the database open for a while.
    let shell = Shell::open(dir);
    let gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        json(dir, &["asm", "db", "lsdsk", "-k"]).len() == 3
    });
    shell.end();
    assert!(gone, "{}", status(dir));
    done(dir, &["asm", "db", "rebal", "--wait"]);
    let now = status(dir);
    assert_eq!((&now["state"], &now["files_lowered"]), (&"WHOLE".into(), &0.into()), "{now}");
    check(dir);
}

#[test]
fn a_hot_spare_takes_the_place_of_a_disk_that_failed_and_of_no_other() {
    let dir = group("3");
    let dir = dir.path();
    for (name, mb) in [("small", 32), ("spare", 96)] {
        let file = std::fs::File::create(dir.join(name)).unwrap();
        file.set_len(mb << 20).unwrap();
    }
    let paths = ["small", "spare"].map(|name| format!("'{}'", dir.join(name).display()));
    sql(dir, &format!("alter system set hot_spares = {}", paths.join(", ")));
    sql(dir, "alter system set hot_spare_delay = 1");
    // Taken offline: somebody works on it.
    sql(dir, "alter diskgroup data offline disk data_0000");
    let shell = Shell::open(dir);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(mode(dir, "DATA_0000"), "OFFLINE");
    done(dir, &["asm", "db", "online", "-a", "--wait"]);
    let spares = |now: &Value, of: &str| now[of].as_array().unwrap().len();
    let now = status(dir);
    assert_eq!((spares(&now, "hot_spares"), spares(&now, "unfit_spares")), (1, 1), "{now}");
    std::fs::remove_file(dir.join("db/disks/disk3")).unwrap();
    write(dir, "x", 500);
    let taken = (0..150).any(|_| {
        std::thread::sleep(Duration::from_millis(200));
        let disks = json(dir, &["asm", "db", "lsdsk", "-p"]);
        disks.iter().any(|row| {
            row["path"].as_str().is_some_and(|p| p.ends_with("/spare"))
                && row["mode_stat"] == "ONLINE"
        })
    });
    let now = settled(dir);
    shell.end();
    assert!(taken, "{now}");
    assert_eq!(now["state"], "WHOLE");
    assert_eq!((spares(&now, "hot_spares"), spares(&now, "unfit_spares")), (0, 1), "{now}");
    check(dir);
    // It counts: another may go.
    std::fs::remove_file(dir.join("db/disks/disk1")).unwrap();
    check_data(dir);
}

/// `CELLAR_KILLS=n` kills so often.
#[test]
fn no_kill_loses_anything_while_disks_leave_and_return() {
    let kills = std::env::var("CELLAR_KILLS").map_or(16, |text| text.parse().expect("a number"));
    let dir = group("3");
    let dir = dir.path();
    let (mut killed, mut resynced) = (0, 0);
    for round in 0..kills {
        let disk = format!("data_000{}", round % 3);
        sql(dir, &format!("alter diskgroup data offline disk {disk}"));
        // Killed while it writes what the disk misses ...
        let statement = format!("copy (select * from t) to '+DATA/k{}.csv'", round % 4);
        killed += u64::from(kill(dir, &["sql", "db", "-c", &statement], 20 + round * 37 % 300));
        check_data(dir);
        // ... and while that is copied to it.
        let online = ["asm", "db", "online", "-a", "--power", "1", "--wait"];
        killed += u64::from(kill(dir, &online, 20 + round * 23 % 200));
        check_data(dir);
        let back = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            let modes = json(dir, &["asm", "db", "lsdsk", "-p"]);
            let modes: Vec<&str> = modes.iter().map(|r| r["mode_stat"].as_str().unwrap()).collect();
            if modes.contains(&"OFFLINE") {
                done(dir, &["asm", "db", "online", "-a", "--wait"]);
            } else if modes.contains(&"SYNCING") {
                done(dir, &["asm", "db", "lsop"]);
                return false;
            }
            resynced += 1;
            true
        });
        assert!(back, "{disk} is in sync again after the kill");
        check(dir);
    }
    eprintln!("{kills} rounds, {killed} killed on the way, {resynced} returned; nothing was lost");
    assert_eq!(status(dir)["state"], "WHOLE");
}

/// Runs it and kills it after so many ms; whether it had not ended.
fn kill(dir: &Path, words: &[&str], ms: u64) -> bool {
    let mut child = command(dir, words)
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(ms));
    let running = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    running
}
