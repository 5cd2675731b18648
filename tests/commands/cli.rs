//! Loading and queries, kills, two commands at once, the demo, wrong words, damage, names that two groups have.

#![cfg(feature = "sql")]

use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{self, cellar, out, told};

/// What a command printed that must do.
fn done(dir: &Path, words: &[&str]) -> String {
    out(&program::done(dir, words))
}

fn small() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    done(dir.path(), &["init", "db", "--disks", "4", "--disk-size", "64M", "--au-size", "1M"]);
    std::fs::write(dir.path().join("t.csv"), "a,b\n1,x\n2,\n").unwrap();
    done(dir.path(), &["load", "db", "t.csv", "--parquet"]);
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
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It has the directory when it has answered: before, another might, and wait for this one to end.
    let stdin = holder.stdin.as_mut().unwrap();
    std::io::Write::write_all(stdin, b"select 7 as seven;\n").unwrap();
    let mut lines = std::io::BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains('7')));
    let rows =
        done(dir.path(), &["sql", "db", "-c", "select count(*) as n from t", "--format", "csv"]);
    assert_eq!(rows, "n\n2\n");
    // Paths in its statements count from where it was typed.
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).unwrap();
    done(&sub, &["sql", "../db", "-c", "copy t to 'out.csv'"]);
    assert!(sub.join("out.csv").is_file());
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
    let text = done(dir.path(), &["demo", "--scale", "0.1"]);
    for part in [
        "DATA_0002 gone",
        "0 failed, 0 wrong",
        "not back in 6 s (disk_repair_time",
        "mirrored again in",
        "DATA is whole on 3 disks. May another disk die now? Yes.",
        "0 copies that differ",
        "Where the time went",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // A whole group, one disk of which a busy machine has slowed down, is told SLOW.
    let is_whole = ["DATA     WHOLE", "DATA     SLOW"].iter().any(|state| text.contains(state));
    assert!(is_whole, "DATA is neither WHOLE nor SLOW in {text}");
    let json = std::fs::read_to_string(dir.path().join("cellar-demo/demo.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["queries_failed"], 0);
    assert_eq!(json["queries_wrong"], 0);
    assert_eq!(json["checksums_wrong"], 0);
    assert!(json["healed"]["bytes"].as_u64().unwrap() > 0, "{json}");
    assert_eq!(json["healed"]["another_may_die"], true);
    assert!(json["disk_added"]["plan_au"].as_u64().unwrap() > 0, "{json}");
    assert!(json["steps"].as_array().unwrap().iter().all(|s| s["ok"] == true), "{json}");
    // Commits with one client and with ten, the block size and why, and where a commit's time went.
    for part in ["       1 client ", "      10 clients", "Redo block ", "one commit:", " = 100 %"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let commits = &json["commits"];
    let clients: Vec<_> =
        commits["runs"].as_array().unwrap().iter().map(|r| &r["clients"]).collect();
    assert_eq!(clients, [1, 10], "{json}");
    assert!([512, 4096].iter().any(|block| commits["block_size"] == *block), "{json}");
    for run in commits["runs"].as_array().unwrap() {
        let waits = run["waits"].as_array().unwrap();
        assert!(
            run["commits"].as_u64().unwrap() > 0 && waits[0]["event"] == "log file sync",
            "{run}"
        );
    }
    assert_eq!(json["commits_lost"], 0);
    assert!(json["commits"]["while_a_disk_died"].as_u64().unwrap() > 0, "{json}");
    let killed = &json["killed"];
    assert!(killed["acknowledged"].as_u64().unwrap() > 4 && killed["lost"] == 0, "{json}");
    assert!(text.contains("open again after") && text.contains(" 0 lost"), "{text}");
}

/// A command that must be refused: exit 1, and what it told.
fn refused(dir: &Path, words: &[&str], parts: &[&str]) {
    let output = cellar(dir, words);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {}{text}", out(&output));
    for part in parts.iter().chain(&["Next: "]) {
        assert!(text.contains(part), "{words:?}: no {part:?} in {text}");
    }
}

/// A file that can become a disk.
fn blank(dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    path.to_string_lossy().into_owned()
}

fn create_group(name: &str, disk: &str) -> String {
    format!("create diskgroup {name} external redundancy disk '{disk}' attribute 'au_size' = '1M'")
}

#[test]
fn a_csv_file_that_would_lose_rows_or_columns_is_not_loaded() {
    let dir = small();
    for (name, text, part) in [
        ("open.csv", "a,b\n1,x\n2,\"y\n3,z\n", "line 3, column 2"),
        ("twice.csv", "a,b,a\n1,2,3\n", "columns 1 and 3 both have the name \"a\""),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
        refused(dir.path(), &["load", "db", name], &["CELLAR-29913", name, part]);
        let stem = name.trim_end_matches(".csv");
        let query = format!("select * from {stem}");
        refused(dir.path(), &["sql", "db", "-c", &query], &["CELLAR-00942"]);
        let list = done(dir.path(), &["asm", "db", "ls", "+DATA"]);
        assert!(!list.contains(stem), "{list}");
    }
}

#[test]
fn the_file_of_a_table_is_neither_written_over_nor_taken_away() {
    let dir = small();
    let run = |words: &[&str], parts: &[&str]| refused(dir.path(), words, parts);
    let table = &["CELLAR-15028", "table \"t\"", "drop table t"];
    run(&["sql", "db", "-c", "copy (select 1) to '+DATA/t.parquet'"], table);
    run(&["asm", "db", "rm", "+DATA/t.parquet"], table);
    run(&["asm", "db", "rm", "+DATA/t*"], table);
    run(&["asm", "db", "cp", "t.csv", "+DATA/t.parquet"], table);
    run(&["sql", "db", "-c", "alter diskgroup data drop file 't.parquet'"], table);
    run(&["sql", "db", "-c", "alter diskgroup data rename alias 't.parquet' to 'u'"], table);
    // Nor is the catalog, whatever the words.
    let catalog = &["CELLAR-15028", "holds the catalog"];
    run(&["sql", "db", "-c", "copy (select 1) to '+DATA/cellar/catalog' stored as csv"], catalog);
    run(&["sql", "db", "-c", "alter diskgroup data drop file 'cellar/catalog'"], catalog);
    run(&["sql", "db", "-c", "alter diskgroup data drop directory 'cellar' force"], catalog);
    let rows = |table: &str| {
        let sql = format!("select count(*) as n from {table}");
        done(dir.path(), &["sql", "db", "-c", &sql, "--format", "csv"])
    };
    assert_eq!(rows("t"), "n\n2\n");

    let create = create_group("d2", &blank(dir.path(), "e1"));
    let copy = "copy (select 1 as a) to '+D2/u.parquet'";
    let table = "create external table u stored as parquet location '+D2/u.parquet'";
    done(dir.path(), &["sql", "db", "-c", &create, "-c", copy, "-c", table]);
    let drop_group = ["sql", "db", "-c", "drop diskgroup d2 including contents"];
    run(&drop_group, &["CELLAR-15039", "CELLAR-15028", "drop table u"]);
    assert_eq!(rows("u"), "n\n1\n");
    done(dir.path(), &["sql", "db", "-c", "drop table u"]);
    done(dir.path(), &drop_group);

    // A file that a dropped table left is not silently replaced either.
    done(dir.path(), &["sql", "db", "-c", "drop table t"]);
    run(&["load", "db", "t.csv", "--parquet"], &["CELLAR-15005", "+DATA/t.parquet", "asm db rm"]);
    done(dir.path(), &["asm", "db", "rm", "+DATA/t.parquet"]);
    done(dir.path(), &["load", "db", "t.csv", "--parquet"]);
}

#[test]
fn a_full_group_and_a_damaged_file_are_told_as_such() {
    let dir = small();
    let query = "select value, random() as r, random() as q from generate_series(1, 10000000)";
    for file in ["x.parquet", "x.csv"] {
        let copy = format!("copy ({query}) to '+DATA/{file}'");
        let parts = ["CELLAR-15041", "has no room for", "extents fit", "drop files"];
        refused(dir.path(), &["sql", "db", "-c", &copy], &parts);
    }
    let parts = ["CELLAR-15041", "has no room for", "drop files"];
    refused(dir.path(), &["load", "db", "--tpch", "1"], &parts);
    let list = done(dir.path(), &["asm", "db", "ls", "+DATA"]);
    assert!(!list.contains("lineitem") && !list.contains("x."), "{list}");

    let some = query.replace("10000000", "300000");
    let copy = format!("copy ({some}) to '+DATA/d.parquet'");
    let create = "create external table d stored as parquet location '+DATA/d.parquet'";
    done(dir.path(), &["sql", "db", "-c", &copy, "-c", create]);
    done(dir.path(), &["asm", "db", "cp", "+DATA/d.parquet", "d.parquet"]);
    let start = std::fs::read(dir.path().join("d.parquet")).unwrap()[..64].to_vec();
    let mut damaged = 0;
    for disk in std::fs::read_dir(dir.path().join("db/disks")).unwrap() {
        let path = disk.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        for at in (0..bytes.len()).step_by(4096) {
            if bytes[at..].starts_with(&start) {
                bytes[at + 100] ^= 0xff;
                damaged += 1;
            }
        }
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(damaged, 2, "both copies");
    let sum = ["sql", "db", "-c", "select sum(value) from d"];
    refused(dir.path(), &sum, &["CELLAR-70040", "damaged in every copy", "cellar validate"]);
}

#[test]
fn disk_string_takes_paths_that_find_every_disk_in_use() {
    let dir = small();
    let run = |words: &[&str], parts: &[&str]| refused(dir.path(), words, parts);
    let bad = ["CELLAR-00096", "paths from / on", "/dev/disk/by-id/*"];
    for value in ["5", "true", "'disks/*'"] {
        let sql = format!("alter system set disk_string = {value}");
        run(&["sql", "db", "-c", &sql], &bad);
    }
    let disk = blank(dir.path(), "e1");
    done(dir.path(), &["sql", "db", "-c", &create_group("d2", &disk)]);
    for sql in ["alter system set disk_string = '/nowhere/*'", "alter system reset disk_string"] {
        run(&["sql", "db", "-c", sql], &["CELLAR-15014", &disk, "D2"]);
    }
    let toml = dir.path().join("db/cellar.toml");
    let before = std::fs::read_to_string(&toml).unwrap();
    assert!(before.contains("/e1"), "{before}");
    std::fs::write(&toml, "disk_string = 5\n").unwrap();
    run(&["sql", "db", "-c", "select 1"], &["cellar.toml line 1", "must be paths"]);
    std::fs::write(&toml, before).unwrap();
    done(dir.path(), &["asm", "db", "ls", "+D2"]);
}

#[test]
fn two_groups_of_one_name_are_never_taken_for_one() {
    let dir = small();
    let sql = |db: &str, text: &str| done(dir.path(), &["sql", db, "-c", text]);
    let disks: Vec<String> = ["e1", "e2", "e3"].map(|name| blank(dir.path(), name)).into();
    let find = |paths: &[&str]| format!("alter system set disk_string = '{}'", paths.join("', '"));
    let other = ["init", "other", "--disks", "2", "--disk-size", "64M", "--au-size", "1M"];
    done(dir.path(), &other);
    sql("db", &create_group("d2", &disks[0]));
    sql("other", &create_group("d2", &disks[1]));

    // Neither of the two is mounted, and the rest is served.
    sql("db", &find(&[&disks[0], &disks[1]]));
    let output = cellar(dir.path(), &["sql", "db", "-c", "select count(*) from t"]);
    assert!(output.status.success(), "{}", told(&output));
    let parts = ["2 different disk groups are called \"D2\"", &disks[0], &disks[1], "disk_string"];
    for part in parts {
        assert!(told(&output).contains(part), "{}", told(&output));
    }
    let mount = ["sql", "db", "-c", "alter diskgroup d2 mount"];
    refused(dir.path(), &mount, &["CELLAR-15017", "CELLAR-15030", parts[1], parts[2], parts[3]]);
    // Nor is a third one made.
    let create = create_group("d2", &disks[2]);
    refused(dir.path(), &["sql", "db", "-c", &create], &["CELLAR-15030", "in use by"]);
    sql("db", &find(&[&disks[0]]));
    done(dir.path(), &["asm", "db", "ls", "+D2"]);

    // The group of the catalog: nothing is opened rather than the wrong one.
    let theirs = dir.path().join("other/disks/*");
    sql("db", &find(&[&disks[0], &theirs.to_string_lossy()]));
    let parts = ["CELLAR-15017", "CELLAR-15030", "called \"DATA\"", "db/disks", "other/disks"];
    refused(dir.path(), &["sql", "db", "-c", "select 1"], &parts);

    // Of another name it is no rival: this directory's own is the one with its tables.
    let third = ["init", "third", "--name", "ARCH", "--disks", "2", "--disk-size", "64M"];
    done(dir.path(), &[&third[..], &["--au-size", "1M"]].concat());
    let toml = format!("disk_string = [\"{}\"]\n", dir.path().join("third/disks/*").display());
    std::fs::write(dir.path().join("db/cellar.toml"), toml).unwrap();
    let rows =
        done(dir.path(), &["sql", "db", "-c", "select count(*) as n from t", "--format", "csv"]);
    assert_eq!(rows, "n\n2\n");
}
