//! The command line: parses and checks the arguments, then makes one call. Nothing is touched before all
//! arguments are checked.

mod alert;
mod asm;
mod clock;
mod database;
#[cfg(feature = "sql")]
mod demo;
mod dir;
mod disks;
mod disktest;
mod fault;
mod init;
mod inspect;
mod lab;
mod label;
#[cfg(feature = "sql")]
mod load;
mod output;
mod path;
mod progress;
mod rescue;
#[cfg(feature = "sql")]
mod shell;
mod signals;
mod size;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sql")]
mod start;
mod status;
mod validate;

use std::process::ExitCode;

use cellar_io::real::{Runtime, RuntimeOptions};
use clap::Parser;

use fault::Fault;

#[cfg(feature = "sql")]
const ABOUT: &str = "Mirrored disk groups that hold data, and SQL over them";
#[cfg(not(feature = "sql"))]
const ABOUT: &str = "Mirrored disk groups that hold data";

#[cfg(feature = "sql")]
const EXAMPLES: &str = "Examples:
  cellar demo                             all of it in about a minute
  cellar disks                            which disks here can be used
  cellar init mydb                        four mirrored files of 2 GB
  cellar load mydb trips.parquet          the table trips
  cellar sql mydb -c 'select count(*) from trips'
  cellar start mydb                       then: psql -h 127.0.0.1
  cellar status mydb                      is it well, and what to do
  cellar asm mydb lsdg                    disk groups and their room
  cellar lab run multi-disk               are two disks twice one?
Exit codes: 0 done, 1 failed (or not well), 2 wrong usage.
DIR may be left out where CELLAR_DIR is set. Each command has its --help.";
#[cfg(not(feature = "sql"))]
const EXAMPLES: &str = "Examples:
  cellar disks                            which disks here can be used
  cellar init mydb                        four mirrored files of 2 GB
  cellar status mydb                      is it well, and what to do
  cellar asm mydb lsdg                    disk groups and their room
  cellar lab run multi-disk               are two disks twice one?
Exit codes: 0 done, 1 failed (or not well), 2 wrong usage.
DIR may be left out where CELLAR_DIR is set. Each command has its --help.
SQL, loading, the server and the demo are in a program with SQL.";

#[derive(Debug, Parser)]
#[command(
    name = "cellar",
    version,
    about = ABOUT,
    after_help = EXAMPLES
)]
struct Cellar {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// All in about a minute: a mirrored group, data, a disk that dies
    #[cfg(feature = "sql")]
    Demo(demo::Args),
    /// Every disk here: size, sectors, queue, its users, usable or why not
    Disks(disks::Args),
    /// Measure small-write latency and true block size
    Disktest(disktest::Args),
    /// Questions about disks, answered with evidence: are two twice one?
    Lab(lab::Args),
    /// A directory with a mirrored disk group in it
    Init(init::Args),
    /// Parquet, CSV or generated data into tables
    #[cfg(feature = "sql")]
    Load(load::Args),
    /// SQL: a prompt, or statements from -c, a file or standard input
    #[cfg(feature = "sql")]
    Sql(sql::Args),
    /// The server: PostgreSQL's clients connect to it
    #[cfg(feature = "sql")]
    Start(start::Args),
    /// State, one action line, what may fail next; exit 0 well, 1 not
    Status(status::Args),
    /// Disk groups and their files, in ASMCMD's words
    Asm(asm::Args),
    /// Reads every copy of everything and compares; exit 1 if any is bad
    Validate(validate::Args),
    /// What is written on a disk: labels, superblocks, log, checkpoints
    Inspect(inspect::Args),
    /// Recover files from an unmountable group (read-only)
    Rescue(rescue::Args),
}

/// Runs the program.
pub fn main() -> ExitCode {
    // Clap prints usage itself: exit code 2 for a mistake, 0 for --help.
    let cellar = match Cellar::try_parse() {
        Ok(cellar) => cellar,
        Err(error) => {
            match error.use_stderr() {
                true if wants_directory(&error) => output::notice(
                    "which directory is to be made? cellar init DIR, then its options: cellar \
                     init mydb --disks 4",
                ),
                true => output::notice(error.to_string().trim_end()),
                // The caller may be gone.
                false => drop(output::text(&output::fold_help(&error.to_string()))),
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match run(cellar.command) {
        Ok(code) => code,
        Err(fault) => fault.report(),
    }
}

/// Whether `init` was given nothing to create.
fn wants_directory(error: &clap::Error) -> bool {
    error.kind() == clap::error::ErrorKind::MissingRequiredArgument
        && std::env::args().nth(1).is_some_and(|word| word == "init")
}

fn run(command: Command) -> Result<ExitCode, Fault> {
    if let Command::Disks(args) = &command
        && args.release.is_empty()
    {
        return disks::run(args).map(|()| ExitCode::SUCCESS);
    }
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let (env, real) = (runtime.env(), runtime.real_env().clone());
    if let Command::Disks(args) = command {
        return runtime.block_on(disks::release(&args, &real)).map(|()| ExitCode::SUCCESS);
    }
    if let Command::Disktest(args) = command {
        let test = disktest::open::run(&args, &real, &env);
        return runtime.block_on(test).map(|()| ExitCode::SUCCESS);
    }
    if let Command::Lab(args) = command {
        return lab::run(args, &runtime).map(|()| ExitCode::SUCCESS);
    }
    let place = database::Place { env, real };
    runtime.block_on(at(command, &place))
}

async fn at(command: Command, place: &database::Place) -> Result<ExitCode, Fault> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        #[cfg(feature = "sql")]
        Command::Demo(args) => {
            let dir = args.dir.clone();
            demo::run(args, place).await.map(done).map_err(|fault| fault.in_directory(&dir))
        }
        Command::Init(args) => init::run(args, place).await.map(done),
        Command::Inspect(args) => inspect::run(args, place).await.map(done),
        Command::Status(status::Args { alert: Some(ref run), .. }) => {
            let Command::Status(args) = &command else { unreachable!("it was matched") };
            alert::watch(args, run, place).await.map(done)
        }
        Command::Rescue(args) => rescue::run(args, place).await.map(done),
        command => in_directory(command, place).await,
    }
}

/// A command that needs an open database: here, or in the process that has it open.
async fn in_directory(command: Command, place: &database::Place) -> Result<ExitCode, Fault> {
    use database::Reached;
    let (dir, opening) = target(&command)?;
    let reached = database::reach(&dir, place, opening).await.map_err(|f| f.in_directory(&dir));
    let reached = match (reached, &command) {
        (Err(fault), Command::Status(args)) => return Err(status::not_open(args, fault)),
        (reached, _) => reached?,
    };
    match reached {
        Reached::Here(held) => {
            let result = on(command, &held.database, place).await;
            // The first error is reported.
            let closed = held.close().await;
            result.and(closed).map(|()| ExitCode::SUCCESS).map_err(|f| f.in_directory(&dir))
        }
        Reached::There(mut client) => {
            #[cfg(feature = "sql")]
            if let Command::Sql(args) = &command {
                if args.wants_prompt() {
                    shell::run_there(&mut client, args)?;
                    return Ok(ExitCode::SUCCESS);
                }
                if args.reads_stdin() {
                    return sql::run_there(&mut client, args).map(ExitCode::from);
                }
                if args.has_pipe() {
                    return sql::run_pipe_there(&mut client, args).map(ExitCode::from);
                }
            }
            if let Command::Asm(args) = &command
                && args.wants_prompt()
            {
                return asm::run_there(args, &mut client).map(ExitCode::from);
            }
            let words = std::env::args().skip(1).collect();
            database::forward(&mut client, words).map(ExitCode::from)
        }
    }
}

/// The directory of a command, and how the database is opened for it.
fn target(command: &Command) -> Result<(std::path::PathBuf, database::Opening), Fault> {
    use cellar_storage::OpenMode;
    use database::Opening;
    let mode = OpenMode { read_only: true, force: false };
    let look = Opening { mode, force: None, alone: false };
    let work = Opening::default();
    Ok(match command {
        #[cfg(feature = "sql")]
        Command::Load(args) => (args.directory()?, work),
        #[cfg(feature = "sql")]
        Command::Sql(args) => {
            let force = args.forces();
            (dir::resolve(args.dir.clone())?, Opening { force, ..work })
        }
        #[cfg(feature = "sql")]
        Command::Start(args) => (dir::resolve(args.dir.clone())?, work),
        Command::Status(args) => (dir::resolve(args.dir.clone())?, Opening { alone: true, ..look }),
        Command::Asm(args) => {
            let (dir, only_looks) = args.target()?;
            (dir, if only_looks { look } else { work })
        }
        Command::Validate(args) => (dir::resolve(args.dir.clone())?, look),
        _ => unreachable!("the others need no database"),
    })
}

async fn on(
    command: Command,
    database: &database::Database,
    place: &database::Place,
) -> Result<(), Fault> {
    match command {
        #[cfg(feature = "sql")]
        Command::Load(args) => load::run(args, database, place.env.clone()).await,
        #[cfg(feature = "sql")]
        Command::Sql(args) => sql::run(args, database, place.env.clone()).await,
        #[cfg(feature = "sql")]
        Command::Start(args) => start::run(&args, database, place).await,
        Command::Status(args) => status::run(&args, database, place).await,
        Command::Asm(args) => asm::run(args, database, place).await,
        Command::Validate(args) => validate::run(args, database, place).await,
        _ => unreachable!("the others need no database"),
    }
}

/// Runs a command sent by another process; returns its exit code.
pub async fn answer(
    words: Vec<String>,
    database: database::Database,
    place: database::Place,
) -> u8 {
    let words = std::iter::once("cellar".to_owned()).chain(words);
    let command = match Cellar::try_parse_from(words) {
        Ok(cellar) => cellar.command,
        Err(error) => {
            output::notice(error.to_string().trim_end());
            return 2;
        }
    };
    // A prompt belongs to the user's terminal, not to this process.
    let here = match &command {
        #[cfg(feature = "sql")]
        Command::Sql(args) => !args.wants_prompt(),
        #[cfg(feature = "sql")]
        Command::Load(_) => true,
        Command::Asm(args) => !args.wants_prompt(),
        Command::Status(_) | Command::Validate(_) => true,
        _ => false,
    };
    if !here {
        output::notice("this command does not go through another process");
        return 2;
    }
    // Boxed, because a command that opens databases also serves commands.
    let work: std::pin::Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + '_>> =
        Box::pin(on(command, &database, &place));
    match work.await {
        Ok(()) => 0,
        Err(fault) => fault.in_directory(database.inner.directory().path()).tell(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_has_examples_and_no_conflicting_arguments() {
        let mut cellar = Cellar::command();
        cellar.clone().debug_assert();
        let names: Vec<String> =
            cellar.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        let mut helps = vec![cellar.render_help().to_string()];
        for name in &names {
            let command = cellar.find_subcommand_mut(name).unwrap();
            helps.push(command.clone().render_help().to_string());
        }
        for help in helps.iter().map(|h| output::fold_help(h)) {
            assert!(help.contains("Example"), "no example in {help}");
            assert!(help.lines().all(|l| l.chars().count() <= 80), "{help}");
            for behind in help.split("cellar ").skip(1) {
                let name = behind.split(|c: char| !c.is_ascii_lowercase()).next().unwrap();
                let is_one = name.is_empty() || names.iter().any(|own| own == name);
                assert!(is_one, "this program has no command {name}: {help}");
            }
        }
    }
}
