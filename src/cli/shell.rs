//! The prompt of `cellar sql`: line editing, history, multi-line statements.

use std::borrow::Cow;
use std::path::PathBuf;

use cellar_instance::session::without_password;
use cellar_sql::parse::reads_stream;
use cellar_sql::{Engine, Open, split};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::fault::Fault;
use super::output;
use super::sql::{Show, end_of_last, given, run_copy, run_one};

const HELP: &str = "\
Statements end with a semicolon. Also:
  \\d          tables and views        \\timing     time of each statement
  \\?          this help               \\q or exit  leave
";

/// Reads and runs statements until the user leaves.
///
/// # Errors
/// If the terminal cannot be read. A failed statement is reported and the prompt continues.
pub async fn run(engine: &Engine, show: &Show) -> Result<(), Fault> {
    let mut show = show.clone();
    let mut editor = DefaultEditor::new().map_err(|e| Fault::failed(e.to_string()))?;
    let history = history_path();
    if let Some(path) = &history {
        // The first time there is no history.
        let _ = editor.load_history(path);
    }
    eprintln!("Cellar {}. \\? for help, \\q to leave.", env!("CARGO_PKG_VERSION"));
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { "cellar> " } else { "   ...> " };
        // This thread waits for the terminal; statements run on the runtime's threads.
        let line = match editor.readline(prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(Fault::failed(e.to_string())),
        };
        if text.is_empty() {
            match command(&line, engine, &mut show) {
                Some(Next::Leave) => break,
                Some(Next::GoOn) => continue,
                None => {}
            }
        }
        text.push_str(&line);
        text.push('\n');
        let rest = run_complete(engine, &text, &show, &mut editor).await?;
        text = rest;
    }
    if let Some(path) = &history {
        save(&mut editor, path);
    }
    Ok(())
}

enum Next {
    GoOn,
    Leave,
}

fn command(line: &str, engine: &Engine, show: &mut Show) -> Option<Next> {
    match line.trim().trim_end_matches(';').to_ascii_lowercase().as_str() {
        "" => Some(Next::GoOn),
        "\\q" | "exit" | "quit" => Some(Next::Leave),
        "\\?" | "help" => {
            eprint!("{HELP}");
            Some(Next::GoOn)
        }
        "\\timing" => {
            show.time = !show.time;
            eprintln!("Timing is {}.", if show.time { "on" } else { "off" });
            Some(Next::GoOn)
        }
        "\\d" | "\\dt" => {
            for name in engine.names() {
                eprintln!("  {name}");
            }
            Some(Next::GoOn)
        }
        other if other.starts_with('\\') => {
            eprintln!("There is no command {other}. \\? shows those there are.");
            Some(Next::GoOn)
        }
        _ => None,
    }
}

/// Runs complete statements; returns the rest.
async fn run_complete(
    engine: &Engine,
    text: &str,
    show: &Show,
    editor: &mut DefaultEditor,
) -> Result<String, Fault> {
    let cut = split(text);
    for piece in &cut.complete {
        note(editor, piece.sql);
        let mut out = output::Out;
        let ran = match reads_stream(piece.sql) {
            false => run_one(engine, piece.sql, show, &mut out).await,
            true => run_copy(engine, piece.sql, given(typed_rows(editor)), show, &mut out).await,
        };
        match ran {
            Err(Fault::Closed) => return Err(Fault::Closed),
            Err(fault) => output::notice(&fault.to_string()),
            Ok(()) => {}
        }
    }
    Ok(match &cut.rest {
        Some(rest) => text[rest.offset..].to_string(),
        None if cut.open == Some(Open::Comment) => text[end_of_last(&cut)..].to_string(),
        None => String::new(),
    })
}

/// Keeps a statement in the history, unless it contains a password.
fn note(editor: &mut DefaultEditor, sql: &str) {
    if matches!(without_password(sql), Cow::Borrowed(_)) {
        // Failing to keep one is no reason to stop.
        let _ = editor.add_history_entry(format!("{sql};"));
    }
}

/// The typed rows of a COPY, up to a line `\.`, or the end.
fn typed_rows(editor: &mut DefaultEditor) -> String {
    eprintln!("Rows, each on a line; \\. alone on a line ends them.");
    let mut rows = String::new();
    while let Ok(line) = editor.readline(">> ") {
        if line == "\\." {
            break;
        }
        rows.push_str(&line);
        rows.push('\n');
    }
    rows
}

/// The same prompt for a database that another process has open: each statement is sent there.
///
/// # Errors
/// If the terminal cannot be read, or the other process went away.
pub fn run_there(
    client: &mut cellar_instance::directory::Client,
    args: &super::sql::Args,
) -> Result<(), Fault> {
    let mut editor = DefaultEditor::new().map_err(|e| Fault::failed(e.to_string()))?;
    let history = history_path();
    if let Some(path) = &history {
        // The first time there is no history.
        let _ = editor.load_history(path);
    }
    eprintln!(
        "Process {} has this database; statements go there. \\q to leave.",
        client.hello().pid
    );
    let mut text = String::new();
    loop {
        let line = match editor.readline(if text.is_empty() { "cellar> " } else { "   ...> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                text.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(Fault::failed(e.to_string())),
        };
        if text.is_empty() && matches!(line.trim(), "\\q" | "exit" | "quit") {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        let cut = split(&text);
        for piece in &cut.complete {
            note(&mut editor, piece.sql);
            let mut sql = piece.sql.to_owned();
            if reads_stream(&sql) {
                sql = format!("{sql};\n{}\\.\n", typed_rows(&mut editor));
            }
            let words = args.words_for(&[sql]);
            super::database::forward(client, words)?;
        }
        let rest = cut.rest.as_ref().map(|rest| text[rest.offset..].to_string());
        text = rest.unwrap_or_default();
    }
    if let Some(path) = &history {
        save(&mut editor, path);
    }
    Ok(())
}

/// `$XDG_STATE_HOME/cellar/history`, or below `~/.local/state`.
fn history_path() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".local/state"));
    state.filter(|p| p.is_absolute()).or_else(home).map(|p| p.join("cellar/history"))
}

fn save(editor: &mut DefaultEditor, path: &std::path::Path) {
    let made = path.parent().is_none_or(|dir| std::fs::create_dir_all(dir).is_ok());
    if !made || editor.save_history(path).is_err() {
        eprintln!("Notice: the history could not be kept in {}", path.display());
    }
}
