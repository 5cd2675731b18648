//! `redo-media` on the models of 2011, and on files that are here.

use std::time::Duration;

use cellar_io::shape::parse;
use cellar_lab::redo_media::{self, Archive, Options};
use cellar_lab::{Control, Head, LabError, Run};

fn run(options: &Options) -> Run {
    let model = redo_media::model(options, &Control::quiet()).unwrap();
    redo_media::report(Head::default(), options, Some(model), None)
}

fn short() -> Options {
    Options { time: Duration::from_millis(300), rounds: 3, ..Options::default() }
}

/// Of an arm on disk, flash and both.
fn model_of(run: &Run, arm: &str) -> [f64; 3] {
    let arm = run.arm(arm).unwrap_or_else(|| panic!("no arm {arm}"));
    let figures = arm.model.clone().unwrap();
    [0, 1, 2].map(|at| figures[at].unwrap())
}

/// The sum over all rounds.
fn sum(run: &Run, arm: &str, layout: &str, name: &str) -> f64 {
    let rows = run.raw.iter().filter(|row| row.arm == arm && row.layout == layout);
    rows.map(|row| row.figures[name]).sum()
}

fn words(run: &Run) -> String {
    run.to_text().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_models_tell_the_story_of_2011() {
    let run = run(&Options::default());
    println!("{}", run.to_text());
    // Fitted: 4 and 1.3 were published.
    let [disk, flash, _] = model_of(&run, "1x512-times");
    assert!(disk == 1.0 && (3.8..4.2).contains(&flash), "{flash}");
    let [_, flash, _] = model_of(&run, "1x4096-times");
    assert!((1.2..1.4).contains(&flash), "{flash}");
    // Predicted: ten sessions are worse off with 512, and no worse with 4096.
    let [_, flash, _] = model_of(&run, "10x512-times");
    assert!((8.0..20.0).contains(&flash), "{flash}");
    let [_, flash, _] = model_of(&run, "10x4096-times");
    assert!((1.1..1.5).contains(&flash), "{flash}");
    // 4096 is what helps flash, and flash alone.
    let [disk, flash, _] =
        [0, 1, 2].map(|at| model_of(&run, "10x4096")[at] / model_of(&run, "10x512")[at]);
    assert!(flash > 5.0 && (0.9..1.1).contains(&disk), "{disk} and {flash}");
    let text = words(&run);
    assert!(text.contains("The block decides it: 4096 is what makes flash faster"), "{text}");
    for word in [
        "Finding Redo on flash made commits slower",
        "On these models, in blocks of",
        "first of both",
        "480 % slower",
        "fitted to one session",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn the_first_of_both_wins_and_nobody_waits_for_late_writes() {
    let run = run(&short());
    for arm in ["1x512", "10x512", "1x4096", "10x4096"] {
        let [disk, flash, both] = model_of(&run, arm);
        assert!(both > 0.97 * disk.max(flash), "{arm}: {disk}, {flash}, {both}");
    }
    let of = |layout: &str, name: &str| {
        ["1x512", "10x512", "1x4096", "10x4096"].map(|arm| sum(&run, arm, layout, name))
    };
    let alone = of("disk", "disk outliers_actual").iter().sum::<f64>();
    let prevented = of("both", "disk outliers_prevented").iter().sum::<f64>();
    let waited = of("both", "disk outliers_actual").iter().sum::<f64>();
    assert!(alone >= 5.0 && prevented >= 5.0 && waited == 0.0, "{alone} {prevented} {waited}");
    let longest = |layout: &str| {
        let rows = run.raw.iter().filter(|row| row.arm == "10x4096" && row.layout == layout);
        rows.map(|row| row.figures["session sync_max_ms"]).fold(0.0, f64::max)
    };
    assert!(longest("disk") > 15.0 && longest("both") < 10.0, "{}", longest("both"));
    // Slow flash is first where the disk is late, and else as good as never.
    let first = |medium: &str| sum(&run, "10x512", "both", &format!("{medium} units_first"));
    assert!(first("disk") > 50.0 * first("flash"), "{} {}", first("disk"), first("flash"));
}

#[test]
fn the_parts_of_a_commit_are_all_of_it() {
    let run = run(&short());
    for table in run.tables.iter().filter(|table| table.head.starts_with("% of a commit")) {
        for (at, layout) in table.columns.iter().enumerate() {
            let all: f64 = table.rows.iter().filter_map(|row| row.figures[at]).sum();
            assert!((all - 100.0).abs() < 0.5, "{}: {layout} {all}", table.head);
        }
    }
    // And what they sum to is what the session waited.
    for row in run.raw.iter().filter(|row| row.arm == "10x512") {
        let parts: f64 = ["queue", "slot", "form", "first", "quorum", "order", "wake"]
            .map(|part| row.figures[&format!("session {part}_us")])
            .iter()
            .sum();
        let waited = 1e3 * row.figures["session sync_ms"];
        assert!((parts / waited - 1.0).abs() < 1e-6, "{parts} of {waited} us");
    }
}

#[test]
fn an_archiver_and_queries_turn_the_answer() {
    let all = vec![Archive::Off, Archive::Same, Archive::Other];
    // The log is small, so that groups are archived and written again meanwhile.
    let options = Options {
        blocks: vec![4096],
        sessions: vec![10],
        record: 4096,
        archive: all,
        scans: 4,
        group_bytes: 4 << 20,
        rounds: 1,
        time: Duration::from_millis(1000),
        ..Options::default()
    };
    let run = run(&options);
    println!("{}", run.to_text());
    let alone = model_of(&run, "10x4096");
    assert!(alone[0] > alone[1], "commits alone are faster on disk: {alone:?}");
    for job in ["off-scan4", "same-scan4", "other-scan4"] {
        let [disk, flash, both] = model_of(&run, &format!("10x4096-{job}"));
        assert!(flash > 1.5 * disk, "{job}: {disk} and {flash}");
        assert!(both > 0.95 * flash, "{job}: {flash} and {both}");
        let [_, scanned, _] = model_of(&run, &format!("10x4096-{job}-scanned"));
        assert!(scanned > 100.0, "{scanned}");
    }
    for (job, archives) in [("off", false), ("same", true), ("other", true)] {
        for layout in ["disk", "flash", "both"] {
            let arm = format!("10x4096-{job}-scan4");
            let archived = sum(&run, &arm, layout, "archived_mb_per_second");
            let redo = sum(&run, &arm, layout, "redo_mb_per_second");
            assert_eq!(archived > 0.3 * redo, archives, "{arm} {layout}: {archived} of {redo}");
            assert!(sum(&run, &arm, layout, "switches") >= 1.0, "{arm}");
        }
    }
    let text = words(&run);
    assert!(text.contains("flash is better for the whole job, the reverse of"), "{text}");
    assert!(crate::fits(&run.to_text()), "{}", run.to_text());
}

#[test]
fn two_model_runs_are_equal_byte_for_byte_and_fit_a_terminal() {
    let one = run(&short());
    let text = one.to_text();
    assert!(text.starts_with("A model   No disks were given."), "{text}");
    assert!(crate::fits(&text) && crate::fits(&one.method_text()), "{text}");
    let (one, two) = (one.to_json().unwrap(), run(&short()).to_json().unwrap());
    assert!(one == two);
    let other = run(&Options { seed: 5, ..short() }).to_json().unwrap();
    assert!(one != other, "chance is in it");
    assert_eq!(Run::from_json(&one).unwrap().to_json().unwrap(), one, "kept as it was");
}

#[test]
fn flash_that_takes_sectors_makes_another_finding() {
    let flash_shape = Some(parse("500us").unwrap());
    let run = run(&Options { flash_shape, disk_shape: Some(parse("400us").unwrap()), ..short() });
    let text = words(&run);
    assert!(text.contains("The block size makes no measurable difference"), "{text}");
    assert!(text.contains("No write was later than 10 ms"), "{text}");
    assert!(!text.contains("fitted"), "{text}");
}

#[test]
fn options_that_will_not_do_are_named() {
    for (options, name) in [
        (Options { blocks: vec![1024], ..short() }, "--block 1024"),
        (Options { blocks: vec![4096, 512], ..short() }, "--block 4096,512"),
        (Options { sessions: Vec::new(), ..short() }, "--sessions \"\""),
        (Options { record: 0, ..short() }, "--record 0"),
        (Options { scans: 99, ..short() }, "--with scan=99"),
        (Options { in_flight: 5, ..short() }, "--in-flight 5"),
        (Options { group_bytes: 1 << 20, ..short() }, "--group-size 1048576"),
        (Options { rounds: 0, ..short() }, "--rounds 0"),
    ] {
        let error = redo_media::model(&options, &Control::quiet()).unwrap_err();
        assert!(matches!(error, LabError::Option { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[cfg(feature = "real")]
#[test]
fn files_slowed_to_the_models_show_the_same_and_go() {
    use cellar_io::real::{Runtime, RuntimeOptions};
    use cellar_lab::place::Here;
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let options = Options {
        rounds: 1,
        group_bytes: 4 << 20,
        archive: vec![Archive::Off, Archive::Other],
        // Much slower than any disk that a test runs on.
        disk_shape: Some(parse("10ms").unwrap()),
        flash_shape: Some(parse("10ms,page:4096/40ms").unwrap()),
        ..short()
    };
    let here = Here::files(&runtime, dir.path(), None);
    let shapes = vec![options.disk_shape, options.flash_shape, None];
    let here = here.shaped_each(shapes).sectors(512);
    let here = redo_media::measure(&here, &options, &Control::quiet()).unwrap();
    let run = redo_media::report(Head::default(), &options, None, Some(here));
    println!("{}", run.to_text());
    assert!(!run.is_model() && crate::fits(&run.to_text()));
    let on_flash = |arm: &str| run.arm(arm).unwrap().here.clone().unwrap()[1].unwrap();
    let (small, large) = (on_flash("1x512"), on_flash("1x4096"));
    assert!(large > 2.0 * small, "{small} and {large} commits a second");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}
