//! RESIZE under the real program: files become longer or are used in part, data stays, and what will
//! not do is refused. And a loop of kill -9 while disks come, go and change their sizes.

#![cfg(feature = "sql")]
#![expect(clippy::disallowed_methods, reason = "a kill comes at a moment of its own")]

use std::path::Path;
use std::time::Duration;

use crate::program::{self, check, check_data, command, disks, done, group, json, refused, sql};

fn megabytes(dir: &Path, key: &str) -> Vec<u64> {
    disks(dir).iter().map(|row| row[key].as_u64().unwrap()).collect()
}

#[test]
fn file_disks_grow_and_shrink_under_the_data() {
    let dir = group("3");
    let dir = dir.path();
    let file = |n: u32| dir.join(format!("db/disks/disk{n}"));
    let length = |n: u32| std::fs::metadata(file(n)).unwrap().len() >> 20;
    let told = sql(dir, "alter diskgroup data resize disk data_0000 size 192M rebalance wait");
    assert!(told.contains("1 disk resized; rebalanced"), "{told}");
    assert_eq!((length(1), length(2)), (192, 96));
    let used: Vec<u64> = disks(dir)
        .iter()
        .map(|row| row["total_mb"].as_u64().unwrap() - row["free_mb"].as_u64().unwrap())
        .collect();
    // Two copies lie apart: the large one holds one of as many as it can.
    assert!(used[0] > used[1] && used[0] > used[2], "{used:?}");
    check(dir);
    let before = megabytes(dir, "total_mb");
    let told = sql(dir, "alter diskgroup data resize all size 80M rebalance power 11 wait");
    assert!(told.contains("3 disks resized; rebalanced"), "{told}");
    let after = megabytes(dir, "total_mb");
    assert!(after.iter().zip(&before).all(|(a, b)| a < b && *a <= 80), "{before:?} {after:?}");
    check(dir);
    // The files may end there now.
    for n in 1..=3 {
        std::fs::File::options().write(true).open(file(n)).unwrap().set_len(80 << 20).unwrap();
    }
    check(dir);
    assert_eq!(megabytes(dir, "total_mb"), after);
    // What is longer than the group uses is taken, and its holes are written.
    let blocks =
        |n: u32| std::os::unix::fs::MetadataExt::blocks(&file(n).metadata().unwrap()) * 512;
    std::fs::File::options().write(true).open(file(1)).unwrap().set_len(128 << 20).unwrap();
    assert!(blocks(1) < 128 << 20);
    let told = sql(dir, "alter diskgroup data resize disk data_0000 rebalance wait");
    assert!(told.contains("1 disk resized") && !told.contains("sparse"), "{told}");
    assert!(blocks(1) >= 127 << 20, "{}", blocks(1));
    let lengths = [1, 2, 3].map(length);
    let refused_for_room = refused(dir, "alter diskgroup data resize all size 4000T");
    assert!(refused_for_room.contains("CELLAR-70111"), "{refused_for_room}");
    assert_eq!([1, 2, 3].map(length), lengths, "none was made longer");
    // A file system that has less room leaves it sparse, and says so.
    std::fs::File::options().write(true).open(file(1)).unwrap().set_len(15 << 40).unwrap();
    let told = sql(dir, "alter diskgroup data resize disk data_0000 rebalance wait");
    assert!(told.contains("DATA_0000 sparse"), "{told}");
    sql(dir, "alter diskgroup data resize disk data_0000 size 80M rebalance wait");
    check(dir);
    for (statement, number) in [
        ("resize disk data_0009 size 80M", "15054"),
        ("resize disk data_0000 size 12M", "15036"),
        ("resize all size 40M", "15041"),
        ("resize disks in failgroup nobody size 96M", "15054"),
        ("resize disk data_0000 size 90M drop disk data_0000", "15054"),
    ] {
        let told = refused(dir, &format!("alter diskgroup data {statement}"));
        assert!(told.contains(&format!("CELLAR-{number}")), "{statement}: {told}");
    }
    let plan = json(
        dir,
        &[
            "sql",
            "db",
            "-c",
            "explain work for alter diskgroup data resize disk data_0001 size 60M",
        ],
    );
    assert!(!plan.is_empty());
    assert_eq!(
        megabytes(dir, "total_mb"),
        after,
        "what was taken is given back, a plan changes nothing"
    );
    check(dir);
}

/// Numbers that look random and are the same every time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A statement that changes the disks, at random.
fn any_change(draws: &mut Draws, names: &[String], round: u64) -> String {
    let one = &names[draws.below(names.len() as u64) as usize];
    let size = 64 + draws.below(80);
    let power = [1, 8, 11, 64][draws.below(4) as usize];
    let new = format!("add disk 'db/disks/new{round}' name n{round} size {size}M");
    let change = match draws.below(6) {
        0 | 1 => format!("resize disk {one} size {size}M"),
        2 => format!("resize all size {}M", 88 + draws.below(40)),
        3 if names.len() < 6 => new,
        4 if names.len() > 4 => format!("drop disk {one}"),
        _ if names.len() < 6 => format!("{new} drop disk {one}"),
        _ => format!("drop disk {one}"),
    };
    format!("alter diskgroup data {change} rebalance power {power} wait")
}

/// `CELLAR_KILLS=n` kills so often, `CELLAR_SEED=n` begins elsewhere.
#[test]
fn no_kill_loses_anything_while_disks_come_go_and_change_size() {
    let number = |name: &str, usual| {
        std::env::var(name).map_or(usual, |text| text.parse::<u64>().expect("a number"))
    };
    let (kills, seed) = (number("CELLAR_KILLS", 24), number("CELLAR_SEED", 1));
    let dir = group("4");
    let dir = dir.path();
    let mut draws = Draws(seed);
    let (mut killed, mut ended) = (0, 0);
    for round in 0..kills {
        let names: Vec<String> =
            disks(dir).iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        let statement = any_change(&mut draws, &names, round);
        let mut child = command(dir, &["sql", "db", "-c", &statement])
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(20 + draws.below(500)));
        // It may have ended, or have been refused for want of room.
        killed += u64::from(child.kill().is_ok() && child.try_wait().unwrap().is_none());
        let output = child.wait_with_output().unwrap();
        ended += u64::from(output.status.code().is_some());
        check_data(dir);
        if round % 6 == 5 {
            let waited = program::cellar(dir, &["asm", "db", "rebal", "--power", "64", "--wait"]);
            // What lacks room stays where it is, and says so.
            let told = program::told(&waited);
            assert!(waited.status.success() || told.contains("15041"), "{statement}: {told}");
            check(dir);
        }
    }
    eprintln!("{kills} rounds: {killed} killed on the way, {ended} had ended; nothing was lost");
    done(dir, &["status", "db"]);
    check(dir);
}
