//! A driver of the real program, in a directory of its own.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

/// Another program than the one built with the test, as one with disk groups for the tests that need
/// no more than that.
fn other() -> Option<OsString> {
    std::env::var_os("CELLAR_PROGRAM")
}

/// Whether the program has disk groups.
pub fn has_groups() -> bool {
    cfg!(feature = "sql") || other().is_some()
}

/// The program with `words`, in `dir`.
pub fn command(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(other().unwrap_or_else(|| env!("CARGO_BIN_EXE_cellar").into()));
    command.args(words).current_dir(dir).stdin(Stdio::null());
    command.env_remove("CELLAR_DIR").env_remove("COLUMNS");
    command
}

/// The same, which hears SIGHUP also where whoever runs the tests does not, as under nohup.
pub fn hears_hangup(command: &Command) -> Command {
    let mut hears = Command::new("env");
    hears.arg("--default-signal=HUP").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => hears.env(name, value),
            None => hears.env_remove(name),
        };
    }
    hears.stdin(Stdio::null());
    if let Some(directory) = command.get_current_dir() {
        hears.current_dir(directory);
    }
    hears
}

/// Longer than any command of a test takes, also on a machine that does much else.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Runs it to its end. One that does not come to it fails the test, where it would hang all tests.
pub fn cellar(dir: &Path, words: &[&str]) -> Output {
    let mut command = command(dir, words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let (ended, waits) = mpsc::channel::<()>();
    let killer = std::thread::spawn(move || {
        let is_over = waits.recv_timeout(TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout);
        if is_over {
            Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        }
        is_over
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    let killed = killer.join().unwrap();
    assert!(!killed, "{words:?} did not end: {}{}", out(&output), told(&output));
    output
}

/// A prompt that has the database open until its standard input ends.
pub struct Shell(Child);

impl Shell {
    /// The database is this one's when it gives an answer: before, another command might open it, and
    /// stay for this one.
    pub fn open(dir: &Path) -> Shell {
        let mut command = command(dir, &["sql", "db"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"select 1;\n").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
        Shell(child)
    }

    /// It has ended.
    pub fn end(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

/// What it printed as its result.
pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it told, lines that were folded at 80 columns made whole again.
pub fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n  ", " ")
}

/// Runs it, and it did what it should.
pub fn done(dir: &Path, words: &[&str]) -> Output {
    let output = cellar(dir, words);
    assert!(output.status.success(), "{words:?}: {}{}", out(&output), told(&output));
    output
}

/// What a statement told.
pub fn sql(dir: &Path, statement: &str) -> String {
    told(&done(dir, &["sql", "db", "-c", statement]))
}

/// What a statement told that was refused.
pub fn refused(dir: &Path, statement: &str) -> String {
    let output = cellar(dir, &["sql", "db", "-c", statement]);
    assert_eq!(output.status.code(), Some(1), "{statement}: {}", told(&output));
    told(&output)
}

/// The rows that it gave.
pub fn json(dir: &Path, words: &[&str]) -> Vec<Value> {
    let words = [words, &["--format", "json"]].concat();
    let output = done(dir, &words);
    serde_json::from_str(&out(&output)).unwrap_or_else(|e| panic!("{words:?}: {e}"))
}

/// The rows of a query.
pub fn rows(dir: &Path, query: &str) -> Vec<Value> {
    json(dir, &["sql", "db", "-c", query])
}

/// The disks of the group, as lsdsk has them.
pub fn disks(dir: &Path) -> Vec<Value> {
    json(dir, &["asm", "db", "lsdsk", "-k"])
}

/// A small database without tables.
pub fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    done(dir.path(), &["init", "db", "--disks", "2", "--disk-size", "96M", "--au-size", "1M"]);
    dir
}

/// Each query gives its rows: values divided by commas, rows by blanks.
pub fn answers(at: &Path, answers: &[(&str, &str)]) {
    let mut words = vec!["sql", "db", "--format", "csv"];
    answers.iter().for_each(|(query, _)| words.extend(["-c", query, "-c", "select '--' as mark"]));
    let text = out(&done(at, &words));
    let mut found = text.split("mark\n--\n");
    for (query, wanted) in answers {
        let rows: Vec<&str> = found.next().unwrap().lines().skip(1).collect();
        assert_eq!(rows.join(" "), *wanted, "{query}");
    }
}

/// Rows of the table of [`group`].
pub const ROWS: u64 = 150_000;

/// A group of mirrored disks of 96 MB, AU 1 MB, a table and a file in it.
pub fn group(disks: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let size = ["--disk-size", "96M", "--au-size", "1M"];
    done(dir.path(), &[&["init", "db", "--disks", disks][..], &size].concat());
    let mut text = String::from("a,b\n");
    for a in 0..ROWS {
        text.push_str(&format!("{a},text number {}\n", a.wrapping_mul(2_654_435_761)));
    }
    std::fs::write(dir.path().join("t.csv"), &text).unwrap();
    done(dir.path(), &["load", "db", "t.csv"]);
    std::fs::write(dir.path().join("f"), text.repeat(9)).unwrap();
    done(dir.path(), &["asm", "db", "cp", "f", "+DATA/f"]);
    dir
}

/// What was put in is there.
pub fn check_data(dir: &Path) {
    let sum = rows(dir, "select count(*) as n, sum(a) as s from t");
    assert_eq!((&sum[0]["n"], &sum[0]["s"]), (&ROWS.into(), &(ROWS * (ROWS - 1) / 2).into()));
    let back = dir.join("back");
    done(dir, &["asm", "db", "cp", "+DATA/f", back.to_str().unwrap()]);
    assert!(std::fs::read(&back).unwrap() == std::fs::read(dir.join("f")).unwrap());
    std::fs::remove_file(back).unwrap();
}

/// What was put in is there, in every copy.
pub fn check(dir: &Path) {
    check_data(dir);
    done(dir, &["validate", "db"]);
}
