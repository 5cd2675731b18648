//! Build script: SQLite without `fdatasync` would be slower than as distributed.

fn main() {
    println!("cargo:rerun-if-env-changed=LIBSQLITE3_FLAGS");
    let flags = std::env::var("LIBSQLITE3_FLAGS").unwrap_or_default();
    if !flags.contains("HAVE_FDATASYNC") {
        println!(
            "cargo::error=run cargo in benches/rivals/commit: its .cargo/config.toml is needed"
        );
    }
}
