//! `cellar lab`: questions about disks, answered with evidence that is kept.

mod run;
mod words;

use std::fmt::Write;
use std::path::PathBuf;

use cellar_io::real::Runtime;
use cellar_lab::run_store::{RunStore, write_whole};
use cellar_lab::{LabError, Run, experiments};
use serde::Serialize;

use super::fault::Fault;
use super::output::{self, Format};

/// Arguments of `lab`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar lab list                            experiments, and the runs kept
  cellar lab run multi-disk                  a model of 2006, in seconds
  cellar lab run multi-disk --disks /dev/disk/by-id/A,/dev/disk/by-id/B
  cellar lab run --like 3                    run 3 again, and compared with it
  cellar lab show 3 --method                 how run 3 was measured
  cellar lab show 3 --html page.html         run 3 as one page
Runs are kept in $XDG_STATE_HOME/cellar/lab, else ~/.local/state/cellar/lab.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Experiments with their questions, then the kept runs
    #[command(after_help = "Examples:
  cellar lab list
  cellar lab list --format json | jq '.runs[-1]'")]
    List {
        /// For people or for a program
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Measures, reports the finding, and keeps it
    Run(run::Args),
    /// A kept run, as it was reported
    #[command(after_help = "Examples:
  cellar lab show 3
  cellar lab show 3 --method
  cellar lab show 3 --html page.html --json run.json")]
    Show(ShowArgs),
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Its number
    number: u64,
    /// How it was measured: loads, rounds, order, caches, noise, what is fitted
    #[arg(long)]
    method: bool,
    #[command(flatten)]
    files: Files,
    /// For people or for a program
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Where else a run goes.
#[derive(Clone, Debug, Default, clap::Args)]
struct Files {
    /// Write the run as JSON to this file
    #[arg(long, value_name = "FILE", global = true)]
    json: Option<PathBuf>,
    /// Write the run as one page to this file
    #[arg(long, value_name = "FILE", global = true)]
    html: Option<PathBuf>,
}

impl Files {
    fn write(&self, run: &Run) -> Result<(), Fault> {
        if let Some(path) = &self.json {
            write_whole(path, &run.to_json().map_err(LabError::from)?)?;
        }
        if let Some(path) = &self.html {
            write_whole(path, &run.to_html())?;
        }
        Ok(())
    }

    /// Whether a file is requested and nothing else.
    fn any(&self) -> bool {
        self.json.is_some() || self.html.is_some()
    }
}

/// Runs `lab`.
///
/// # Errors
/// Wrong options before anything is touched; disks that may not be written; failures during the run.
pub fn run(args: Args, runtime: &Runtime) -> Result<(), Fault> {
    match args.command {
        Command::List { format } => list(format),
        Command::Run(args) => run::run(args, runtime),
        Command::Show(args) => show(&args),
    }
}

/// The directory of kept runs.
fn kept() -> Result<RunStore, Fault> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // The base directory specification says to ignore relative paths.
    let state = set("XDG_STATE_HOME").filter(|p| p.is_absolute());
    match state.or_else(|| Some(set("HOME")?.join(".local/state"))) {
        Some(state) => Ok(RunStore::at(state.join("cellar/lab"))),
        None => Err(Fault::failed(
            "CELLAR-70301: runs are kept below the home directory, and neither HOME nor \
             XDG_STATE_HOME is set\nNext: name a place: export XDG_STATE_HOME=/var/tmp/state; a run \
             may be kept in a file instead: --json FILE",
        )),
    }
}

impl From<LabError> for Fault {
    fn from(error: LabError) -> Fault {
        match error {
            LabError::Option { .. }
            | LabError::Twice(_)
            | LabError::Serial { .. }
            | LabError::Few { .. } => Fault::usage(error.to_string()),
            // They include their number.
            LabError::Taken { .. }
            | LabError::Small { .. }
            | LabError::Room { .. }
            | LabError::Cell(_)
            | LabError::Redo(_)
            | LabError::Encode { .. }
            | LabError::Disagree { .. }
            | LabError::Answer(_) => Fault::failed(error.to_string()),
            LabError::Io(error) => error.into(),
            LabError::Group(error) => {
                Fault::failed(format!("CELLAR-{:05}: {error}", error.number()))
            }
            LabError::Stopped => Fault::failed(format!("CELLAR-01013: {error}")),
            LabError::NoRun { .. } => Fault::failed(format!("CELLAR-70302: {error}")),
            error => Fault::failed(format!("CELLAR-70301: {error}")),
        }
    }
}

#[derive(Serialize)]
struct Listed {
    experiments: Vec<Question>,
    runs: Vec<Line>,
}

#[derive(Serialize)]
struct Question {
    name: &'static str,
    question: &'static str,
}

#[derive(Serialize)]
struct Line {
    number: u64,
    experiment: String,
    date: String,
    commit: String,
    place: String,
    settings_hash: String,
    finding: String,
}

fn list(format: Format) -> Result<(), Fault> {
    let kept = kept()?;
    let experiments = experiments::ALL
        .iter()
        .map(|e| Question { name: e.name(), question: e.question() })
        .collect();
    let mut runs = Vec::new();
    for number in kept.numbers()? {
        match kept.load(number) {
            Ok(run) => runs.push(Line {
                number,
                place: run.settings.get("place").cloned().unwrap_or_default(),
                experiment: run.experiment,
                date: run.head.date,
                commit: run.head.commit,
                settings_hash: run.settings_hash,
                finding: run.finding,
            }),
            // The others are still useful.
            Err(error) => output::notice(&Fault::from(error).to_string()),
        }
    }
    let listed = Listed { experiments, runs };
    match format {
        Format::Json => output::json(&listed),
        Format::Table => output::text(&table(&listed)),
    }
}

fn table(listed: &Listed) -> String {
    let mut out = String::from("Experiments\n");
    for one in &listed.experiments {
        let _ = writeln!(
            out,
            "{}",
            output::broken(&format!("  {:<16}", one.name), &" ".repeat(18), one.question)
        );
    }
    out.push_str("\nRuns kept\n");
    if listed.runs.is_empty() {
        out.push_str("  none yet: cellar lab run multi-disk\n");
        return out;
    }
    let _ = writeln!(out, "  {:>4}  {:<16} {:<20}  On", "Run", "Experiment", "Date (UTC)");
    for run in &listed.runs {
        let head = format!("  {:>4}  {:<16} {:<20}  ", run.number, run.experiment, run.date);
        let _ = writeln!(out, "{}{}", head, run.place);
    }
    out.push_str("cellar lab show RUN [--method | --html F]; cellar lab run --like RUN\n");
    out
}

fn show(args: &ShowArgs) -> Result<(), Fault> {
    let run = kept()?.load(args.number)?;
    args.files.write(&run)?;
    match (args.format, args.method) {
        (Format::Json, _) => output::json(&run),
        (Format::Table, true) => output::text(&run.method_text()),
        (Format::Table, false) if args.files.any() => Ok(()),
        (Format::Table, false) => {
            let head = &run.head;
            let text = format!(
                "Run {} of {}, {}, commit {}\n",
                args.number, run.experiment, head.date, head.commit
            );
            output::text(&(text + &run.to_text()))
        }
    }
}
