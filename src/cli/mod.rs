//! The command line: words to checked arguments, then one call. Nothing is touched before all
//! arguments are checked.

mod disks;
mod disktest;
mod fault;
mod output;
mod progress;
mod size;

#[cfg(feature = "sql")]
mod database;
#[cfg(feature = "sql")]
mod dir;
#[cfg(feature = "sql")]
mod load;
#[cfg(feature = "sql")]
mod shell;
#[cfg(feature = "sql")]
mod sql;

use std::process::ExitCode;

use cellar_io::real::{Runtime, RuntimeOptions};
use clap::Parser;

use fault::Fault;

#[derive(Debug, Parser)]
#[command(
    name = "cellar",
    version,
    about = "Mirrored disk groups that hold data, and SQL over them",
    after_help = "Exit codes: 0 done, 1 failed (or not well), 2 wrong usage.\n\
                  DIR may be left out where CELLAR_DIR is set."
)]
struct Cellar {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Every disk here: size, sectors, queue, who uses it, usable or why not
    Disks(disks::Args),
    /// What a device takes for a small durable write, and what it works in
    Disktest(disktest::Args),
    /// Parquet, CSV or generated data into tables
    #[cfg(feature = "sql")]
    Load(load::Args),
    /// SQL: a prompt, or statements from -c, a file or standard input
    #[cfg(feature = "sql")]
    Sql(sql::Args),
}

/// Runs the program.
pub fn main() -> ExitCode {
    // Clap tells usage itself: 2 for a mistake, 0 for --help.
    let cellar = match Cellar::try_parse() {
        Ok(cellar) => cellar,
        Err(error) => {
            // Whoever asked may have gone.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(cellar.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(),
    }
}

fn run(command: Command) -> Result<(), Fault> {
    if let Command::Disks(args) = command {
        return disks::run(&args);
    }
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let env = runtime.env();
    match command {
        Command::Disks(_) => unreachable!("answered above, without a runtime"),
        Command::Disktest(args) => {
            let real = runtime.real_env().clone();
            runtime.block_on(disktest::open::run(&args, &real, &env))
        }
        #[cfg(feature = "sql")]
        Command::Load(args) => runtime.block_on(load::run(args, env)),
        #[cfg(feature = "sql")]
        Command::Sql(args) => runtime.block_on(sql::run(args, env)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_has_examples_and_no_conflicting_arguments() {
        let cellar = Cellar::command();
        cellar.clone().debug_assert();
        for command in cellar.get_subcommands() {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(
                help.contains("cellar "),
                "{} has no example",
                command.get_name()
            );
            assert!(help.lines().all(|l| l.len() <= 80), "{help}");
        }
    }
}
