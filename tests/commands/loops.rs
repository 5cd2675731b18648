//! The real program on block devices: loop devices of 512 and of 4096-byte sectors. Killed while it
//! writes; one device is away for a while; sizes that do not go together are refused.

#![expect(clippy::disallowed_methods, reason = "a test waits for another process")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::power::files::{Files, Random};
use crate::power::programs::Programs;
use crate::power::{self, holder};
use crate::program::{self, done, json, told};

/// Bytes of a disk.
const DISK: u64 = 96 << 20;
/// Numbers that `losetup --find` of somebody else does not come to soon: a device that is away for a
/// while is to come back under its number.
const NUMBERS: std::ops::Range<u32> = 240..340;

/// A loop device over a file; detached when dropped.
struct Loop {
    number: u32,
    path: PathBuf,
    file: PathBuf,
    sector: u32,
}

/// Numbers of devices that tests have, also while one is detached: another test must not take it then.
static TAKEN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Whether it said that it did; else what it said.
fn losetup(words: &[&str]) -> Result<(), String> {
    let output = Command::new("losetup").args(words).output();
    let output = output.map_err(|error| format!("losetup cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

impl Loop {
    fn new(file: PathBuf, sector: u32) -> Result<Loop, String> {
        std::fs::File::create(&file).unwrap().set_len(DISK).unwrap();
        let mut told = String::new();
        for number in NUMBERS {
            if !TAKEN.lock().unwrap().insert(number) {
                continue;
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = Loop { number, path, file: file.clone(), sector };
            match device.attach() {
                Ok(()) => return Ok(device),
                Err(why) => told = why,
            }
            // Of another process, perhaps; it is not this one's to detach.
            std::mem::forget(device);
            TAKEN.lock().unwrap().remove(&number);
        }
        Err(format!("no loop device can be made: {told}"))
    }

    fn attach(&self) -> Result<(), String> {
        let [path, file] = [&self.path, &self.file].map(|path| path.to_str().unwrap());
        losetup(&["--sector-size", &self.sector.to_string(), path, file])
    }

    fn detach(&self) -> Result<(), String> {
        losetup(&["--detach", self.name()])
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // One that is away already says so.
        let _ = self.detach();
        if let Ok(mut taken) = TAKEN.lock() {
            taken.remove(&self.number);
        }
    }
}

/// Loop devices of these sector sizes, in a directory of their own that outlives them; or `None`,
/// told, where there are none.
fn loops(sectors: &[u32]) -> Option<(Vec<Loop>, tempfile::TempDir)> {
    if !power::can_have_groups() {
        return None;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let made = sectors.iter().enumerate();
    let made = made.map(|(i, sector)| Loop::new(dir.path().join(format!("d{i}")), *sector));
    match made.collect::<Result<Vec<Loop>, String>>() {
        Ok(devices) => Some((devices, dir)),
        Err(why) => {
            power::skip("CELLAR_LOOPS", &why);
            None
        }
    }
}

fn list(devices: &[Loop]) -> String {
    devices.iter().map(Loop::name).collect::<Vec<_>>().join(",")
}

fn init(dir: &Path, devices: &[Loop]) {
    done(dir, &["init", "db", "--disks", &list(devices), "--au-size", "1M"]);
}

fn sector(dir: &Path) -> u64 {
    json(dir, &["asm", "db", "lsdg"])[0]["sector"].as_u64().unwrap()
}

#[test]
fn a_group_of_block_devices_survives_kills_and_one_that_is_away() {
    for size in [512, 4096] {
        let Some((devices, dir)) = loops(&[size; 3]) else { return };
        let dir = dir.path();
        init(dir, &devices);
        assert_eq!(sector(dir), u64::from(size));
        let programs = Programs::new(dir.to_owned());
        let (mut files, mut random) = (Files::default(), Random(u64::from(size)));
        for kill in 0..4 {
            std::thread::scope(|scope| {
                let holder = (kill % 2 == 0).then(|| holder(dir));
                let (files, random, programs) = (&mut files, &mut random, &programs);
                let writer = scope.spawn(move || while files.act(programs, "a", random).is_ok() {});
                std::thread::sleep(Duration::from_millis(300 + 70 * kill));
                programs.kill_all();
                drop(holder);
                writer.join().unwrap();
            });
            programs.open();
            programs.done(&["validate", "db"]).unwrap();
            files.check(&programs).unwrap();
        }
        // It is away while more is written.
        devices[1].detach().unwrap();
        power::wait_until("it is detached", || !dir_of(&devices[1]).exists());
        for _ in 0..8 {
            files.act(&programs, "a", &mut random).unwrap();
        }
        files.check(&programs).unwrap();
        devices[1].attach().unwrap();
        programs.done(&["asm", "db", "online", "-a", "--wait"]).unwrap();
        programs.done(&["status", "db"]).unwrap();
        programs.done(&["validate", "db"]).unwrap();
        // Now it counts: another may go.
        devices[0].detach().unwrap();
        files.check(&programs).unwrap();
        eprintln!("sectors of {size}: {:?}", files.tally);
        assert!(files.tally.acknowledged > 10 && files.tally.cut_off > 0, "{:?}", files.tally);
    }
}

/// Where sysfs has the file behind a device, if there is one.
fn dir_of(device: &Loop) -> PathBuf {
    Path::new("/sys/block").join(device.path.file_name().unwrap()).join("loop")
}

#[test]
fn a_larger_sector_than_the_groups_is_refused_and_a_smaller_one_is_taken() {
    let Some((devices, dir)) = loops(&[512, 512, 4096]) else { return };
    let dir = dir.path();
    let small = ["init", "db", "--disks", &list(&devices), "--sector-size", "512"];
    let refused = program::cellar(dir, &small);
    assert_eq!(refused.status.code(), Some(1));
    let words = told(&refused);
    assert!(words.contains("CELLAR-15038") && words.contains(devices[2].name()), "{words}");
    assert!(!dir.join("db").exists(), "nothing is left of it");
    // The largest of the disks' own, where none is asked for.
    init(dir, &devices);
    assert_eq!(sector(dir), 4096);
    done(dir, &["validate", "db"]);
}

#[test]
fn a_larger_sector_than_the_groups_cannot_join() {
    let Some((devices, dir)) = loops(&[512, 512, 4096]) else { return };
    let dir = dir.path();
    init(dir, &devices[..2]);
    assert_eq!(sector(dir), 512);
    let add = format!("alter diskgroup data add disk '{}'", devices[2].name());
    let words = program::refused(dir, &add);
    assert!(words.contains("CELLAR-15038") && words.contains("larger than"), "{words}");
    assert_eq!(json(dir, &["asm", "db", "lsdsk", "-k"]).len(), 2);
    done(dir, &["validate", "db"]);
}

#[test]
fn devices_of_a_group_that_is_gone_are_told_as_such_and_used_again() {
    let Some((devices, dir)) = loops(&[512; 3]) else { return };
    let dir = dir.path();
    init(dir, &devices);
    let shown = |device: &Loop| {
        let disks = json(dir, &["disks"]);
        disks.into_iter().find(|disk| disk["path"] == device.name()).unwrap()
    };
    let first = shown(&devices[0]);
    assert_eq!(first["usable"], false, "{first}");
    assert_eq!(first["content"][0], "it is DATA_0000 of disk group DATA", "{first}");
    std::fs::remove_dir_all(dir.join("db")).unwrap();
    let list = list(&devices);
    let refused = |words: &[&str]| {
        let output = program::cellar(dir, words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        told(&output)
    };
    let text = refused(&["init", "new", "--disks", &list, "--au-size", "1M"]);
    assert!(text.contains(&format!("cellar disks --release {}", devices[0].name())), "{text}");
    let text = refused(&["disks", "--release", devices[0].name()]);
    for said in ["normal redundancy", "keeps its catalog", "Other disks of it are here: "] {
        assert!(text.contains(said), "{text}");
    }
    for device in &devices {
        done(dir, &["disks", "--release", device.name(), "--group", "data"]);
        assert_eq!(shown(device)["usable"], true);
    }
    let text = refused(&["disks", "--release", devices[0].name(), "--yes"]);
    assert!(text.contains("bears no label of a disk group"), "{text}");
    done(dir, &["init", "new", "--disks", &list, "--au-size", "1M"]);
    done(dir, &["status", "new"]);
}

#[test]
fn a_small_file_system_is_not_filled_by_a_test_of_its_disk() {
    let Some((devices, dir)) = loops(&[512; 1]) else { return };
    let dir = dir.path();
    let mounted = dir.join("small");
    std::fs::create_dir(&mounted).unwrap();
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output();
        output.is_ok_and(|output| output.status.success())
    };
    let at = mounted.to_str().unwrap();
    if !run("mkfs.ext4", &["-q", "-F", devices[0].name()])
        || !run("mount", &[devices[0].name(), at])
    {
        eprintln!("no file system can be made and mounted here: not tested");
        return;
    }
    let output = program::cellar(dir, &["disktest", at]);
    let left = std::fs::read_dir(&mounted).unwrap().filter_map(Result::ok);
    let left: Vec<_> = left.map(|entry| entry.file_name()).filter(|n| n != "lost+found").collect();
    assert!(run("umount", &[at]));
    let text = told(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("CELLAR-70111") && text.contains("268 MB"), "{text}");
    assert!(text.contains("\nNext: ") && left.is_empty(), "{text} {left:?}");
}
