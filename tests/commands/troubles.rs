//! Troubles of this process, of files and of the system: told as what they are, and no reason to
//! change what is on the disks.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;

/// What a command said.
struct Said {
    out: String,
    err: String,
    ok: bool,
}

impl Said {
    /// Without the line breaks that 80 columns make.
    fn flat(&self) -> String {
        let all = format!("{}\n{}", self.out, self.err);
        all.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn run(dir: &Path, program: &str, words: &[&str]) -> Said {
    let done = Command::new(program).current_dir(dir).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { out: text(done.stdout), err: text(done.stderr), ok: done.status.success() }
}

fn cellar(dir: &Path, words: &str) -> Said {
    let words: Vec<&str> = words.split_whitespace().collect();
    run(dir, env!("CARGO_BIN_EXE_cellar"), &words)
}

fn sql(dir: &Path, statement: &str) -> Said {
    run(dir, env!("CARGO_BIN_EXE_cellar"), &["sql", "db", "--format", "csv", "-c", statement])
}

/// A directory with a database `db` of so many disks.
fn database(disks: usize, size: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let made = format!("init db --disks {disks} --disk-size {size} --au-size 1M");
    let made = cellar(dir.path(), &made);
    assert!(made.ok, "{}", made.flat());
    dir
}

fn disk(dir: &Path, number: usize) -> std::path::PathBuf {
    dir.join(format!("db/disks/disk{number}"))
}

#[test]
fn a_process_without_descriptors_takes_no_disk_out() {
    let dir = database(12, "26M");
    let program = env!("CARGO_BIN_EXE_cellar");
    let (mut refused, mut opened) = (0, 0);
    for limit in (6..48).step_by(3) {
        for command in ["sql db -c 'select 1'", "status db", "asm db mkdir +DATA/x"] {
            let said = format!("ulimit -n {limit}; exec {program} {command}");
            let said = run(dir.path(), "bash", &["-c", &said]);
            match said.ok {
                true => opened += 1,
                // One that was made before.
                false if said.flat().contains("already exists") => opened += 1,
                false if said.flat().contains("error 24") || said.flat().contains("ulimit") => {
                    refused += 1;
                }
                false => assert!(limit < 12, "{limit}, {command}: {}", said.flat()),
            }
            let told = cellar(dir.path(), "status db");
            assert!(told.ok, "{limit}, {command}: {}", told.flat());
        }
    }
    assert!(refused > 6 && opened > 6, "{refused} refused, {opened} opened");
}

#[test]
fn a_large_group_opens_with_few_descriptors() {
    // The most that init makes.
    let dir = database(64, "26M");
    let said = format!("ulimit -n 256; exec {} status db", env!("CARGO_BIN_EXE_cellar"));
    let said = run(dir.path(), "bash", &["-c", &said]);
    assert!(said.out.contains("64 disks, all in sync"), "{}", said.flat());
    // What only the soft limit keeps from it is raised.
    let said =
        format!("ulimit -S -n 64; exec {} sql db -c 'select 1'", env!("CARGO_BIN_EXE_cellar"));
    let said = run(dir.path(), "bash", &["-c", &said]);
    assert!(said.ok, "{}", said.flat());
}

#[test]
fn a_disk_that_was_cut_off_is_told_and_comes_back_by_what_is_said() {
    let dir = database(4, "64M");
    assert!(sql(dir.path(), "create table t as select 7 as a").ok);
    let third = disk(dir.path(), 3);
    OpenOptions::new().write(true).open(&third).unwrap().set_len(40 << 20).unwrap();
    for _ in 0..2 {
        let status = cellar(dir.path(), "status db");
        assert!(status.flat().contains("cut off: it has 40 MB of 64 MB"), "{}", status.flat());
        assert!(!status.flat().contains("missed nothing"), "{}", status.flat());
        let listed = cellar(dir.path(), "asm db lsdsk");
        assert!(listed.flat().contains("cut off: it has 40 MB of 64 MB"), "{}", listed.flat());
        // The group goes on without it, and says so.
        let asked = sql(dir.path(), "select a from t");
        assert_eq!(asked.out, "a\n7\n", "{}", asked.err);
    }
    let status = cellar(dir.path(), "status db").flat();
    for command in
        ["truncate -s 67108864 db/disks/disk3", "cellar asm db online -D DATA_0002 --force"]
    {
        assert!(status.contains(command), "{status}");
        let words = command.replace("cellar", env!("CARGO_BIN_EXE_cellar"));
        let done = run(dir.path(), "bash", &["-c", &words]);
        assert!(done.ok, "{command}: {}", done.flat());
    }
    assert!(cellar(dir.path(), "asm db online -a --wait").ok);
    let status = cellar(dir.path(), "status db");
    assert!(status.out.contains("WHOLE"), "{}", status.flat());
    assert!(cellar(dir.path(), "validate db").ok);
}

#[test]
fn a_file_that_this_user_may_not_open_is_told_with_its_owner() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let dir = database(3, "64M");
    let program = dir.path().join("cellar");
    fs::copy(env!("CARGO_BIN_EXE_cellar"), &program).unwrap();
    let own = "chmod 755 . cellar; chown -R nobody: db; chown root: db/disks/disk2; chmod 600 \
               db/disks/disk2";
    assert!(run(dir.path(), "bash", &["-c", own]).ok);
    let as_nobody = |words: &str| {
        let mut all = vec!["--reuid=nobody", "--regid=nogroup", "--clear-groups", "./cellar"];
        all.extend(words.split_whitespace());
        run(dir.path(), "setpriv", &all)
    };
    let status = as_nobody("status db");
    let told = status.flat();
    for word in ["DEGRADED", "db/disks/disk2", "permission denied", "owner root:root, mode 600"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(told.contains("chown nobody"), "{told}");
    let listed = as_nobody("asm db lsdsk").flat();
    assert!(listed.contains("permission denied") && listed.contains("owner root"), "{listed}");
    // What this user may not do says nothing about the disk: it stays in.
    let refused = as_nobody("sql db -c select(1)");
    assert!(!refused.ok && refused.flat().contains("chown nobody"), "{}", refused.flat());
    assert!(run(dir.path(), "bash", &["-c", "chown nobody: db/disks/disk2"]).ok);
    assert!(as_nobody("status db").out.contains("WHOLE"), "nothing was changed");
    if run(dir.path(), "chattr", &["+i", "db/disks/disk2"]).ok {
        let refused = as_nobody("sql db -c select(1)");
        assert!(run(dir.path(), "chattr", &["-i", "db/disks/disk2"]).ok);
        assert!(!refused.ok && refused.flat().contains("chattr -ia "), "{}", refused.flat());
        assert!(as_nobody("status db").out.contains("WHOLE"), "nothing was changed");
    }
}

#[test]
fn an_older_image_in_place_is_told_as_that() {
    let dir = database(3, "64M");
    fs::copy(disk(dir.path(), 2), dir.path().join("old")).unwrap();
    assert!(sql(dir.path(), "create table t as select 7 as a").ok);
    fs::copy(dir.path().join("old"), disk(dir.path(), 2)).unwrap();
    let status = cellar(dir.path(), "status db").flat();
    assert!(status.contains("an older image of the disk"), "{status}");
    assert!(!status.contains("missed nothing"), "{status}");
    assert_eq!(sql(dir.path(), "select a from t").out, "a\n7\n");
    // What is said next works.
    let status = cellar(dir.path(), "status db").flat();
    assert!(status.contains("cellar asm db online -D DATA_0001 --force"), "{status}");
    let back = cellar(dir.path(), "asm db online -D DATA_0001 --force --wait");
    assert!(back.ok, "{}", back.flat());
    assert!(cellar(dir.path(), "status db").out.contains("WHOLE"));
}

#[test]
fn two_older_images_are_refused_with_a_way_out_that_works() {
    let dir = database(4, "64M");
    for number in [2, 3] {
        fs::copy(disk(dir.path(), number), dir.path().join(format!("old{number}"))).unwrap();
    }
    assert!(sql(dir.path(), "create table t as select 7 as a").ok);
    for number in [2, 3] {
        fs::copy(dir.path().join(format!("old{number}")), disk(dir.path(), number)).unwrap();
    }
    for words in ["status db", "sql db -c select1"] {
        let said = cellar(dir.path(), words).flat();
        assert!(said.contains("15063"), "{said}");
        assert!(said.contains("DATA_0001 (db/disks/disk2: an older image"), "{said}");
        assert!(said.contains("newest state was read from DATA_0000 (db/disks/disk1)"), "{said}");
        assert!(said.contains("alter diskgroup data mount force"), "{said}");
    }
    let forced = sql(dir.path(), "alter diskgroup data mount force");
    assert!(forced.ok, "{}", forced.flat());
    assert!(cellar(dir.path(), "asm db lsdg").ok);
}

#[test]
fn what_force_took_from_older_images_is_named_and_no_row_goes_there() {
    let dir = database(4, "64M");
    for number in [3, 4] {
        fs::copy(disk(dir.path(), number), dir.path().join(format!("old{number}"))).unwrap();
    }
    let made = |table: usize| format!("create table t{table} as select {table} as a");
    let all: Vec<String> = (0..16).map(made).collect();
    assert!(sql(dir.path(), &all.join(";")).ok);
    for number in [3, 4] {
        fs::copy(dir.path().join(format!("old{number}")), disk(dir.path(), number)).unwrap();
    }
    let refused = cellar(dir.path(), "status db").flat();
    assert!(refused.contains("files (+DATA/"), "the files are named: {refused}");
    let forced = sql(dir.path(), "alter diskgroup data mount force");
    assert!(forced.ok, "{}", forced.flat());
    let status = cellar(dir.path(), "status db");
    assert!(!status.ok && status.flat().contains("older images of disks"), "{}", status.flat());
    let said = cellar(dir.path(), "validate db").flat();
    let mut lost = 0;
    for table in 0..16 {
        let is_named = said.contains(&format!("table \"t{table}\" cannot be read"));
        let read = sql(dir.path(), &format!("select a from t{table}"));
        assert_eq!(read.ok, !is_named, "t{table}: {} {said}", read.flat());
        match read.ok {
            true => assert_eq!(read.out, format!("a\n{table}\n")),
            false => {
                let added = sql(dir.path(), &format!("insert into t{table} values (1)"));
                assert!(added.flat().contains("cannot be read"), "{}", added.flat());
                assert!(sql(dir.path(), &format!("drop table t{table}")).ok);
                lost += 1;
            }
        }
    }
    assert!(lost > 0, "none of 16 tables was on these two alone: {said}");
    // What validate found is known until it finds all well.
    let status = cellar(dir.path(), "status db").flat();
    assert!(status.contains("tables that cannot be read"), "{status}");
    let said = cellar(dir.path(), "validate db").flat();
    assert!(!said.contains("cannot be read"), "{said}");
}

#[test]
fn one_disk_of_a_copy_is_told_and_the_others_go_on() {
    let dir = database(3, "64M");
    assert!(run(dir.path(), "cp", &["-a", "db", "other"]).ok);
    assert!(sql(dir.path(), "create table t as select 7 as a").ok);
    for table in ["x", "y", "z"] {
        let made = format!("create table {table} as select 1 as a");
        let words = ["sql", "other", "-c", &made];
        assert!(run(dir.path(), env!("CARGO_BIN_EXE_cellar"), &words).ok);
    }
    fs::copy(dir.path().join("other/disks/disk1"), disk(dir.path(), 1)).unwrap();
    let status = cellar(dir.path(), "status db").flat();
    assert!(status.contains("DATA_0000 (db/disks/disk1): it was used apart"), "{status}");
    assert!(status.contains("DEGRADED"), "{status}");
    assert_eq!(sql(dir.path(), "select a from t").out, "a\n7\n");
}

/// Fills a group to its last allocation unit.
fn fill(dir: &Path) -> usize {
    fs::write(dir.join("large"), vec![1; 4 << 20]).unwrap();
    fs::write(dir.join("small"), vec![1; 1000]).unwrap();
    let copied = |name: &str, number: usize| {
        cellar(dir, &format!("asm db cp {name} +DATA/{name}{number}")).ok
    };
    let large = (0..).take_while(|number| copied("large", *number)).count();
    let small = (0..).take_while(|number| copied("small", *number)).count();
    large + small
}

#[test]
fn what_gives_room_back_needs_none() {
    let dir = database(3, "48M");
    for table in ["a", "b", "c"] {
        assert!(sql(dir.path(), &format!("create table {table} as select 7 as a")).ok);
    }
    assert!(fill(dir.path()) > 3);
    assert!(!sql(dir.path(), "create table d as select 1 as a").ok, "it is full");
    for statement in ["truncate table a", "drop table b", "drop table a"] {
        let said = sql(dir.path(), statement);
        assert!(said.ok, "{statement}: {}", said.flat());
    }
    assert_eq!(sql(dir.path(), "select a from c").out, "a\n7\n");
    let said = cellar(dir.path(), "asm db rm +DATA/large0");
    assert!(said.ok, "{}", said.flat());
    assert!(sql(dir.path(), "create table d as select 1 as a").ok, "there is room again");
    // Nobody takes the room away that this needs.
    let said = cellar(dir.path(), "asm db rm +DATA/cellar/catalog.next");
    assert!(!said.ok && said.flat().contains("15028"), "{}", said.flat());
    assert!(cellar(dir.path(), "validate db").ok);
}

#[test]
fn a_verdict_holds_for_any_number_of_bad_places() {
    let dir = database(3, "128M");
    let content: Vec<u8> = (0..60u32 << 18).flat_map(|i| i.to_le_bytes()).collect();
    fs::write(dir.path().join("f"), &content).unwrap();
    assert!(cellar(dir.path(), "asm db cp f +DATA/f").ok);
    let second = OpenOptions::new().write(true).open(disk(dir.path(), 2)).unwrap();
    second.write_all_at(&vec![0xa5; 12 << 20], 20 << 20).unwrap();
    drop(second);
    let said = cellar(dir.path(), "validate db");
    let told = said.flat();
    assert!(!said.ok && told.contains("another copy is right"), "{told}");
    assert!(told.contains("cellar asm db scrub --repair --wait"), "{told}");
    assert!(!told.contains("load it again") && !told.contains("DATA_0000"), "{told}");
    let status = cellar(dir.path(), "status db").flat();
    assert!(status.contains("DAMAGED") && status.contains("scrub --repair --wait"), "{status}");
    assert!(cellar(dir.path(), "asm db scrub --repair --wait").ok);
    assert!(cellar(dir.path(), "validate db").ok);
    assert!(cellar(dir.path(), "status db").out.contains("WHOLE"));
}

#[test]
fn without_its_parameter_file_nothing_is_lost() {
    let dir = database(3, "64M");
    assert!(sql(dir.path(), "create table t as select 7 as a").ok);
    fs::remove_file(dir.path().join("db/cellar.toml")).unwrap();
    let said = cellar(dir.path(), "status db").flat();
    assert!(said.contains("holds a database") && !said.contains("cellar init"), "{said}");
    let made = cellar(dir.path(), "init db").flat();
    assert!(!made.contains("remove that one"), "{made}");
    assert!(said.contains("touch db/cellar.toml"), "{said}");
    assert!(run(dir.path(), "touch", &["db/cellar.toml"]).ok);
    assert_eq!(sql(dir.path(), "select a from t").out, "a\n7\n");
}

#[test]
fn links_in_the_directory_are_not_written_through() {
    let dir = database(3, "64M");
    let precious = dir.path().join("precious");
    let kept = || fs::read_to_string(&precious).unwrap();
    fs::write(&precious, "kept").unwrap();
    let link = |name: &str| {
        let at = dir.path().join("db").join(name);
        let _ = fs::remove_file(&at);
        symlink(&precious, &at).unwrap();
        at
    };
    let lock = link("cellar.lock");
    let said = sql(dir.path(), "select 1 as a");
    assert!(!said.ok && said.flat().contains("link"), "{}", said.flat());
    assert_eq!(kept(), "kept");
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&precious, &lock).unwrap();
    assert!(!sql(dir.path(), "select 1 as a").ok);
    assert_eq!(kept(), "kept");
    fs::remove_file(&lock).unwrap();
    link("cellar.toml.new");
    link("validate.json.new");
    let set = sql(dir.path(), "alter system set scan_depth = 8 scope = spfile");
    assert!(set.ok, "{}", set.flat());
    assert!(cellar(dir.path(), "validate db").ok);
    assert_eq!(kept(), "kept");
    assert!(fs::read_to_string(dir.path().join("db/cellar.toml")).unwrap().contains("scan_depth"));
}

/// A file system that goes with the test.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Mounts a tmpfs that holds a copy of a database; `None` where that is not allowed.
fn on_small_file_system(dir: &Path) -> Option<Mounted> {
    let at = dir.join("mnt");
    fs::create_dir(&at).unwrap();
    let mounted = run(dir, "mount", &["-t", "tmpfs", "-o", "size=160M", "none", "mnt"]);
    if !mounted.ok {
        eprintln!("skipped: {}", mounted.flat());
        return None;
    }
    let at = Mounted(at);
    assert!(run(dir, "cp", &["-a", "db", "mnt/db"]).ok);
    Some(at)
}

#[test]
fn a_full_or_read_only_file_system_is_no_reason_not_to_look() {
    let dir = database(3, "32M");
    assert!(sql(dir.path(), "create table t as select 7 as a").ok);
    let _ = fs::remove_file(dir.path().join("db/cellar.lock"));
    let Some(mounted) = on_small_file_system(dir.path()) else { return };
    let at = mounted.0.clone();
    let looks = |what: &str| {
        for words in ["status db", "asm db lsdg", "validate db", "inspect db/disks/disk1"] {
            let said = cellar(&at, words);
            assert!(said.ok, "{what}, {words}: {}", said.flat());
        }
        let said = sql(&at, "select a from t");
        assert_eq!(said.out, "a\n7\n", "{what}: {}", said.err);
        said
    };
    // No page is left, so that no file can be made.
    let filled = "cat /dev/zero > mnt/fill; while mkdir mnt/e$((i++)); do :; done";
    let _ = run(dir.path(), "timeout", &["20", "bash", "-c", filled]);
    looks("full");
    let _ = run(dir.path(), "bash", &["-c", "rm -rf mnt/fill mnt/e*"]);
    assert!(run(dir.path(), "mount", &["-o", "remount,ro", "mnt"]).ok);
    let said = looks("read-only");
    let told = said.err.matches("read-only file system").count();
    assert_eq!(told, 1, "said once: {}", said.err);
}
