//! `au-size` on models, and on scratch files slowed to one.

use cellar_lab::au_size::{self, Options, Position, Shift};
use cellar_lab::preset::FLAT_200;
use cellar_lab::{Control, Head, LabError, Run, Sample, Verdict};

fn run(options: &Options) -> Run {
    let model = au_size::model(options, &Control::quiet()).unwrap();
    au_size::report(Head::default(), options, Some(model), None)
}

fn small() -> Options {
    Options { file_bytes: 1 << 30, ..Options::default() }
}

fn samples<'a>(run: &'a Run, arm: &str) -> Vec<&'a Sample> {
    let rows = run.raw.iter().filter(|row| row.arm == arm);
    rows.filter_map(|row| row.sample.as_ref()).collect()
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn any_au_is_as_fast_and_place_is_not() {
    let run = run(&small());
    println!("{}", run.to_text());
    for arm in ["cell-outer", "cell-inner", "shifted-outer", "shifted-inner"] {
        let ratio = run.arm(arm).unwrap().ratio.unwrap();
        assert!(ratio < 1.03, "{arm}: AU 1 to 64 MB within 3 %, not {ratio}");
    }
    assert_eq!(run.noise.spread, 0.0, "virtual time has no noise");
    // 204 and 122 MB/s are the ends of that disk.
    let place = run.arm("place").unwrap();
    assert!((place.ratio.unwrap() / (204.0 / 122.0) - 1.0).abs() < 0.02, "{place:?}");
    assert_eq!(place.verdict, Verdict::Faster);
    let published = place.published.clone().unwrap();
    assert!((published[0].unwrap() - 7.58 / 4.32).abs() < 1e-9 && published[4].is_none());
    let cell = run.arm("cell-outer").unwrap();
    let told = [Some(7.58), Some(4.32), Some(7.92), None, None];
    assert_eq!(cell.published.as_deref(), Some(&told[..]));
    assert!(run.finding.contains("Place makes more: the inner tracks take 1.6"), "{}", run.finding);
    assert!(run.finding.ends_with("Try: the AU size that you have"), "{}", run.finding);
}

#[test]
fn every_arm_reads_the_same_bytes_and_shifted_ones_cross_what_they_should() {
    let run = run(&Options { positions: vec![Position::Outer], ..small() });
    for row in &run.raw {
        assert_eq!(row.sample.as_ref().unwrap().bytes, 1 << 30, "{}", row.arm);
    }
    for (sample, au) in samples(&run, "cell-outer").iter().zip([1, 4, 8, 16, 64]) {
        assert_eq!((sample.reads, sample.crossed), (1024, 0), "AU {au}");
        let of_a_region: u64 = sample.disks.iter().map(|d| d.sizes[&(1 << 20)]).sum();
        assert_eq!(of_a_region, 1024, "a region goes to the disk in one piece: AU {au}");
    }
    for (sample, au) in samples(&run, "shifted-outer").iter().zip([1, 4, 8, 16, 64]) {
        let borders = 1024 / au - 1;
        assert_eq!((sample.reads, sample.crossed), (1025, borders), "AU {au}");
        let seen: u64 = sample.disks.iter().map(|d| d.requests).sum();
        assert_eq!(seen, 1025 + borders, "a read over a border is two requests: AU {au}");
    }
    let table = run.tables.iter().find(|t| t.head == "shifted, outer").unwrap();
    let row = |what: &str| table.rows.iter().find(|r| r.what.trim() == what).unwrap();
    assert_eq!(row("of them across two AUs").figures[0], Some(1023.0));
    assert_eq!(row("of 512 KB").figures[4], Some(32.0));
    assert!(words(&run.finding).contains("1023 of 1025 cross an AU of 1 MB and 15 one of 64 MB"));
}

#[test]
fn by_half_an_au_only_the_smallest_is_crossed() {
    let au_sizes = vec![1 << 20, 4 << 20];
    let options = Options {
        au_sizes,
        file_bytes: 64 << 20,
        shift: Shift::HalfAu,
        preset: FLAT_200,
        ..Options::default()
    };
    let run = run(&options);
    let crossed: Vec<u64> = samples(&run, "shifted-outer").iter().map(|s| s.crossed).collect();
    assert_eq!(crossed, [63, 0]);
    assert!(run.arm("place").is_none(), "these disks do not turn");
    assert!(run.finding.contains("Place makes nothing of these disks"), "{}", run.finding);
    assert!(words(&run.to_text()).contains("only AU 1 is crossed"));
}

#[test]
fn a_report_fits_80_columns_and_is_the_same_twice() {
    let one = run(&small());
    for text in [one.to_text(), one.method_text()] {
        assert!(crate::fits(&text), "{text}");
    }
    assert!(one.to_text().starts_with("A model   No disks were given."));
    assert!(words(&one.to_text()).contains("Where they lay was not told"));
    assert!(one.to_html().contains("as a cell, inner"));
    let two = run(&small());
    assert!(one.to_json().unwrap() == two.to_json().unwrap());
    assert_eq!(Run::from_json(&one.to_json().unwrap()).unwrap().experiment, "au-size");
}

#[test]
fn a_file_of_few_large_aus_on_many_disks_is_told() {
    let options = Options { width: 8, positions: vec![Position::Outer], ..small() };
    let run = run(&options);
    assert!(run.arm("cell-outer").unwrap().ratio.unwrap() > 1.03);
    let finding = words(&run.finding);
    assert!(finding.contains("64 MB being the slowest"), "{finding}");
    assert!(finding.contains("begins and ends on some of the 8 disks alone"), "{finding}");
    assert!(finding.contains("for files as small as this"), "{finding}");
}

#[test]
fn options_that_will_not_do_are_named() {
    for (options, name) in [
        (Options { au_sizes: vec![3 << 20], ..small() }, "--au 3M"),
        (Options { au_sizes: vec![4 << 20, 1 << 20], ..small() }, "--au 4M,1M"),
        (Options { file_bytes: 96 << 20, ..small() }, "--size 100663296"),
        (Options { width: 0, ..small() }, "--width 0"),
        (Options { shift: Shift::Bytes(1 << 20), ..small() }, "--shift 1048576"),
        (Options { rounds: 0, ..small() }, "--rounds 0"),
    ] {
        let error = au_size::model(&options, &Control::quiet()).unwrap_err();
        assert!(matches!(error, LabError::Option { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[cfg(feature = "real")]
#[test]
fn on_files_slowed_to_a_model_any_au_is_within_3_percent() {
    use cellar_io::real::{Runtime, RuntimeOptions};
    use cellar_lab::place::Here;
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let shape = cellar_io::shape::parse("200MB/s").unwrap();
    let options = Options {
        au_sizes: vec![1 << 20, 4 << 20, 16 << 20],
        file_bytes: 256 << 20,
        shape: Some(shape),
        ..Options::here()
    };
    let options = Options { rounds: 1, ..options };
    let here = Here::files(&runtime, dir.path(), options.shape);
    let here = au_size::measure(&here, &options, &Control::quiet()).unwrap();
    let run = au_size::report(Head::default(), &options, None, Some(here));
    println!("{}", run.to_text());
    let cell = run.arm("cell-outer").unwrap();
    // On a busy machine equal runs differ too, and say nothing.
    if run.noise.spread < 0.01 {
        assert!(cell.ratio.unwrap() < 1.03, "{cell:?}");
    }
    assert!(crate::fits(&run.to_text()), "{}", run.to_text());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}
