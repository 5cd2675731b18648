//! Output: results alone to stdout, notices to stderr; a reader may go away at any time. A command
//! that another process sent to DIR/cellar.sock writes to that process instead.

use std::io::Write;
#[cfg(feature = "sql")]
use std::path::Path;
use std::path::PathBuf;

use futures_channel::mpsc::UnboundedSender;
use serde::Serialize;

use super::fault::Fault;

/// Who reads the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// People.
    #[default]
    Table,
    /// A program.
    Json,
}

/// A piece of output of a command that runs for another process.
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "the small program has no server"))]
#[derive(Debug)]
pub enum Piece {
    /// For its stdout.
    Out(Vec<u8>),
    /// For its stderr.
    Err(Vec<u8>),
}

/// The process that a command runs for, when it is not this one.
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "the small program has no server"))]
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where its output goes.
    pub pieces: UnboundedSender<Piece>,
    /// The directory that its relative paths start from.
    pub cwd: PathBuf,
}

tokio::task_local! {
    /// Set while a command runs for another process.
    pub static REMOTE: Remote;
}

fn write(bytes: &[u8]) -> Result<(), Fault> {
    let sent = REMOTE.try_with(|remote| {
        let piece = Piece::Out(bytes.to_vec());
        remote.pieces.unbounded_send(piece).map_err(|_| Fault::Closed)
    });
    if let Ok(sent) = sent {
        return sent;
    }
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Prints `text` as it is.
///
/// # Errors
/// [`Fault::Closed`] when the reader went away.
pub fn text(text: &str) -> Result<(), Fault> {
    write(text.as_bytes())
}

/// Columns that output fits into where its words allow it.
const WIDTH: usize = 80;

/// `text` with its long lines broken between words; what goes on is indented. Lines that begin with
/// a blank are laid out by whoever wrote them, and stay.
pub fn fold(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if !out.is_empty() {
            out.push('\n');
        }
        match line.chars().count() > WIDTH && !line.starts_with(' ') {
            true => out.push_str(&broken("", "  ", line)),
            false => out.push_str(line),
        }
    }
    out
}

/// A help text with its long lines broken below the column where their words begin.
pub fn fold_help(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() > WIDTH {
            // Behind the name of an option come two blanks or more, then what it is.
            let start = line.len() - line.trim_start().len();
            let gap = line[start..].find("  ").map_or(start, |at| start + at);
            let words = gap + (line[gap..].len() - line[gap..].trim_start().len());
            let at = if gap == start { start } else { words };
            out.push_str(&broken(&line[..at], &" ".repeat(at), &line[at..]));
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// A label of a line, then words broken at 80 columns below each other.
#[cfg(feature = "sql")]
pub fn labelled(label: &str, words: &str) -> String {
    let mut text = broken(&format!("{label:<8} "), "         ", words);
    text.push('\n');
    text
}

/// `words` behind `head`, the next lines behind `indent`, no line longer than 80 columns where the
/// words allow it.
pub fn broken(head: &str, indent: &str, words: &str) -> String {
    let mut out = String::new();
    let mut line = head.to_owned();
    let mut fresh = true;
    let words = whole_commands(words);
    for word in words.split(' ') {
        if !fresh && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = indent.to_owned();
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    out.push_str(line.trim_end());
    out.replace(UNBROKEN, " ")
}

/// A blank at which no line is broken.
const UNBROKEN: char = '\u{a0}';

/// Keeps a command with a statement in quotes on one line, so that it can be copied.
fn whole_commands(words: &str) -> String {
    let mut out = String::new();
    let mut rest = words;
    while let Some(at) = rest.find("cellar sql ") {
        let end = rest[at..].find(" -c '").and_then(|quote| {
            let statement = at + quote + 5;
            Some(statement + rest[statement..].find('\'')? + 1)
        });
        let Some(end) = end else { break };
        out.push_str(&rest[..at]);
        out.push_str(&rest[at..end].replace(' ', &UNBROKEN.to_string()));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Prints a message on stderr, long lines broken at 80 columns.
pub fn notice(message: &str) {
    let line = fold(message);
    let sent = REMOTE.try_with(|remote| {
        let piece = Piece::Err(format!("{line}\n").into_bytes());
        // Nobody to tell is no reason to stop.
        let _ = remote.pieces.unbounded_send(piece);
    });
    if sent.is_err() {
        eprintln!("{line}");
    }
}

/// Whether the command runs for another process: then nobody sees a progress bar.
pub fn is_remote() -> bool {
    REMOTE.try_with(|_| ()).is_ok()
}

/// A path of the command line, from the directory of whoever typed it.
#[cfg(feature = "sql")]
pub fn path(path: &Path) -> PathBuf {
    REMOTE.try_with(|remote| remote.cwd.join(path)).unwrap_or_else(|_| path.to_owned())
}

/// Prints one JSON value on one line.
///
/// # Errors
/// [`Fault::Closed`] when the reader went away.
pub fn json(value: &impl Serialize) -> Result<(), Fault> {
    let line = serde_json::to_string(value)
        .map_err(|e| Fault::failed(format!("CELLAR-00600: output as JSON: {e}")))?;
    text(&format!("{line}\n"))
}

/// Standard output as a writer.
#[cfg(feature = "sql")]
#[derive(Debug)]
pub struct Out;

#[cfg(feature = "sql")]
impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match write(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(Fault::Closed) => Err(std::io::ErrorKind::BrokenPipe.into()),
            // A reader who went away is well; a full disk is not.
            Err(fault) => Err(std::io::Error::other(fault.to_string())),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_break_between_words_and_layout_stays() {
        let long = format!("CELLAR-15017: {}\nNext: short", "word ".repeat(30).trim_end());
        let text = fold(&long);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().nth(1).is_some_and(|l| l.starts_with("  word")), "{text}");
        assert!(text.ends_with("\nNext: short"), "{text}");
        let path = format!("cannot open {}", "x".repeat(100));
        assert_eq!(fold(&path), format!("cannot open\n  {}", "x".repeat(100)));
        let help = format!("  -x <Y>  {}", "word ".repeat(20).trim_end());
        let folded = fold_help(&help);
        assert!(folded.lines().all(|l| l.chars().count() <= WIDTH), "{folded}");
        assert!(folded.contains("\n          word"), "{folded}");
        let laid_out = format!("  {}", "column ".repeat(20));
        assert_eq!(fold(&laid_out), laid_out);
    }
}
