//! Output for people: the truth about the state, texts that fit 80 columns, errors that say what to do,
//! and nothing left behind.

#![cfg(feature = "sql")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

struct Ran {
    code: i32,
    out: String,
    told: String,
}

impl Ran {
    /// Both outputs with every run of blanks as one, so that a fold hides no words.
    fn flat(&self) -> String {
        let both = format!("{}\n{}", self.out, self.told);
        both.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn fits(&self) -> bool {
        self.out.lines().chain(self.told.lines()).all(|l| l.chars().count() <= 80)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}: {} {}", self.out, self.told))
    }
}

fn cellar(dir: &Path, words: &str) -> Ran {
    run(dir, &words.split_whitespace().collect::<Vec<_>>())
}

fn run(dir: &Path, words: &[&str]) -> Ran {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args(words)
        .current_dir(dir)
        .env_remove("CELLAR_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        told: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn done(dir: &Path, words: &str) -> String {
    let ran = cellar(dir, words);
    assert_eq!(ran.code, 0, "{words}: {}{}", ran.out, ran.told);
    ran.out
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn small() -> tempfile::TempDir {
    let dir = scratch();
    done(dir.path(), "init db --disk-size 64M --au-size 1M");
    std::fs::write(dir.path().join("t.csv"), "a,b\n1,x\n2,\n").unwrap();
    done(dir.path(), "load db t.csv --parquet");
    dir
}

fn status(dir: &Path, code: i32) -> Value {
    let ran = cellar(dir, "status db --format json");
    assert_eq!(ran.code, code, "{}{}", ran.out, ran.told);
    ran.json()[0].clone()
}

/// A process that has the database open, until it is killed.
fn holder(dir: &Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cellar"))
        .args(["asm", "db", "iostat", "1"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..200 {
        if dir.join("db/cellar.sock").exists() {
            return child;
        }
        Command::new("sleep").arg("0.05").status().unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("nobody answers");
}

#[test]
fn every_help_has_examples_and_fits() {
    let dir = scratch();
    let commands =
        ["", "demo", "disks", "disktest", "init", "load", "sql", "status", "asm", "validate"];
    let of_asm = "lsdg lsdsk lsct lsof lsattr setattr lstmpl mktmpl chtmpl rmtmpl lsop mkdg dropdg \
                  mount umount rebal offline online replace \
                  scrub migrate iostat ls du find mkdir rm cp md_backup md_restore";
    let of_asm = of_asm.split_whitespace();
    let words = commands.map(|c| format!("{c} --help"));
    let words = words.into_iter().chain(of_asm.map(|c| format!("asm {c} --help")));
    for words in words.chain(["inspect --help".to_owned(), "rescue --help".to_owned()]) {
        let ran = cellar(dir.path(), &words);
        assert_eq!(ran.code, 0, "{words}: {}", ran.told);
        assert!(ran.out.contains("Example") && ran.out.contains("\n  cellar "), "{}", ran.out);
        assert!(ran.fits(), "{words}: {}", ran.out);
    }
    for words in ["", "asm", "nosuch", "init"] {
        let ran = cellar(dir.path(), words);
        assert_eq!(ran.code, 2, "{words}");
        assert!(ran.fits() && ran.told.contains("cellar"), "{words}: {}", ran.told);
    }
}

#[test]
fn what_the_status_says_may_be_lost_is_what_may_be_lost() {
    let dir = small();
    let whole = status(dir.path(), 0);
    assert_eq!(whole["state"], "WHOLE");
    assert_eq!(whole["may_be_lost"].as_array().unwrap().len(), 4);
    std::fs::remove_file(dir.path().join("db/disks/disk2")).unwrap();
    let away = cellar(dir.path(), "status db");
    assert_eq!(away.code, 1);
    assert!(away.flat().contains("bring DATA_0001 back before anything"), "{}", away.out);
    // Who only looks leaves no disk out; whoever may write does, for good.
    done(dir.path(), "asm db lsdg");
    assert!(cellar(dir.path(), "status db").flat().contains("bring DATA_0001 back"));
    done(dir.path(), "asm db mkdir +DATA/d");
    let degraded = status(dir.path(), 1);
    assert_eq!(degraded["state"], "DEGRADED");
    let names = |key: &str| -> Vec<String> {
        let names = degraded[key].as_array().unwrap().iter();
        names.map(|n| n.as_str().unwrap().to_owned()).collect()
    };
    let (harmless, critical) = (names("may_be_lost"), names("critical"));
    assert!(!critical.is_empty(), "the catalog has lost a copy: {degraded}");
    let shown = cellar(dir.path(), "asm db lsdg");
    assert!(!shown.flat().contains("any one"), "{}", shown.out);
    assert!(shown.flat().contains("Survives = nothing"), "{}", shown.out);
    for disk in ["1", "3", "4"] {
        let name = format!("DATA_000{}", disk.parse::<u8>().unwrap() - 1);
        let path = dir.path().join("db/disks/disk").to_string_lossy().into_owned() + disk;
        std::fs::rename(&path, dir.path().join("away")).unwrap();
        let without = status(dir.path(), 1);
        let opens = without["state"] == "DEGRADED";
        assert_eq!(opens, harmless.contains(&name), "{name}: {without}");
        if critical.contains(&name) {
            assert!(!opens, "{name}: {without}");
        }
        std::fs::rename(dir.path().join("away"), &path).unwrap();
    }
}

#[test]
fn two_disks_do_not_promise_what_they_cannot_keep() {
    let dir = scratch();
    let made = done(dir.path(), "init db --disks 2 --disk-size 64M");
    assert!(made.contains("while the database is open"), "{made}");
    assert_eq!(status(dir.path(), 0)["may_be_lost"].as_array().unwrap().len(), 0);
    std::fs::remove_file(dir.path().join("db/disks/disk2")).unwrap();
    let gone = cellar(dir.path(), "status db");
    assert_eq!(gone.code, 1);
    assert!(gone.out.starts_with("DATA     NOT MOUNTED  "), "{}", gone.out);
    let command = "cellar sql db -c 'alter diskgroup data mount force'";
    assert!(gone.out.contains(command) && gone.flat().contains("alone is lost"), "{}", gone.out);
    assert!(gone.out.contains("\naction   ") && gone.fits(), "{}", gone.out);
    let sql = cellar(dir.path(), "sql db -c x");
    assert!(sql.told.contains("CELLAR-15063") && sql.told.contains(command), "{}", sql.told);
    assert!(sql.fits(), "{}", sql.told);
}

/// Runs `cellar sql db` with these statements, blanks and all.
fn sql(dir: &Path, statements: &[&str]) -> Ran {
    let words = statements.iter().flat_map(|s| ["-c", s]);
    run(dir, &["sql", "db", "--format", "csv"].into_iter().chain(words).collect::<Vec<_>>())
}

/// A database of two disks with a table, whose second disk is away.
fn half_of_two() -> tempfile::TempDir {
    let dir = scratch();
    done(dir.path(), "init db --disks 2 --disk-size 64M --au-size 1M");
    std::fs::write(dir.path().join("t.csv"), "a,b\n1,x\n2,\n").unwrap();
    done(dir.path(), "load db t.csv --parquet");
    std::fs::rename(dir.path().join("db/disks/disk2"), dir.path().join("away")).unwrap();
    dir
}

const BY_FORCE: &str = "alter diskgroup data mount force";

#[test]
fn half_of_a_pair_opens_by_force_and_then_without() {
    let dir = half_of_two();
    let count = "select count(*) as n from t";
    // Only the statement itself, and first; and for this group.
    for statements in [
        &[count, BY_FORCE][..],
        &["alter diskgroup data mount"],
        &["alter diskgroup other mount force"],
        &["alter diskgroup all mount force"],
    ] {
        let refused = sql(dir.path(), statements);
        assert!(refused.code == 1 && refused.told.contains("CELLAR-15063"), "{}", refused.told);
    }
    let forced = sql(dir.path(), &[BY_FORCE, count]);
    assert_eq!((forced.code, forced.out.as_str()), (0, "n\n2\n"), "{}", forced.told);
    assert!(forced.flat().contains("continues without DATA_0001"), "{}", forced.told);
    let degraded = status(dir.path(), 1);
    assert_eq!(degraded["state"], "DEGRADED", "{degraded}");
    assert!(degraded["action"].as_str().unwrap().contains("DATA_0001"), "{degraded}");
    assert_eq!(sql(dir.path(), &[count]).out, "n\n2\n");
    // It is there now, so there is nothing to force.
    let again = sql(dir.path(), &[BY_FORCE]);
    assert!(again.code == 1 && again.told.contains("CELLAR-15013"), "{}", again.told);
    // The other half knows less now; with it, what was done since still holds.
    done(dir.path(), "asm db mkdir +DATA/since");
    std::fs::rename(dir.path().join("away"), dir.path().join("db/disks/disk2")).unwrap();
    assert!(done(dir.path(), "asm db ls +DATA").contains("since"));
    assert_eq!(status(dir.path(), 1)["state"], "DEGRADED");
}

#[test]
fn force_is_refused_where_it_is_not_needed_or_not_enough() {
    let dir = half_of_two();
    std::fs::rename(dir.path().join("away"), dir.path().join("db/disks/disk2")).unwrap();
    let whole = sql(dir.path(), &[BY_FORCE]);
    assert!(whole.code == 1 && whole.told.contains("CELLAR-15013"), "{}", whole.told);
    assert_eq!(status(dir.path(), 0)["state"], "WHOLE");
    // Files of which no copy is here are not given up by force.
    let small = small();
    for disk in ["disk1", "disk2", "disk3"] {
        std::fs::remove_file(small.path().join("db/disks").join(disk)).unwrap();
    }
    let lost = sql(small.path(), &[BY_FORCE]);
    assert!(lost.code == 1 && lost.told.contains("CELLAR-15"), "{}", lost.told);
    assert!(lost.told.contains("\nNext: ") && lost.fits(), "{}", lost.told);
}

#[test]
fn a_status_that_cannot_open_is_json_all_the_same() {
    let dir = small();
    for disk in ["disk1", "disk2", "disk3"] {
        std::fs::remove_file(dir.path().join("db/disks").join(disk)).unwrap();
    }
    let gone = status(dir.path(), 1);
    assert_eq!(gone["group"], "DATA");
    assert_eq!(gone["state"], "NOT MOUNTED");
    assert!(gone["error"].as_str().unwrap().contains("CELLAR-15"), "{gone}");
    assert!(gone["action"].is_string(), "{gone}");
    std::fs::remove_file(dir.path().join("db/disks/disk4")).unwrap();
    let none = status(dir.path(), 1);
    assert!(none["group"].is_null() && none["error"].is_string(), "{none}");
    let nowhere = cellar(dir.path(), "status nowhere --format json");
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.json()[0]["error"].as_str().unwrap().contains("CELLAR-70103"));
    assert_eq!(cellar(dir.path(), "status --format json").code, 2);
}

#[test]
fn room_is_the_same_whoever_is_asked() {
    let dir = small();
    let same = |code: i32| {
        let status = status(dir.path(), code)["writable_bytes"].as_u64().unwrap() >> 20;
        let rows = cellar(dir.path(), "asm db lsdg --format json").json();
        assert_eq!(rows[0]["writable_mb"].as_u64(), Some(status));
        let words = format!("{status} MB can be written now");
        for command in ["status db", "asm db lsdg"] {
            let shown = cellar(dir.path(), command).flat();
            assert!(shown.contains(&words), "{command}: no {words} in {shown}");
        }
        status
    };
    let whole = same(0);
    std::fs::remove_file(dir.path().join("db/disks/disk4")).unwrap();
    // Those who look leave no disk out, whoever writes does; the figure is one.
    let looked = same(1);
    assert!(looked < whole, "{looked} {whole}");
    done(dir.path(), "asm db mkdir +DATA/d");
    assert_eq!(same(1), looked);
}

#[test]
fn without_room_it_is_not_well() {
    let dir = scratch();
    done(dir.path(), "init db --disks 2 --disk-size 32M --au-size 1M");
    let room = status(dir.path(), 0)["writable_bytes"].as_u64().unwrap();
    let file = std::fs::File::create(dir.path().join("big")).unwrap();
    file.set_len(room).unwrap();
    done(dir.path(), "asm db cp big +DATA/big");
    let full = status(dir.path(), 1);
    assert_eq!((&full["state"], &full["writable_bytes"]), (&"FULL".into(), &0.into()), "{full}");
    assert!(full["action"].as_str().unwrap().contains("asm db rm"), "{full}");
    done(dir.path(), "asm db rm +DATA/big");
    assert_eq!(status(dir.path(), 0)["state"], "WHOLE");
}

#[test]
fn known_damage_is_not_well() {
    let dir = small();
    // Two blocks, each wrong in another copy: whichever is read first, one is found wrong.
    let blocks = ["first block. ", "second block."].map(|b| b.repeat(4096 / 13 + 1));
    let data: String = blocks.iter().map(|b| &b[..4096]).collect();
    std::fs::write(dir.path().join("data"), &data).unwrap();
    done(dir.path(), "asm db cp data +DATA/data");
    let mut wrong = 0;
    for disk in 1..=4 {
        let path = dir.path().join(format!("db/disks/disk{disk}"));
        let mut bytes = std::fs::read(&path).unwrap();
        let Some(at) =
            bytes.windows(4096).step_by(4096).position(|w| w == &data.as_bytes()[..4096])
        else {
            continue;
        };
        let at = bytes.chunks(4096).take(at).map(<[u8]>::len).sum::<usize>();
        bytes[at + wrong * 4096] ^= 1;
        wrong += 1;
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(wrong, 2, "two copies");
    // Damage that one process found is known to the next, until everything is read and well.
    let found = cellar(dir.path(), "validate db");
    assert_eq!(found.code, 1, "{}", found.out);
    assert!(found.out.contains("Next:") && found.fits(), "{}", found.out);
    assert!(found.flat().contains("cellar asm db scrub --repair --wait"), "{}", found.out);
    let told = cellar(dir.path(), "status db");
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(told.out.contains("DAMAGED  validate found") && told.fits(), "{}", told.out);
    done(dir.path(), "validate db --file +DATA/t.parquet");
    assert_eq!(status(dir.path(), 1)["checked"]["bad"]["checksums_wrong"], 2);
    let mut holder = holder(dir.path());
    done(dir.path(), "asm db cp +DATA/data back");
    assert_eq!(std::fs::read_to_string(dir.path().join("back")).unwrap(), data);
    let known = status(dir.path(), 1);
    assert_eq!(known["state"], "DAMAGED", "{known}");
    assert!(known["checksum_errors"].as_u64().unwrap() > 0, "{known}");
    assert!(known["action"].as_str().unwrap().contains("cellar validate db"), "{known}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    // Written anew it is well, which is known once it was read.
    done(dir.path(), "asm db cp back +DATA/data");
    assert_eq!(status(dir.path(), 1)["state"], "DAMAGED");
    done(dir.path(), "validate db");
    let well = cellar(dir.path(), "status db");
    assert!(well.code == 0 && well.out.contains("ago, none bad"), "{}", well.out);
}

#[test]
fn known_damage_stays_known_while_its_disk_is_away() {
    let dir = small();
    let data = "some block. ".repeat(4096 / 12 + 1)[..4096].to_owned();
    std::fs::write(dir.path().join("data"), &data).unwrap();
    done(dir.path(), "asm db cp data +DATA/data");
    // One copy of two, so that a good one is left.
    let damaged =
        (1..=4).map(|disk| dir.path().join(format!("db/disks/disk{disk}"))).find(|path| {
            let mut bytes = std::fs::read(path).unwrap();
            let at = bytes.chunks(4096).position(|block| block == data.as_bytes());
            at.is_some_and(|at| {
                bytes[at * 4096] ^= 1;
                std::fs::write(path, bytes).is_ok()
            })
        });
    let damaged = damaged.expect("a disk has a copy");
    let found = cellar(dir.path(), "validate db");
    assert_eq!(found.code, 1, "{}", found.out);
    let wrong = |state: &Value| state["checked"]["bad"]["checksums_wrong"].clone();
    assert_eq!(wrong(&status(dir.path(), 1)), 1);
    // Without that disk nothing bad is left to find; nobody knows that it is well.
    let away = dir.path().join("away");
    std::fs::rename(&damaged, &away).unwrap();
    let rest = done(dir.path(), "validate db");
    assert!(!rest.contains("every copy") && rest.contains("not in use: DATA_000"), "{rest}");
    assert_eq!(wrong(&status(dir.path(), 1)), 1);
    let told = cellar(dir.path(), "status db");
    assert!(told.flat().contains("validate found") && told.fits(), "{}", told.out);
    assert!(told.flat().contains("not the copies that were missing"), "{}", told.out);
    assert!(!told.flat().contains("every copy"), "{}", told.out);
    // It is back and mended: all is read, and well.
    std::fs::rename(&away, &damaged).unwrap();
    done(dir.path(), "asm db cp data +DATA/data");
    done(dir.path(), "validate db");
    let well = cellar(dir.path(), "status db");
    assert!(well.code == 0 && well.out.contains("every copy read"), "{}", well.out);
}

#[test]
fn a_first_row_is_not_taken_for_names() {
    let dir = small();
    std::fs::write(dir.path().join("r.csv"), "1,ann\n2,bob\n3,eve\n").unwrap();
    let refused = cellar(dir.path(), "load db r.csv");
    assert_eq!(refused.code, 1, "{}", refused.told);
    assert!(refused.flat().contains("names of columns: 1,ann"), "{}", refused.told);
    assert!(refused.flat().contains("--no-header") && refused.fits(), "{}", refused.told);
    done(dir.path(), "load db r.csv --no-header");
    assert_eq!(sql(dir.path(), &["select count(*) as n from r"]).out, "n\n3\n");
    done(dir.path(), "load db r.csv --header --table h");
    assert_eq!(sql(dir.path(), &["select count(*) as n from h"]).out, "n\n2\n");
    let table = "create external table c stored as csv location 'r.csv'";
    let refused = sql(dir.path(), &[table]);
    assert!(
        refused.code == 1 && refused.flat().contains("'format.has_header'"),
        "{}",
        refused.told
    );
    let table = format!("{table} options ('format.has_header' 'false')");
    let rows = sql(dir.path(), &[&table, "select count(*) as n from c"]);
    assert_eq!(rows.out, "n\n3\n", "{}", rows.told);
}

#[test]
fn what_is_offered_names_the_directory_that_was_given() {
    let dir = small();
    for (words, code, text) in [
        (&["load", "db", "t.csv"][..], 1, "cellar sql db -c 'drop table t'"),
        (&["load", "db"], 2, "cellar load db FILE, or cellar load db --tpch 1"),
        (&["load"], 2, "cellar load DIR --tpch 1"),
        (&["init", "--disks", "abc"], 2, "cellar init DIR"),
        (&["init", "x", "--disks", "abc"], 2, "--disks abc is one disk"),
        (
            &["sql", "db", "-c", "create external table x stored as csv location '+DATA/x'"],
            1,
            "cellar asm db ls +DATA",
        ),
    ] {
        let ran = run(dir.path(), words);
        assert_eq!(ran.code, code, "{words:?}: {}", ran.told);
        assert!(ran.flat().contains(text) && ran.fits(), "{words:?}: {}", ran.told);
    }
}

#[test]
fn an_answer_without_rows_is_not_wider_than_the_page() {
    let dir = small();
    for (statement, out) in [
        (
            "select * from v$asm_operation",
            "group_number  operation  pass  state  power  actual  sofar  est_work  est_rate\n\
             bytes_left  est_minutes  error_code\n(0 rows)\n",
        ),
        ("select a, b from t where a > 9", "a  b\n-  -\n(0 rows)\n"),
    ] {
        let ran = run(dir.path(), &["sql", "db", "-c", statement]);
        assert_eq!((ran.code, ran.out.as_str()), (0, out), "{}", ran.told);
    }
}

#[test]
fn statements_of_standard_input_run_as_they_come() {
    use std::io::{BufRead, BufReader, Write};
    let dir = small();
    let start = |extra: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_cellar"))
            .args(["sql", "db", "--format", "csv"])
            .args(extra)
            .current_dir(dir.path())
            .env_remove("CELLAR_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut first = start(&["-c", "select 1 as a", "-f", "-"]);
    let mut to_first = first.stdin.take().unwrap();
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!((next(), next()), ("a".into(), "1".into()), "before anything is typed");
    to_first.write_all(b"select 2\n as b; select ';' as c; /* open\n").unwrap();
    assert_eq!([next(), next(), next(), next()], ["b", "2", "c", ";"]);
    // The database is held between them: another process asks this one.
    assert!(dir.path().join("db/cellar.sock").exists());
    let mut second = start(&[]);
    second.stdin.take().unwrap().write_all(b"select 3 as d;\n\nselect nosuch;select 4").unwrap();
    let second = second.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&second.stdout), "d\n3\n");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && told.contains("begins in line 3"), "{told}");
    to_first.write_all(b"*/ select 5 as e").unwrap();
    drop(to_first);
    assert_eq!((next(), next()), ("e".into(), "5".into()));
    assert!(first.wait().unwrap().success());
}

#[test]
fn statements_of_a_pipe_run_whoever_has_the_database() {
    use std::io::Write;
    let dir = small();
    let through_pipe = |text: &str, file: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cellar"))
            .args(["sql", "db", "--format", "csv", "-f", file])
            .current_dir(dir.path())
            .env_remove("CELLAR_DIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), told)
    };
    let all_ran = |who: &str| {
        for file in ["/dev/stdin", "/dev/fd/0"] {
            let text = "-- a report\nselect 1 as a;\nselect count(*) as n from t";
            let (code, out, told) = through_pipe(text, file);
            assert_eq!((code, out.as_str()), (Some(0), "a\n1\nn\n2\n"), "{who} {file}: {told}");
            let (code, out, told) = through_pipe("select 1 as a;\nselect nope;\n", file);
            assert_eq!((code, out.as_str()), (Some(1), "a\n1\n"), "{who} {file}: {told}");
            assert!(told.contains("begins in line 2"), "{who} {file}: {told}");
        }
        let none = cellar(dir.path(), "sql db -f nosuch.sql");
        assert_eq!(none.code, 1, "{who}: {}", none.told);
        assert!(none.flat().contains("CELLAR-27037: cannot read \"nosuch.sql\""), "{}", none.told);
        assert!(none.told.contains("Next: "), "{}", none.told);
    };
    all_ran("alone");
    let mut holder = holder(dir.path());
    all_ran("through the process that has it");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn wrong_words_of_init_make_nothing() {
    let dir = scratch();
    for (words, text) in [
        ("--disk-size 10", "too small: with --au-size 4M at least 25M"),
        ("--disk-size 1M", "at least 25M"),
        ("--disk-size 64M --au-size 16M", "at least 73M"),
        ("--disk-size 33554433", "no multiple of 4096"),
        ("--disk-size x", "is no size"),
        ("--au-size 3M", "allowed: 1M, 2M, 4M, 8M, 16M, 32M, 64M"),
        ("--au-size 128M", "allowed: 1M"),
        ("--sector-size 777", "allowed: 512, 4096"),
        ("--sector-size x", "allowed: 512, 4096"),
        ("--name 1a", "starts with a letter"),
        ("--name a-b", "digits, _, $ and #"),
        ("--redundancy two", "allowed: external, normal, high"),
        ("--redundancy high --disks 2", "needs 3 disks"),
        ("--disks 1", "--redundancy external"),
        ("--disks 0", "1 to 64"),
        ("--disks ,", "names no disk"),
        ("--erase S1", "--erase S1"),
    ] {
        let ran = cellar(dir.path(), &format!("init x {words}"));
        assert_eq!(ran.code, 2, "{words}: {}", ran.flat());
        assert!(ran.flat().contains(text), "{words}: {}", ran.flat());
        assert!(ran.fits(), "{words}: {}", ran.told);
        assert!(!dir.path().join("x").exists(), "{words}");
    }
}

#[test]
fn a_disk_that_will_not_do_is_told_and_nothing_is_left_behind() {
    let dir = scratch();
    for name in ["f1", "f2", "small", "full"] {
        let file = std::fs::File::create(dir.path().join(name)).unwrap();
        file.set_len(if name == "small" { 1 << 20 } else { 64 << 20 }).unwrap();
    }
    std::os::unix::fs::symlink("f1", dir.path().join("link")).unwrap();
    std::fs::write(dir.path().join("full"), "somebody's".repeat(4 << 20)).unwrap();
    done(dir.path(), "init old --disks f2 --redundancy external --name old");
    for (disks, code, text) in [
        ("f1,f1", 2, "are one disk"),
        ("f1,./f1", 2, "are one disk"),
        ("f1,link", 2, "are one disk"),
        ("f1,nosuch", 1, "nosuch: no such file or device"),
        ("f1,/dev/null", 1, "neither a regular file nor a block device"),
        ("f1,old", 1, "old is a directory"),
        ("f1,small", 1, "at least 25M are needed"),
        ("f1,full", 1, "if nobody needs its content, in a shell: truncate -s 0"),
        ("f1,f2", 1, "it is OLD_0000 of disk group OLD"),
    ] {
        let ran = cellar(dir.path(), &format!("init x --disks {disks}"));
        assert_eq!(ran.code, code, "{disks}: {}", ran.flat());
        assert!(ran.flat().contains(text), "{disks}: {}", ran.flat());
        for never in ["FORCE", "0 bytes at 0", "ERASE"] {
            assert!(!ran.flat().contains(never), "{disks}: {}", ran.flat());
        }
        assert!(code == 2 || ran.told.contains("\nNext: "), "{disks}: {}", ran.told);
        assert!(!dir.path().join("x").exists(), "{disks}");
    }
    for (words, text) in [("f1", "exists already"), ("no/x", "mkdir -p no")] {
        let ran = cellar(dir.path(), &format!("init {words}"));
        assert_eq!(ran.code, 1, "{words}");
        assert!(ran.flat().contains(text), "{words}: {}", ran.flat());
    }
    let made = cellar(dir.path(), "init x --disks f1 --redundancy external");
    assert!(made.code == 0 && made.fits(), "f1 was left as it was: {}", made.flat());
}

#[test]
fn inspect_answers_whatever_it_is_given() {
    let dir = small();
    let disk = std::fs::read(dir.path().join("db/disks/disk1")).unwrap();
    let noise: Vec<u8> =
        (0u32..40 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut torn = disk.clone();
    // The first label, in its middle.
    torn[100] ^= 0xff;
    let files: [(&str, &[u8]); 6] = [
        ("empty", &[]),
        ("noise", &noise),
        ("few", &noise[..1000]),
        ("short", &disk[..5000]),
        ("cut", &disk[..30_000_001]),
        ("torn", &torn),
    ];
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    for (path, code, text) in [
        ("db/disks/disk1", 0, "DATA_0000 of group DATA"),
        ("empty", 1, "it is empty"),
        ("noise", 1, "no label of Cellar can be read"),
        ("few", 1, "no label of Cellar can be read"),
        ("short", 1, "it is cut off: DATA_0000 of group DATA"),
        ("cut", 1, "it is cut off"),
        ("torn", 1, "damaged: label at 0"),
        ("nosuch", 1, "no such file or device"),
        ("db", 1, "ls db/disks"),
        ("/dev/null", 1, "neither"),
    ] {
        let ran = cellar(dir.path(), &format!("inspect {path}"));
        assert_eq!(ran.code, code, "{path}: {}", ran.flat());
        assert!(ran.flat().contains(text), "{path}: {}", ran.flat());
        assert!(ran.fits(), "{path}: {}", ran.flat());
        let next = ran.flat().contains("Next");
        assert!(code == 0 || next, "{path}: {}", ran.flat());
    }
    let json = cellar(dir.path(), "inspect noise --json");
    assert_eq!(json.code, 1);
    assert_eq!(json.json()["well"], false);
    // A store of rows, by the second copy of its header alone, and that is damaged.
    let mut store = vec![0; 65_536];
    store[8192..8196].copy_from_slice(b"CLHS");
    std::fs::write(dir.path().join("rows"), store).unwrap();
    for (words, code, text) in [
        ("rows", 1, "no copy of the header is whole"),
        ("rows --page 1", 1, "damaged: header in page 1"),
        ("rows --page 7", 1, "page 7: never written"),
        ("rows --page 8", 2, "the store has 8 pages"),
        ("db/disks/disk1 --page 1", 2, "db/disks/disk1 is none"),
    ] {
        let ran = cellar(dir.path(), &format!("inspect {words}"));
        assert!(ran.code == code && ran.flat().contains(text), "{words}: {}", ran.flat());
        assert!(ran.fits(), "{words}: {}", ran.flat());
    }
}

#[test]
fn cp_says_what_is_a_directory() {
    let dir = small();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    done(dir.path(), "asm db mkdir +DATA/d");
    for (words, text) in [
        ("+DATA/d +DATA/e", "is a directory; cp copies one file at a time"),
        ("+DATA/d out", "is a directory; cp copies one file at a time"),
        ("in +DATA/e", "is a directory; cp copies one file at a time"),
        ("t.csv nosuch/", "there is no directory nosuch/"),
        ("t.csv +DATA/nosuch/", "there is no directory +DATA/nosuch"),
        ("+DATA/d/* in", "not a pattern"),
    ] {
        let ran = cellar(dir.path(), &format!("asm db cp {words}"));
        assert_ne!(ran.code, 0, "{words}");
        assert!(ran.flat().contains(text), "{words}: {}", ran.flat());
        assert!(ran.flat().contains("Next: "), "{words}: {}", ran.flat());
    }
    done(dir.path(), "asm db cp t.csv +DATA/d/");
    done(dir.path(), "asm db cp +DATA/d/t.csv in");
    assert!(dir.path().join("in/t.csv").exists());
}

#[test]
fn what_is_shown_often_fits_eighty_columns() {
    let dir = small();
    for words in ["status db", "asm db lsdg", "asm db lsdsk -k", "asm db lsdsk -p", "asm db lsop"] {
        let ran = cellar(dir.path(), words);
        assert!(ran.fits(), "{words}: {}", ran.out);
    }
    std::fs::remove_file(dir.path().join("db/disks/disk1")).unwrap();
    for words in ["status db", "asm db lsdg", "validate db", "asm db lsdsk -k"] {
        let ran = cellar(dir.path(), words);
        assert!(ran.fits(), "{words}: {}", ran.out);
    }
}
