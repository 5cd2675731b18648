//! Disks that come and go under the real program, with a kill -9 in the middle: data stays, every
//! disk holds its share, a dropped one says that it may be unplugged, and what will not do is
//! refused by its number.

#![cfg(feature = "sql")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::program::{cellar, check, command, done, group, json, out, refused, rows, sql, told};
use serde_json::Value;

/// MB that files hold on each disk, by name; AUs, as these groups have them.
fn held(dir: &Path) -> Vec<(String, u64)> {
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
    json(dir, &["asm", "db", "lsdsk", "-k"])
        .iter()
        .map(|row| {
            let name = row["name"].as_str().unwrap().to_owned();
            (name, number(row, "total_mb") - number(row, "free_mb"))
        })
        .collect()
}

fn assert_even(dir: &Path) {
    let held = held(dir);
    let most = held.iter().map(|(_, aus)| *aus).max().unwrap();
    let least = held.iter().map(|(_, aus)| *aus).min().unwrap();
    assert!(least > 0 && most - least <= 1, "{held:?}");
}

/// The line of cellar.toml with the paths of disks; empty if there are none.
fn disk_string(dir: &Path) -> String {
    let text = std::fs::read_to_string(dir.join("db/cellar.toml")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("disk_string"));
    line.filter(|line| !line.ends_with("[]")).unwrap_or_default().to_owned()
}

fn assert_whole(dir: &Path) {
    let status = json(dir, &["status", "db"]);
    assert_eq!((&status[0]["state"], &status[0]["work"]), (&"WHOLE".into(), &Value::Null));
}

#[test]
fn a_disk_is_added_and_dropped_and_added_again_and_the_data_stays() {
    let dir = group("3");
    let dir = dir.path();
    let added = sql(dir, "alter diskgroup data add disk 'more' size 96M rebalance power 4");
    assert!(
        added.contains("DATA: 1 disk added; rebalance of ")
            && added.contains("see how far it is: cellar asm db lsop")
    );
    assert!(added.contains("at power 4"), "{added}");
    assert!(disk_string(dir).contains("/more"), "it is found after the next start");
    done(dir, &["asm", "db", "rebal", "--wait"]);
    assert_eq!(held(dir).len(), 4);
    assert_even(dir);
    assert_whole(dir);
    check(dir);

    let dropped = sql(dir, "alter diskgroup data drop disk data_0001 rebalance power 8");
    assert!(dropped.contains("DATA: 1 disk being dropped; rebalance of "), "{dropped}");
    let waited = done(dir, &["asm", "db", "lsdsk", "--wait", "data_0001"]);
    assert!(out(&waited).contains("DATA_0001  FORMER"), "{}", out(&waited));
    let again = json(dir, &["asm", "db", "lsdsk", "--wait", "DATA_0001"]);
    assert_eq!(again[0]["header_stat"], "FORMER", "who asks later is told the same");
    assert_eq!(held(dir).len(), 3);
    assert_even(dir);
    std::fs::rename(dir.join("db/disks/disk2"), dir.join("unplugged")).unwrap();
    assert_whole(dir);
    check(dir);

    // A disk that left is taken without FORCE; two changes are one rebalance.
    let both = "alter diskgroup data add disk 'unplugged' name again drop disk data_0002 \
                rebalance power 11 wait";
    let both = sql(dir, both);
    assert!(both.contains("1 disk added, 1 disk dropped; rebalanced."), "{both}");
    let names: Vec<String> = held(dir).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["DATA_0000", "AGAIN", "DATA_0003"]);
    assert_even(dir);
    assert_whole(dir);
    check(dir);
}

#[test]
fn what_a_change_would_do_is_told_and_nothing_is_done() {
    let dir = group("3");
    let dir = dir.path();
    let before = (held(dir), disk_string(dir));
    let explain = "explain work probe 2 seconds for alter diskgroup data add disk 'new' size 96M";
    let lines = rows(dir, explain);
    let of = |item: &str| -> Vec<&Value> { lines.iter().filter(|l| l["item"] == item).collect() };
    let sum = |item: &str| of(item).iter().map(|l| l["au"].as_u64().unwrap()).sum::<u64>();
    let held_now: u64 = before.0.iter().map(|(_, aus)| aus).sum();
    assert_eq!(of("write to")[0]["disk"], "DATA_0003");
    assert_eq!(sum("write to"), held_now / 4);
    assert_eq!(sum("read from"), sum("write to"));
    assert_eq!(of("move in all")[0]["note"], "the least possible");
    let room = |item: &str| of(item)[0]["mb"].as_i64().unwrap();
    assert!(room("room after") > room("room now") && room("safe after") > room("safe now"));
    let seconds = |power: &str| of(power)[0]["seconds"].as_f64().unwrap();
    assert!(seconds("power 1") > 0.0 && seconds("power 11") > 0.0, "{lines:?}");
    assert!(of("measured")[0]["note"].as_str().unwrap().starts_with("tried for "));
    assert!(of("may die")[0]["note"].as_str().unwrap().ends_with("then any one of 4"));
    // What takes long says how far it is, where no program reads.
    let shown = done(dir, &["sql", "db", "-c", &explain.replace("2 seconds", "3 seconds")]);
    assert!(told(&shown).contains("tried: "), "{}", told(&shown));
    let explain = explain.replace("probe 2 seconds", "no probe");
    let table = out(&done(dir, &["sql", "db", "-c", &explain]));
    assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
    assert!(table.starts_with("item") && table.contains("joins; will hold"), "{table}");

    let drop_two = "explain work for alter diskgroup data drop disk data_0000, data_0001";
    let impossible = cellar(dir, &["sql", "db", "-c", drop_two, "--format", "json"]);
    assert_eq!(impossible.status.code(), Some(1), "it says so, and fails");
    assert!(told(&impossible).contains("CELLAR-15041"), "{}", told(&impossible));
    let lines: Vec<Value> = serde_json::from_str(&out(&impossible)).unwrap();
    let place = lines.iter().find(|l| l["item"] == "no place").unwrap();
    let note = place["note"].as_str().unwrap();
    assert!(note.contains("too few failure groups") && note.starts_with("+DATA/"), "{place}");
    let lines = rows(dir, "explain work no probe for alter diskgroup data rebalance");
    let mb = |item: &str| lines.iter().find(|l| l["item"] == item).unwrap()["mb"].clone();
    assert_eq!(lines[0]["au"], 0, "nothing to move");
    assert_eq!((mb("room now"), mb("safe now")), (mb("room after"), mb("safe after")));
    assert_eq!((held(dir), disk_string(dir)), before);
    assert!(!dir.join("new").exists(), "no file was made");
}

#[test]
fn a_rebalance_can_be_stopped_changed_and_taken_back() {
    let dir = group("4");
    let dir = dir.path();
    let dropped = sql(dir, "alter diskgroup data drop disk data_0003 rebalance power 0");
    assert!(dropped.contains("power 0 moves none"), "{dropped}");
    let disk = rows(dir, "select state, mode_status from v$asm_disk where disk_number = 3");
    assert_eq!(disk[0]["state"], "DROPPING");
    let operation = rows(dir, "select * from cellar.asm_operation");
    let shown = (&operation[0]["operation"], &operation[0]["pass"], &operation[0]["state"]);
    assert_eq!(shown, (&"REBAL".into(), &"REBALANCE".into(), &"WAIT".into()));
    assert_eq!(operation[0]["power"], 0);
    let listed = json(dir, &["asm", "db", "lsop"]);
    assert_eq!((&listed[0]["state"], &listed[0]["power"]), (&"WAIT".into(), &0.into()));
    let waiting = cellar(dir, &["asm", "db", "lsdsk", "--wait", "DATA_0003"]);
    assert!(told(&waiting).contains("CELLAR-70115"), "{}", told(&waiting));
    let kept = sql(dir, "alter diskgroup all undrop disks rebalance power 4 wait");
    assert!(kept.contains("DATA: 1 disk stays"), "{kept}");
    assert!(rows(dir, "select * from cellar.asm_operation").is_empty());
    let waiting = cellar(dir, &["asm", "db", "lsdsk", "--wait", "DATA_0003"]);
    assert!(told(&waiting).contains("CELLAR-70114"), "{}", told(&waiting));
    assert_eq!(held(dir).len(), 4);
    let none = sql(dir, "alter diskgroup data rebalance modify power 8");
    assert!(none.contains("no rebalance is under way"), "{none}");
    sql(dir, "alter diskgroup data rename disk 'DATA_0003' to 'last'");
    assert!(held(dir).iter().any(|(name, _)| name == "LAST"));
    sql(dir, "alter system set asm_power_limit = 7");
    let added = sql(dir, "alter diskgroup data add disk 'm' size 96M");
    assert!(added.contains("at power 7"), "{added}");
    done(dir, &["asm", "db", "rebal", "DATA", "--power", "11", "--wait"]);
    assert_even(dir);
    assert_whole(dir);
    check(dir);
}

#[test]
fn what_a_lost_disk_held_is_made_again() {
    let dir = group("4");
    let dir = dir.path();
    std::fs::remove_file(dir.join("db/disks/disk2")).unwrap();
    done(dir, &["asm", "db", "mkdir", "+DATA/d"]);
    let plain = refused(dir, "alter diskgroup data drop disk data_0001");
    assert!(plain.contains("CELLAR-15084") && plain.contains("DATA_0001 FORCE"), "{plain}");
    let status = out(&cellar(dir, &["status", "db"]));
    assert!(status.contains("asm db replace") && status.contains("rebuild of"), "{status}");
    sql(dir, "alter diskgroup data drop disk data_0001 force rebalance power 8 wait");
    assert_eq!(held(dir).len(), 3);
    assert_even(dir);
    assert_whole(dir);
    check(dir);
}

#[test]
fn a_change_that_will_not_do_is_refused_by_its_number_and_leaves_nothing() {
    let dir = group("3");
    let dir = dir.path();
    let before = (held(dir), disk_string(dir));
    std::fs::write(dir.join("data"), "somebody's data").unwrap();
    std::fs::write(dir.join("zeros"), vec![0; 4 << 20]).unwrap();
    for (statement, number, text) in [
        ("alter diskgroup nope add disk 'x' size 96M", "15001", "DATA"),
        ("alter diskgroup data add disk 'nothing'", "15031", "SIZE"),
        ("alter diskgroup data add disk '/dev/nothing' size 96M", "15031", "/dev/nothing"),
        ("alter diskgroup data add disk 'db/disks/disk1'", "15029", "DATA_0000"),
        ("alter diskgroup data add disk 'x' size 96M, 'x' size 96M", "15020", "named twice"),
        ("alter diskgroup data add disk 'data'", "15033", "not empty"),
        ("alter diskgroup data add disk 'zeros'", "15036", "4 MB"),
        ("alter diskgroup data add disk 'x' size 96M force", "15034", "FORCE"),
        ("alter diskgroup data add disk 'x' name data_0001 size 96M", "15010", "DATA_0001"),
        ("alter diskgroup data add disk 'x' name \"a b\" size 96M", "15124", "A B"),
        ("alter diskgroup data add disk 'x' size 96M rebalance power 2000", "15238", "1024"),
        ("alter diskgroup data drop disk data_0009", "15054", "DATA_0009"),
        ("alter diskgroup data drop disks in failgroup fg9", "15054", "DATA_0002"),
        ("alter diskgroup data drop disk data_0000 force", "15034", "leave FORCE out"),
        ("alter diskgroup data drop disk data_0000, data_0001", "15041", "EXPLAIN WORK"),
        ("alter diskgroup data drop disk data_0000, data_0000", "15054", "named twice"),
        ("alter diskgroup data rename disk data_0000 to data_0001", "15010", "another name"),
        ("alter diskgroup data rename disk data_0009 to x", "15054", "lsdsk"),
        ("alter diskgroup data rename disk data_0000 to y, data_0009 to z", "15054", "lsdsk"),
        ("alter diskgroup data rename disk data_0000 to y, data_0001 to y", "15010", "another"),
        (
            "alter diskgroup data rename disk 'DATA_0000' to 'Y', 'DATA_0001' to 'A-B'",
            "15124",
            "A-B",
        ),
        ("alter diskgroup data rebalance power 1025", "15238", "0 (stop) to 1024"),
        ("explain work for alter diskgroup nope drop disk x", "15001", "DATA"),
        ("explain work for alter diskgroup data drop disk x", "15054", "X"),
    ] {
        let told = refused(dir, statement);
        assert!(told.contains(&format!("CELLAR-{number}")), "{statement}: {told}");
        assert!(told.contains(text) && told.contains("Next: "), "{statement}: {told}");
        assert!(!dir.join("x").exists(), "{statement} left a file");
        assert_eq!((held(dir), disk_string(dir)), before, "{statement}");
    }
    let short = refused(dir, "explain work probe 0 seconds for alter diskgroup data rebalance");
    assert!(short.contains("CELLAR-00900") && short.contains("0.1 to 3600"), "{short}");
    assert_eq!(std::fs::read(dir.join("data")).unwrap(), b"somebody's data");
    assert_whole(dir);
    sql(dir, "alter diskgroup data drop disk data_0002 rebalance power 0");
    let twice = refused(dir, "alter diskgroup data drop disk data_0002");
    assert!(twice.contains("CELLAR-15071") && twice.contains("asm db lsop"), "{twice}");
    assert!(twice.contains("UNDROP DISKS"), "{twice}");
    let power = refused(dir, "alter diskgroup data undrop disks rebalance power 2000");
    assert!(power.contains("CELLAR-15238") && power.contains("0 (stop) to 1024"), "{power}");
    let state = "select state from v$asm_disk where name = 'DATA_0002'";
    assert_eq!(rows(dir, state)[0]["state"], "DROPPING", "it was not taken back");
    // Without a power it is not the 0 of before.
    let kept = sql(dir, "alter diskgroup data undrop disks rebalance wait");
    assert!(kept.contains("1 disk stays") && !kept.contains("stopped"), "{kept}");
    assert_whole(dir);
}

/// A process that has the database open until it is killed: statements go to it.
fn holder(dir: &Path) -> Child {
    let mut command = command(dir, &["asm", "db", "iostat", "1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..400 {
        // It answers once it has the lock and the groups are mounted.
        if dir.join("db/cellar.sock").exists() {
            return child;
        }
        pause("0.05");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("nobody answers");
}

fn pause(seconds: &str) {
    Command::new("sleep").arg(seconds).status().unwrap();
}

#[test]
fn who_waits_for_a_disk_of_a_group_that_stopped_is_told() {
    let dir = group("3");
    let dir = dir.path();
    let mut holder = holder(dir);
    sql(dir, "alter diskgroup data drop disk data_0002 rebalance power 0");
    for disk in ["disk1", "disk2"] {
        std::fs::remove_file(dir.join("db/disks").join(disk)).unwrap();
    }
    // The next change finds that most of its disks are gone, and stops the group.
    let change = cellar(dir, &["asm", "db", "mkdir", "+DATA/d"]);
    assert!(!change.status.success(), "{}", told(&change));
    let waited = cellar(dir, &["asm", "db", "lsdsk", "--wait", "data_0002"]);
    assert_eq!(waited.status.code(), Some(1), "{}", told(&waited));
    let told = told(&waited);
    assert!(told.contains("CELLAR-15078") && told.contains("Next: "), "{told}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn a_killed_process_does_not_keep_a_rebalance_from_its_end() {
    let dir = group("3");
    let dir = dir.path();
    done(dir, &["asm", "db", "cp", "f", "+DATA/g"]);
    for round in 0..6 {
        let (statement, count) = match round % 2 {
            0 => ("alter diskgroup data add disk 'more' name more size 96M rebalance power 1", 4),
            _ => ("alter diskgroup data drop disk more rebalance power 1", 3),
        };
        let mut holder = holder(dir);
        let mut client = command(dir, &["sql", "db", "-c", statement]);
        let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It may be killed before the disk joined, in the middle of the moves, or after them.
        pause(["0.06", "0.03", "0.15", "0.08", "0.3", "0.2"][round]);
        holder.kill().unwrap();
        holder.wait().unwrap();
        client.wait().unwrap();
        done(dir, &["asm", "db", "rebal", "--power", "8", "--wait"]);
        if held(dir).len() != count {
            // The statement did not come to be; what it left is taken by the same one.
            sql(dir, &statement.replace("power 1", "power 8 wait"));
        }
        assert_eq!(held(dir).len(), count, "round {round}");
        assert_even(dir);
        assert_whole(dir);
        check(dir);
    }
}

#[test]
fn another_process_sees_the_work_of_the_one_that_has_the_database() {
    let dir = group("3");
    let dir = dir.path();
    let mut holder = holder(dir);
    sql(dir, "alter diskgroup data add disk 'more' size 96M rebalance power 0");
    assert_eq!(json(dir, &["asm", "db", "lsop"])[0]["state"], "WAIT");
    let power = done(dir, &["asm", "db", "rebal", "--power", "4", "--wait"]);
    assert!(out(&power).contains(" moved in "), "{}", out(&power));
    assert_even(dir);
    sql(dir, "alter diskgroup data drop disk data_0000");
    let waited = json(dir, &["asm", "db", "lsdsk", "--wait", "DATA_0000"]);
    assert_eq!(waited[0]["header_stat"], "FORMER");
    // Its descriptor is closed: it can be taken again while the database is open.
    let taken = "alter diskgroup data add disk 'db/disks/disk1' rebalance power 8 wait";
    let mut again = cellar(dir, &["sql", "db", "-c", taken]);
    for _ in 0..20 {
        if again.status.success() {
            break;
        }
        pause("0.2");
        again = cellar(dir, &["sql", "db", "-c", taken]);
    }
    assert!(again.status.success(), "{}", told(&again));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_even(dir);
    assert_whole(dir);
    check(dir);
}

#[test]
fn a_disk_that_left_is_named_no_more() {
    let group = group("3");
    let dir = group.path();
    let path = std::fs::canonicalize(dir).unwrap().join("one more");
    let path = path.to_str().unwrap();
    let add = format!("alter diskgroup data add disk '{path}' name more size 96M");
    sql(dir, &format!("{add} rebalance power 8 wait"));
    assert!(disk_string(dir).contains("one more"), "{}", disk_string(dir));
    sql(dir, "alter diskgroup data drop disk more rebalance power 8 wait");
    assert_eq!(disk_string(dir), "", "whoever takes it next does not bring his group here");
    let left = json(dir, &["asm", "db", "lsdsk", "--wait", path]);
    assert_eq!(left[0]["header_stat"], "FORMER");
    done(dir, &["status", "db"]);
}

#[test]
fn a_disk_that_somebody_holds_is_not_gone() {
    let group = group("2");
    let dir = group.path();
    let held = std::fs::File::open(dir.join("db/disks/disk2")).unwrap();
    held.lock().unwrap();
    // Without it the group would go on alone, for good.
    let told = refused(dir, "alter diskgroup data mount force");
    assert!(told.contains("db/disks/disk2") && !told.contains("15063"), "{told}");
    drop(held);
    done(dir, &["status", "db"]);
}
