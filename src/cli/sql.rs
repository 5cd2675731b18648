//! `cellar sql`: statements from `-c`, a file, standard input, or a prompt.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cellar_instance::administration::Command;
use cellar_instance::directory::Client;
use cellar_instance::session::Session;
use cellar_io::{EnvExt, SharedEnv};
use cellar_sql::output::{Format, Writer};
use cellar_sql::parse::reads_stream;
use cellar_sql::statement::Statement;
use cellar_sql::{CopyInput, Engine, Outcome, Split, first, parse, split};
use cellar_storage::request::{GroupAction, GroupSelection};
use futures_util::future::{Either, select};
use futures_util::{TryStreamExt, stream};

use super::database::{Database, forward};
use super::fault::Fault;
use super::progress::{LOOK, Progress};
use super::{output, shell};

/// Arguments of `sql`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar sql cellar-demo                    a prompt
  cellar sql cellar-demo -c 'select count(*) from lineitem' --time
  cellar sql cellar-demo -c 'explain analyze select count(*) from orders'
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
    /// Report how long each statement took, on stderr.
    #[arg(long)]
    pub time: bool,
    /// The file's contents: a pipe can be read only once.
    #[arg(skip)]
    text: OnceLock<std::io::Result<String>>,
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
    /// Whether to show the time.
    pub time: bool,
    /// The clock.
    pub env: SharedEnv,
    /// The directory, for the commands that an error suggests.
    pub dir: PathBuf,
    /// The session that runs the statements.
    pub session: Session,
}

impl Args {
    /// Whether there is nothing to run and a person sits at a terminal.
    pub fn wants_prompt(&self) -> bool {
        self.commands.is_empty() && self.file.is_none() && std::io::stdin().is_terminal()
    }

    /// The group that the first statement mounts by force. The database may be in it,
    /// so it has to be mounted before any statement runs.
    pub fn forces(&self) -> Option<String> {
        // A read error is reported when the file is to be run.
        let from_file = || self.file_text().ok().flatten();
        let text = self.commands.first().map(String::as_str).or_else(from_file)?;
        let cut = split(text);
        let first = cut.complete.first().or(cut.rest.as_ref())?;
        match parse(first.sql) {
            Ok(Statement::Command(Command::AlterDiskgroup {
                groups: GroupSelection::Named(names),
                action: GroupAction::Mount { force: true },
            })) if names.len() == 1 => names.into_iter().next(),
            _ => None,
        }
    }

    /// The file of statements, if it is not standard input.
    fn named_file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// The contents of that file; read on first use.
    fn file_text(&self) -> Result<Option<&str>, Fault> {
        let Some(path) = self.named_file() else { return Ok(None) };
        match self.text.get_or_init(|| std::fs::read_to_string(output::path(path))) {
            Ok(text) => Ok(Some(text)),
            Err(error) => Err(Fault::failed(format!(
                "CELLAR-27037: cannot read \"{}\": {error}",
                path.display()
            ))
            .hint(
                "give a file of statements in UTF-8 that can be read, or -f - for standard input",
            )),
        }
    }

    /// Whether the file is a pipe, or another that only this process can read.
    pub fn has_pipe(&self) -> bool {
        let is_regular = |path: &Path| std::fs::metadata(path).is_ok_and(|about| about.is_file());
        // /dev/stdin and /dev/fd/3 mean another file in another process.
        let here = |path: &Path| path.starts_with("/dev") || path.starts_with("/proc");
        self.named_file().is_some_and(|path| here(path) || !is_regular(path))
    }

    /// Whether statements come from standard input, after those of `-c`.
    pub fn reads_stdin(&self) -> bool {
        match &self.file {
            Some(path) => path == Path::new("-"),
            None => self.commands.is_empty() && !std::io::stdin().is_terminal(),
        }
    }

    /// The command line that runs `commands` with the options of this command.
    pub fn words_for(&self, commands: &[String]) -> Vec<String> {
        let format = match self.format {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::Json => "json",
        };
        // The answering process has the directory open, whatever its name is here.
        let mut words = vec!["sql".to_owned(), ".".to_owned()];
        words.extend(["--format".to_owned(), format.to_owned()]);
        words.extend(self.time.then(|| "--time".to_owned()));
        for command in commands {
            // A text that begins with a comment must not be taken for an option.
            match command.starts_with('-') {
                true => words.push(format!("-c{command}")),
                false => words.extend(["-c".to_owned(), command.clone()]),
            }
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
    // Standard input belongs to the process of the user; that process reads it and sends the statements.
    let stdin = args.reads_stdin() && !prompt && !output::is_remote();
    let from_file = args.file_text()?.map(str::to_owned);
    let texts: Vec<String> = args.commands.into_iter().chain(from_file).collect();
    // The user may be in another directory than this process.
    let engine = database.engine().await?.in_directory(output::path(Path::new("")));
    let dir = database.inner.directory().path().to_owned();
    let session = database.session.clone();
    let show = Show { format: args.format, time: args.time, env, dir, session };
    let ran = async {
        for text in texts {
            run_text(&engine, &text, &show, &mut output::Out).await?;
        }
        if stdin {
            return run_stdin(&engine, &show).await;
        }
        match prompt {
            true => shell::run(&engine, &show).await,
            false => Ok(()),
        }
    };
    let ran = ran.await;
    match (engine.end_session().await, output::is_remote()) {
        (false, _) => ran,
        // The sender would take its next statement for part of the transaction.
        (true, true) => ran.and(Err(Fault::failed(
            "CELLAR-03001: a transaction by way of the process that has the database open is not in \
             this version of Cellar; it is rolled back",
        )
        .hint("give all of it in one -c, or end the other process first"))),
        (true, false) => {
            output::notice(
                "Notice: the transaction that was open is rolled back: COMMIT would have kept it",
            );
            ran
        }
    }
}

/// Statements from standard input, each as soon as it is complete.
#[derive(Default)]
struct Stdin {
    text: String,
    /// Lines before `text`.
    lines: u64,
    ended: bool,
    /// The rows of a COPY have ended.
    rows_ended: bool,
    /// There is no complete statement in `text`.
    searched: bool,
}

impl Stdin {
    /// The next statements and the line on which each begins; `None` when there are no more. Rows of a COPY FROM STDIN
    /// follow the last of them. This thread waits for them; concurrent work runs on the runtime's threads.
    fn next(&mut self) -> Result<Option<Vec<(String, u64)>>, Fault> {
        while !self.ended || !self.text.is_empty() {
            let from = self.text.len();
            // After rows, the text at hand may already have a complete statement.
            let is_new = self.searched && !self.ended;
            if is_new {
                self.ended = std::io::stdin().read_line(&mut self.text)? == 0;
            }
            // Only a semicolon ends a statement: text before it is not searched again.
            if is_new && !self.ended && !self.text[from..].contains(';') {
                continue;
            }
            self.searched = true;
            let mut whole = Vec::new();
            while let Some((piece, end)) = first(&self.text) {
                let is_copy = reads_stream(piece.sql);
                whole.push((piece.sql.to_owned(), self.lines + piece.line));
                self.take(end + 1);
                if is_copy {
                    // The rows begin on the next line.
                    let end = self.text.find('\n').map_or(self.text.len(), |at| at + 1);
                    self.take(end);
                    self.searched = false;
                    return Ok(Some(whole));
                }
            }
            if self.ended {
                let text = std::mem::take(&mut self.text);
                let rest =
                    split(&text).rest.map(|piece| (piece.sql.to_owned(), self.lines + piece.line));
                whole.extend(rest);
            }
            if !whole.is_empty() {
                return Ok(Some(whole));
            }
        }
        Ok(None)
    }

    /// Skips the first bytes.
    fn take(&mut self, bytes: usize) {
        self.lines += self.text[..bytes].matches('\n').count() as u64;
        self.text.drain(..bytes);
    }

    /// The next rows, whole lines; `None` after the last, which is the line `\.` or the end of the input.
    fn rows(&mut self) -> std::io::Result<Option<String>> {
        let mut rows = String::new();
        let end = loop {
            if self.text.is_empty() && !self.ended {
                self.ended = std::io::stdin().read_line(&mut self.text)? == 0;
            }
            let length = self.text.find('\n').map_or(self.text.len(), |at| at + 1);
            let line = &self.text[..length];
            let is_end = line.is_empty() || line.trim_end_matches(['\n', '\r']) == "\\.";
            if !is_end {
                rows.push_str(line);
            }
            self.take(length);
            if is_end || rows.len() >= ROWS_BYTES {
                break is_end;
            }
        };
        self.rows_ended = end;
        Ok((!rows.is_empty()).then_some(rows))
    }
}

/// Bytes of rows that are passed on together.
const ROWS_BYTES: usize = 256 << 10;

/// Rows that follow a statement on standard input.
struct Rows(Arc<Mutex<Stdin>>);

impl Rows {
    fn new(stdin: Arc<Mutex<Stdin>>) -> Rows {
        stdin.lock().unwrap_or_else(PoisonError::into_inner).rows_ended = false;
        Rows(stdin)
    }

    fn input(self) -> CopyInput {
        Box::pin(stream::try_unfold(self.0, |stdin| async move {
            let next = {
                let mut own = stdin.lock().unwrap_or_else(PoisonError::into_inner);
                match own.rows_ended {
                    true => None,
                    false => own.rows().map_err(|error| unread(&error))?,
                }
            };
            Ok(next.map(|rows| (Bytes::from(rows), stdin)))
        }))
    }
}

fn unread(error: &std::io::Error) -> cellar_sql::Error {
    let text = format!("the rows of COPY cannot be read: {error}");
    cellar_sql::Error::new(27072, "22021", text).next("give texts in UTF-8 on standard input")
}

/// The end of the last complete statement; what follows may be a comment that is still open.
pub fn end_of_last(cut: &Split<'_>) -> usize {
    cut.complete.last().map_or(0, |piece| piece.offset + piece.sql.len())
}

/// Runs the statements on standard input while the database stays open.
async fn run_stdin(engine: &Engine, show: &Show) -> Result<(), Fault> {
    let stdin = Arc::new(Mutex::new(Stdin::default()));
    loop {
        let next = stdin.lock().unwrap_or_else(PoisonError::into_inner).next()?;
        let Some(statements) = next else { return Ok(()) };
        for (sql, line) in statements {
            let ran = match reads_stream(&sql) {
                false => run_one(engine, &sql, show, &mut output::Out).await,
                true => {
                    let input = Rows::new(Arc::clone(&stdin)).input();
                    run_copy(engine, &sql, input, show, &mut output::Out).await
                }
            };
            ran.map_err(|fault| in_line(fault, line))?;
        }
    }
}

/// Sends the statements of `-c` and of a pipe to the process that has the database open.
///
/// # Errors
/// The pipe cannot be read, or the other process went away.
pub fn run_pipe_there(client: &mut Client, args: &Args) -> Result<u8, Fault> {
    let mut texts = args.commands.clone();
    texts.extend(args.file_text()?.map(str::to_owned));
    forward(client, args.words_for(&texts))
}

/// Sends the statements of `-c` and of standard input to the process that has the database open.
///
/// # Errors
/// Standard input cannot be read, or the other process went away.
pub fn run_there(client: &mut Client, args: &Args) -> Result<u8, Fault> {
    for command in &args.commands {
        let code = forward(client, args.words_for(std::slice::from_ref(command)))?;
        if code != 0 {
            return Ok(code);
        }
    }
    let mut stdin = Stdin::default();
    while let Some(statements) = stdin.next()? {
        for (mut sql, line) in statements {
            if reads_stream(&sql) {
                stdin.rows_ended = false;
                sql.push_str(";\n");
                while !stdin.rows_ended
                    && let Some(rows) = stdin.rows()?
                {
                    sql.push_str(&rows);
                }
                sql.push_str("\\.\n");
            }
            let code = forward(client, args.words_for(&[sql]))?;
            if code != 0 {
                output::notice(&format!("In the statement that begins in line {line}"));
                return Ok(code);
            }
        }
    }
    Ok(0)
}

/// A failure, with the line of the statement if it is not the first.
fn in_line(fault: Fault, line: u64) -> Fault {
    match fault {
        Fault::Failed(_) | Fault::Refused(_) if line > 1 => {
            Fault::failed(format!("{fault}\nIn the statement that begins in line {line}"))
        }
        other => other,
    }
}

/// Runs every statement of `text`, results to `out`; stops at the first failure. Rows of a COPY FROM STDIN follow
/// it, up to a line `\.`.
///
/// # Errors
/// That failure, with the line of the statement if it is not the first.
pub async fn run_text(
    engine: &Engine,
    text: &str,
    show: &Show,
    out: &mut impl Write,
) -> Result<(), Fault> {
    let (mut text, mut lines) = (text, 0);
    while let Some((piece, end)) = first(text) {
        let line = lines + piece.line;
        let mut next = end + 1;
        let ran = match reads_stream(piece.sql) {
            false => run_one(engine, piece.sql, show, out).await,
            true => {
                let rest = &text[next..];
                let (rows, behind) = cellar_sql::split::rows(rest);
                next += behind;
                // Rows that do not follow in the text come from standard input.
                let input = match rest.trim().is_empty() && !output::is_remote() {
                    true => Rows::new(Arc::default()).input(),
                    false => given(rest[rows].to_owned()),
                };
                run_copy(engine, piece.sql, input, show, out).await
            }
        };
        ran.map_err(|fault| in_line(fault, line))?;
        lines += text[..next].matches('\n').count() as u64;
        text = &text[next..];
    }
    if let Some(rest) = &split(text).rest {
        let ran = match reads_stream(rest.sql) && !output::is_remote() {
            true => run_copy(engine, rest.sql, Rows::new(Arc::default()).input(), show, out).await,
            false => run_one(engine, rest.sql, show, out).await,
        };
        ran.map_err(|fault| in_line(fault, lines + rest.line))?;
    }
    Ok(())
}

/// Rows that are already in memory.
pub fn given(rows: String) -> CopyInput {
    Box::pin(stream::once(async { Ok(Bytes::from(rows)) }))
}

/// Runs a COPY FROM STDIN.
///
/// # Errors
/// A numbered error.
pub async fn run_copy(
    engine: &Engine,
    sql: &str,
    input: CopyInput,
    show: &Show,
    out: &mut impl Write,
) -> Result<(), Fault> {
    let _executing = show.session.execute(sql.trim());
    let ran = run_and_show(engine, engine.copy_in(sql, input), show, out).await;
    ran.map_err(|fault| fault.in_directory(&show.dir))
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
    // The statement in progress, whatever else is in the same script.
    let _executing = show.session.execute(sql.trim());
    let ran = run_and_show(engine, engine.execute(sql), show, out).await;
    ran.map_err(|fault| fault.in_directory(&show.dir))
}

async fn run_and_show(
    engine: &Engine,
    statement: impl Future<Output = Result<Outcome, cellar_sql::Error>>,
    show: &Show,
    out: &mut impl Write,
) -> Result<(), Fault> {
    let start = show.env.now();
    let (outcome, refused) = match watched(engine, show, statement).await? {
        Outcome::Refused(rows, error) => (Outcome::Rows(rows), Some(error)),
        outcome => (outcome, None),
    };
    match outcome {
        Outcome::Rows(mut stream) | Outcome::Refused(mut stream, _) => {
            let mut writer =
                Writer::new(&mut *out, show.format, &stream.schema(), output::width())?;
            while let Some(batch) =
                stream.try_next().await.map_err(|e| cellar_sql::failure::from_datafusion(&e))?
            {
                writer.write(&batch)?;
            }
            writer.finish()?;
        }
        Outcome::Copied(mut copied) => {
            while let Some(bytes) = copied.bytes.try_next().await? {
                out.write_all(&bytes)?;
            }
            out.flush()?;
        }
        Outcome::Plan(plan) => plan.write(&mut *out, show.format, output::width())?,
        changed @ (Outcome::Changed(..) | Outcome::Filled { .. }) => {
            output::notice(&changed.message().unwrap_or_default());
        }
        Outcome::Done { message, notices } => {
            output::notice(&message);
            notices.iter().for_each(|notice| output::notice(&format!("Notice: {notice}")));
        }
    }
    if show.time {
        let took = show.env.now().since(start);
        output::notice(&format!("Time: {:.3} ms", took.as_secs_f64() * 1e3));
    }
    refused.map_or(Ok(()), |error| Err(error.into()))
}

/// Shows the progress of the work that a statement waits for, once it has taken a second.
async fn watched<T>(engine: &Engine, show: &Show, statement: impl Future<Output = T>) -> T {
    let patience = show.env.now().plus(Duration::from_secs(1));
    let mut bar: Option<(&'static str, Progress)> = None;
    let mut statement = std::pin::pin!(statement);
    loop {
        match select(statement, show.env.sleep(LOOK)).await {
            Either::Left((end, _)) => {
                bar.iter().for_each(|(_, bar)| bar.finish());
                return end;
            }
            Either::Right(((), still)) => statement = still,
        }
        let Some(now) = engine.progress().filter(|_| show.env.now() >= patience) else { continue };
        if bar.as_ref().is_none_or(|(what, _)| *what != now.what) {
            bar.iter().for_each(|(_, bar)| bar.finish());
            let quiet = show.format == Format::Json;
            bar = Some((now.what, Progress::new(now.what, 1000, quiet)));
        }
        if let Some((_, bar)) = &bar {
            bar.set((u128::from(now.done) * 1000 / u128::from(now.total)) as u64);
        }
    }
}
