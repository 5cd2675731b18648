//! The prompt of `cellar asm DIR`: one ASMCMD command a line.

use std::io::{BufRead, BufReader, IsTerminal};

use cellar_instance::directory::Client;
use cellar_io::shell;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::super::database::{Database, Place, forward};
use super::super::fault::Fault;
use super::super::output;
use super::{Asm, parsed};
use crate::cli::output::Format;

/// The source of lines.
enum Lines {
    Terminal(Box<DefaultEditor>),
    File(std::io::Lines<BufReader<std::io::Stdin>>),
}

impl Lines {
    fn open() -> Result<Lines, Fault> {
        if !std::io::stdin().is_terminal() {
            return Ok(Lines::File(BufReader::new(std::io::stdin()).lines()));
        }
        let editor = DefaultEditor::new().map_err(|e| Fault::failed(e.to_string()))?;
        eprintln!("Cellar {}. help for the commands, exit to leave.", env!("CARGO_PKG_VERSION"));
        Ok(Lines::Terminal(Box::new(editor)))
    }

    /// The words of the next non-empty line; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<String>>, Fault> {
        loop {
            let line = match self {
                Lines::File(lines) => match lines.next() {
                    Some(line) => line?,
                    None => return Ok(None),
                },
                Lines::Terminal(editor) => match editor.readline("ASMCMD> ") {
                    Ok(line) => {
                        // Failing to keep a line is no reason to stop.
                        let _ = editor.add_history_entry(&line);
                        line
                    }
                    Err(ReadlineError::Interrupted) => continue,
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(e) => return Err(Fault::failed(e.to_string())),
                },
            };
            let Some(words) = shell::words(&line) else {
                let fault = Fault::usage(format!("a quote is not closed: {line}"));
                self.told(Err(fault))?;
                continue;
            };
            match words.first().map(String::as_str) {
                None => {}
                Some("exit" | "quit" | "\\q") => return Ok(None),
                Some(_) => return Ok(Some(words)),
            }
        }
    }

    /// Reports an error, and continues if a user can type another line.
    fn told(&self, result: Result<(), Fault>) -> Result<(), Fault> {
        match (result, self) {
            (Err(Fault::Closed), _) => Err(Fault::Closed),
            (Err(fault), Lines::Terminal(_)) => {
                output::notice(&fault.to_string());
                Ok(())
            }
            (result, _) => result,
        }
    }
}

/// The command on a line; `None` if it only asked for help, which was given.
fn command(words: &[String]) -> Result<Option<Asm>, Fault> {
    match parsed(words) {
        Err(help) if !help.use_stderr() => {
            output::text(&output::fold_help(&help.to_string()))?;
            Ok(None)
        }
        Err(wrong) => Err(Fault::usage(wrong.to_string().trim_end())),
        Ok(asm) => Ok(Some(asm)),
    }
}

/// Runs typed commands until the user leaves or the input ends. A file or pipe stops at the first
/// failure.
///
/// # Errors
/// The terminal cannot be read, or a command of a file fails.
pub async fn run(format: Option<Format>, database: &Database, place: &Place) -> Result<(), Fault> {
    let mut lines = Lines::open()?;
    while let Some(words) = lines.next()? {
        let result = match command(&words) {
            Ok(Some(asm)) => super::one(asm, format, &words.join(" "), database, place).await,
            Ok(None) => Ok(()),
            Err(fault) => Err(fault),
        };
        let dir = database.inner.directory().path();
        lines.told(result.map_err(|fault| fault.in_directory(dir)))?;
    }
    Ok(())
}

/// The same for a database that another process has open: each command is sent there. Returns the exit code.
///
/// # Errors
/// The terminal cannot be read, or the other process went away.
pub fn run_there(format: Option<Format>, client: &mut Client) -> Result<u8, Fault> {
    let mut lines = Lines::open()?;
    while let Some(words) = lines.next()? {
        let code = match command(&words) {
            Ok(None) => 0,
            Ok(Some(_)) => {
                let mut all = vec!["asm".to_owned()];
                if let Some(format) = format {
                    all.extend(["--format".to_owned(), format.name().to_owned()]);
                }
                // The answering process has the directory open, whatever its name is here.
                all.push(".".to_owned());
                all.extend(words);
                forward(client, all)?
            }
            Err(fault) => {
                lines.told(Err(fault))?;
                2
            }
        };
        if code > 0 && matches!(lines, Lines::File(_)) {
            return Ok(code);
        }
    }
    Ok(0)
}
