//! Advice of the program, taken at its word: each command that an error or a status offers is cut out of
//! the text and run by a shell, in a directory whose name has a blank and a quote.

#![cfg(feature = "sql")]

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::program::{self, cellar, done, json, out, told};
use serde_json::Value;

/// The database in every test; the directory above it has such a name, too.
const DB: &str = "it's a db";

struct Place {
    _kept: tempfile::TempDir,
    dir: PathBuf,
}

fn place() -> Place {
    let kept = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = kept.path().join("what's here");
    std::fs::create_dir(&dir).unwrap();
    Place { _kept: kept, dir }
}

impl Place {
    /// With a database of so many disks.
    fn with(disks: &str) -> Place {
        let place = place();
        place.done(&["init", DB, "--disks", disks, "--disk-size", "64M", "--au-size", "1M"]);
        place
    }

    fn done(&self, words: &[&str]) -> String {
        let output = done(&self.dir, words);
        format!("{}{}", out(&output), told(&output))
    }

    fn sql(&self, statement: &str) -> String {
        self.done(&["sql", DB, "-c", statement])
    }

    /// What a command told that did not end well.
    fn fails(&self, words: &[&str]) -> String {
        let output = cellar(&self.dir, words);
        assert_ne!(output.status.code(), Some(0), "{words:?}: {}", out(&output));
        both(&output)
    }

    fn status(&self) -> Value {
        let output = cellar(&self.dir, &["status", DB, "--format", "json"]);
        let all: Vec<Value> = serde_json::from_str(&out(&output)).unwrap();
        all[0].clone()
    }

    /// Runs a line as whoever pasted it.
    fn shell(&self, line: &str) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_cellar")).parent().unwrap().to_owned();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.dir).env("PATH", path);
        command.env_remove("CELLAR_DIR").env_remove("COLUMNS").output().unwrap()
    }

    /// Takes the command that begins so out of a text, and runs it; it does what it should.
    fn follow(&self, text: &str, begins: &str) -> String {
        let line = offered(text, begins);
        let output = self.shell(&line);
        assert!(output.status.success(), "{line}\n{}\nfrom: {text}", both(&output));
        both(&output)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).unwrap();
    }
}

fn both(output: &Output) -> String {
    assert_eq!(output.status.signal(), None);
    let [out, err] =
        [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b).into_owned());
    out + &err
}

/// The command in a text that begins so, as far as a person would copy it: it stands on one line, and
/// ends there or before punctuation outside quotes.
fn offered(text: &str, begins: &str) -> String {
    let line = text.lines().find(|line| line.contains(begins));
    let line = line.unwrap_or_else(|| panic!("no command \"{begins}\" on a line of:\n{text}"));
    let command = &line[line.find(begins).unwrap()..];
    let (mut end, mut quote) = (command.len(), None);
    for (at, c) in command.char_indices() {
        let next = command[at + c.len_utf8()..].chars().next();
        match (quote, c) {
            (None, '\'' | '"') if !command[..at].ends_with('\\') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, ';' | ',' | ')') if next.is_none_or(|c| c == ' ') => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    assert_eq!(quote, None, "a quote is open: {command}");
    command[..end].to_owned()
}

const T: &str = "a,b\n1,x\n2,y\n";

#[test]
fn files_that_are_in_the_way_go_by_the_command_that_is_offered() {
    let place = Place::with("3");
    place.write("t.csv", T);
    place.done(&["load", DB, "t.csv"]);
    let text = place.fails(&["load", DB, "t.csv"]);
    place.follow(&text, "cellar sql ");
    place.done(&["load", DB, "t.csv", "--parquet"]);
    let text = place.fails(&["asm", DB, "rm", "+DATA/t.parquet"]);
    place.follow(&text, "cellar sql ");
    let text = place.fails(&["load", DB, "t.csv", "--parquet"]);
    place.follow(&text, "cellar asm ");
    place.done(&["load", DB, "t.csv", "--parquet"]);
    place.sql("drop table t");
    let text = place.fails(&["load", DB, "t.csv", "--parquet"]);
    place.follow(&text, "cellar sql ");
    assert_eq!(json(&place.dir, &["sql", DB, "-c", "select a from t"]).len(), 2);
}

#[test]
fn directories_of_a_group_are_made_listed_and_removed_as_offered() {
    let place = Place::with("3");
    place.write("f", "some text");
    let text = place.fails(&["asm", DB, "cp", "f", "+DATA/in$1/"]);
    place.follow(&text, "cellar asm ");
    place.done(&["asm", DB, "cp", "f", "+DATA/in$1/"]);
    let text = place.fails(&["asm", DB, "rm", "+DATA/in$1"]);
    place.follow(&text, "cellar asm ");
    place.done(&["asm", DB, "cp", "f", "+DATA/f"]);
    for words in [
        &["asm", DB, "rm", "+DATA/nosuch"][..],
        &["asm", DB, "lsattr", "nosuch"],
        &["asm", DB, "lsdsk", "nosuch"],
        &["asm", DB, "lsdg", "x*"],
        &["asm", DB, "setattr", "-G", "data", "nosuch", "1"],
        &["asm", DB, "cp", "+DATA/*", "out"],
        &["sql", DB, "-c", "create external table e stored as csv location '+DATA/nosuch.csv'"],
    ] {
        let text = place.fails(words);
        place.follow(&text, "cellar asm ");
    }
}

#[test]
fn directories_of_the_host_are_made_as_offered() {
    let place = Place::with("3");
    place.write("f", "some text");
    place.done(&["asm", DB, "cp", "f", "+DATA/f"]);
    let text = place.fails(&["asm", DB, "cp", "+DATA/f", "new 'dir'/"]);
    place.follow(&text, "mkdir ");
    place.done(&["asm", DB, "cp", "+DATA/f", "new 'dir'/"]);
    let text = place.fails(&["asm", DB, "cp", "+DATA/f", "an 'other'/f"]);
    place.follow(&text, "mkdir ");
    let text = place.fails(&["init", "a third's/db"]);
    place.follow(&text, "mkdir ");
    let text = place.fails(&["inspect", DB]);
    place.follow(&text, "ls ");
    let text = place.fails(&["status", "no db's here"]);
    let line = offered(&text, "cellar init ");
    let made = place.shell(&format!("{line} --disks 2 --disk-size 64M --au-size 1M"));
    assert!(made.status.success(), "{line}: {}", both(&made));
}

#[test]
fn what_a_dropped_external_table_leaves_goes_as_told() {
    let place = Place::with("3");
    place.write("it's mine.csv", T);
    place.sql("create external table t stored as csv location 'it''s mine.csv'");
    let text = place.sql("drop table t");
    place.follow(&text, "rm ");
    assert!(!place.dir.join("it's mine.csv").exists());
    place.write("t.csv", T);
    place.done(&["load", DB, "t.csv", "--parquet"]);
    let statement = offered(&place.sql("drop table t"), "alter diskgroup ");
    place.sql(&statement);
    place.sql("create table one as select 1 as a");
    place.sql("copy one to '+DATA/days/monday.parquet' stored as parquet");
    place.sql("create external table d stored as parquet location '+DATA/days/'");
    place.sql("create external table e stored as parquet location '+DATA/days/'");
    assert!(place.sql("drop table d").contains("stays: table e reads it"));
    let statement = offered(&place.sql("drop table e"), "alter diskgroup ");
    place.sql(&statement);
    let left = json(&place.dir, &["asm", DB, "find", "+DATA", "*.parquet"]);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_disk_that_was_taken_offline_comes_back_by_what_status_says() {
    let place = Place::with("4");
    place.sql("create table one as select 1 as a");
    place.done(&["asm", DB, "offline", "-D", "DATA_0001"]);
    place.sql("create table two as select 2 as a");
    let text = place.fails(&["status", DB]);
    // The view says the same.
    let view = "select name, state, action from v$health";
    let view = done(&place.dir, &["sql", DB, "--format", "json", "-c", view]);
    let view: Value = serde_json::from_str(&out(&view)).unwrap();
    let status = place.status();
    assert_eq!((&view[0]["name"], &view[0]["state"]), (&"DATA".into(), &status["state"]));
    assert_eq!(view[0]["action"], status["action"], "{view}");
    place.follow(&text, "cellar asm ");
    place.done(&["asm", DB, "online", "-a", "--wait"]);
    assert_eq!(place.status()["state"], "WHOLE");
    // In a statement's error, too.
    let text = place.fails(&["sql", DB, "-c", "alter diskgroup data offline disk nosuch"]);
    place.follow(&text, "cellar asm ");
}

#[test]
fn a_pair_with_one_disk_is_whole_again_by_what_status_says() {
    let place = Place::with("2");
    place.sql("create table one as select 1 as a");
    // Out while the database is open: without it nobody could tell that nothing newer is elsewhere.
    place.done(&["asm", DB, "offline", "-D", "DATA_0001"]);
    std::fs::remove_file(place.dir.join(DB).join("disks/disk2")).unwrap();
    let text = place.fails(&["status", DB]);
    let line = text.lines().find(|line| line.contains(" replace ")).unwrap();
    let line = offered(&line[line.rfind("cellar asm ").unwrap()..], "cellar asm ");
    let ran = place.shell(&format!("{} --wait", line.replace("NEWDISK", "'a new one'")));
    assert!(ran.status.success(), "{line}: {}", both(&ran));
    let now = place.status();
    assert_eq!((&now["state"], &now["files_lowered"]), (&"WHOLE".into(), &0.into()), "{now}");
}

#[test]
fn a_pair_that_lost_a_disk_while_closed_opens_by_what_status_says() {
    let place = Place::with("2");
    place.sql("create table one as select 1 as a");
    std::fs::remove_file(place.dir.join(DB).join("disks/disk2")).unwrap();
    for words in [&["status", DB][..], &["sql", DB, "-c", "select 1"]] {
        let text = place.fails(words);
        assert!(text.contains("cellar sql "), "{text}");
    }
    let text = place.fails(&["status", DB]);
    place.follow(&text, "cellar sql ");
    assert_eq!(json(&place.dir, &["sql", DB, "-c", "select a from one"]).len(), 1);
    let text = place.fails(&["status", DB]);
    let line = text.lines().find(|line| line.contains(" replace ")).unwrap();
    let line = offered(&line[line.rfind("cellar asm ").unwrap()..], "cellar asm ");
    let ran = place.shell(&format!("{} --wait", line.replace("NEWDISK", "new")));
    assert!(ran.status.success(), "{line}: {}", both(&ran));
    assert_eq!(place.status()["state"], "WHOLE");
}

/// Flips a bit in a block of a disk that holds something, behind its first AUs.
fn rot(disk: &Path) {
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(disk).unwrap();
    let mut block = vec![0; 4096];
    let mut done = 0;
    for at in ((20 << 20)..(60 << 20)).step_by(4096) {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.read_exact(&mut block).unwrap();
        if done < 8 && block.iter().any(|b| *b != 0) {
            block[1234] ^= 16;
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&block).unwrap();
            done += 1;
        }
    }
    assert!(done > 0, "nothing of a file is there");
}

#[test]
fn rot_is_mended_by_what_status_says() {
    let place = Place::with("3");
    place.write("f", &"some text of a file\n".repeat(1_000_000));
    place.done(&["asm", DB, "cp", "f", "+DATA/f"]);
    rot(&place.dir.join(DB).join("disks/disk1"));
    cellar(&place.dir, &["asm", DB, "scrub", "--wait"]);
    let text = place.fails(&["status", DB]);
    place.follow(&text, "cellar asm ");
    assert_eq!(place.status()["state"], "WHOLE");
}

#[test]
fn a_rebalance_that_was_stopped_goes_on_by_what_is_said() {
    let place = Place::with("3");
    place.write("f", &"some text of a file\n".repeat(1_000_000));
    place.done(&["asm", DB, "cp", "f", "+DATA/f"]);
    let text = place.sql("alter diskgroup data add disk 'more' size 64M rebalance power 0");
    assert!(text.contains("1 disk added"), "{text}");
    let text = both(&cellar(&place.dir, &["status", DB]));
    place.follow(&text, "cellar asm ");
    place.done(&["asm", DB, "rebal", "--wait"]);
    let text = place.fails(&["asm", DB, "lsdsk", "--wait", "DATA_0003"]);
    place.follow(&text, "cellar sql ");
    place.done(&["asm", DB, "lsdsk", "--wait", "DATA_0003"]);
}

#[test]
fn a_disk_of_a_group_that_is_gone_is_free_by_what_is_said() {
    let place = Place::with("2");
    std::fs::rename(place.dir.join(DB).join("disks/disk1"), place.dir.join("it's old")).unwrap();
    std::fs::remove_dir_all(place.dir.join(DB)).unwrap();
    let words =
        ["init", "new", "--disks", "it's old", "--redundancy", "external", "--au-size", "1M"];
    let text = place.fails(&words);
    assert!(text.contains("DATA_0000 of disk group DATA"), "{text}");
    // The first says what would be lost, the second does it.
    let line = offered(&text, "cellar disks ");
    let looked = place.shell(&line);
    assert_eq!(looked.status.code(), Some(1), "{line}: {}", both(&looked));
    let text = both(&looked);
    assert!(text.contains("DATA_0000 of disk group DATA, normal redundancy"), "{text}");
    assert!(text.contains("nothing was written"), "{text}");
    let other = place.fails(&["disks", "--release", "it's old", "--group", "other"]);
    assert!(other.contains("is not of disk group OTHER"), "{other}");
    place.fails(&words);
    place.follow(&text, "cellar disks ");
    place.done(&words);
    // One that is in use is not taken from who uses it.
    let mut shell = program::command(&place.dir, &["sql", "new", "-c", "select 1", "-f", "-"]);
    let shell = shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut first = [0; 1];
    shell.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let text = place.fails(&["disks", "--release", "it's old", "--yes"]).replace("\n ", "");
    assert!(text.contains("CELLAR-15025") && text.contains("nothing was written"), "{text}");
    drop(shell.stdin.take());
    shell.wait().unwrap();
    place.done(&["sql", "new", "-c", "select 1"]);
}

#[test]
fn what_is_in_a_file_that_is_no_disk_is_given_up_by_what_is_said() {
    let place = place();
    for name in ["it's 1", "it's 2"] {
        std::fs::write(place.dir.join(name), "dear".repeat(16 << 20)).unwrap();
    }
    let words = ["init", DB, "--disks", "it's 1,it's 2", "--au-size", "1M"];
    let text = place.fails(&words);
    place.follow(&text, "truncate ");
    let text = place.fails(&words);
    place.follow(&text, "truncate ");
    place.done(&words);
}
