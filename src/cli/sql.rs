//! `cellar sql`: statements from `-c`, a file, standard input, or a prompt.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cellar_io::SharedEnv;
use cellar_sql::output::{Format, Writer};
use cellar_sql::statement::{Command, GroupAction, Groups, Statement};
use cellar_sql::{Engine, Outcome, parse, split};
use futures_util::TryStreamExt;

use super::database::Database;
use super::fault::Fault;
use super::{output, shell};

/// Arguments of `sql`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar sql cellar-demo                    a prompt
  cellar sql cellar-demo -c 'select count(*) from lineitem' --time
  cellar sql cellar-demo -f report.sql --format csv > report.csv
Write cellar.asm_disk for v$asm_disk where a shell would eat the $.")]
pub struct Args {
    /// The database; $CELLAR_DIR if it is left out.
    pub dir: Option<PathBuf>,
    /// A statement, or several with semicolons; may be given more than once.
    #[arg(short = 'c', value_name = "SQL")]
    pub commands: Vec<String>,
    /// A file of statements; - is standard input.
    #[arg(short = 'f', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// How results are written: table, csv or json (an array on one line for each result).
    #[arg(long, value_parser = format, default_value = "table")]
    pub format: Format,
    /// Tell after each statement how long it took, on stderr.
    #[arg(long)]
    pub time: bool,
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "table" => Ok(Format::Table),
        "csv" => Ok(Format::Csv),
        "json" => Ok(Format::Json),
        _ => Err("the formats are table, csv and json".into()),
    }
}

/// How a statement's result is shown.
#[derive(Clone)]
pub struct Show {
    /// Table, CSV or JSON.
    pub format: Format,
    /// Whether to tell the time.
    pub time: bool,
    /// The clock.
    pub env: SharedEnv,
}

impl Args {
    /// Whether nothing was given to run and a person sits at a terminal.
    pub fn wants_prompt(&self) -> bool {
        self.commands.is_empty() && self.file.is_none() && std::io::stdin().is_terminal()
    }

    /// The group that the first statement mounts by force. It may be the one the database is in,
    /// which has to be there before any statement runs.
    pub fn forces(&self) -> Option<String> {
        let from_file = || {
            let path = self.file.as_ref().filter(|path| path.as_path() != Path::new("-"))?;
            std::fs::read_to_string(path).ok()
        };
        let text = self.commands.first().cloned().or_else(from_file)?;
        let cut = split(&text);
        let first = cut.complete.first().or(cut.rest.as_ref())?;
        match parse(first.sql) {
            Ok(Statement::Command(Command::AlterDiskgroup {
                groups: Groups::Named(names),
                action: GroupAction::Mount { force: true },
            })) if names.len() == 1 => names.into_iter().next(),
            _ => None,
        }
    }

    /// The words for another process, where they differ from what was typed: that process cannot
    /// read our standard input.
    ///
    /// # Errors
    /// Standard input cannot be read.
    pub fn words(&self) -> Result<Option<Vec<String>>, Fault> {
        let from_stdin = match &self.file {
            Some(path) => path == Path::new("-"),
            None => self.commands.is_empty() && !std::io::stdin().is_terminal(),
        };
        if !from_stdin || output::is_remote() {
            return Ok(None);
        }
        let mut commands = self.commands.clone();
        commands.push(standard_input()?);
        Ok(Some(self.words_for(&commands)))
    }

    /// The words that run `commands` with the options of this command.
    pub fn words_for(&self, commands: &[String]) -> Vec<String> {
        let format = match self.format {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::Json => "json",
        };
        let mut words = vec!["sql".to_owned(), ".".to_owned()];
        words.extend(["--format".to_owned(), format.to_owned()]);
        words.extend(self.time.then(|| "--time".to_owned()));
        for command in commands {
            words.extend(["-c".to_owned(), command.clone()]);
        }
        words
    }
}

/// Runs `sql`.
///
/// # Errors
/// The first statement that fails.
pub async fn run(args: Args, database: &Database, env: SharedEnv) -> Result<(), Fault> {
    let prompt = args.wants_prompt() && !output::is_remote();
    let texts = match prompt {
        true => None,
        false => texts(args.commands, args.file.as_deref())?,
    };
    // Whoever typed the statement may sit in another directory than this process.
    let engine = database.engine().await?.in_directory(output::path(Path::new("")));
    let show = Show { format: args.format, time: args.time, env };
    match texts {
        Some(texts) => {
            for text in texts {
                let _executing = database.session.execute(&text);
                run_text(&engine, &text, &show, &mut output::Out).await?;
            }
            Ok(())
        }
        None => shell::run(&engine, &show).await,
    }
}

/// All statements that were given; `None` asks for a prompt.
fn texts(commands: Vec<String>, file: Option<&Path>) -> Result<Option<Vec<String>>, Fault> {
    let mut texts = commands;
    match file {
        Some(path) if path != Path::new("-") => {
            let text = std::fs::read_to_string(output::path(path)).map_err(|e| {
                Fault::failed(format!("CELLAR-27037: cannot read \"{}\": {e}", path.display()))
            })?;
            texts.push(text);
        }
        Some(_) => texts.push(standard_input()?),
        None if texts.is_empty() && std::io::stdin().is_terminal() => return Ok(None),
        None if texts.is_empty() => texts.push(standard_input()?),
        None => {}
    }
    Ok(Some(texts))
}

/// All of standard input. It can be read once, and is asked for twice when a command that was to go
/// to another process runs here after all.
fn standard_input() -> Result<String, Fault> {
    static READ: OnceLock<String> = OnceLock::new();
    if let Some(text) = READ.get() {
        return Ok(text.clone());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(READ.get_or_init(|| text).clone())
}

/// Runs every statement of `text`, results to `out`; stops at the first that fails.
///
/// # Errors
/// That failure, with the line of a statement that is not the first.
pub async fn run_text(
    engine: &Engine,
    text: &str,
    show: &Show,
    out: &mut impl Write,
) -> Result<(), Fault> {
    let cut = split(text);
    for piece in cut.complete.iter().chain(&cut.rest) {
        run_one(engine, piece.sql, show, out).await.map_err(|fault| match fault {
            Fault::Failed(message) if piece.line > 1 => Fault::Failed(format!(
                "{message}\nIn the statement that begins in line {}",
                piece.line
            )),
            other => other,
        })?;
    }
    Ok(())
}

/// Runs one statement.
///
/// # Errors
/// A numbered error.
pub async fn run_one(
    engine: &Engine,
    sql: &str,
    show: &Show,
    out: &mut impl Write,
) -> Result<(), Fault> {
    let start = show.env.now();
    match engine.execute(sql).await? {
        Outcome::Rows(mut stream) => {
            let mut writer = Writer::new(&mut *out, show.format, &stream.schema(), width())?;
            while let Some(batch) =
                stream.try_next().await.map_err(|e| cellar_sql::failure::from_datafusion(&e))?
            {
                writer.write(&batch)?;
            }
            writer.finish()?;
        }
        Outcome::Done { message, notices } => {
            output::notice(&message);
            for notice in notices {
                output::notice(&format!("Notice: {notice}"));
            }
        }
    }
    if show.time {
        let took = show.env.now().since(start);
        output::notice(&format!("Time: {:.3} ms", took.as_secs_f64() * 1e3));
    }
    Ok(())
}

/// Columns of the terminal, if output goes to one that says; else 80.
fn width() -> usize {
    let given = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    given.filter(|c| (20..=1000).contains(c)).unwrap_or(80)
}
