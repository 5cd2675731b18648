//! `multi-disk` on scratch files of this machine: the same code, by direct I/O.

use cellar_io::real::{Runtime, RuntimeOptions};
use cellar_lab::multi_disk::{self, Options};
use cellar_lab::place::Here;
use cellar_lab::preset::FC_LUN_2006;
use cellar_lab::{Control, Head, Machine};

#[test]
fn scratch_files_are_measured_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let (file_bytes, table_bytes) = (64 << 20, 16 << 20);
    let options =
        Options { file_bytes, table_bytes, random_reads: 20, rounds: 2, ..Options::default() };
    let here = Here::files(&runtime, dir.path(), None);
    let here = multi_disk::measure(&here, &options, &Control::quiet()).unwrap();
    let model = multi_disk::model(FC_LUN_2006, &options, &Control::quiet()).unwrap();
    let head = Head { machine: Machine::here(), ..Head::default() };
    let run = multi_disk::report(head, &options, Some(model), Some(here));
    println!("{}", run.to_text());
    assert!(!run.is_model());
    for arm in &run.arms {
        let figures: Vec<f64> = arm.here.iter().flatten().copied().flatten().collect();
        assert!(figures.iter().all(|f| *f > 0.0), "{arm:?}");
        assert_eq!(arm.ratio, Some(figures[1] / figures[0]), "the ratio is of what is here");
    }
    let words = run.to_text().split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, table) = words.split_once("a table by the cell").unwrap();
    assert!(table.contains("% of the raw-device rate"), "{words}");
    assert_eq!(run.noise.pairs, 2);
    assert!(crate::fits(&run.to_text()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
}
