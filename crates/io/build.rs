//! Build script: tells the benchmarks how they were optimised, so that they can refuse a debug build.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=CELLAR_OPT_LEVEL={level}");
}
