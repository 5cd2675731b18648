//! The model that simulated runs are held against.

use cellar_sim::model::{FileModel, stamp};

fn sectors(file: u32, values: &[u32]) -> Vec<u8> {
    let mut out = vec![0; values.len() * 512];
    for (s, (chunk, value)) in (0u32..).zip(out.chunks_mut(512).zip(values)) {
        stamp(chunk, file, s, *value);
    }
    out
}

fn file() -> FileModel {
    let mut f = FileModel::new(7, 256, 2, true, 512);
    f.resize(4, 0);
    f
}

#[test]
fn a_completed_write_is_there_until_a_crash_takes_it() {
    let mut f = file();
    f.begin(1, 0, 2, false);
    assert!(f.check(&sectors(7, &[1, 0, 0, 0]), 0, 2, None).is_ok(), "in flight, any part");
    f.end(1, 3, false);
    assert!(f.check(&sectors(7, &[1, 0, 0, 0]), 0, 4, None).is_err(), "complete, all of it");
    assert!(f.check(&sectors(7, &[1, 1, 0, 0]), 0, 4, None).is_ok());
    f.crash(5);
    assert!(f.check(&sectors(7, &[0, 1, 0, 0]), 0, 6, Some(6)).is_ok(), "not flushed");
    assert!(f.check(&sectors(7, &[1, 1, 0, 0]), 0, 7, None).is_err(), "once read, it stays");
}

#[test]
fn a_flushed_write_is_there_after_a_crash_and_so_is_what_came_later_or_not() {
    let mut f = file();
    f.begin(1, 0, 4, false);
    f.end(1, 2, false);
    f.flushed(3);
    f.begin(4, 1, 1, false);
    f.end(4, 5, false);
    f.crash(6);
    assert!(f.clone().check(&sectors(7, &[1, 1, 1, 1]), 0, 7, None).is_ok());
    assert!(f.clone().check(&sectors(7, &[1, 4, 1, 1]), 0, 7, None).is_ok());
    assert!(f.clone().check(&sectors(7, &[1, 0, 1, 1]), 0, 7, None).is_err());
    assert!(f.check(&sectors(8, &[1, 1, 1, 1]), 0, 7, None).is_err(), "another file's data");
}
