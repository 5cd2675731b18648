//! SCRUB in the real program: rot on a disk file and in our own structures is found, told and mended,
//! also when the scrub is killed on the way.

#![cfg(feature = "sql")]
#![expect(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use crate::program::{
    cellar, check, check_data, command, group, json, out, refused, rows, sql, told,
};
use serde_json::Value;

const MB: u64 = 1 << 20;

/// Flips a bit in each of `count` blocks that hold something, from `from` on; how many.
fn rot(disk: &Path, from: u64, count: usize) -> usize {
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(disk).unwrap();
    let end = file.metadata().unwrap().len() - MB;
    let (mut block, mut done) = (vec![0; 4096], 0);
    for at in (from..end).step_by(7 * 4096) {
        if done == count {
            break;
        }
        file.seek(SeekFrom::Start(at)).unwrap();
        file.read_exact(&mut block).unwrap();
        if block.iter().all(|b| *b == 0) {
            continue;
        }
        block[1234] ^= 16;
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&block).unwrap();
        done += 1;
    }
    file.sync_all().unwrap();
    done
}

fn status(dir: &Path) -> Value {
    let output = cellar(dir, &["status", "db", "--format", "json"]);
    let all: Vec<Value> = serde_json::from_str(&out(&output)).unwrap();
    all[0].clone()
}

/// Of a scrub: what was wrong in files, and in the metadata; what was repaired and left.
fn counts(told: &Value) -> [u64; 4] {
    let of = |name: &str| told[name].as_u64().unwrap();
    let wrong = of("checksum") + of("unreadable") + of("differs");
    [wrong, of("metadata"), of("repaired"), of("left")]
}

#[test]
fn rot_is_found_told_and_mended() {
    let dir = group("3");
    let dir = dir.path();
    let checked = |dir: &Path| {
        let text = out(&cellar(dir, &["status", "db"]));
        text.lines().find(|l| l.starts_with("checked")).unwrap_or_default().to_owned()
    };
    assert!(checked(dir).contains("next scrub in"), "{}", checked(dir));
    // Behind the checksums and the checkpoints: AUs of files.
    let rotten = rot(&dir.join("db/disks/disk2"), 11 * MB, 20) as u64;
    assert!(rotten > 5, "the disk holds something");
    let output = cellar(dir, &["asm", "db", "scrub", "--wait", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let found: Vec<Value> = serde_json::from_str(&out(&output)).unwrap();
    let [wrong, _, repaired, left] = counts(&found[0]);
    assert!(wrong > 0 && repaired == 0 && left == wrong, "{found:?}");
    let now = status(dir);
    assert_eq!((&now["state"], &now["last_scrub"]["left"]), (&"DAMAGED".into(), &left.into()));
    assert!(now["action"].as_str().unwrap().contains("scrub --repair"), "{now}");

    let words = sql(dir, "alter diskgroup data scrub repair power max wait");
    let told = format!("{wrong} wrong checksums on DATA_0001, {wrong} repaired");
    assert!(words.contains(&told) || words.contains("metadata"), "{words}");
    let now = status(dir);
    assert_eq!(now["state"], "WHOLE", "{now}");
    assert_eq!(now["last_scrub"]["repaired"], now["last_scrub"]["wrong"]);
    assert!(checked(dir).contains("last scrub") && checked(dir).contains("repaired"));
    let again = json(dir, &["asm", "db", "scrub", "-r", "-w"]);
    assert_eq!(counts(&again[0]), [0; 4], "{again:?}");
    assert!(again[0]["read_mb"].as_u64().unwrap() > 0);
    check(dir);
}

#[test]
fn labels_logs_and_checkpoints_are_made_again() {
    let dir = group("3");
    let dir = dir.path();
    // Somebody has the database open: opening it would make them again by itself.
    let mut holder = command(dir, &["asm", "db", "iostat", "1"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let answers = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        dir.join("db/cellar.sock").exists()
    });
    assert!(answers, "it has the database");
    sql(dir, "alter diskgroup data add directory 'x'");
    let disk = dir.join("db/disks/disk1");
    let mut file = std::fs::OpenOptions::new().write(true).open(&disk).unwrap();
    // A label, every superblock, the dirty log, the whole log.
    for (at, length) in [(0, 4096), (128 << 10, 256 << 10), (MB, 2 * MB), (4 * MB, 4 * MB)] {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&vec![0x5A; length as usize]).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    let mended = json(dir, &["asm", "db", "scrub", "--repair", "--wait"]);
    let [_, own, repaired, left] = counts(&mended[0]);
    // A label and the newest superblock at least: nothing was ever dirty.
    assert!(own >= 2 && repaired == own && left == 0, "{mended:?}");
    let again = json(dir, &["asm", "db", "scrub", "--repair", "--wait"]);
    assert_eq!(counts(&again[0]), [0; 4], "{again:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    // It and another are enough to tell what is the newest.
    std::fs::rename(dir.join("db/disks/disk2"), dir.join("away")).unwrap();
    check_data(dir);
}

#[test]
fn a_scrub_is_shown_stopped_and_refused_in_words() {
    let dir = group("2");
    let dir = dir.path();
    let begun = sql(dir, "alter diskgroup data scrub file '+DATA/f' power low");
    assert!(begun.contains("scrub of") && begun.contains("begun"), "{begun}");
    let refused_again = refused(dir, "alter diskgroup data scrub disk data_0000");
    assert!(refused_again.contains("CELLAR-70116"), "{refused_again}");
    let operation = rows(dir, "select operation, state from v$asm_operation");
    assert_eq!(operation[0]["operation"], "SCRUB", "{operation:?}");
    assert!(status(dir)["work"].as_str().unwrap().contains("scrub"));
    let stopped = sql(dir, "alter diskgroup data scrub stop");
    assert!(stopped.contains("scrub stopped"), "{stopped}");
    let stopped = json(dir, &["asm", "db", "scrub", "--stop"]);
    assert_eq!(stopped[0]["state"], "NONE");
    let nobody = refused(dir, "alter diskgroup data scrub disk data_0009");
    assert!(nobody.contains("CELLAR-15054"), "{nobody}");
    let nothing = refused(dir, "alter diskgroup data scrub file '+DATA/none'");
    assert!(nothing.contains("CELLAR-15012"), "{nothing}");
    let wrong = cellar(dir, &["asm", "db", "scrub", "--power", "warp"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", told(&wrong));
    sql(dir, "alter diskgroup data set attribute 'scrub_interval' = '0'");
    assert_eq!(status(dir)["next_scrub"], Value::Null);
    let attributes = json(dir, &["asm", "db", "lsattr", "-l"]);
    let names: Vec<&str> = attributes.iter().filter_map(|a| a["name"].as_str()).collect();
    assert!(names.contains(&"scrub_interval"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with('_')), "{names:?}");
}

/// `CELLAR_KILLS=n` kills so often.
#[test]
fn no_kill_of_a_scrub_loses_anything() {
    let kills: u64 =
        std::env::var("CELLAR_KILLS").map_or(8, |text| text.parse().expect("a number"));
    let dir = group("3");
    let dir = dir.path();
    let (mut killed, mut mended) = (0, 0);
    for round in 0..kills {
        // Everything the round before left behind was mended, so one copy of each is right.
        rot(&dir.join(format!("db/disks/disk{}", round % 3 + 1)), (11 + round % 20) * MB, 12);
        let words = ["asm", "db", "scrub", "--repair", "--wait"];
        let mut child = command(dir, &words)
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(20 + round * 29 % 260));
        killed += u64::from(child.try_wait().unwrap().is_none());
        let _ = child.kill();
        child.wait().unwrap();
        check_data(dir);
        // The one that was killed goes on, or a new one begins.
        let rest = json(dir, &["asm", "db", "scrub", "--repair", "--wait"]);
        let [.., repaired, left] = counts(&rest[0]);
        assert_eq!(left, 0, "{rest:?}");
        mended += repaired;
        check(dir);
    }
    eprintln!("{kills} rounds, {killed} killed on the way, {mended} mended by the last scrub");
    assert_eq!(status(dir)["state"], "WHOLE");
}
