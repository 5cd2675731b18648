//! `io-modes` on a small scratch file: what is in force, and what the kernel showed.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};

use cellar_io::real::{Runtime, RuntimeOptions};
use cellar_lab::experiments::find;
use cellar_lab::{Control, Head, Invocation, LabError, Raw, Request, Run};

/// Where the child below puts its run.
const CHILD: &str = "CELLAR_IO_MODES_CHILD";

fn run(dir: &Path, options: &[(&str, &str)]) -> Result<Run, LabError> {
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let options = options.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let asked = Invocation { options, dir: Some(dir.to_owned()), ..Invocation::default() };
    let progress = &|_: &str, done: u64, all: u64| assert!(done <= all);
    let control = Control::new(progress, Arc::default());
    let request =
        Request { asked, head: Head::default(), control, disks: Vec::new(), runtime: &runtime };
    find("io-modes").unwrap().run(&request)
}

/// What the test below starts: strace and the counters see a whole process.
#[test]
#[ignore = "started by the test beside it"]
fn child() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let dir = Path::new(&dir);
    let scratch = dir.join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let options = [
        ("size", "16M"),
        ("batches", "4"),
        ("log-writes", "20"),
        ("rows", "10000"),
        ("rounds", "2"),
    ];
    let run = run(&scratch, &options).unwrap();
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left behind");
    std::fs::write(dir.join("run.json"), run.to_json().unwrap()).unwrap();
}

static MEASURED: LazyLock<Run> =
    LazyLock::new(|| measured_with(&std::env::var("PATH").unwrap_or_default()));

fn measured_with(programs: &str) -> Run {
    // On a real file system: /tmp may be in memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "io_modes::child", "--ignored", "--nocapture"])
        .env(CHILD, dir.path())
        .env("PATH", programs)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Run::from_json(&std::fs::read_to_string(dir.path().join("run.json")).unwrap()).unwrap()
}

fn rows<'a>(run: &'a Run, arm: &'a str, layout: &'a str) -> impl Iterator<Item = &'a Raw> {
    run.raw.iter().filter(move |r| r.arm == arm && r.layout == layout)
}

fn figure(row: &Raw, name: &str) -> f64 {
    *row.figures.get(name).unwrap_or_else(|| panic!("{name} of {row:?}"))
}

#[test]
fn every_setting_is_in_force_and_leaves_in_the_cache_what_it_should() {
    let run = &*MEASURED;
    let text = run.to_text();
    println!("{text}");
    assert!(crate::fits(&text), "{text}");
    assert!(!run.is_model() && run.arms.iter().all(|arm| arm.model.is_none()));
    for arm in &run.arms {
        let here = arm.here.as_ref().unwrap();
        assert!(here[0].is_some_and(|f| f > 0.0), "{arm:?}");
        assert_eq!(here[1].is_some(), !arm.name.contains("libaio"), "{arm:?}");
        assert_eq!(arm.ratio.is_none(), arm.name.ends_with("-none"), "{arm:?}");
        assert!(arm.published.is_none(), "of another number of rows nothing was published");
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "of other rows than published",
        "not distinguishable",
        "Finding The I/O setting",
        "Batches of 8 KB: ",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let sync_is = |setting: &str| ["none", "directio"].contains(&setting);
    let direct_is = |setting: &str| ["directio", "setall"].contains(&setting);
    for setting in ["none", "asynch", "directio", "setall"] {
        for layout in ["true", "false"] {
            let arm = format!("batch-{setting}");
            for row in rows(run, &arm, layout) {
                let force = &row.notes["in force"];
                // Where the file system or the container refuses something, that is said.
                let refused = force.contains("refuse") || force.contains("tmpfs");
                let sync = sync_is(setting) || layout == "false";
                assert!(
                    refused || force.starts_with("sync") == sync,
                    "{setting} {layout}: {force}"
                );
                assert!(refused || force.contains("direct") == direct_is(setting), "{force}");
                assert_eq!(figure(row, "writes"), 4.0 * 64.0);
                assert!(figure(row, "durable_ns") > figure(row, "sent_ns"));
                let pages = figure(row, "cached_pages");
                if force.contains("direct") {
                    assert_eq!(pages, 0.0, "{setting}: direct I/O leaves nothing in the cache");
                } else {
                    assert!(pages >= 4.0 * 64.0 * 2.0, "{setting}: {pages} pages");
                    assert_eq!(row.figures.get("dirty_pages").copied().unwrap_or(0.0), 0.0);
                }
            }
        }
    }
}

#[test]
fn strace_names_the_calls_that_a_setting_makes() {
    let run = &*MEASURED;
    let untraced = run.remarks.iter().find(|(_, text)| text.starts_with("nothing was seen"));
    if let Some((_, why)) = untraced {
        eprintln!("not run: {why}");
        return;
    }
    let count = |arm: &str, call: &str| {
        let row = rows(run, arm, "true").next().unwrap();
        row.figures.get(&format!("strace_{call}")).copied().unwrap_or(0.0)
    };
    for (arm, writes) in [("batch-none", 256.0), ("batch-directio", 256.0), ("log-4096-none", 64.0)]
    {
        assert_eq!(count(arm, "writes"), writes);
        assert_eq!(count(arm, "pwritev") + count(arm, "pwritev2"), writes, "{arm}");
        assert_eq!(count(arm, "io_uring_enter") + count(arm, "io_submit"), 0.0, "{arm}");
    }
    assert_eq!(count("batch-none", "fdatasync"), 4.0);
    for arm in ["batch-asynch", "batch-setall", "batch-setall-libaio", "log-4096-setall"] {
        assert_eq!(count(arm, "pwritev") + count(arm, "pwritev2"), 0.0, "{arm}");
        assert!(count(arm, "io_uring_enter") + count(arm, "io_submit") > 0.0, "{arm}");
    }
    assert!(count("batch-setall-libaio", "io_submit") > 0.0);
}

#[test]
fn without_strace_that_is_said_and_the_rest_measured() {
    let run = measured_with("/nonexistent");
    let told = run.remarks.iter().find(|(label, _)| label == "strace").unwrap();
    assert!(told.1.starts_with("nothing was seen: no strace here"), "{told:?}");
    for row in run.raw.iter().filter(|row| row.arm.starts_with("batch-")) {
        let calls = figure(row, "write_calls") / figure(row, "writes");
        assert_eq!(calls >= 1.0, row.notes["in force"].starts_with("sync"), "{row:?}");
    }
    assert!(run.raw.iter().all(|row| !row.figures.contains_key("strace_writes")));
}

#[test]
fn what_will_not_do_is_said_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    for (option, value, said) in
        [("size", "1M", "size 1048576 is not valid"), ("rounds", "x", "rounds x is not valid")]
    {
        let error = run(dir.path(), &[(option, value)]).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let gone = dir.path().join("gone");
    let error = run(&gone, &[("size", "16M")]).unwrap_err().to_string();
    assert!(error.contains("gone/cellar-lab-") && error.contains("No such file"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
