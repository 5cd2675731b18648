//! Build script: tells the program which source it is built from (`CELLAR_COMMIT`), and how
//! (`CELLAR_OPTIMIZATION`); links it without symbols, and with equal functions once.
//!
//! DataFusion's generic code is compiled anew in each crate that uses it, and much of it comes out the same.
//! `CELLAR_SYMBOLS=1` keeps symbols, for profilers and backtraces; panics tell file and line without them.

use std::path::Path;
use std::process::Command;

fn git(words: &[&str]) -> Option<String> {
    let out = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    out.status.success().then(|| text.trim().to_owned())
}

/// Whether this toolchain links with the LLD that comes with it, as those of rust-lang.org do for
/// x86-64 Linux. Other linkers do not know how to fold.
fn links_with_lld() -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    let target = "x86_64-unknown-linux-gnu";
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !is("TARGET", target) || !is("HOST", target) || flags.contains("link") {
        return false;
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Ok(output) = Command::new(rustc).args(["--print", "sysroot"]).output() else {
        return false;
    };
    let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Path::new(&root).join("lib/rustlib").join(target).join("bin/gcc-ld/ld.lld").exists()
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
    if links_with_lld() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
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
