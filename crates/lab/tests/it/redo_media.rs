//! `redo-media` on the models of 2011.

use std::time::Duration;

use cellar_io::shape::parse;
use cellar_lab::redo_media::{self, Archive, Options};
use cellar_lab::{Control, Head, LabError, Run};

fn run(options: &Options) -> Run {
    let model = redo_media::model(options, &Control::quiet()).unwrap();
    redo_media::report(Head::default(), options, Some(model), None)
}

/// Of an arm on disk, flash and both.
fn model_of(run: &Run, arm: &str) -> [f64; 3] {
    let arm = run.arm(arm).unwrap_or_else(|| panic!("no arm {arm}"));
    let figures = arm.model.clone().unwrap();
    [0, 1, 2].map(|at| figures[at].unwrap())
}

fn raw(run: &Run, arm: &str, layout: &str, name: &str) -> f64 {
    let row = run.raw.iter().find(|row| row.arm == arm && row.layout == layout).unwrap();
    row.figures[name]
}

fn words(run: &Run) -> String {
    run.to_text().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_models_tell_the_story_of_2011() {
    let run = run(&Options::default());
    println!("{}", run.to_text());
}
