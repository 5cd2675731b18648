//! `cellar lab`, driven as a person would: runs, kept runs, pages, refusals.

#![expect(clippy::disallowed_methods, reason = "this test watches a process, by the true clock")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::program;

fn command(dir: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellar"));
    command.args(words.split_whitespace()).current_dir(dir).stdin(Stdio::null());
    command.env("XDG_STATE_HOME", dir.join("state"));
    command
}

fn cellar(dir: &Path, words: &str) -> Output {
    command(dir, words).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it told, with every run of blanks as one, so that a fold hides no words.
fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn done(dir: &Path, words: &str) -> String {
    let output = cellar(dir, words);
    assert!(output.status.success(), "{words}: {}{}", out(&output), told(&output));
    out(&output)
}

/// Fails with this code; what it told.
fn fails(dir: &Path, words: &str, code: i32) -> String {
    let output = cellar(dir, words);
    assert_eq!(output.status.code(), Some(code), "{words}: {}{}", out(&output), told(&output));
    assert!(fits(&String::from_utf8_lossy(&output.stderr)));
    told(&output)
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn arm<'a>(run: &'a Value, name: &str) -> &'a Value {
    run["arms"].as_array().unwrap().iter().find(|a| a["name"] == name).unwrap()
}

fn fits(text: &str) -> bool {
    // A path and a command stay in one piece, however long they are.
    let long = |line: &str| {
        line.trim_start().starts_with("cellar ")
            || line.split_whitespace().any(|word| word.chars().count() > 60)
    };
    text.lines().all(|line| line.chars().count() <= 80 || long(line))
}

const SMALL: &str = "lab run multi-disk --size 64M";

#[test]
fn a_model_run_is_the_same_twice_and_is_kept() {
    let dir = scratch();
    let text = done(dir.path(), &format!("{SMALL} --json 1.json --html 1.html"));
    assert!(text.starts_with("A model   No disks were given."), "{text}");
    assert!(text.contains("Kept      run 1.") && fits(&text), "{text}");
    done(dir.path(), &format!("{SMALL} --json 2.json"));
    let [mut one, mut two] = ["1.json", "2.json"].map(|f| json(&dir.path().join(f)));
    for run in [&mut one, &mut two] {
        for head in ["date", "commit", "machine"] {
            assert!(run.as_object_mut().unwrap().remove(head).is_some(), "{head}");
        }
    }
    assert_eq!(one, two, "a model gives the same every time");
    assert!(arm(&one, "serial-1")["ratio"].as_f64().unwrap() < 1.0);
    assert!(arm(&one, "serial")["ratio"].as_f64().unwrap() > 1.9);
    assert_eq!(arm(&one, "serial-1")["published"], serde_json::json!([110.0, 81.0]));
    assert!(arm(&one, "serial")["here"].is_null() && one["finding"].is_string());
    let page = std::fs::read_to_string(dir.path().join("1.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("A model.") && !page.contains("http"));

    let shown = done(dir.path(), "lab show 1");
    assert!(shown.starts_with("Run 1 of multi-disk, 20") && shown.contains("Finding "), "{shown}");
    let method = done(dir.path(), "lab show 1 --method");
    for word in ["Loads ", "Order ", "Caches ", "Noise ", "fitted to serial-1", "Settings "] {
        assert!(method.contains(word), "{word}: {method}");
    }
    assert!(fits(&method) && fits(&shown), "{method}");
    done(dir.path(), "lab show 1 --json again.json");
    let [kept, again] =
        ["1.json", "again.json"].map(|f| std::fs::read(dir.path().join(f)).unwrap());
    assert!(kept == again, "a kept run is what was written");

    let listed = done(dir.path(), "lab list");
    assert!(listed.contains("multi-disk") && listed.contains("fc-lun-2006"), "{listed}");
    let listed: Value = serde_json::from_str(&done(dir.path(), "lab list --format json")).unwrap();
    let numbers: Vec<u64> =
        listed["runs"].as_array().unwrap().iter().map(|r| r["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn a_run_like_another_is_compared_with_it() {
    let dir = scratch();
    done(dir.path(), &format!("{SMALL} --au-size 8M"));
    let same = done(dir.path(), "lab run --like 1");
    assert!(same.contains("run 1: same settings, machine and source"), "{same}");
    assert!(same.contains("64 MB, AU 8 MB") && same.contains("not disting."), "{same}");
    assert!(fits(&same), "{same}");
    let other = done(dir.path(), "lab run multi-disk --like 1 --au-size 1M");
    assert!(other.contains("NOT the same: settings (au_size 1 MB, then 8 MB)"), "{other}");
    assert!(other.contains("  less"), "a larger AU gave the old way some prefetch back: {other}");
}

#[test]
fn scratch_files_fill_the_column_here() {
    let dir = scratch();
    let words = "lab run multi-disk --size 64M --rounds 2 --dir . --json run.json";
    let text = done(dir.path(), words);
    assert!(fits(&text), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!flat.contains("No disks were given") && flat.contains("Ceiling raw"), "{text}");
    assert!(flat.contains("request size: sent 1024 KB, device got"), "{text}");
    let run = json(&dir.path().join("run.json"));
    for arm in run["arms"].as_array().unwrap() {
        for column in ["here", "model"] {
            let figures = arm[column].as_array().unwrap();
            assert!(figures.iter().all(|f| f.as_f64().unwrap() > 0.0), "{arm}");
        }
    }
    assert_eq!(run["noise"]["pairs"], 2);
    let left: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("cellar-lab"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn named_files_are_measured_in_every_layout_and_left_empty() {
    let dir = scratch();
    for name in ["d1", "d2"] {
        let file = std::fs::File::create(dir.path().join(name)).unwrap();
        file.set_len(1 << 30).unwrap();
    }
    let words = "lab run multi-disk --size 64M --rounds 1 --layout one,two,each,same --disks d1,d2";
    let text = done(dir.path(), &format!("{words} --json run.json"));
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("cannot be twice"), "two files on one device: {text}");
    assert!(flat.contains("same spindles behind, striped by the group:"), "{text}");
    assert!(fits(&text), "{text}");
    let run = json(&dir.path().join("run.json"));
    assert_eq!(run["layouts"], serde_json::json!(["1 disk", "2 disks", "each", "same"]));
    assert_eq!(arm(&run, "validate")["here"].as_array().unwrap().len(), 4);
    // Nothing says any more that they were in a group.
    let unnamed = fails(dir.path(), "lab run --like 1", 2);
    assert!(unnamed.contains("name them again, with --disks"), "{unnamed}");
    done(dir.path(), "lab run --like 1 --disks d1,d2");
}

#[test]
fn a_directory_that_is_not_there_is_made_by_the_command_that_is_told() {
    let dir = scratch();
    let words = ["lab", "run", "multi-disk", "--dir", "it's new"];
    let output = Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args(words)
        .current_dir(dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, command) = text.split_once("Next: ").unwrap_or_else(|| panic!("{text}"));
    let made = Command::new("sh").args(["-c", command]).current_dir(dir.path()).status().unwrap();
    assert!(made.success() && dir.path().join("it's new").is_dir(), "{command}");
}

#[test]
fn disks_that_hold_something_are_refused_as_init_refuses_them() {
    let dir = scratch();
    if cfg!(feature = "sql") {
        done(dir.path(), "init db --disks 2 --disk-size 64M --au-size 1M");
        let disks = "db/disks/disk1,db/disks/disk2";
        let refused = fails(dir.path(), &format!("{SMALL} --disks {disks}"), 1);
        assert!(refused.contains("CELLAR-15033") && refused.contains("Cellar group"), "{refused}");
        done(dir.path(), "status db");
    }
    std::fs::write(dir.path().join("letter"), "dear".repeat(1 << 20)).unwrap();
    let refused = fails(dir.path(), &format!("{SMALL} --disks letter --layout one"), 1);
    assert!(refused.contains("letter is not empty") && refused.contains("Next: "), "{refused}");
    std::fs::File::create(dir.path().join("small")).unwrap().set_len(64 << 20).unwrap();
    let refused = fails(dir.path(), &format!("{SMALL} --disks small --layout one"), 1);
    assert!(refused.contains("CELLAR-15036") && refused.contains("MB are needed"), "{refused}");
    let refused = fails(dir.path(), &format!("{SMALL} --disks nosuch,small"), 1);
    assert!(refused.contains("nosuch: no such file or device"), "{refused}");
    assert!(!dir.path().join("state").exists(), "nothing was kept");
}

#[test]
fn wrong_words_are_told_with_those_that_are_right() {
    let dir = scratch();
    for (words, tells) in [
        ("lab run nosuch", "no experiment \"nosuch\"; there are: multi-disk"),
        ("lab run", "which experiment? there are: multi-disk"),
        ("lab run multi-disk --size 63M", "--size 66060288 is not valid; allowed: a multiple"),
        ("lab run multi-disk --size many", "--size many is not valid; allowed: a multiple"),
        ("lab run multi-disk --au-size 3M", "allowed: 1M, 2M, 4M, 8M, 16M, 32M or 64M"),
        ("lab run multi-disk --layout three", "allowed: one, two, each, same"),
        ("lab run multi-disk --preset fast", "allowed: fc-lun-2006"),
        ("lab run multi-disk --table 1M", "allowed: a multiple of 2 MiB, at least 8 MiB"),
        ("lab run smart-scan --order price", "--order price is not valid; allowed: date or none"),
        ("lab run redo-media --archive tape", "allowed: off, same, other, each once"),
        ("lab run redo-media --with query=4", "allowed: none, scan=1 to scan=32"),
        (
            "lab run redo-block-size --model both",
            "--model both is not valid; allowed: page, format",
        ),
        ("lab run multi-disk --dir nosuch", "no such directory"),
        ("lab run multi-disk --erase S1", "--disks"),
        ("lab run multi-disk --html nosuch/x.html", "there is no directory nosuch"),
    ] {
        let text = fails(dir.path(), words, 2);
        assert!(text.contains(tells), "{words}: {text}");
    }
    let file = dir.path().join("d1");
    std::fs::File::create(&file).unwrap().set_len(1 << 30).unwrap();
    let few = fails(dir.path(), &format!("{SMALL} --disks d1"), 2);
    assert!(few.contains("--disks names 1, 2 are needed"), "{few}");
    let few = fails(dir.path(), "lab run redo-media --archive other --disks d1", 2);
    assert!(few.contains("--disks names 1, 3 are needed"), "{few}");
    let twice = fails(dir.path(), &format!("{SMALL} --disks d1,d1"), 2);
    assert!(twice.contains("are one disk"), "{twice}");
    let erase = fails(dir.path(), &format!("{SMALL} --disks d1 --layout one --erase S1"), 2);
    assert!(erase.contains("none of them is a device with a serial number"), "{erase}");
    let missing = fails(dir.path(), "lab show 7", 1);
    assert!(missing.contains("there is no run 7") && missing.contains("none"), "{missing}");
    let help = done(dir.path(), "lab run multi-disk --help");
    assert!(
        help.contains("--layout <LIST>") && help.contains("Examples:") && fits(&help),
        "{help}"
    );
}

#[test]
fn runs_at_once_get_numbers_of_their_own() {
    let dir = scratch();
    let children: Vec<_> = (0..3)
        .map(|_| command(dir.path(), SMALL).stdout(Stdio::piped()).spawn().unwrap())
        .collect();
    let mut numbers: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            let text = out(&output);
            let at = text.rfind("Kept      run ").unwrap() + "Kept      run ".len();
            text[at..].split('.').next().unwrap().to_owned()
        })
        .collect();
    numbers.sort();
    assert_eq!(numbers, ["1", "2", "3"]);
}

#[test]
fn the_modes_of_io_are_measured_and_what_the_kernel_saw_is_told() {
    let dir = scratch();
    let words = "lab run io-modes --size 16M --batches 3 --log-writes 10 --rows 2000 --rounds 2";
    let text = done(dir.path(), &format!("{words} --json run.json"));
    assert!(fits(&text), "{text}");
    let run = json(&dir.path().join("run.json"));
    for setting in ["none", "asynch", "directio", "setall"] {
        for load in ["batch", "log-4096", "job"] {
            let found = arm(&run, &format!("{load}-{setting}"));
            let here = found["here"].as_array().unwrap();
            assert!(here.iter().all(|f| f.as_f64().unwrap() > 0.0), "{found}");
        }
        // What was published is of a million rows.
        assert!(arm(&run, &format!("job-{setting}"))["published"].is_null());
    }
    // Whatever is fast here: buffered writes leave pages behind them, direct ones none.
    let raw = run["raw"].as_array().unwrap();
    let pages = |setting: &str| {
        let rows = raw.iter().filter(|row| row["arm"] == format!("batch-{setting}"));
        let pages = rows.filter_map(|row| row["figures"]["cached_pages"].as_f64());
        pages.fold((f64::MAX, 0.0), |(low, high), n| (n.min(low), n.max(high)))
    };
    assert!(pages("none").0 > 0.0, "{:?}", pages("none"));
    if text.contains("sync, direct (ASYNC_OFF): directio") {
        assert_eq!((pages("directio").1, pages("setall").1), (0.0, 0.0));
    }
    assert!(text.contains("Finding "), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("(of other rows than published)"), "{text}");
}

fn scratch_files(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
    names.filter(|n| n.to_string_lossy().starts_with("cellar-lab")).count()
}

/// Waits until a run has made its scratch files. One that ends before fails the test.
fn until_it_measures(child: &mut Child, dir: &Path) {
    while scratch_files(dir) < 2 {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "the run has ended without scratch files: {ended:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_a_killed_run_left_goes_with_the_next_and_room_is_looked_at_first() {
    let dir = scratch();
    let words = "lab run multi-disk --size 256M --rounds 100 --dir .";
    let mut command = command(dir.path(), words);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_it_measures(&mut child, dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(scratch_files(dir.path()) >= 2, "nobody removes files after a kill -9");
    let refused = fails(dir.path(), "lab run multi-disk --size 1024T --dir .", 1);
    assert!(refused.contains("CELLAR-70111") && refused.contains("Next: "), "{refused}");
    assert_eq!(refused.matches("CELLAR-").count(), 1, "one number: {refused}");
    assert_eq!(scratch_files(dir.path()), 0, "{refused}");
}

#[test]
fn a_run_that_is_stopped_leaves_nothing() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        stopped_by(signal);
    }
}

fn stopped_by(signal: &str) {
    let dir = scratch();
    let words = "lab run multi-disk --size 256M --rounds 100 --dir .";
    let mut command = program::hears_hangup(&command(dir.path(), words));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_it_measures(&mut child, dir.path());
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("nothing was kept"), "{}", told(&output));
    assert_eq!(scratch_files(dir.path()), 0);
}

#[test]
fn without_a_place_to_keep_it_nothing_is_computed_unless_a_file_is_named() {
    let dir = scratch();
    let without_home = |words: &str| {
        let mut command = command(dir.path(), words);
        command.env_remove("XDG_STATE_HOME").env_remove("HOME").output().unwrap()
    };
    let refused = without_home(SMALL);
    assert_eq!(refused.status.code(), Some(1));
    assert!(out(&refused).is_empty(), "nothing was computed: {}", out(&refused));
    assert!(told(&refused).contains("neither HOME nor XDG_STATE_HOME"), "{}", told(&refused));
    let kept = without_home(&format!("{SMALL} --json run.json"));
    assert!(kept.status.success(), "{}", told(&kept));
    assert!(told(&kept).contains("this run is not saved"), "{}", told(&kept));
    assert!(dir.path().join("run.json").exists());
}
