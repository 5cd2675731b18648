//! `smart-scan` on a model, and on scratch files.

use cellar_lab::preset::FLAT_200;
use cellar_lab::smart_scan::{self, Options};
use cellar_lab::{Control, Head, LabError, Raw, Run, Verdict};

const ELIGIBLE: &str = "cell physical IO bytes eligible for predicate offload";
const SAVED: &str = "cell physical IO bytes saved by storage index";
const HEADERS: &str = "cell physical IO bytes answered by row group headers";
const DISK: &str = "cell physical IO bytes read from disk";
const CACHE: &str = "cell physical IO bytes found in cell cache";
const RETURNED: &str = "cell physical IO interconnect bytes";
const BY_SMART_SCAN: &str = "cell physical IO interconnect bytes returned by smart scan";
const QUESTIONS: [&str; 5] = ["total", "count", "flags", "few", "top"];

fn run(options: &Options) -> Run {
    let model = smart_scan::model(options, &Control::quiet()).unwrap();
    smart_scan::report(Head::default(), options, Some(model), None)
}

fn small() -> Options {
    Options { table_bytes: 8 << 20, ..Options::default() }
}

fn row<'a>(run: &'a Run, arm: &str, layout: &str) -> &'a Raw {
    run.raw.iter().find(|row| row.arm == arm && row.layout == layout).unwrap()
}

fn figure(run: &Run, arm: &str, layout: &str, name: &str) -> f64 {
    row(run, arm, layout).figures[name]
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn sums_return_ten_thousand_times_less_than_was_scanned() {
    let run = run(&Options { table_bytes: 32 << 20, ..Options::default() });
    println!("{}", run.to_text());
    for arm in ["total-cold", "count-cold", "flags-cold"] {
        let figure = |layout, name| figure(&run, arm, layout, name);
        let scanned = figure("off", DISK) + figure("off", CACHE);
        let returned = figure("on", RETURNED);
        assert_eq!(figure("on", BY_SMART_SCAN), returned);
        assert!(scanned > 10_000.0 * returned, "{arm}: {scanned} of {returned}");
        assert!(figure("off", RETURNED) > 10_000.0 * returned, "{arm}");
    }
    let finding = words(&run.finding);
    assert!(finding.contains("times fewer bytes for \"total of a year\" (24 bytes rather than"));
    assert!(finding.contains("a model has no processors"), "{finding}");
}

#[test]
fn every_way_of_asking_gives_one_answer() {
    let run = run(&small());
    for question in QUESTIONS {
        let rows = run.raw.iter().filter(|row| row.arm.starts_with(&format!("{question}-")));
        let mut answers: Vec<&String> = rows.map(|row| &row.notes["answer"]).collect();
        assert_eq!(answers.len(), 4, "on and off, cold and warm");
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
        // A table as small as this may have none of the few.
        assert!(question == "few" || answers[0].len() > 3, "{question} is not about nothing");
    }
}

#[test]
fn the_storage_index_saves_bytes_where_rows_lie_in_the_order_of_their_dates() {
    let clustered = run(&small());
    let saved = figure(&clustered, "total-cold", "on", SAVED);
    let eligible = figure(&clustered, "total-cold", "on", ELIGIBLE);
    assert!(saved > 0.5 * eligible, "one year of seven: {saved} of {eligible}");
    assert!(figure(&clustered, "count-cold", "on", SAVED) > 0.0);
    assert!(figure(&clustered, "flags-cold", "on", HEADERS) == 0.0, "groups are not in headers");
    assert!(clustered.arm("total-cold").unwrap().ratio.unwrap() > 1.5);
    assert_eq!(clustered.arm("total-cold").unwrap().verdict, Verdict::Faster);
    assert!(words(&clustered.finding).contains("the storage index saved"));

    let scattered = run(&Options { clustered: false, ..small() });
    for question in ["total", "count", "flags"] {
        let arm = format!("{question}-cold");
        assert_eq!(figure(&scattered, &arm, "on", SAVED), 0.0, "{arm}");
        assert_eq!(figure(&scattered, &arm, "on", HEADERS), 0.0, "{arm}");
        // What is saved without is not what was asked.
        assert_eq!(figure(&clustered, &arm, "off", SAVED), 0.0, "{arm}");
    }
    let answer = |run: &Run| row(run, "total-cold", "on").notes["answer"].clone();
    assert_ne!(answer(&clustered), answer(&scattered), "other rows");
    assert_ne!(clustered.settings_hash, scattered.settings_hash);
}

#[test]
fn warm_reads_nothing_from_disk_and_cold_nothing_from_memory() {
    let run = run(&small());
    for (question, layout) in QUESTIONS.iter().flat_map(|q| [(q, "on"), (q, "off")]) {
        let warm = |name| figure(&run, &format!("{question}-warm"), layout, name);
        let cold = |name| figure(&run, &format!("{question}-cold"), layout, name);
        assert_eq!(warm(DISK), 0.0, "{question} {layout}");
        let disks = &row(&run, &format!("{question}-warm"), layout).sample.as_ref().unwrap().disks;
        assert!(disks.iter().all(|disk| disk.requests == 0), "{question} {layout}: {disks:?}");
        assert_eq!(cold(CACHE), 0.0, "{question} {layout}");
        // How soon the greatest are known depends on what comes first.
        if *question != "top" || layout == "off" {
            assert_eq!(warm(RETURNED), cold(RETURNED), "{question} {layout}");
        }
        if layout == "off" {
            assert_eq!(warm(CACHE), warm(ELIGIBLE), "{question}");
            assert!(cold(DISK) >= cold(ELIGIBLE), "{question}");
        }
    }
}

#[test]
fn few_rows_of_all_columns_are_returned_and_the_greatest_leave_row_groups_out() {
    let run = run(&Options { table_bytes: 16 << 20, ..Options::default() });
    let figure = |arm, layout, name| figure(&run, arm, layout, name);
    let few = figure("few-cold", "on", "rows returned");
    assert!((1.0..20.0).contains(&few), "{few} rows");
    assert!(figure("few-cold", "on", DISK) < 0.8 * figure("few-cold", "off", DISK));
    assert!(figure("top-cold", "on", "rows returned") < figure("top-cold", "off", "rows returned"));
    let top = &row(&run, "top-cold", "on").notes["answer"];
    assert!(top.starts_with("10 rows"), "{top}");
}

#[test]
fn a_report_fits_80_columns_and_is_the_same_twice() {
    let one = run(&small());
    for text in [one.to_text(), one.method_text()] {
        assert!(crate::fits(&text), "{text}");
    }
    assert!(one.to_text().starts_with("A model   No disks were given."));
    let html = one.to_html();
    assert!(html.contains("total of a year") && html.contains("storage index saved, MB"));
    let two = run(&small());
    assert!(one.to_json().unwrap() == two.to_json().unwrap(), "virtual time has no noise");
    assert_eq!(Run::from_json(&one.to_json().unwrap()).unwrap().experiment, "smart-scan");
    let other = run(&Options { seed: 5, ..small() });
    let answer = |run: &Run| row(run, "total-cold", "on").notes["answer"].clone();
    assert_ne!(answer(&one), answer(&other), "a seed makes its own rows");
}

#[test]
fn one_disk_and_three_answer_the_same() {
    let answers = |width| {
        let run = run(&Options { width, table_bytes: 4 << 20, preset: FLAT_200, ..small() });
        assert_eq!(row(&run, "few-cold", "on").sample.as_ref().unwrap().disks.len(), width);
        QUESTIONS.map(|q| row(&run, &format!("{q}-cold"), "on").notes["answer"].clone())
    };
    let one = answers(1);
    assert_eq!(one, answers(2));
    assert_eq!(one, answers(3));
}

#[test]
fn options_that_will_not_do_are_named() {
    for (options, name) in [
        (Options { table_bytes: 1 << 20, ..small() }, "--size 1048576"),
        (Options { table_bytes: (8 << 20) + 1, ..small() }, "--size 8388609"),
        (Options { width: 0, ..small() }, "--width 0"),
        (Options { rounds: 0, ..small() }, "--rounds 0"),
    ] {
        let error = smart_scan::model(&options, &Control::quiet()).unwrap_err();
        assert!(matches!(error, LabError::Option { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[cfg(feature = "real")]
#[test]
fn scratch_files_are_asked_and_removed() {
    use cellar_io::real::{Runtime, RuntimeOptions};
    use cellar_lab::place::Here;
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let options = Options { table_bytes: 16 << 20, rounds: 2, ..Options::default() };
    let here = Here::files(&runtime, dir.path(), None);
    let here = smart_scan::measure(&here, &options, &Control::quiet()).unwrap();
    let model = smart_scan::model(&options, &Control::quiet()).unwrap();
    let run = smart_scan::report(Head::default(), &options, Some(model), Some(here));
    println!("{}", run.to_text());
    assert!(!run.is_model() && crate::fits(&run.to_text()), "{}", run.to_text());
    assert_eq!(run.noise.pairs, 2);
    for arm in &run.arms {
        let figures: Vec<f64> = arm.here.iter().flatten().copied().flatten().collect();
        assert_eq!(arm.ratio, Some(figures[1] / figures[0]), "the ratio is of what is here");
    }
    assert!(run.finding.contains("Warm, "), "{}", run.finding);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}
