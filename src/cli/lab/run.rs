//! `cellar lab run`: checks the request, runs the experiments, then shows and keeps the run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cellar_io::real::Runtime;
use cellar_io::{EnvExt, shell};
use cellar_lab::place::given;
use cellar_lab::run_store::RunStore;
use cellar_lab::{
    Comparison, Control, Experiment, Head, Invocation, LabError, Machine, Request, Run, experiments,
};

use super::super::clock;
use super::super::fault::Fault;
use super::super::output::{self, Format};
use super::super::path;
use super::super::progress::Progress;
use super::super::signals::End;
use super::Files;
use super::words::Named;

/// Arguments of `lab run`.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_value_name = "EXPERIMENT",
    subcommand_help_heading = "Experiments",
    after_help = "Examples:
  cellar lab run multi-disk
  cellar lab run multi-disk --dir /srv --html page.html
  cellar lab run --like 3
Each experiment has options of its own: cellar lab run multi-disk --help"
)]
pub struct Args {
    #[command(subcommand)]
    named: Option<Named>,
    /// Scratch files in this directory, removed afterwards
    #[arg(long, value_name = "DIR", global = true, conflicts_with = "disks")]
    dir: Option<PathBuf>,
    /// Empty disks or files to measure: WHAT IS ON THEM IS LOST
    #[arg(long, value_name = "PATH,..", value_delimiter = ',', global = true)]
    disks: Vec<PathBuf>,
    /// Give up what is on these disks: their serial numbers
    #[arg(
        long,
        value_name = "SERIAL,..",
        value_delimiter = ',',
        global = true,
        requires = "disks"
    )]
    erase: Vec<String>,
    /// The settings of this kept run where none are given, and compared with it
    #[arg(long, value_name = "RUN", global = true)]
    like: Option<u64>,
    #[command(flatten)]
    files: Files,
    /// For people or for a program
    #[arg(long, value_enum, default_value_t, global = true)]
    format: Format,
}

/// The optimization level.
const OPTIMIZATION: &str = env!("CELLAR_OPTIMIZATION");

/// Runs `lab run`.
///
/// # Errors
/// Wrong options and disks that may not be written, before anything is touched; later failures.
pub(super) fn run(args: Args, runtime: &Runtime) -> Result<(), Fault> {
    if OPTIMIZATION == "0" {
        return Err(Fault::usage(
            "this is a debug build, whose figures say nothing: cargo run --release -- lab run",
        ));
    }
    let like = args.like.map(|n| Ok::<_, Fault>((n, super::kept()?.load(n)?))).transpose()?;
    let (found, asked) = asked(&args, like.as_ref().map(|(_, run)| run))?;
    let disks = disks(&asked.disks, &args.erase)?;
    if let Some(dir) = &asked.dir {
        directory(dir)?;
    }
    for path in [&args.files.json, &args.files.html].into_iter().flatten() {
        writable(path)?;
    }
    // Better to find out now than after hours of measuring.
    let place = super::kept().and_then(|kept| kept.check().map(|()| kept).map_err(Fault::from));
    match place {
        Err(Fault::Failed(why)) if args.files.any() => {
            output::notice(&format!("Notice: this run is not saved: {}", why.first_line()));
        }
        place => drop(place?),
    }
    let bar = Bar::new(args.format == Format::Json);
    let tell = |what: &str, done, total| bar.tell(what, done, total);
    let request = Request {
        asked,
        head: head(runtime),
        control: Control::new(&tell, stop_at_signal(runtime)),
        disks,
        runtime,
    };
    let ran = found.run(&request);
    bar.finish();
    let mut ran = ran?;
    if let Some((number, before)) = &like {
        ran.compared = Some(Comparison::new(&ran, before, *number));
    }
    // The results are shown even if they cannot be kept.
    let kept = super::kept().and_then(|kept| Ok((kept.keep(&ran)?, kept)));
    let written = args.files.write(&ran);
    show(&args, &ran, kept)?;
    written
}

fn show(args: &Args, ran: &Run, kept: Result<(u64, RunStore), Fault>) -> Result<(), Fault> {
    if args.format == Format::Json {
        // With the digits of the kept run.
        let text = ran.to_json().map_err(LabError::from)?;
        output::json(&Run::from_json(&text).map_err(LabError::from)?)?;
        return match kept {
            Err(_) if args.files.any() => Ok(()),
            kept => kept.map(|(number, _)| output::notice(&format!("Kept as run {number}"))),
        };
    }
    let mut text = ran.to_text();
    if let Ok((number, _)) = &kept {
        text += &format!(
            "Kept      run {number}.  cellar lab show {number} [--method | --html F];  lab run \
             --like {number}\n"
        );
    }
    output::text(&text)?;
    match kept {
        // It is in the requested file, and that was reported before.
        Err(_) if args.files.any() => Ok(()),
        kept => kept.map(|_| ()),
    }
}

/// The experiment and its request: from the command line, else from the earlier run that it is to
/// repeat.
fn asked(args: &Args, like: Option<&Run>) -> Result<(&'static dyn Experiment, Invocation), Fault> {
    let named = args.named.clone();
    let name = match (&named, like) {
        (Some(named), Some(like)) if named.name != like.experiment => {
            return Err(Fault::usage(format!(
                "--like: that run is of {}, not of {}: name one of the same, or leave --like out",
                like.experiment, named.name
            )));
        }
        (Some(named), _) => named.name.clone(),
        (None, Some(like)) => like.experiment.clone(),
        (None, None) => {
            let names: Vec<&str> = experiments::ALL.iter().map(|e| e.name()).collect();
            return Err(Fault::usage(format!(
                "which experiment? there are: {}\nNext: cellar lab run {}",
                names.join(", "),
                names.first().unwrap_or(&"NAME")
            )));
        }
    };
    let found = experiments::find(&name)
        .ok_or_else(|| Fault::failed(format!("CELLAR-70302: this version has no {name}")))?;
    let mut asked = like.map(|run| run.asked.clone()).unwrap_or_default();
    if !asked.disks.is_empty() && args.disks.is_empty() && args.dir.is_none() {
        let names: Vec<String> = asked.disks.iter().map(|p| p.display().to_string()).collect();
        // By now the name may refer to another disk, whose contents would be lost.
        return Err(Fault::usage(format!(
            "that run wrote over disks: name them again, with --disks; they were {}",
            names.join(", ")
        )));
    }
    asked.options.extend(named.unwrap_or_default().options);
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(Fault::from);
    if !args.disks.is_empty() {
        asked.dir = None;
        asked.disks = args.disks.iter().map(absolute).collect::<Result<_, _>>()?;
    } else if let Some(dir) = &args.dir {
        asked.disks = Vec::new();
        asked.dir = Some(absolute(dir)?);
    }
    Ok((found, asked))
}

fn disks(paths: &[PathBuf], erase: &[String]) -> Result<Vec<given::Given>, Fault> {
    for path in paths {
        path::look(path, true)?;
    }
    Ok(given::check(paths, erase)?)
}

fn directory(dir: &Path) -> Result<(), Fault> {
    if dir.is_dir() {
        return Ok(());
    }
    Err(Fault::usage(format!(
        "--dir {}: no such directory\nNext: mkdir -p {}",
        dir.display(),
        shell::path(dir)
    )))
}

/// Whether a file can be created there: better to find out before hours of measuring.
fn writable(path: &Path) -> Result<(), Fault> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(Fault::usage(format!("{} is a directory; name a file", path.display())));
    }
    if !dir.is_dir() {
        let (path, dir) = (path.display(), dir.display());
        return Err(Fault::usage(format!("{path}: there is no directory {dir}")));
    }
    Ok(())
}

fn head(runtime: &Runtime) -> Head {
    Head {
        date: clock::date(runtime.env().wall().unix_nanos),
        machine: Machine::here(),
        commit: env!("CELLAR_COMMIT").to_owned(),
    }
}

/// A flag that is set when the user or the system asks for an end: everything created is removed first.
fn stop_at_signal(runtime: &Runtime) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let waiting = async move {
        let mut end = End::heard();
        end.next().await;
        flag.store(true, Ordering::Relaxed);
        output::notice("stopping; what was made is removed first (again: at once, and it stays)");
        end.next().await;
        std::process::exit(130);
    };
    drop(runtime.env().run("signals", waiting));
    stop
}

/// Successive progress bars, one for each kind of work of the experiment.
struct Bar {
    quiet: bool,
    now: Mutex<Option<(String, Progress)>>,
}

impl Bar {
    fn new(quiet: bool) -> Bar {
        Bar { quiet, now: Mutex::default() }
    }

    fn tell(&self, what: &str, done: u64, total: u64) {
        let mut now = self.now.lock().unwrap_or_else(|e| e.into_inner());
        if now.as_ref().is_none_or(|(shown, _)| shown != what) {
            if let Some((_, bar)) = now.take() {
                bar.finish();
            }
            *now = Some((what.to_owned(), Progress::new(what, total, self.quiet)));
        }
        if let Some((_, bar)) = &*now {
            bar.set(done);
        }
    }

    fn finish(&self) {
        let mut now = self.now.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, bar)) = now.take() {
            bar.finish();
        }
    }
}
