//! The real program, driven in a temporary directory as a person would.

#![cfg(feature = "sql")]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn cellar(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args(words)
        .current_dir(dir)
        .env_remove("CELLAR_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it told, lines that were folded at 80 columns made whole again.
fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n  ", " ")
}

/// Runs a command that must do.
fn done(dir: &Path, words: &[&str]) -> String {
    let output = cellar(dir, words);
    assert!(output.status.success(), "{words:?}: {}{}", out(&output), told(&output));
    out(&output)
}

fn small() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    done(dir.path(), &["init", "db", "--disks", "4", "--disk-size", "64M", "--au-size", "1M"]);
    std::fs::write(dir.path().join("t.csv"), "a,b\n1,x\n2,\n").unwrap();
    done(dir.path(), &["load", "db", "t.csv"]);
    dir
}

#[test]
fn data_is_loaded_kept_and_read_back() {
    let dir = small();
    let csv =
        done(dir.path(), &["sql", "db", "-c", "select * from t order by a", "--format", "csv"]);
    assert_eq!(csv, "a,b\n1,x\n2,\n");
    done(dir.path(), &["sql", "db", "-c", "copy (select 7 as n) to '+DATA/n.parquet'"]);
    let rows = done(
        dir.path(),
        &[
            "sql",
            "db",
            "-c",
            "create external table n stored as parquet location '+DATA/n.parquet'",
            "-c",
            "select n from n",
            "--format",
            "json",
        ],
    );
    assert!(rows.contains("\"n\":7"), "{rows}");
    let rows = done(dir.path(), &["sql", "db", "-c", "select n from n", "--format", "csv"]);
    assert_eq!(rows, "n\n7\n", "the table is there after a restart");
    done(dir.path(), &["validate", "db"]);
    let status = done(dir.path(), &["status", "db", "--format", "json"]);
    assert!(status.contains("\"state\":\"WHOLE\""), "{status}");
}

#[test]
fn a_removed_disk_is_told_and_nothing_is_lost() {
    let dir = small();
    std::fs::remove_file(dir.path().join("db/disks/disk2")).unwrap();
    let csv =
        done(dir.path(), &["sql", "db", "-c", "select count(*) as n from t", "--format", "csv"]);
    assert_eq!(csv, "n\n2\n");
    let status = cellar(dir.path(), &["status", "db"]);
    assert_eq!(status.status.code(), Some(1));
    assert!(out(&status).contains("DEGRADED  1 of 4 disks missing"), "{}", out(&status));
    let validate = cellar(dir.path(), &["validate", "db"]);
    assert_eq!(validate.status.code(), Some(0), "absent copies are no bad copies");
    for disk in ["disk1", "disk3"] {
        std::fs::remove_file(dir.path().join("db/disks").join(disk)).unwrap();
    }
    let refused = cellar(dir.path(), &["sql", "db", "-c", "select 1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("CELLAR-15017"), "{}", told(&refused));
    assert!(told(&refused).contains("Next: "), "{}", told(&refused));
}

#[test]
fn a_killed_process_loses_nothing_that_was_done() {
    let dir = small();
    for round in 0..5 {
        let sql = format!("copy (select {round} as n) to '+DATA/r{round}.parquet'");
        let mut child = Command::new(env!("CARGO_BIN_EXE_cellar"))
            .args(["sql", "db", "-c", &sql, "-f", "-"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Standard input stays open, so the process is alive when it is killed.
        std::process::Command::new("sleep").arg("0.5").status().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    done(dir.path(), &["validate", "db"]);
    let rows =
        done(dir.path(), &["sql", "db", "-c", "select count(*) as n from t", "--format", "csv"]);
    assert_eq!(rows, "n\n2\n");
}

#[test]
fn wrong_words_are_answered_with_a_number_and_a_next_step() {
    let dir = small();
    for (words, code, text) in [
        (&["init", "db"][..], 1, "exists already"),
        (&["init", "x", "--disks", "1"][..], 2, "--redundancy external"),
        (&["init", "x", "--au-size", "3M"][..], 2, "1M, 2M, 4M"),
        (&["sql", "nowhere", "-c", "select 1"][..], 1, "cellar init"),
        (&["sql", "db", "-c", "select * from nosuch"][..], 1, "CELLAR-00942"),
        (&["sql", "db", "-c", "alter system set nosuch=1"][..], 1, "CELLAR-0"),
        (&["sql", "db", "-c", "alter diskgroup x mount"][..], 1, "CELLAR-15"),
        (&["load", "db", "t.csv"][..], 1, "CELLAR-00955"),
        (&["asm", "db", "ls", "+NOPE"][..], 1, "CELLAR-15001"),
        (&["asm", "db", "frobnicate"][..], 2, "frobnicate"),
        (&["status"][..], 2, "CELLAR_DIR"),
    ] {
        let output = cellar(dir.path(), words);
        let all = format!("{}{}", out(&output), told(&output));
        assert_eq!(output.status.code(), Some(code), "{words:?}: {all}");
        assert!(all.contains(text), "{words:?}: {all}");
    }
}

#[test]
fn a_second_command_goes_to_the_process_that_has_the_directory() {
    let dir = small();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args(["sql", "db", "-f", "-"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let rows =
        done(dir.path(), &["sql", "db", "-c", "select count(*) as n from t", "--format", "csv"]);
    assert_eq!(rows, "n\n2\n");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
}

#[test]
fn statements_on_standard_input_run_and_their_errors_count() {
    let dir = small();
    let run = |text: &str, stdout: Stdio| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cellar"))
            .args(["sql", "db", "--format", "csv"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = run("select 1 as a;\nselect nope;\nselect 2;\n", Stdio::piped());
    assert_eq!(out(&output), "a\n1\n");
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    // Results that could not be written are no success.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = run("select 1 as a", full.into());
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
}

#[test]
fn what_somebody_may_want_is_not_taken_for_a_disk() {
    let dir = small();
    let file = dir.path().join("precious.csv");
    std::fs::write(&file, "a,b\n1,2\n".repeat(16 << 20)).unwrap();
    let words = ["init", "db2", "--disks", "precious.csv", "--redundancy", "external"];
    let output = cellar(dir.path(), &words);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(std::fs::read(&file).unwrap().starts_with(b"a,b\n"), "it is as it was");
    // Nor does a statement that failed leave the disks of another database behind.
    done(dir.path(), &["init", "other", "--disks", "2", "--disk-size", "64M"]);
    let statement = "create diskgroup d2 external redundancy disk 'other/disks/disk1'";
    let output = cellar(dir.path(), &["sql", "db", "-c", statement]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    done(dir.path(), &["sql", "db", "-c", "select 1"]);
}

#[test]
fn the_demo_tells_the_whole_story() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let text = done(dir.path(), &["demo", "--scale", "0.05"]);
    for part in
        ["DATA_0002 gone", "0 failed, 0 wrong", "0 copies that differ", "Where the time went"]
    {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let json = std::fs::read_to_string(dir.path().join("cellar-demo/demo.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["queries_failed"], 0);
    assert_eq!(json["queries_wrong"], 0);
    assert_eq!(json["checksums_wrong"], 0);
    assert!(json["steps"].as_array().unwrap().iter().all(|s| s["ok"] == true), "{json}");
}
