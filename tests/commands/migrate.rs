//! `cellar asm migrate` with the real program: from one disk to three, estimated and done, refused
//! where it does not fit or not in time, and gone on with after a kill -9.

#![cfg(feature = "sql")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::program::{cellar, command, done, told};
use serde_json::Value;

fn out(output: &Output) -> String {
    // Lines that were folded at 80 columns made whole again.
    String::from_utf8_lossy(&output.stdout).replace("\n         ", " ")
}

fn json(output: &Output) -> Value {
    let text = out(output);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{}", told(output)))
}

fn disks(dir: &Path) -> Vec<String> {
    let listed = json(&done(dir, &["asm", "db", "lsdsk", "-k", "--format", "json"]));
    let rows = listed.as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// A group on one file disk of 256 MB, a table and a file in it.
fn group() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let size = ["--disk-size", "256M", "--au-size", "1M", "--redundancy", "external"];
    done(dir.path(), &[&["init", "db", "--disks", "1"][..], &size].concat());
    let mut text = String::from("a,b\n");
    for a in 0..100_000_u64 {
        text.push_str(&format!("{a},text number {}\n", a.wrapping_mul(2_654_435_761)));
    }
    std::fs::write(dir.path().join("t.csv"), &text).unwrap();
    done(dir.path(), &["load", "db", "t.csv"]);
    std::fs::write(dir.path().join("f"), text.repeat(30)).unwrap();
    done(dir.path(), &["asm", "db", "cp", "f", "+DATA/f"]);
    done(dir.path(), &["sql", "db", "-c", "alter diskgroup data rename disk data_0000 to old"]);
    dir
}

fn check(dir: &Path) {
    let query = "select count(*) as n, sum(a) as s from t";
    let sum = json(&done(dir, &["sql", "db", "-c", query, "--format", "json"]));
    assert_eq!((&sum[0]["n"], &sum[0]["s"]), (&100_000.into(), &4_999_950_000_u64.into()));
    let back = dir.join("back");
    done(dir, &["asm", "db", "cp", "+DATA/f", back.to_str().unwrap()]);
    assert!(std::fs::read(&back).unwrap() == std::fs::read(dir.join("f")).unwrap());
    std::fs::remove_file(back).unwrap();
    done(dir, &["validate", "db"]);
}

const TO_THREE: [&str; 9] =
    ["asm", "db", "migrate", "--from", "OLD", "--to", "new1,new2,new3", "--disk-size", "128M"];

#[test]
fn one_disk_to_three_is_foretold_and_done_and_the_old_one_may_be_unplugged() {
    let dir = group();
    let dir = dir.path();
    let plan = [&TO_THREE[..], &["--within", "24h", "--probe", "4", "--plan"]].concat();
    let planned = done(dir, &plan);
    let text = out(&planned);
    for label in ["Move ", "Rate ", "Time ", "24h ", "Steps ", "Risk ", "Unplug "] {
        assert!(text.lines().any(|line| line.starts_with(label)), "{label}: {text}");
    }
    assert!(text.contains(": fits") && text.contains("Yes, at power 1, with 2"), "{text}");
    assert!(text.contains("OLD reads ") && text.contains("the 3 write "), "{text}");
    assert!(text.contains("loses data") && text.contains("lsdsk --wait OLD"), "{text}");
    let lines = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
    assert_eq!(disks(dir), ["OLD"], "a plan changes nothing");
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("new")), "{left:?}");
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("probe")), "{left:?}");

    // What is there already is tried itself, and keeps what it holds.
    std::fs::write(dir.join("new1"), vec![0; 128 << 20]).unwrap();
    let plan = [&TO_THREE[..7], &["--disk-size", "128M", "--probe", "1", "--plan"]].concat();
    done(dir, &plan);
    assert!(std::fs::read(dir.join("new1")).unwrap().iter().all(|byte| *byte == 0));

    let words = [&TO_THREE[..], &["--power", "8", "--probe", "4", "--format", "json"]].concat();
    let migrated = json(&done(dir, &words));
    assert_eq!(migrated["former"][0]["name"], "OLD");
    assert!(migrated["seconds"].as_f64().unwrap() > 0.0, "{migrated}");
    assert_eq!(disks(dir).len(), 3);
    let old = json(&done(dir, &["asm", "db", "lsdsk", "--wait", "OLD", "--format", "json"]));
    assert_eq!(old[0]["header_stat"], "FORMER");
    std::fs::remove_file(dir.join("db/disks/disk1")).unwrap();
    check(dir);
    let status = json(&done(dir, &["status", "db", "--format", "json"]));
    assert_eq!((&status[0]["state"], &status[0]["work"]), (&"WHOLE".into(), &Value::Null));
}

#[test]
fn what_does_not_fit_or_not_in_time_is_refused_and_nothing_is_done() {
    let dir = group();
    let dir = dir.path();
    let late = [&TO_THREE[..], &["--within", "0.01s", "--probe", "2"]].concat();
    let late = cellar(dir, &late);
    assert_eq!(late.status.code(), Some(1), "{}", told(&late));
    assert!(out(&late).contains("No: at power "), "{}", out(&late));
    assert!(out(&late).contains("or --within "), "{}", out(&late));
    let small = ["asm", "db", "migrate", "--from", "old", "--to", "new", "--disk-size", "64M"];
    let small = cellar(dir, &small);
    assert_eq!(small.status.code(), Some(1), "{}", told(&small));
    assert!(out(&small).contains("does not fit: no room for "), "{}", out(&small));
    for (words, code, text) in [
        (&["--from", "NONE", "--to", "new"][..], 1, "CELLAR-15054"),
        (&["--from", "OLD", "--to", "new"], 1, "CELLAR-15031"),
        (&["--from", "OLD", "--to", "new*"], 1, "CELLAR-15031"),
        (&["--from", "OLD", "--to", "db/disks/disk1"], 2, "is named in --from"),
        (&["--from", "OLD", "--to", "OLD"], 2, "--to"),
        (&["--from", "OLD"], 2, "--to"),
        (&["--from", "OLD", "--to", "new", "--within", "soon"], 2, "24h"),
        (&["--from", "OLD", "--to", "new", "--power", "0"], 2, "1024"),
        (&["--from", "OLD", "--to", "new", "--within", "1h", "--no-probe"], 2, "--no-probe"),
    ] {
        let refused = cellar(dir, &[&["asm", "db", "migrate"][..], words].concat());
        assert_eq!(refused.status.code(), Some(code), "{words:?}: {}", told(&refused));
        assert!(told(&refused).contains(text), "{words:?}: {}", told(&refused));
    }
    assert_eq!(disks(dir), ["OLD"]);
    for name in ["new", "new1", "new2", "new3"] {
        assert!(!dir.join(name).exists(), "{name} was made");
    }
    check(dir);
}

#[test]
fn a_migration_that_was_killed_goes_on_at_the_next_open() {
    let dir = group();
    let dir = dir.path();
    let words = [&TO_THREE[..], &["--power", "1", "--no-probe"]].concat();
    let mut child = command(dir, &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.as_mut().unwrap();
    // Until the disks have joined and some of it was moved.
    for _ in 0..600 {
        let listed = cellar(dir, &["asm", "db", "lsop", "--format", "json"]);
        let rows: Value = serde_json::from_str(&out(&listed)).unwrap_or_default();
        if rows[0]["sofar"].as_u64().is_some_and(|aus| aus > 3) {
            break;
        }
        Command::new("sleep").arg("0.01").status().unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let waited = done(dir, &["asm", "db", "lsdsk", "--wait", "OLD"]);
    assert!(out(&waited).contains("FORMER"), "{}", out(&waited));
    assert_eq!(disks(dir).len(), 3);
    std::fs::remove_file(dir.join("db/disks/disk1")).unwrap();
    check(dir);
}
