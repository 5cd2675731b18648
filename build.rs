//! Build script: tells the program which source it is built from (`CELLAR_COMMIT`), and how
//! (`CELLAR_OPTIMIZATION`); links it without symbols, which are a sixth of it. `CELLAR_SYMBOLS=1` keeps them, for
//! profilers and backtraces; panics tell file and line without them.

use std::path::Path;
use std::process::Command;

fn git(words: &[&str]) -> Option<String> {
    let out = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| text.trim().to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    // What is not committed is of that commit and more.
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let more = if changed.is_some_and(|text| !text.is_empty()) { "+" } else { "" };
    let commit = commit.map_or("unknown".to_owned(), |commit| commit + more);
    println!("cargo::rustc-env=CELLAR_COMMIT={commit}");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=CELLAR_OPTIMIZATION={level}");
    println!("cargo::rerun-if-env-changed=CELLAR_SYMBOLS");
    if std::env::var_os("CELLAR_SYMBOLS").is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    for path in ["src", "crates", "Cargo.toml", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}
