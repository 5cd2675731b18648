//! A DBA's first hour: rows for awk, the width of the terminal, who runs what, failure groups, ASMCMD's
//! words, and a stop by Ctrl-C.

#![cfg(feature = "sql")]
#![expect(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{cellar, command, done, hears_hangup, json, out, refused, rows, sql, told};

/// A database of small disks.
fn small(disks: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let words = [&["init", "db", "--disk-size", "64M", "--au-size", "1M"][..], disks].concat();
    done(dir.path(), &words);
    dir
}

fn text(dir: &Path, words: &[&str]) -> String {
    out(&done(dir, words))
}

#[test]
fn rows_without_a_header_are_one_line_each_and_nothing_else() {
    let dir = small(&["--disks", "4"]);
    let dir = dir.path();
    let names = ["DATA_0000", "DATA_0001", "DATA_0002", "DATA_0003"];
    let fourth = |text: &str, at: usize| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().nth(at).unwrap_or("").to_owned()).collect()
    };
    let lsdsk = text(dir, &["asm", "db", "lsdsk", "-k", "--suppressheader"]);
    assert_eq!(fourth(&lsdsk, 3), names, "{lsdsk}");
    let both = text(dir, &["asm", "db", "lsdsk", "-k", "-p", "--suppressheader"]);
    assert_eq!(fourth(&both, 5), ["ONLINE"; 4], "{both}");
    assert_eq!(fourth(&both, 10), names, "{both}");
    let lsdg = text(dir, &["asm", "db", "lsdg", "--suppressheader"]);
    assert_eq!(fourth(&lsdg, 11), ["DATA"], "no words behind the rows: {lsdg}");
    let rebal = text(dir, &["asm", "db", "rebal", "--wait", "--suppressheader"]);
    assert_eq!(fourth(&rebal, 1), ["DONE"], "{rebal}");
    let iostat = text(dir, &["asm", "db", "iostat", "-et", "--suppressheader"]);
    assert_eq!(fourth(&iostat, 1), names, "{iostat}");
    let lsct = text(dir, &["asm", "db", "lsct", "--suppressheader"]);
    assert_eq!(fourth(&lsct, 5), ["DATA"], "{lsct}");
}

#[test]
fn output_is_as_wide_as_it_is_said_to_be() {
    let dir = small(&["--disks", "3"]);
    let dir = dir.path();
    let wide = |columns: &str, words: &[&str]| -> usize {
        let output = command(dir, words).env("COLUMNS", columns).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        out(&output).lines().map(|line| line.chars().count()).max().unwrap()
    };
    let lsdsk = &["asm", "db", "lsdsk", "-k"][..];
    assert!((81..=200).contains(&wide("200", lsdsk)));
    assert!(wide("80", lsdsk) <= 80 && wide("nonsense", lsdsk) <= 80);
    let disks = &[
        "sql",
        "db",
        "-c",
        "select name, path, state, total_mb, free_mb, os_mb, \
                  create_date, failgroup, header_status from v$asm_disk",
    ][..];
    assert!(wide("300", disks) > 100 && wide("80", disks) <= 80);
    // Whoever answers, it is the terminal of who asked that counts.
    let mut holder = holder(dir);
    assert!((81..=200).contains(&wide("200", lsdsk)) && wide("80", lsdsk) <= 80);
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

/// A process that has the database until its input ends.
fn holder(dir: &Path) -> Child {
    let mut holder = command(dir, &["sql", "db", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    holder.stdin.as_mut().unwrap().write_all(b"select 1;\n").unwrap();
    let mut first = [0; 1];
    holder.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    holder
}

#[test]
fn a_session_shows_the_statement_in_progress_and_not_its_script() {
    let dir = small(&["--disks", "3"]);
    let dir = dir.path();
    let long = "select count(*) from range(200000) a, range(200000) b where a.value + b.value = 7";
    let script = format!("select 1 as first; {long}; select 3 as last");
    let mut runs =
        command(dir, &["sql", "db", "-c", &script]).stdout(Stdio::null()).spawn().unwrap();
    let asked = "select status, sql_text from v$session where sql_text like '%range%' and \
                 sql_text not like '%v$session%'";
    let mut seen = Vec::new();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(100));
        if dir.join("db/cellar.sock").exists() {
            seen = rows(dir, asked);
        }
        if !seen.is_empty() {
            break;
        }
    }
    runs.kill().unwrap();
    runs.wait().unwrap();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!((&seen[0]["status"], &seen[0]["sql_text"]), (&"ACTIVE".into(), &long.into()));
}

#[test]
fn a_command_that_stays_for_another_says_so() {
    let dir = small(&["--disks", "3"]);
    let dir = dir.path();
    let mut holder = command(dir, &["sql", "db", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    holder.stdin.as_mut().unwrap().write_all(b"select 1;\n").unwrap();
    let mut first = [0; 1];
    holder.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let mut other = command(dir, &["sql", "db", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    other.stdin.as_mut().unwrap().write_all(b"select 2;\n").unwrap();
    other.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(holder.stdin.take());
    std::thread::sleep(Duration::from_secs(1));
    assert!(holder.try_wait().unwrap().is_none(), "it stays");
    drop(other.stdin.take());
    other.wait().unwrap();
    let output = holder.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(
        told(&output).contains("another command works through this process"),
        "{}",
        told(&output)
    );
}

#[test]
fn failure_groups_are_named_by_init() {
    let dir = small(&["--failgroup", "shelf1=2", "--failgroup", "SHELF2=1"]);
    let groups: Vec<String> = json(dir.path(), &["asm", "db", "lsdsk", "-k"])
        .iter()
        .map(|disk| disk["failgroup"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(groups, ["SHELF1", "SHELF1", "SHELF2"]);
    for name in ["a", "b", "c"] {
        let file = std::fs::File::create(dir.path().join(name)).unwrap();
        file.set_len(64 << 20).unwrap();
    }
    let given = ["init", "two", "--au-size", "1M", "--failgroup", "L=a,b", "--failgroup", "R=c"];
    done(dir.path(), &given);
    for wrong in ["x", "x=", "=2", "1x=2", "x=0"] {
        let output = cellar(dir.path(), &["init", "no", "--failgroup", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", told(&output));
        assert!(!dir.path().join("no").exists());
    }
}

#[test]
fn groups_are_made_of_files_that_are_made_checked_mounted_and_left_as_asked() {
    let dir = small(&["--disks", "3"]);
    let dir = dir.path();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    sql(
        dir,
        &format!(
            "create diskgroup fra normal redundancy disk '{}' size 64M, '{}' size 64M attribute \
             'au_size' = '1M'",
            path("f 1"),
            path("f2")
        ),
    );
    assert_eq!(std::fs::metadata(dir.join("f 1")).unwrap().len(), 64 << 20);
    let wrong = format!("create diskgroup x external redundancy disk '{}'", path("nosuch"));
    assert!(refused(dir, &wrong).contains("or give a SIZE"));
    let wrong = format!("{wrong} size 64M, '/dev/null'");
    refused(dir, &wrong);
    assert!(!dir.join("nosuch").exists(), "what was made for nothing goes again");
    for statement in [
        "alter diskgroup all check all repair",
        "alter diskgroup fra check all",
        "alter diskgroup all check norepair",
        "alter diskgroup all mount",
        "alter diskgroup fra dismount",
        "alter diskgroup all mount",
    ] {
        sql(dir, statement);
    }
    let groups = rows(dir, "select name from v$asm_diskgroup order by name");
    assert_eq!(groups.len(), 2, "{groups:?}");
    done(dir, &["asm", "db", "umount", "fra"]);
    done(dir, &["asm", "db", "mount", "-a"]);
    done(dir, &["asm", "db", "setattr", "-G", "fra", "disk_repair_time", "4h"]);
    let value = text(dir, &["asm", "db", "lsattr", "-l", "-G", "fra", "disk_repair_time"]);
    assert!(value.contains("4h"), "{value}");
    let left = told(&done(dir, &["asm", "db", "dropdg", "fra"]));
    let (_, remove) = left.split_once("in a shell: ").unwrap();
    let remove = remove.lines().next().unwrap();
    assert!(Command::new("sh").args(["-c", remove]).status().unwrap().success());
    assert!(!dir.join("f 1").exists(), "{remove}");
    done(dir, &["asm", "db", "mkdg", "again", "g1", "g2", "--size", "64M", "--au-size", "1M"]);
    done(dir, &["asm", "db", "dropdg", "-r", "again"]);
}

#[test]
fn the_file_of_a_disk_that_left_goes_by_what_is_told() {
    let dir = small(&["--disks", "3"]);
    let dir = dir.path();
    let new = dir.join("a new one");
    sql(dir, &format!("alter diskgroup data add disk '{}' size 64M rebalance wait", new.display()));
    let left = told(&done(
        dir,
        &["sql", "db", "-c", "alter diskgroup data drop disk data_0003 rebalance"],
    ));
    let (_, line) = left.split_once("has left: ").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_cellar")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let line = line.lines().next().unwrap();
    let ran = Command::new("sh").args(["-c", line]).current_dir(dir).env("PATH", path).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{line}: {}", told(&ran));
    assert!(!new.exists());
    done(dir, &["status", "db"]);
}

#[test]
fn names_that_are_none_are_answered_with_those_that_are_meant() {
    let dir = small(&["--disks", "3"]);
    let dir = dir.path();
    let output = command(dir, &["asm", "mkdgg", "x"]).env("CELLAR_DIR", "db").output().unwrap();
    let text = told(&output);
    assert!(text.contains("'mkdgg'") && text.contains("'mkdg'"), "{text}");
    let text = refused(dir, "select * from v$process");
    assert!(text.contains("the nearest names are v$session, v$parameter"), "{text}");
    let text = refused(dir, "alter system set memory_target = 1K");
    assert!(text.contains("between 16M and 1024T, or 0"), "{text}");
    let text = refused(dir, "alter system set _disk_sector_size_override = true");
    assert!(text.contains("is measured; to say it: BLOCKSIZE 4096"), "{text}");
    sql(dir, "alter system set log_block_size = 4096");
}

#[test]
fn a_report_that_cannot_be_written_is_told_once_and_undoes_nothing() {
    let dir = small(&["--disks", "3"]);
    let dir = dir.path();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    std::fs::write(dir.join("t.csv"), "a\n1\n2\n").unwrap();
    let loaded = command(dir, &["load", "db", "t.csv"]).stdout(full()).output().unwrap();
    let text = told(&loaded);
    assert_eq!(loaded.status.code(), Some(0), "it is loaded: {text}");
    assert!(text.contains("all is loaded; only the report"), "{text}");
    assert_eq!(rows(dir, "select count(*) as n from t")[0]["n"], 2);
    let asked = command(dir, &["sql", "db", "-c", "select 1"]).stdout(full()).output().unwrap();
    let text = told(&asked);
    assert_eq!(asked.status.code(), Some(1));
    assert_eq!(text.matches("CELLAR-27072").count(), 1, "{text}");
}

/// Sends a signal by name.
fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn ends_within(child: &mut Child, limit: Duration) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code().unwrap_or(-1));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn ctrl_c_stops_the_demo_in_every_step() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for step in ["[1/", "[2/", "[4/", "[5/", "[6/"] {
        let mut demo = command(dir.path(), &["demo", "--dir", "demo's", "--scale", "0.01"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut seen = Vec::new();
        let mut byte = [0; 1];
        while !String::from_utf8_lossy(&seen).contains(step) {
            assert_eq!(demo.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1, "no {step}");
            seen.push(byte[0]);
        }
        std::thread::sleep(Duration::from_millis(200));
        signal(&demo, "INT");
        let code = ends_within(&mut demo, Duration::from_secs(20));
        assert_eq!(code, Some(1), "{step}");
        let mut text = String::new();
        demo.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(text.contains("CELLAR-01013: stopped by the user"), "{step} {text}");
        if let Some((_, remove)) = text.split_once("remove it: ") {
            let mut shell = Command::new("sh");
            shell.args(["-c", remove]).current_dir(dir.path());
            assert!(shell.status().unwrap().success(), "{remove}");
        }
        assert!(!dir.path().join("demo's").exists(), "{step}");
    }
}

#[test]
fn a_test_of_a_disk_leaves_nothing_whatever_ends_it() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["INT", "TERM", "HUP"] {
        let mut test = hears_hangup(&command(dir.path(), &["disktest", "."]));
        let mut test = test.stdout(Stdio::null()).spawn().unwrap();
        let left = || std::fs::read_dir(dir.path()).unwrap().count();
        while left() == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        signal(&test, name);
        assert_eq!(ends_within(&mut test, Duration::from_secs(10)), Some(1), "{name}");
        assert_eq!(left(), 0, "{name}");
    }
}

#[test]
fn what_is_in_memory_is_not_called_durable() {
    let output = done(Path::new("/"), &["disktest", "/dev/shm"]);
    let text = out(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Nothing written here is durable: it is on tmpfs"), "{text}");
    assert!(!text.contains("times a second"), "{text}");
}

#[test]
fn commands_are_typed_at_the_prompt_of_asm_and_say_what_is_in_use() {
    let dir = small(&["--disks", "3"]);
    let dir = dir.path();
    sql(dir, "create table t as select * from generate_series(1, 1000)");
    let typed = |lines: &str| {
        let mut asm = command(dir, &["asm", "db"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        asm.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        asm.wait_with_output().unwrap()
    };
    let lines = "mkdir '+DATA/a b'\n\nls +DATA --suppressheader\nhelp du\nexit\nls +NOPE\n";
    let output = typed(lines);
    assert!(output.status.success(), "{}", told(&output));
    assert!(out(&output).contains("a b/") && out(&output).contains("cellar asm du"));
    let wrong = typed("ls +NOPE\nmkdir +DATA/never\n");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(told(&wrong).contains("CELLAR-15001"), "{}", told(&wrong));
    assert_eq!(typed("nosuch\n").status.code(), Some(2));
    let mut holder = holder(dir);
    holder.stdin.as_mut().unwrap().write_all(b"select count(*) as counted from t;\n").unwrap();
    let mut lines = BufReader::new(holder.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "1000"), "the rows of t");
    let there = typed("ls +DATA --suppressheader\nlsof -G data --suppressheader\n");
    assert!(there.status.success(), "{}", told(&there));
    let shown = out(&there);
    assert!(shown.contains("a b/") && !shown.contains("never"), "{shown}");
    assert!(shown.contains("db ") && shown.contains("+DATA/cellar/tables/t_"), "{shown}");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    let io = &rows(dir, "select * from v$iostat_file where file_name like '%disk1'")[0];
    let small = io["small_read_reqs"].as_u64().unwrap();
    assert!(small > 0 && io["small_read_servicetime"].is_u64(), "{io}");
    let large = io["large_read_reqs"].as_u64().unwrap();
    let megabytes = io["large_read_megabytes"].as_u64().unwrap();
    assert!(megabytes >= large / 8, "each is more than 128 KB: {io}");
}
