//! ALTER SYSTEM SET and the file behind it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cellar_instance::parameters::definitions::{
    CPU_COUNT, DISK_STRING, FILESYSTEMIO_OPTIONS, MEMORY_TARGET, SCAN_DEPTH,
};
use cellar_instance::parameters::{Parameters, Scope, Spfile, Value};
use proptest::prelude::*;

fn directory(content: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("cellar.toml"), content).unwrap();
    directory
}

#[test]
fn defaults_hold_until_something_is_set() {
    let parameters = Parameters::load(directory("").path()).unwrap();
    assert_eq!(parameters.choice(FILESYSTEMIO_OPTIONS), "setall");
    assert_eq!(parameters.integer(SCAN_DEPTH), 32);
    assert!(parameters.rows().iter().all(|row| row.is_default == "TRUE"));
    assert!(parameters.rows().iter().all(|row| !row.name.starts_with('_')), "hidden");
}

#[test]
fn both_changes_now_and_after_a_restart() {
    let dir = directory("");
    let parameters = Parameters::load(dir.path()).unwrap();
    let altered = parameters.set("SCAN_DEPTH", "8", None).unwrap();
    assert_eq!((altered.in_force, altered.after_restart), (Value::Integer(8), Value::Integer(8)));
    assert_eq!(parameters.integer(SCAN_DEPTH), 8);
    assert_eq!(Parameters::load(dir.path()).unwrap().integer(SCAN_DEPTH), 8);
    let rows = parameters.rows();
    let row = rows.iter().find(|row| row.name == SCAN_DEPTH).unwrap();
    assert_eq!((row.value.as_str(), row.is_default, row.is_modified), ("8", "FALSE", "SYSTEM_MOD"));
}

#[test]
fn memory_lasts_until_the_restart_and_spfile_begins_there() {
    let dir = directory("");
    let parameters = Parameters::load(dir.path()).unwrap();
    parameters.set(SCAN_DEPTH, "8", Some(Scope::Memory)).unwrap();
    parameters.set(MEMORY_TARGET, "'2g'", Some(Scope::Spfile)).unwrap();
    assert_eq!((parameters.integer(SCAN_DEPTH), parameters.integer(MEMORY_TARGET)), (8, 0));
    let again = Parameters::load(dir.path()).unwrap();
    assert_eq!((again.integer(SCAN_DEPTH), again.integer(MEMORY_TARGET)), (32, 2 << 30));
}

#[test]
fn a_static_parameter_waits_for_the_restart() {
    let dir = directory("");
    let parameters = Parameters::load(dir.path()).unwrap();
    for scope in [None, Some(Scope::Memory), Some(Scope::Both)] {
        let error = parameters.set(FILESYSTEMIO_OPTIONS, "asynch", scope).unwrap_err();
        assert_eq!(error.number(), 2095);
        assert!(error.to_string().contains("Next: add SCOPE = SPFILE"), "{error}");
    }
    let altered = parameters.set(FILESYSTEMIO_OPTIONS, "asynch", Some(Scope::Spfile)).unwrap();
    assert_eq!(altered.in_force, Value::Choice("setall"));
    assert_eq!(altered.after_restart, Value::Choice("asynch"));
    assert_eq!(Parameters::load(dir.path()).unwrap().choice(FILESYSTEMIO_OPTIONS), "asynch");
}

#[test]
fn a_wrong_name_or_value_changes_nothing_and_says_what_is_allowed() {
    let dir = directory("");
    let parameters = Parameters::load(dir.path()).unwrap();
    let error = parameters.set("scan_dept", "8", None).unwrap_err();
    assert_eq!((error.number(), error.sqlstate()), (2065, "42704"));
    assert!(error.to_string().contains("did you mean scan_depth?"), "{error}");
    let error = parameters.set(FILESYSTEMIO_OPTIONS, "fast", Some(Scope::Spfile)).unwrap_err();
    assert_eq!(error.stack()[0].number, 2097);
    assert!(error.to_string().contains("none, asynch, directio, setall"), "{error}");
    assert_eq!(parameters.set(SCAN_DEPTH, "5000", None).unwrap_err().number(), 68);
    assert_eq!(fs::read_to_string(dir.path().join("cellar.toml")).unwrap(), "");
    assert_eq!(Scope::parse("LATER").unwrap_err().number(), 922);
}

#[test]
fn disk_string_takes_paths_and_nothing_else() {
    let dir = directory("");
    let parameters = Parameters::load(dir.path()).unwrap();
    for bad in ["5", "true", "disks/*", "/dev/*/x", "/a, b"] {
        let error = parameters.set(DISK_STRING, bad, None).unwrap_err();
        assert_eq!((error.stack()[0].number, error.number()), (2097, 96), "{error}");
        assert!(error.to_string().contains("Next: write disk_string = '/dev"), "{error}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("cellar.toml")).unwrap(), "");
    parameters.set(DISK_STRING, "'/a/*', '/b'", None).unwrap();
    assert_eq!(Parameters::load(dir.path()).unwrap().list(DISK_STRING), ["/a/*", "/b"]);
    parameters.set(DISK_STRING, "''", None).unwrap();
    assert!(parameters.list(DISK_STRING).is_empty());
}

#[test]
fn without_a_file_only_memory_is_possible() {
    let parameters = Parameters::without_file();
    assert_eq!(parameters.set(SCAN_DEPTH, "8", Some(Scope::Both)).unwrap_err().number(), 32001);
    parameters.set(SCAN_DEPTH, "8", None).unwrap();
    assert_eq!(parameters.integer(SCAN_DEPTH), 8);
    assert_eq!(parameters.reset(SCAN_DEPTH, None).unwrap().in_force, Value::Integer(32));
}

#[test]
fn names_of_other_versions_are_kept() {
    let dir = directory("undo_retention = \"auto\"\nscan_depth = 4\n[later]\nx = [1, 2]\n");
    let parameters = Parameters::load(dir.path()).unwrap();
    assert_eq!(parameters.notices().len(), 2);
    parameters.set(CPU_COUNT, "2", Some(Scope::Spfile)).unwrap();
    parameters.reset(SCAN_DEPTH, None).unwrap();
    let text = fs::read_to_string(dir.path().join("cellar.toml")).unwrap();
    assert!(text.contains("undo_retention = \"auto\"") && text.contains("[later]"), "{text}");
    assert!(text.contains("cpu_count = 2") && !text.contains("scan_depth"), "{text}");
    Parameters::load(dir.path()).unwrap();
}

#[test]
fn a_misspelt_name_in_the_file_is_noticed() {
    let dir = directory("scan_dpeth = 8\n");
    let notices = Parameters::load(dir.path()).unwrap().notices();
    let expected = "cellar.toml: scan_dpeth is no parameter; did you mean scan_depth?";
    assert_eq!(notices, [expected]);
}

#[test]
fn a_list_keeps_its_paths_and_hidden_ones_are_shown_once_set() {
    let dir = directory("_disk_watch_interval = 100\n");
    let parameters = Parameters::load(dir.path()).unwrap();
    assert_eq!(parameters.rows()[0].name, "_disk_watch_interval");
    let paths = vec!["/dir/disks/*".to_owned(), "/dev/disk/by-id/with,comma".to_owned()];
    parameters.set_list(DISK_STRING, paths.clone(), None).unwrap();
    assert_eq!(Parameters::load(dir.path()).unwrap().list(DISK_STRING), paths);
}

#[test]
fn a_damaged_file_is_told_by_its_line() {
    for (content, line, what) in [
        ("scan_depth = 4\ncpu_count == 2\n", 2, ""),
        ("# head\n\nscan_depth = 0\n", 3, "between 1 and 1024"),
        ("a = 1\nfilesystemio_options = \"fast\"\n", 2, "none, asynch, directio, setall"),
        ("scan_depth = 1.5\n", 1, "float"),
        ("disk_string = [1]\n", 1, "paths from / on"),
        ("disk_string = 5\n", 1, "type integer for parameter disk_string, must be paths"),
        ("disk_string = true\n", 1, "type boolean"),
        ("disk_string = { a = 1 }\n", 1, "type table"),
        ("disk_string = \"disks/*\"\n", 1, "\"disks/*\" for parameter disk_string"),
        ("disk_string = [\"/a\", \"/dev/*/x\"]\n", 1, "\"/dev/*/x\""),
        ("scan_depth = true\n", 1, "1 to 1024"),
        ("memory_target = [1]\n", 1, "type array"),
        ("scan_depth = 1\nscan_depth = 2\n", 2, ""),
    ] {
        let error = Spfile::read(directory(content).path()).unwrap_err();
        assert!(error.has(70107), "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("cellar.toml line {line}: ")), "{text}");
        assert!(text.contains(what) && text.contains("Next: "), "{text}");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("cellar.toml"), b"a = 1\nb = \xff\n").unwrap();
    assert!(Spfile::read(dir.path()).unwrap_err().to_string().contains("line 2: "));
    fs::remove_file(dir.path().join("cellar.toml")).unwrap();
    assert_eq!(Spfile::read(dir.path()).unwrap_err().number(), 70110);
}

#[test]
fn the_file_is_for_its_owner_and_nothing_is_left_beside_it() {
    let dir = directory("");
    Parameters::load(dir.path()).unwrap().set(SCAN_DEPTH, "8", None).unwrap();
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["cellar.toml"]);
    let mode = fs::metadata(dir.path().join("cellar.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

proptest! {
    #[test]
    fn any_file_is_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cellar.toml"), &content).unwrap();
        if let Err(error) = Spfile::read(dir.path()) {
            prop_assert!(error.has(70107), "{}", error);
        }
    }

    #[test]
    fn any_value_is_taken_or_refused(name in "[a-z_]{0,24}", value in ".{0,40}") {
        let parameters = Parameters::without_file();
        let _ = parameters.set(&name, &value, None);
        let _ = parameters.set(DISK_STRING, &value, None);
        let _ = parameters.set(MEMORY_TARGET, &value, None);
    }
}
