//! The contract of a chaos disk: flushed data is never lost, unflushed data may be, and each fault does
//! what it says.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::disallowed_methods, reason = "a test with the real clock")]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process;
use std::time::{Duration, Instant};

use cellar_chaos::{ChaosDisks, Command, Cut, Op, When};

/// A chaos disk with one file of 1 MiB of zeros, or `None`, told on stderr, where there is no FUSE.
struct Place {
    disks: ChaosDisks,
    dir: tempfile::TempDir,
}

const SIZE: usize = 1 << 20;

fn place() -> Option<Place> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [backing, at] = ["backing", "at"].map(|name| dir.path().join(name));
    std::fs::create_dir(&backing).unwrap();
    std::fs::create_dir(&at).unwrap();
    std::fs::write(backing.join("disk"), vec![0; SIZE]).unwrap();
    match ChaosDisks::mount(&backing, &at) {
        Ok(disks) => Some(Place { disks, dir }),
        Err(error) if std::env::var_os("CELLAR_CHAOS").is_none() => {
            // Shown although the test passes.
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
            None
        }
        Err(error) => panic!("CELLAR_CHAOS is set: {error}"),
    }
}

impl Place {
    fn open(&self, flags: i32) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags).open(self.disks.path("disk")).unwrap()
    }

    /// After a cut and the return of the power.
    fn left(&self) -> Vec<u8> {
        self.disks.power_on();
        std::fs::read(self.disks.path("disk")).unwrap()
    }
}

/// What a failed request of a dead or broken disk is.
fn is_eio<T: std::fmt::Debug>(outcome: std::io::Result<T>) -> bool {
    outcome.unwrap_err().raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

#[test]
fn a_cut_takes_what_was_not_flushed_and_nothing_else() {
    let Some(place) = place() else { return };
    let file = place.open(0);
    file.write_all_at(&[1; 8192], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[2; 65536], 4096).unwrap();
    // A read sees the cache over what is durable.
    let mut seen = [0; 8192];
    file.read_exact_at(&mut seen, 0).unwrap();
    assert!(seen[..4096] == [1; 4096] && seen[4096..] == [2; 4096]);
    assert_eq!(place.disks.unflushed("disk").unwrap(), 128);
    let lost = place.disks.cut(&Cut::new(7)).unwrap();
    assert_eq!(lost.kept + lost.dropped, 128);
    assert!(lost.kept > 20 && lost.dropped > 20, "{lost:?}");
    // Nobody gets an answer while the power is off, and who had the file open has lost it.
    assert!(is_eio(file.read_exact_at(&mut seen, 0)));
    assert!(is_eio(File::open(place.disks.path("disk"))));
    let left = place.left();
    assert!(is_eio(file.write_all_at(&[3; 512], 0)) && is_eio(file.sync_data()));
    assert!(left[..4096] == [1; 4096], "what was flushed is there");
    let twos = left[4096..69632].chunks(512).filter(|sector| **sector == [2; 512]).count();
    assert_eq!(twos as u64, lost.kept);
    let old = left[4096..8192].chunks(512).filter(|sector| **sector == [1; 512]).count();
    let zeros = left[8192..69632].chunks(512).filter(|sector| **sector == [0; 512]).count();
    assert_eq!((old + zeros) as u64, lost.dropped, "a sector is whole: as it was, or as written");
    let counters = place.disks.counters();
    assert_eq!((counters.cuts, counters.sectors_dropped), (1, lost.dropped));
}

#[test]
fn the_same_seed_leaves_the_same_and_blocks_may_stay_whole() {
    let Some(place) = place() else { return };
    let leave = |cut: &Cut| {
        std::fs::write(place.disks.path("disk"), vec![0; SIZE]).unwrap();
        let file = place.open(0);
        file.sync_all().unwrap();
        for version in 1..4 {
            file.write_all_at(&vec![version; 1 << 18], 0).unwrap();
        }
        place.disks.cut(cut).unwrap();
        place.left()
    };
    let left = leave(&Cut::new(1));
    assert!(left == leave(&Cut::new(1)));
    assert!(left != leave(&Cut::new(2)));
    let torn = |left: &[u8]| left.chunks(4096).any(|block| block.iter().any(|b| *b != block[0]));
    assert!(torn(&left));
    assert!((1..4).all(|version| left.contains(&version)), "older versions may be left");
    assert!(!torn(&leave(&Cut { torn: false, ..Cut::new(1) })));
    assert!(leave(&Cut::worst()).iter().all(|b| *b == 0));
}

#[test]
fn every_way_to_ask_for_durability_is_kept() {
    let Some(place) = place() else { return };
    place.open(0).write_all_at(&[9; 512], 0).unwrap();
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let dsync = rustix::fs::OFlags::DSYNC.bits() as i32;
    place.open(dsync).write_all_at(&[1; 512], 4096).unwrap();
    // O_DIRECT with memory that is aligned enough for a FUSE file.
    place.open(dsync | direct).write_all_at(&[2; 4096], 8192).unwrap();
    let file = place.open(0);
    let written = rustix::io::pwritev2(
        &file,
        &[std::io::IoSlice::new(&[3; 512])],
        16384,
        rustix::io::ReadWriteFlags::DSYNC,
    );
    assert_eq!(written.unwrap(), 512);
    let counters = place.disks.counters();
    assert_eq!(counters.sectors_durable + counters.sectors_flushed, 10, "{counters:?}");
    // A durable write takes along nothing that others wrote before it.
    place.disks.cut(&Cut::worst()).unwrap();
    let left = place.left();
    assert_eq!([left[0], left[4096], left[8192], left[16384]], [0, 1, 2, 3]);
}

#[test]
fn a_flush_that_lies_loses() {
    let Some(place) = place() else { return };
    place.disks.lie("disk", true).unwrap();
    let file = place.open(0);
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_all().unwrap();
    let mut seen = [0; 4096];
    file.read_exact_at(&mut seen, 0).unwrap();
    assert_eq!(seen, [1; 4096], "nobody notices");
    place.disks.cut_file("disk", &Cut::worst()).unwrap();
    assert!(place.left().iter().all(|b| *b == 0));
    assert_eq!(place.disks.counters().lies, 1);
    // A flush that tells the truth later saves what is still there.
    let file = place.open(0);
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_all().unwrap();
    place.disks.lie("disk", false).unwrap();
    file.sync_all().unwrap();
    place.disks.cut(&Cut::worst()).unwrap();
    assert_eq!(place.left()[..4096], [1; 4096]);
}

#[test]
fn a_cut_comes_at_the_request_it_was_set_to() {
    let Some(place) = place() else { return };
    let file = place.open(0);
    place.disks.cut_when(When::Requests(3), Cut::worst());
    file.write_all_at(&[1; 512], 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(place.disks.wait_for_cut(Duration::ZERO), None);
    assert!(is_eio(file.write_all_at(&[2; 512], 512)));
    assert_eq!(place.disks.wait_for_cut(Duration::ZERO).unwrap().dropped, 1);
    assert_eq!(place.left()[..1024], [[1; 512], [0; 512]].concat());
    let file = place.open(0);
    place.disks.cut_when(When::Flushes(1), Cut::worst());
    file.write_all_at(&[2; 1024], 512).unwrap();
    assert!(place.disks.is_on() && is_eio(file.sync_all()) && !place.disks.is_on());
    assert!(place.left()[512..].iter().all(|b| *b == 0), "all there was to lose");
    // The write that was under way may have come through.
    let file = place.open(0);
    place.disks.cut_when(When::Requests(1), Cut { keep_percent: 100, ..Cut::new(0) });
    assert!(is_eio(file.write_all_at(&[2; 512], 512)));
    assert_eq!(place.left()[512..1024], [2; 512]);
    // One file alone, while the others go on.
    std::fs::write(place.disks.path("other"), [1; 512]).unwrap();
    let [file, other] = [place.open(0), File::open(place.disks.path("other")).unwrap()];
    place.disks.cut_file_when("disk", When::Flushes(1), Cut::worst()).unwrap();
    other.sync_all().unwrap();
    assert!(is_eio(file.sync_all()) && is_eio(file.read_exact_at(&mut [0; 512], 0)));
    assert!(place.disks.is_on() && other.read_exact_at(&mut [0; 512], 0).is_ok());
    place.disks.power_on_file("disk").unwrap();
    place.open(0).read_exact_at(&mut [0; 512], 0).unwrap();
}

#[test]
fn requests_are_late_or_fail_where_they_should() {
    let Some(place) = place() else { return };
    let file = place.open(0);
    place.disks.delay("disk", Op::Read, Duration::from_millis(150)).unwrap();
    let start = Instant::now();
    file.read_exact_at(&mut [0; 512], 0).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(150));
    place.disks.heal("disk").unwrap();

    place.disks.fail("disk", Op::Write, 4096..8192).unwrap();
    place.disks.fail("disk", Op::Read, 0..512).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    assert!(is_eio(file.write_all_at(&[1; 8192], 0)));
    assert!(is_eio(file.read_exact_at(&mut [0; 512], 0)));
    file.read_exact_at(&mut [0; 512], 512).unwrap();
    place.disks.fail("disk", Op::Flush, 0..1).unwrap();
    assert!(is_eio(file.sync_all()));
    place.disks.heal("disk").unwrap();
    file.sync_all().unwrap();
    let mut seen = [0; 8192];
    file.read_exact_at(&mut seen, 0).unwrap();
    let stored = seen[4096..].chunks(512).filter(|sector| **sector == [1; 512]).count();
    assert!(seen[..4096] == [1; 4096] && stored < 8, "a write that failed stored any of it");

    place.disks.tear_next_write("disk").unwrap();
    file.write_all_at(&[5; 65536], 65536).unwrap();
    let mut seen = vec![0; 65536];
    file.read_exact_at(&mut seen, 65536).unwrap();
    assert!(seen.contains(&0) && seen.contains(&5), "acknowledged, and stored in part");
    let counters = place.disks.counters();
    assert_eq!((counters.delayed, counters.failed, counters.torn), (1, 3, 2), "{counters:?}");
}

#[test]
fn what_hangs_is_answered_when_it_is_released_or_the_power_goes() {
    let Some(place) = place() else { return };
    let waits = || {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            place.disks.hanging("disk").unwrap() == 1
        })
    };
    for cut in [false, true] {
        place.disks.hang("disk", Op::Write).unwrap();
        let file = place.open(0);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| file.write_all_at(&[4; 512], 0));
            assert!(waits() && !writer.is_finished());
            // Other requests are answered meanwhile.
            file.read_exact_at(&mut [0; 512], 0).unwrap();
            match cut {
                false => place.disks.release("disk").unwrap(),
                true => drop(place.disks.cut(&Cut::worst()).unwrap()),
            }
            let outcome = writer.join().unwrap();
            assert_eq!(outcome.is_err(), cut, "{outcome:?}");
        });
    }
    assert_eq!(place.disks.counters().held, 2);
}

#[test]
fn it_is_a_file_system() {
    let Some(place) = place() else { return };
    let [one, two] = ["one", "two"].map(|name| place.disks.path(name));
    let file = File::create_new(&one).unwrap();
    assert_eq!(File::create_new(&one).unwrap_err().kind(), ErrorKind::AlreadyExists);
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 16).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 16);
    file.write_all_at(&[1; 1000], 100).unwrap();
    file.set_len(600).unwrap();
    file.set_len(1024).unwrap();
    let expected = [&[0; 100][..], &[1; 500], &[0; 424]].concat();
    assert_eq!(std::fs::read(&one).unwrap(), expected, "a shorter file forgets what was behind");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    let other = File::open(&one).unwrap();
    let lock = rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockShared);
    assert_eq!(lock, Err(rustix::io::Errno::WOULDBLOCK));
    let number = |path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    let before = number(&one);
    std::fs::rename(&one, &two).unwrap();
    assert_eq!((before, one.exists()), (number(&two), false));
    let mut names: Vec<_> = std::fs::read_dir(two.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["disk", "two"]);
    std::fs::remove_file(&two).unwrap();
    // It lives on for who has it open.
    file.write_all_at(&[7; 512], 0).unwrap();
    assert!(!place.disks.backing_path("two").exists());
    assert!(rustix::fs::statvfs(place.disks.path("")).unwrap().f_bavail > 0);
}

#[test]
fn commands_are_read_from_a_line() {
    let parse = |line: &str| line.parse::<Command>();
    assert_eq!(parse("cut").unwrap(), Command::Cut(None, Cut::new(0)));
    let some = Cut { keep_percent: 10, ..Cut::new(5) };
    assert_eq!(parse(" cut-file d 5 10 ").unwrap(), Command::Cut(Some("d".into()), some));
    assert_eq!(parse("fail d flush").unwrap(), Command::Fail("d".into(), Op::Flush, 0..u64::MAX));
    for wrong in ["", "cut x", "cut 1 101", "delay d read", "hang d sleep", "on now"] {
        assert!(parse(wrong).unwrap_err().to_string().contains("is no command"), "{wrong}");
    }
    let Some(place) = place() else { return };
    let run = |line: &str| parse(line).unwrap().run(&place.disks);
    place.open(0).write_all_at(&[1; 512], 0).unwrap();
    assert_eq!(run("cut 3 0").unwrap(), "0 sectors kept, 1 dropped");
    assert_eq!(run("on").unwrap(), "");
    assert!(run("counters").unwrap().contains("sectors_dropped: 1"));
    assert!(run("heal nothing").unwrap_err().to_string().contains("there is no file"));
}

#[test]
fn the_program_takes_a_command_a_line() {
    let Some(Place { disks, dir }) = place() else { return };
    let [backing, at] = ["backing", "at"].map(|name| dir.path().join(name));
    std::fs::write(disks.path("disk"), [1; 512]).unwrap();
    // In order: nothing is lost.
    drop(disks);
    let mut program = process::Command::new(env!("CARGO_BIN_EXE_chaosdisk"))
        .args([&backing, &at])
        .stdin(process::Stdio::piped())
        .stdout(process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
    let mut from = BufReader::new(&mut from).lines();
    assert!(from.next().unwrap().unwrap().starts_with("serving "));
    let disk = at.join("disk");
    assert_eq!(std::fs::read(&disk).unwrap(), [1; 512]);
    std::fs::write(&disk, [2; 512]).unwrap();
    let mut told = |line: &str| {
        writeln!(to, "{line}").unwrap();
        from.next().unwrap().unwrap()
    };
    assert_eq!(told("cut 1 0"), "0 sectors kept, 1 dropped");
    assert!(is_eio(std::fs::read(&disk)));
    assert_eq!(told("on"), "done");
    assert!(told("off").contains("is no command"));
    // A write that began with a shorter file left its length, and nothing else.
    assert_eq!(std::fs::read(&disk).unwrap(), [0; 512]);
    drop(to);
    assert!(program.wait().unwrap().success());
    assert!(!disk.exists(), "it is unmounted");
}
