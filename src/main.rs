//! `cellar`: disk groups, SQL and measurements from one command line.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
