//! Output of commands: only results to stdout, notices to stderr; the reader may go away at any time. A command
//! sent by another process through DIR/cellar.sock writes to that process instead.

use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::OnceLock;

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

impl Format {
    /// Its value of `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Json => "json",
        }
    }
}

/// A piece of output of a command that runs on behalf of another process.
#[derive(Debug)]
pub enum Piece {
    /// For its stdout.
    Out(Vec<u8>),
    /// For its stderr.
    Err(Vec<u8>),
}

/// The process that a command runs for, if not this one.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The destination of its output.
    pub pieces: UnboundedSender<Piece>,
    /// The directory that its relative paths are based on.
    pub cwd: PathBuf,
    /// The width of its terminal, in columns.
    pub width: usize,
}

tokio::task_local! {
    /// Set while a command runs for another process.
    pub static REMOTE: Remote;
}

fn write(bytes: &[u8]) -> std::io::Result<()> {
    let sent = REMOTE.try_with(|remote| {
        let piece = Piece::Out(bytes.to_vec());
        let gone = |_| std::io::ErrorKind::BrokenPipe.into();
        remote.pieces.unbounded_send(piece).map_err(gone)
    });
    if let Ok(sent) = sent {
        return sent;
    }
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints `text` unchanged.
///
/// # Errors
/// [`Fault::Closed`] when the reader went away.
pub fn text(text: &str) -> Result<(), Fault> {
    Ok(write(text.as_bytes())?)
}

/// The width that output is wrapped to if none is known.
const WIDTH: usize = 80;

/// The width that output is wrapped to: COLUMNS, else the width of the terminal that it goes
/// to, else 80.
pub fn width() -> usize {
    static HERE: OnceLock<usize> = OnceLock::new();
    let here = || {
        *HERE.get_or_init(|| {
            if cfg!(test) {
                return WIDTH;
            }
            let given = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
            let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok();
            let columns = given.or_else(|| terminal().map(|size| usize::from(size.ws_col)));
            columns.filter(|columns| (20..=1000).contains(columns)).unwrap_or(WIDTH)
        })
    };
    REMOTE.try_with(|remote| remote.width).unwrap_or_else(|_| here())
}

/// `text` with its long lines wrapped between words; continuation lines are indented. Lines that begin with
/// a blank were laid out by hand, and stay unchanged.
pub fn fold(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if !out.is_empty() {
            out.push('\n');
        }
        match line.chars().count() > width() && !line.starts_with(' ') {
            true => out.push_str(&broken("", "  ", line)),
            false => out.push_str(line),
        }
    }
    out
}

/// A help text with its long lines wrapped at the column where their descriptions begin.
pub fn fold_help(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() > width() {
            // Two or more blanks follow the name of an option, then its description.
            let start = line.len() - line.trim_start().len();
            let gap = line[start..].find("  ").map_or(start, |at| start + at);
            let words = gap + (line[gap..].len() - line[gap..].trim_start().len());
            let at = if gap == start { start } else { words };
            // Usage lines may be wrapped: nobody pastes them.
            let words = line[at..].split(' ');
            out.push_str(&laid_out(&line[..at], &" ".repeat(at), words));
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// A label, then words wrapped at 80 columns and aligned below each other.
pub fn labelled(label: &str, words: &str) -> String {
    let mut text = broken(&format!("{label:<8} "), "         ", words);
    text.push('\n');
    text
}

/// `words` after `head`, continuation lines after `indent`, wrapped to the width of the output where
/// possible. A command stays on one line, so that it can be pasted.
pub fn broken(head: &str, indent: &str, words: &str) -> String {
    laid_out(head, indent, pieces(words).into_iter())
}

/// Lines of unbreakable pieces.
fn laid_out<'a>(head: &str, indent: &str, pieces: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    let mut line = head.to_owned();
    let mut fresh = true;
    let width = width();
    for piece in pieces {
        if !fresh && line.chars().count() + 1 + piece.chars().count() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line = indent.to_owned();
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(piece);
        fresh = false;
    }
    out.push_str(line.trim_end());
    out
}

/// Text split at blanks, each command kept whole with the punctuation after it.
fn pieces(words: &str) -> Vec<&str> {
    let mut out: Vec<&str> = Vec::new();
    let mut rest = words;
    loop {
        let told = out.last().is_some_and(|before| before.ends_with(':'));
        let length = command_length(rest, told).unwrap_or(0);
        let end = rest[length..].find(' ').map_or(rest.len(), |blank| length + blank);
        out.push(&rest[..end]);
        match rest.get(end + 1..) {
            Some(more) => rest = more,
            None => return out,
        }
    }
}

/// First words of commands and statements, besides our own, that messages offer after a colon.
const OTHERS: [&str; 18] = [
    "alter ",
    "chattr ",
    "chmod ",
    "chown ",
    "create ",
    "drop ",
    "export ",
    "fuser ",
    "ls ",
    "mkdir ",
    "mount ",
    "mv ",
    "ps ",
    "rm ",
    "select ",
    "touch ",
    "truncate ",
    "wipefs ",
];

/// The length of the command that `text` begins with, if any; `told` if a colon announces one.
fn command_length(text: &str, told: bool) -> Option<usize> {
    let command = text.trim_start_matches('(');
    let own = command.strip_prefix("cellar ");
    let is_one = match own {
        // Text followed by more than one blank was laid out by hand.
        Some(rest) => !rest.starts_with(' '),
        None => told && OTHERS.iter().any(|begin| command.starts_with(begin)),
    };
    let length = cellar_io::shell::end_of_command(command).filter(|_| is_one)?;
    Some(text.len() - command.len() + length)
}

/// Prints a message on stderr, long lines wrapped at 80 columns.
pub fn notice(message: &str) {
    let line = fold(message);
    let sent = REMOTE.try_with(|remote| {
        let piece = Piece::Err(format!("{line}\n").into_bytes());
        // A missing reader is no reason to stop.
        let _ = remote.pieces.unbounded_send(piece);
    });
    if sent.is_err() {
        // The terminal may be gone.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Whether the command runs for another process: then nobody sees a progress bar.
pub fn is_remote() -> bool {
    REMOTE.try_with(|_| ()).is_ok()
}

/// A path of the command line, relative to the directory in which it was typed.
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

/// Standard output as a writer, for rows.
#[cfg(feature = "sql")]
#[derive(Debug)]
pub struct Out;

#[cfg(feature = "sql")]
impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        write(bytes).map(|()| bytes.len())
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
        let command = "rm 'a b' && cellar status 'it'\\''s, a db'";
        let text = fold(&format!("Next: {}; in a shell: {command}", "word ".repeat(12).trim_end()));
        assert!(text.lines().any(|line| line.trim() == command), "{text}");
        let help = format!("  -x <Y>  {}", "word ".repeat(20).trim_end());
        let folded = fold_help(&help);
        assert!(folded.lines().all(|l| l.chars().count() <= WIDTH), "{folded}");
        assert!(folded.contains("\n          word"), "{folded}");
        let laid_out = format!("  {}", "column ".repeat(20));
        assert_eq!(fold(&laid_out), laid_out);
    }
}
