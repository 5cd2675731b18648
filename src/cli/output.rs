//! Standard output: results alone, and a reader may go away at any time.

use std::io::Write;

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

/// Prints `text` as it is.
///
/// # Errors
/// [`Fault::Closed`] when the reader went away.
pub fn text(text: &str) -> Result<(), Fault> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
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
