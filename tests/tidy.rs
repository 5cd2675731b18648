//! The tree keeps its own rules: the house's arrows point down, files stay short, words that mean
//! "later" do not stay, documents have one title.

#[path = "tidy/modules.rs"]
mod modules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Files that git knows or would know.
fn files() -> Vec<PathBuf> {
    let out = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git is there where the source is");
    let text = String::from_utf8(out.stdout).expect("paths are UTF-8");
    text.lines().map(|l| root().join(l)).filter(|p| p.is_file()).collect()
}

fn with_ending(ending: &str) -> Vec<(PathBuf, String)> {
    files()
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == ending))
        .map(|p| {
            let text = std::fs::read_to_string(&p).expect("source is UTF-8");
            (p.strip_prefix(root()).expect("below the root").to_owned(), text)
        })
        .collect()
}

#[test]
fn files_are_short_and_lines_too() {
    for (path, text) in with_ending("rs") {
        let lines = text.lines().count();
        assert!(lines <= 800, "{} has {lines} lines, 800 is the most", path.display());
        for (number, line) in text.lines().enumerate() {
            let wide = line.chars().count();
            assert!(wide <= 120, "{}:{} is {wide} wide", path.display(), number + 1);
        }
    }
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here so that this file does not find itself.
    let banned = [["FIX", "ME"], ["TO", "DO"], ["X", "XX"]].map(|[a, b]| format!("{a}{b}"));
    let calls = [["todo", "!("], ["unimplemented", "!("]].map(|[a, b]| format!("{a}{b}"));
    for (path, text) in with_ending("rs") {
        for word in &banned {
            let found = text.split(|c: char| !c.is_ascii_alphanumeric()).any(|w| w == word);
            assert!(!found, "{} says {word}: do it, or file an issue", path.display());
        }
        for call in &calls {
            assert!(!text.contains(call.as_str()), "{} calls {call}", path.display());
        }
    }
}

#[test]
fn every_module_says_what_it_is() {
    for (path, text) in with_ending("rs") {
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//!"), "{} begins with {first:?}", path.display());
    }
}

#[test]
fn every_document_has_one_title() {
    for (path, text) in with_ending("md") {
        let mut fenced = false;
        let titles = text
            .lines()
            .filter(|l| {
                fenced ^= l.starts_with("```");
                !fenced && l.starts_with("# ")
            })
            .count();
        assert_eq!(titles, 1, "{} has {titles} titles", path.display());
    }
}

/// Crate to the crates of ours that it uses, as `ARCHITECTURE.md` says.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let rows = text.lines().filter(|l| l.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        let uses = cells[3]
            .split(',')
            .map(|u| u.trim().trim_matches('`').to_owned())
            .filter(|u| !u.is_empty() && u != "-")
            .collect();
        (name, uses)
    })
    .collect()
}

fn metadata() -> serde_json::Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("metadata is JSON")
}

/// Normal dependencies of each of our packages, by short name.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages").clone();
    packages
        .iter()
        .map(|package| {
            let uses = package["dependencies"]
                .as_array()
                .expect("dependencies")
                .iter()
                .filter(|d| d["kind"].is_null())
                .map(|d| d["name"].as_str().expect("a name").to_owned())
                .collect();
            (package["name"].as_str().expect("a name").to_owned(), uses)
        })
        .collect()
}

#[test]
fn the_architecture_table_is_what_cargo_says() {
    let documented = documented();
    for (name, uses) in dependencies() {
        let short = name.strip_prefix("cellar-").unwrap_or(&name).to_owned();
        let ours: BTreeSet<String> =
            uses.iter().filter_map(|u| u.strip_prefix("cellar-")).map(str::to_owned).collect();
        let said = documented.get(&short).unwrap_or_else(|| panic!("{short} is not in the table"));
        assert_eq!(&ours, said, "what {short} uses, in Cargo.toml and in ARCHITECTURE.md");
    }
}

#[test]
fn lower_crates_know_neither_tokio_nor_datafusion_nor_each_other() {
    let all = dependencies();
    for name in [
        "cellar-wait",
        "cellar-page",
        "cellar-heap",
        "cellar-diskgroup",
        "cellar-redo",
        "cellar-format",
        "cellar-storage",
        "cellar-instance",
        "cellar-lab",
    ] {
        for foreign in ["tokio", "datafusion", "arrow", "parquet"] {
            assert!(!all[name].contains(foreign), "{name} uses {foreign}");
        }
    }
    let datafusion: Vec<&String> =
        all.iter().filter(|(_, uses)| uses.contains("datafusion")).map(|(n, _)| n).collect();
    assert_eq!(datafusion, ["cellar-sql"], "DataFusion is seen by sql alone");
}

#[test]
fn unsafe_code_is_in_io_and_the_kernels_alone() {
    for (path, text) in with_ending("rs") {
        let may = ["crates/io/", "crates/format/src/kernel.rs", "crates/format/src/kernel/"];
        let may = may.iter().any(|part| path.starts_with(Path::new(part)));
        let word = ["uns", "afe {"].concat();
        assert!(may || !text.contains(&word), "{} has unsafe code", path.display());
    }
}

/// Files below `src` of a crate of ours, tests left out.
fn sources(name: &str) -> BTreeMap<modules::Module, String> {
    let below = format!("crates/{name}/src/");
    let files = with_ending("rs").into_iter().filter_map(|(path, text)| {
        let path = path.to_str()?.strip_prefix(&below)?.to_owned();
        let is_test = path.ends_with("tests.rs") || path.contains("tests/");
        (!is_test).then(|| (modules::module_of(&path), text))
    });
    files.collect()
}

/// How many files of a crate reach each other over more than one folder. A number may only fall.
const CIRCLES: [(&str, usize); 15] = [
    ("cell", 0),
    ("chaos", 0),
    ("diskgroup", 0),
    ("format", 0),
    ("heap", 0),
    ("instance", 0),
    ("io", 0),
    ("lab", 0),
    ("page", 0),
    ("redo", 0),
    ("server", 0),
    ("sim", 0),
    ("sql", 0),
    ("storage", 0),
    ("wait", 0),
];

#[test]
fn circles_of_modules_only_become_fewer() {
    for (name, most) in CIRCLES {
        let files = sources(name);
        assert!(!files.is_empty(), "{name} has no sources");
        let circles = modules::circles(&modules::graph(&files));
        let count: usize = circles.iter().map(BTreeSet::len).sum();
        let shown: Vec<String> = circles.iter().flatten().map(|module| module.join("/")).collect();
        assert_eq!(count, most, "{name}, files in circles: {}", shown.join(" "));
    }
}

/// The floors of a crate's rooms, the ground floor last, as `ARCHITECTURE.md` draws them.
fn floors(name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let head = format!("\n`{name}`:\n\n```\n");
    let (_, rest) = text.split_once(&head).unwrap_or_else(|| panic!("the rooms of {name}"));
    let (block, _) = rest.split_once("```").expect("a block has an end");
    // Behind two spaces a line says what its rooms are.
    let rooms = |line: &str| {
        let named = line.split("  ").next().unwrap_or_default();
        named.split(' ').map(str::to_owned).collect()
    };
    block.lines().map(rooms).collect()
}

#[test]
fn rooms_stand_on_the_floors_that_are_drawn() {
    for name in ["sql", "diskgroup", "lab", "format", "storage", "server", "instance"] {
        let floors = floors(name);
        let floor_of: BTreeMap<&str, usize> = floors
            .iter()
            .enumerate()
            .flat_map(|(floor, rooms)| rooms.iter().map(move |room| (room.as_str(), floor)))
            .collect();
        let mut seen = BTreeSet::new();
        for (module, others) in modules::graph(&sources(name)) {
            let Some(room) = module.first() else { continue };
            let floor = floor_of.get(room.as_str());
            let floor = floor.unwrap_or_else(|| panic!("{name}: the room {room} is not drawn"));
            seen.insert(room.clone());
            for other in others.iter().filter_map(|other| other.first()) {
                let below = floor_of.get(other.as_str()).is_some_and(|of_it| of_it > floor);
                assert!(other == room || below, "{name}: {room} names {other}, which is not below");
            }
        }
        let drawn: BTreeSet<String> = floors.iter().flatten().cloned().collect();
        assert_eq!(seen, drawn, "{name}: a room that is drawn is not there");
    }
}

#[test]
fn no_crate_hands_on_another() {
    for (path, text) in with_ending("rs") {
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("pub use cellar_")) {
            let path = path.display();
            assert!(line.contains("::"), "{path}: {line} hands on a crate");
            let item = line.trim_end_matches(';').rsplit("::").next().unwrap_or_default();
            let is_type = item.starts_with(|c: char| c.is_uppercase() || c == '{');
            assert!(is_type, "{path}: {line} hands on a module");
        }
    }
}

#[test]
fn code_names_only_crates_that_the_table_allows() {
    let documented = documented();
    for (path, text) in with_ending("rs") {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let name = match parts[..] {
            ["crates", name, "src", ..] => name,
            ["src", ..] => "db",
            _ => continue,
        };
        let name = name.replace('_', "-");
        let allowed = documented.get(&name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        // Tests of a module may use what its crate does not.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for word in code.flat_map(|line| line.split(|c: char| !is_part(c))) {
            let Some(other) = word.strip_prefix("cellar_") else { continue };
            let is_known = documented.contains_key(other) && other != name;
            assert!(
                !is_known || allowed.contains(other),
                "{} names {word}, which {name} does not use by ARCHITECTURE.md",
                path.display()
            );
        }
    }
}

/// Numbers that a text has behind one of these beginnings.
fn numbers_behind(text: &str, beginnings: &[&str]) -> BTreeSet<u32> {
    let of = |beginning: &&str| {
        let behind = text.split(beginning).skip(1);
        let digits = |rest: &str| {
            let rest = rest.trim_start();
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|own| own.parse().ok())
        };
        behind.filter_map(digits).collect::<Vec<u32>>()
    };
    beginnings.iter().flat_map(of).collect()
}

#[test]
fn each_number_of_an_error_below_sql_has_an_sqlstate() {
    let known = std::fs::read_to_string(root().join("crates/storage/src/error.rs")).unwrap();
    let table = known.split("pub const NUMBERS").nth(1).unwrap().split("];").next().unwrap();
    let known = numbers_behind(table, &["\n    ("]);
    assert!(known.len() > 100, "{}", known.len());
    let below = ["storage", "instance", "heap", "diskgroup", "redo"];
    let mut seen = 0;
    for (path, text) in with_ending("rs") {
        let path = path.display().to_string();
        let is_below = below.iter().any(|name| path.contains(&format!("crates/{name}/src/")));
        let is_test = path.ends_with("tests.rs");
        if !is_below || is_test {
            continue;
        }
        seen += 1;
        let code = text.split("#[cfg(test)]").next().unwrap();
        let mut used = numbers_behind(code, &["Error::new(", ".under("]);
        if path.ends_with("error.rs") && code.contains("fn number(") {
            let own = code.split("fn number(").nth(1).unwrap();
            used.extend(numbers_behind(own.split("\n    }\n").next().unwrap(), &["=> "]));
        }
        let unknown: Vec<&u32> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?} are not in NUMBERS of storage's errors");
    }
    assert!(seen > 300, "only {seen} files were looked at");
}
