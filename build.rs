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

/// Whether the C library of this machine reads relocations packed (glibc from 2.36 on): a twenty-fifth of the size.
fn reads_packed_relocations() -> bool {
    let host = std::env::var("HOST").unwrap_or_default();
    let is_here = std::env::var("TARGET").is_ok_and(|target| target == host);
    let text = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok();
    let text = text.and_then(|out| String::from_utf8(out.stdout).ok()).unwrap_or_default();
    let version = text.trim().strip_prefix("glibc 2.").and_then(|minor| minor.parse::<u32>().ok());
    is_here && version.is_some_and(|minor| minor >= 36)
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
    if reads_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
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
