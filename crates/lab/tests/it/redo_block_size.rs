//! `redo-block-size` on the models of 2016, and on a file that is here.

use std::time::Duration;

use cellar_lab::redo_block_size::{self, Explanation, Options};
use cellar_lab::{Control, Head, LabError, Run};

fn run(options: &Options) -> Run {
    let model = redo_block_size::model(options, &Control::quiet()).unwrap();
    redo_block_size::report(Head::default(), options, Some(model), None)
}

fn short() -> Options {
    Options { time: Duration::from_millis(600), rounds: 1, ..Options::default() }
}

/// Of an arm with 512 on 512, 4096 on 512, 4096 on 4096.
fn model_of(run: &Run, arm: &str) -> [f64; 3] {
    let arm = run.arm(arm).unwrap_or_else(|| panic!("no arm {arm}"));
    let figures = arm.model.clone().unwrap();
    [0, 1, 2].map(|at| figures[at].unwrap())
}

fn row<'a>(run: &'a Run, head: &str, what: &str) -> &'a [Option<f64>] {
    let table = run.tables.iter().find(|table| table.head == head).unwrap();
    let row = table.rows.iter().find(|row| row.what == what);
    &row.unwrap_or_else(|| panic!("no row {what}: {table:?}")).figures
}

#[test]
fn the_model_tells_the_story_of_2016() {
    let run = run(&Options::default());
    println!("{}", run.to_text());
    // Fitted: 3.57 and 0.89 ms were published.
    let [small, middle, large] = model_of(&run, "large");
    assert!((3.2..3.9).contains(&small) && (0.8..1.0).contains(&large), "{small} {large}");
    assert!((middle / large - 1.0).abs() < 0.05, "the format changes nothing: {middle}");
    // Predicted: as many transactions a second, as in the post.
    let [small, _, large] = model_of(&run, "large-commits");
    assert!((0.97..1.08).contains(&(large / small)), "{small} {large}");
    let published = run.arm("large-commits").unwrap().published.clone().unwrap();
    assert!((published[0].unwrap() - 146.7).abs() < 0.1 && published[1].is_none());
    let words = run.to_text().split_whitespace().collect::<Vec<_>>().join(" ");
    let finding = "log file parallel write with large commits the block size makes the difference";
    assert!(words.contains(finding), "{words}");
    assert!(words.contains("146.7 transactions a second became 148.8"), "{words}");
    assert!(words.contains("Its writes of 3.57 ms were of 1747 KB"), "{words}");
}

#[test]
fn the_other_explanation_makes_the_other_finding() {
    let run = run(&Options { explanation: Explanation::Format, ..short() });
    println!("{}", run.to_text());
    let [small, middle, large] = model_of(&run, "large");
    assert!(
        (middle / small - 1.0).abs() < 0.15 && middle > 3.0 * large,
        "{small} {middle} {large}"
    );
    let words = run.to_text().split_whitespace().collect::<Vec<_>>().join(" ");
    // Blocks of 512 have more headers, which are written too: that is all the block makes.
    let (finding, _) = words.split_once("of log file sync with small commits").unwrap();
    let told = ["the rest the format", "the format makes the difference"];
    assert!(told.iter().any(|told| finding.contains(told)), "{words}");
    assert!(words.contains("They part at the arm that was not measured then"), "{words}");
}

#[test]
fn small_commits_waste_more_of_larger_blocks_and_every_write_is_in_a_bucket() {
    let run = run(&Options { sessions: 1, ..short() });
    let wastage = row(&run, "block / format", "wastage %, small");
    let [small, middle, large] = [0, 1, 2].map(|at| wastage[at].unwrap());
    // 5758 bytes in 13 blocks of 472, and in 2 of 4056.
    assert!((small - 100.0 * 378.0 / 6656.0).abs() < 1.0, "{small}");
    assert!((middle - 100.0 * 2354.0 / 8192.0).abs() < 1.0 && middle == large, "{middle} {large}");
    let writes = row(&run, "block / format", "KB a write, small");
    assert!((writes[0].unwrap() - 6.656).abs() < 0.1 && (writes[1].unwrap() - 8.192).abs() < 0.1);
    for what in ["large 512/512", "small 4096/512", "mixed 4096/4096", "published 512/512"] {
        let all: f64 = row(&run, "% of parallel writes", what).iter().flatten().sum();
        assert!((all - 100.0).abs() < 0.2, "{what}: {all}");
    }
    assert!(run.finding.contains("% more bytes with small commits"), "{}", run.finding);
}

#[test]
fn two_model_runs_are_equal_byte_for_byte_and_fit_a_terminal() {
    let one = run(&short());
    assert!(crate::fits(&one.to_text()) && crate::fits(&one.method_text()), "{}", one.to_text());
    let (one, two) = (one.to_json().unwrap(), run(&short()).to_json().unwrap());
    assert!(one == two);
    assert_eq!(Run::from_json(&one).unwrap().to_json().unwrap(), one, "kept as it was");
}

#[test]
fn options_that_will_not_do_are_named() {
    for (options, name) in [
        (Options { sessions: 0, ..short() }, "--sessions 0"),
        (Options { large: 9 << 20, ..short() }, "--large 9437184"),
        (Options { small: 0, ..short() }, "--small 0"),
        (Options { small_think: Duration::from_secs(11), ..short() }, "--small-think 11000"),
        (Options { group_bytes: 1 << 20, ..short() }, "--group-size 1048576"),
        (Options { time: Duration::from_millis(1), ..short() }, "--millis 1"),
    ] {
        let error = redo_block_size::model(&options, &Control::quiet()).unwrap_err();
        assert!(matches!(error, LabError::Option { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[cfg(feature = "real")]
#[test]
fn a_scratch_file_says_nothing_of_the_format() {
    use cellar_io::real::{Runtime, RuntimeOptions};
    use cellar_lab::place::Here;
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let options = Options {
        rounds: 1,
        sessions: 4,
        group_bytes: 32 << 20,
        shape: Some(cellar_io::shape::parse("5ms,page:4096/20ms").unwrap()),
        ..short()
    };
    let here = Here::files(&runtime, dir.path(), options.shape).sectors(512);
    let here = redo_block_size::measure(&here, 1, &options, &Control::quiet()).unwrap();
    let run = redo_block_size::report(Head::default(), &options, None, Some(here));
    println!("{}", run.to_text());
    let here = run.arm("small").unwrap().here.clone().unwrap();
    assert!(here[0].unwrap() > 2.0 * here[1].unwrap() && here[2].is_none(), "{here:?}");
    assert!(run.finding.contains("no disk here has 4096-byte sectors"), "{}", run.finding);
    assert!(crate::fits(&run.to_text()), "{}", run.to_text());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}
