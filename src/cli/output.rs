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

/// Prints a line on stderr.
pub fn notice(line: &str) {
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
