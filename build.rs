//! The link of the program: equal functions once, and no symbols.
//!
//! DataFusion's generic code is compiled anew in each crate that uses it, and much of it comes out the same.
//! `CELLAR_SYMBOLS=1` keeps symbols, for profilers and backtraces; panics tell file and line without them.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CELLAR_SYMBOLS");
    if std::env::var_os("CELLAR_SYMBOLS").is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    if links_with_lld() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Whether this toolchain links with the LLD that comes with it, as those of rust-lang.org do for
/// x86-64 Linux. Others do not know the option.
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
