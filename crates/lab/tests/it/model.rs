//! `multi-disk` on the model of 2006.

use cellar_lab::multi_disk::{self, Layout, Options};
use cellar_lab::preset::FC_LUN_2006;
use cellar_lab::{Control, Head, LabError, Run};

fn run(options: &Options) -> Run {
    let model = multi_disk::model(FC_LUN_2006, options, &Control::quiet()).unwrap();
    multi_disk::report(Head::default(), options, Some(model), None)
}

fn model_of(run: &Run, arm: &str) -> [f64; 2] {
    let figures = run.arm(arm).unwrap().model.clone().unwrap();
    [figures[0].unwrap(), figures[1].unwrap()]
}

fn ratio_of(run: &Run, arm: &str) -> f64 {
    run.arm(arm).unwrap().ratio.unwrap()
}

fn near(value: f64, wanted: f64, part: f64) {
    assert!((value / wanted - 1.0).abs() <= part, "{value}, not {wanted}");
}

#[test]
fn the_model_tells_the_story_of_2006() {
    let run = run(&Options::default());
    println!("{}", run.to_text());
    // Fitted: 110 and 81 were published.
    let [one, two] = model_of(&run, "serial-1");
    near(one, 110.0, 0.03);
    near(two, 81.0, 0.03);
    assert!(ratio_of(&run, "serial-1") < 1.0, "the old way is slower on two disks");
    // Predicted: the links are full.
    for arm in ["serial", "parallel-8", "validate"] {
        let [one, two] = model_of(&run, arm);
        near(one, 196.0, 0.04);
        near(two, 392.0, 0.06);
        assert!(ratio_of(&run, arm) > 1.9, "{arm}");
    }
    let depths = &run.tables[0];
    assert_eq!(depths.columns, ["1", "2", "4", "8", "16", "32", "64"]);
    assert!(depths.rows[1].what.starts_with("p99"));
    assert!(depths.rows[1].figures.is_sorted_by(|a, b| a < b));
    assert_eq!(run.noise.spread, 0.0, "virtual time has no noise");
}

#[test]
fn a_report_fits_80_columns_and_says_that_it_is_a_model() {
    let run = run(&small());
    let text = run.to_text();
    assert!(text.starts_with("A model   No disks were given."), "{text}");
    assert!(crate::fits(&text), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in ["Finding ", "fitted to the row", "Predicted", "prefetch: without it"] {
        assert!(words.contains(word), "{word}: {text}");
    }
}

fn small() -> Options {
    Options { file_bytes: 64 << 20, random_reads: 50, ..Options::default() }
}

#[test]
fn two_model_runs_are_equal_byte_for_byte_and_can_be_kept() {
    let one = run(&small()).to_json().unwrap();
    let two = run(&small()).to_json().unwrap();
    assert!(one == two, "{one}\n{two}");
    let kept = Run::from_json(&one).unwrap();
    assert!(kept.to_json().unwrap() == one, "kept as it was");
    let json: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(json["experiment"], "multi-disk");
    for arm in json["arms"].as_array().unwrap() {
        for key in ["name", "published", "model", "here", "ratio"] {
            assert!(arm.get(key).is_some(), "{key} of {arm}");
        }
        assert!(arm["here"].is_null(), "nothing was measured here");
    }
    assert!(json["finding"].is_string() && json["noise"].is_object());
}

#[test]
fn a_table_fills_both_links_too() {
    let options = Options { table_bytes: 32 << 20, ..small() };
    let run = run(&options);
    println!("{}", run.to_text());
    let [one, two] = model_of(&run, "table");
    assert!(one > 0.8 * 196.0 && one <= 196.0, "{one}");
    assert!(two > 1.6 * one, "{one} and {two}");
    assert!(crate::fits(&run.to_text()), "{}", run.to_text());
    let words = run.to_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("a table by the cell, columns as encoded: \"1 disk\""), "{words}");
    let row = run.raw.iter().find(|row| row.arm == "table").unwrap();
    let sample = row.sample.as_ref().unwrap();
    assert!(sample.bytes > 4 << 20 && sample.bytes < 33 << 20, "{sample:?}");
    // Without one nothing is as if there had been one.
    let without = self::run(&small());
    assert!(without.arm("table").is_none() && !without.settings.contains_key("table"));
    assert_eq!(model_of(&without, "serial"), model_of(&run, "serial"));
    let layouts = vec![Layout::One, Layout::Each];
    let each = self::run(&Options { layouts, ..options });
    assert!(model_of(&each, "table")[1] > 1.6 * one, "two tables of half the size at once");
}

#[test]
fn a_larger_au_gives_the_old_way_some_of_its_prefetch_back() {
    let large = Options { au_size: 8 << 20, ..small() };
    let (small, large) = (run(&small()), run(&large));
    assert!(ratio_of(&large, "serial-1") > ratio_of(&small, "serial-1") + 0.1);
    assert_ne!(small.settings_hash, large.settings_hash);
}

#[test]
fn options_that_will_not_do_are_named() {
    for (options, name) in [
        (Options { file_bytes: 1 << 20, ..small() }, "--size 1048576"),
        (Options { au_size: 3 << 20, ..small() }, "--au-size 3145728"),
        (Options { table_bytes: 3 << 20, ..small() }, "--table 3145728"),
        (Options { rounds: 0, ..small() }, "--rounds 0"),
        (Options { random_reads: 0, ..small() }, "--random-reads 0"),
    ] {
        let error = multi_disk::model(FC_LUN_2006, &options, &Control::quiet()).unwrap_err();
        assert!(matches!(error, LabError::Option { .. }) && error.to_string().contains(name));
    }
}
