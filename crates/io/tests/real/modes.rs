//! `filesystemio_options` x `disk_asynch_io` as the kernel sees them: the system calls by strace, direct
//! I/O by `O_DIRECT` and by what is left in the page cache.

use std::path::Path;
use std::process::{Command, Stdio};

use cellar_io::real::{FilesystemIo, OpenOptions, cached_pages, drop_cached_pages, io_mode};
use cellar_io::{Device, DeviceExt, Durability, Io};

use crate::loops::Loop;
use crate::support::{bytes, directory, disk_file, open, runtime};

const SIZE: usize = 4 << 20;
/// Reads, and as many writes, that the child does, of 64 KiB each.
const REQUESTS: usize = 16;
const CHILD: &str = "CELLAR_MODES_CHILD";

const OPTIONS: [(&str, FilesystemIo); 4] = [
    ("none", FilesystemIo::None),
    ("asynch", FilesystemIo::Asynch),
    ("directio", FilesystemIo::DirectIo),
    ("setall", FilesystemIo::SetAll),
];

/// What the test below starts under strace: opens the disk as the parameters say and uses it.
#[test]
#[ignore = "started under strace by the test beside it"]
fn child() {
    let Ok(told) = std::env::var(CHILD) else {
        return;
    };
    let mut words = told.splitn(4, ' ');
    let mut next = || words.next().expect("option, asynch, kind, path");
    let (option, asynch, kind, path) = (next(), next(), next(), next());
    let option = OPTIONS.iter().find(|(name, _)| *name == option).expect("one of four").1;
    let (engine, access) = io_mode(option, asynch == "true", kind == "block");
    let runtime = runtime();
    let options = OpenOptions { engine, access, ..OpenOptions::default() };
    let disk = open(&runtime, Path::new(path), &options).expect("the parent made it");
    println!("in force: {}", disk.effective());
    runtime.block_on(async {
        for n in 0..REQUESTS {
            let offset = (n << 16) as u64;
            let data = bytes(n as u64, 1 << 16);
            disk.write_at(Io::SCAN, offset, data, Durability::Cached).await.unwrap();
            disk.read_at(Io::SCAN, offset + (2 << 20), 1 << 16).await.unwrap();
        }
        disk.flush(Io::COMMIT).await.unwrap();
    });
}

/// What strace saw of one child.
#[derive(Debug, Default)]
struct Seen {
    direct: bool,
    opened: bool,
    /// preadv and pwritev of the disk.
    synchronous: usize,
    /// io_uring_enter and io_submit.
    asynchronous: usize,
    /// io_uring_setup and io_setup.
    rings: usize,
    /// What the child says is in force.
    printed: String,
}

fn demand_strace() {
    let outcome = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output();
    let why = match outcome {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(e) => e.to_string(),
    };
    panic!(
        "this proof needs strace and leave to trace: install strace, allow ptrace (in a container \
         --cap-add=SYS_PTRACE, on a host kernel.yama.ptrace_scope below 3). strace said: {why}"
    );
}

/// Runs the child as `told`, with some calls refused by the kernel.
fn trace(path: &Path, told: &str, refused: &[&str]) -> Seen {
    let log = tempfile::NamedTempFile::new().unwrap();
    let calls = "openat,preadv,pwritev,preadv2,pwritev2,pread64,pwrite64,io_uring_enter,\
                 io_uring_setup,io_submit,io_setup";
    let output = Command::new("strace")
        .args(["-f", "-y", "-s", "0", "-e", &format!("trace={calls}"), "-o"])
        .arg(log.path())
        .args(refused.iter().flat_map(|call| ["-e", call]))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "modes::child", "--ignored", "--test-threads=1", "--nocapture"])
        .env(CHILD, format!("{told} {}", path.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let mut seen =
        Seen { printed: String::from_utf8_lossy(&output.stdout).into_owned(), ..Seen::default() };
    let name = path.to_str().unwrap();
    for line in std::fs::read_to_string(log.path()).unwrap().lines() {
        // "1234 openat(AT_FDCWD</dir>, "/path", O_RDWR|O_DIRECT) = 9</path>"
        let call = line.split_once(' ').map_or(line, |(_, rest)| rest.trim_start());
        let of_disk = call.contains(name);
        match call.split(['(', ' ']).next().unwrap_or("") {
            "openat" if of_disk => {
                seen.opened = true;
                seen.direct |= call.contains("O_DIRECT");
            }
            "io_uring_enter" | "io_submit" => seen.asynchronous += 1,
            "io_uring_setup" | "io_setup" => seen.rings += 1,
            "preadv" | "pwritev" | "preadv2" | "pwritev2" | "pread64" | "pwrite64" if of_disk => {
                seen.synchronous += 1;
            }
            _ => {}
        }
    }
    assert!(seen.opened, "strace did not see the disk being opened");
    seen
}

/// How many pages of the file are in the page cache.
fn resident(path: &Path) -> u64 {
    cached_pages(path).unwrap().cached
}

/// Writes back and drops what the page cache has of the file.
fn make_cold(path: &Path) {
    drop_cached_pages(path).unwrap();
    assert_eq!(resident(path), 0, "the page cache lets go of a clean file");
}

fn check(path: &Path, option: &str, asynch: bool, kind: &str, expected: (bool, bool)) {
    let (is_asynchronous, is_direct) = expected;
    let seen = trace(path, &format!("{option} {asynch} {kind}"), &[]);
    let case = format!("{kind}, filesystemio_options={option}, disk_asynch_io={asynch}: {seen:?}");
    assert_eq!(seen.direct, is_direct, "O_DIRECT, {case}");
    if is_asynchronous {
        assert!(seen.rings >= 1, "a ring or context, {case}");
        assert!(seen.asynchronous >= 2 * REQUESTS, "asynchronous requests, {case}");
        assert!(seen.synchronous <= 1, "no synchronous requests, {case}");
    } else {
        assert_eq!(seen.rings, 0, "no ring or context is made, {case}");
        assert_eq!(seen.asynchronous, 0, "no asynchronous requests, {case}");
        assert!(seen.synchronous >= 2 * REQUESTS, "synchronous requests, {case}");
    }
}

#[test]
fn the_kernel_sees_what_the_parameters_say() {
    demand_strace();
    let directory = directory();
    let path = disk_file(&directory, "disk", SIZE);
    for (option, is_asynchronous, is_direct) in [
        ("none", false, false),
        ("asynch", true, false),
        ("directio", false, true),
        ("setall", true, true),
    ] {
        for asynch in [true, false] {
            make_cold(&path);
            check(&path, option, asynch, "file", (is_asynchronous && asynch, is_direct));
            let pages = resident(&path);
            if is_direct {
                assert_eq!(pages, 0, "{option}: direct I/O leaves nothing in the page cache");
            } else {
                let used = (2 * REQUESTS * (1 << 16) / 4096) as u64;
                assert!(pages >= used, "{option}: {pages} pages in the page cache, used {used}");
            }
        }
    }
    let backing = disk_file(&directory, "backing", SIZE);
    let Some(device) = Loop::over(&backing, 512) else {
        eprintln!("block devices not run: loop devices need root and losetup");
        return;
    };
    for (option, _) in OPTIONS {
        for asynch in [true, false] {
            check(device.path(), option, asynch, "block", (asynch, true));
        }
    }
}

#[test]
fn a_refused_engine_is_named_and_the_next_best_runs() {
    demand_strace();
    let directory = directory();
    let path = disk_file(&directory, "disk", SIZE);
    let uring = "inject=io_uring_setup:error=EPERM";
    let aio = "inject=io_setup:error=EAGAIN";
    let seen = trace(&path, "setall true file", &[uring]);
    assert!(seen.printed.contains("in force: libaio, direct; io_uring is refused"), "{seen:?}");
    assert!(seen.asynchronous >= 2 * REQUESTS && seen.synchronous <= 1, "{seen:?}");
    let seen = trace(&path, "setall true file", &[uring, aio]);
    assert!(seen.printed.contains("in force: sync, direct; io_uring is refused"), "{seen:?}");
    assert!(seen.printed.contains("libaio is refused"), "{seen:?}");
    assert!(seen.asynchronous == 0 && seen.synchronous >= 2 * REQUESTS, "{seen:?}");
}
