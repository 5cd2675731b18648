//! A database whose disks are files of a chaos disk, and files in it of which it is known what they
//! must hold.

pub mod files;
pub mod programs;
pub mod rounds;

use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cellar_chaos::ChaosDisks;

use programs::Programs;

use crate::program::{self, command, done, has_groups};

/// Bytes of a disk.
const DISK: u64 = 96 << 20;

/// A group on a chaos disk. Disks are `disk1`, `disk2`, ...
pub struct Power {
    pub disks: ChaosDisks,
    pub programs: Programs,
    /// How often a scrub told torn checksum blocks, and made them again.
    pub torn_checksums: AtomicU64,
    /// Changes of the disks that were done, refused while there was power, and cut off.
    pub changes: [AtomicU64; 3],
    dir: tempfile::TempDir,
}

/// Says why a test does nothing; where `variable` is set, what it needs must be there.
pub fn skip(variable: &str, why: &str) {
    assert!(std::env::var_os(variable).is_none(), "{variable} is set, and {why}");
    tell_skipped(why);
}

/// Where the output of a test that passes is not shown, this is.
fn tell_skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Whether the program has disk groups; told if it has not.
pub fn can_have_groups() -> bool {
    if !has_groups() {
        tell_skipped("this program has no disk groups; CELLAR_PROGRAM names one that has");
    }
    has_groups()
}

/// Empty disks, or `None` where there is no FUSE.
pub fn disks(count: usize) -> Option<Power> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [backing, at] = ["backing", "at"].map(|name| dir.path().join(name));
    std::fs::create_dir(&backing).unwrap();
    std::fs::create_dir(&at).unwrap();
    for number in 1..=count {
        let file = std::fs::File::create(backing.join(format!("disk{number}"))).unwrap();
        file.set_len(DISK).unwrap();
    }
    match ChaosDisks::mount(&backing, &at) {
        Ok(disks) => {
            let programs = Programs::new(dir.path().to_owned());
            let (torn_checksums, changes) = Default::default();
            Some(Power { disks, programs, torn_checksums, changes, dir })
        }
        Err(error) => {
            skip("CELLAR_CHAOS", &error.to_string());
            None
        }
    }
}

/// What a group is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub redundancy: &'static str,
    /// Disks in it.
    pub members: usize,
    /// Disks that are there beside them.
    pub spare: usize,
}

/// Three disks, mirrored.
pub const NORMAL: Shape = Shape { redundancy: "normal", members: 3, spare: 0 };

/// A group, AU 1 MB, with a redo log in it; `None`, told, where that cannot be.
pub fn group(shape: &Shape) -> Option<Power> {
    if !can_have_groups() {
        return None;
    }
    let power = disks(shape.members + shape.spare)?;
    let paths: Vec<String> = (1..=shape.members).map(|n| format!("at/disk{n}")).collect();
    let paths = paths.join(",");
    let words = ["--disks", &paths, "--au-size", "1M", "--redundancy", shape.redundancy];
    done(power.dir(), &[&["init", "db", "--redo-size", "auto"][..], &words].concat());
    Some(power)
}

impl Power {
    /// Where the program runs; the database is `db`.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves everything where it is, for whoever looks into a failure.
    pub fn keep(&mut self) -> &Path {
        self.dir.disable_cleanup(true);
        self.dir.path()
    }

    /// Somebody who has the database open until he is killed.
    pub fn holder(&self) -> Holder {
        holder(self.dir())
    }

    /// MODE_STATUS of a disk that was in the group from the start.
    pub fn mode(&self, name: &str) -> String {
        let rows = program::json(self.dir(), &["asm", "db", "lsdsk", "-p"]);
        // One that is missing has no path.
        let number: u64 = name.strip_prefix("disk").and_then(|n| n.parse().ok()).unwrap();
        let row = rows.iter().find(|row| row["disk_num"] == number - 1);
        let row = row.unwrap_or_else(|| panic!("{name} in {rows:?}"));
        row["mode_stat"].as_str().unwrap().to_owned()
    }

    /// Disks that are away come back.
    pub fn make_whole(&self) -> Result<(), String> {
        self.programs.done(&["asm", "db", "online", "-a", "--wait"])?;
        self.programs.done(&["asm", "db", "rebal", "--wait"])?;
        let status = || match self.programs.done(&["status", "db"]) {
            // So may any disk be where others compile beside the test.
            Err(told) if !told.contains("DATA     SLOW") => Err(told),
            _ => Ok(()),
        };
        match status() {
            // Known: a checksum block that the cut tore is told by the next scrub as if it had rotted.
            Err(told) if told.contains("wrong checksums") => {
                self.programs.done(&["asm", "db", "scrub", "--repair", "--wait"])?;
                self.torn_checksums.fetch_add(1, Ordering::Relaxed);
                status()
            }
            other => other,
        }
    }

    /// Every copy of everything is right.
    pub fn validate(&self) -> Result<(), String> {
        self.programs.done(&["validate", "db"]).map(drop)
    }
}

/// Somebody who has `db` in `dir` open until he is killed.
pub fn holder(dir: &Path) -> Holder {
    let socket = dir.join("db/cellar.sock");
    // One that was killed leaves it behind. Who came first would have the database then, and wait at
    // its end for this one, who never goes.
    let _ = std::fs::remove_file(&socket);
    let child = command(dir, &["asm", "db", "iostat", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let holder = Holder(child);
    wait_until("the holder has the database", || socket.exists());
    holder
}

/// A process that is killed when it is not needed any more.
pub struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits up to a minute.
#[expect(clippy::disallowed_methods, reason = "a test waits for another process")]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let came = (0..600).any(|_| {
        let is = done();
        if !is {
            std::thread::sleep(Duration::from_millis(100));
        }
        is
    });
    assert!(came, "{what}");
}
