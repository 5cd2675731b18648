//! `cellar`: disk groups, SQL and measurements from one command line.

mod cli;

/// Futures and records of a commit are longer than what the C library keeps in its quick lists:
/// docs/decisions/2026-11-27-writing-and-loading.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
