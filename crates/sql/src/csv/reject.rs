//! Rejected rows, set aside in a CSV file with the header of their source: it can be corrected and loaded
//! again.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::csv::CsvForm;
use crate::csv::records::Rows;
use crate::csv::write::field;
use crate::error::Error;

/// The most reasons that are kept to be reported.
const REASONS: usize = 5;

/// A file for such rows; it is created only when a row is rejected.
#[derive(Clone, Debug)]
pub struct Rejects(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    path: PathBuf,
    out: Option<BufWriter<File>>,
    header: Vec<String>,
    count: u64,
    reasons: Vec<String>,
}

impl PartialEq for Rejects {
    fn eq(&self, other: &Rejects) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Rejects {}

impl Rejects {
    /// Into the file at that path, which must not exist yet.
    ///
    /// # Errors
    /// 27038 it exists.
    pub fn new(path: PathBuf) -> Result<Rejects, Error> {
        if path.exists() {
            let text = format!("there is already a file \"{}\"", path.display());
            return Err(Error::new(27038, "58P02", text).next("name another for rejected rows"));
        }
        let state = State { path, out: None, header: Vec::new(), count: 0, reasons: Vec::new() };
        Ok(Rejects(Arc::new(Mutex::new(state))))
    }

    /// The header of the file, if the source of the rows has one.
    pub(crate) fn names(&self, names: Vec<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).header = names;
    }

    /// Sets a row aside.
    pub(crate) fn add(
        &self,
        rows: &Rows,
        row: usize,
        why: &Error,
        form: &CsvForm,
    ) -> Result<(), Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let mut run = || -> io::Result<()> {
            let out = match &mut state.out {
                Some(out) => out,
                none => {
                    let file = File::create_new(&state.path)?;
                    let out = none.insert(BufWriter::new(file));
                    let names = state.header.iter().map(|name| (name.as_bytes(), false));
                    if !state.header.is_empty() {
                        line(out, names, form)?;
                    }
                    out
                }
            };
            let fields = (0..rows.width(row)).filter_map(|column| rows.field(row, column));
            line(out, fields, form)
        };
        let failed = |e: io::Error| {
            let text = format!("cannot write \"{}\": {e}", state.path.display());
            Error::new(27072, "58030", text)
        };
        run().map_err(failed)?;
        state.count += 1;
        if state.reasons.len() < REASONS {
            state.reasons.push(why.message.clone());
        }
        Ok(())
    }

    /// Ends the file; returns a description of what was set aside.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self) -> Result<Vec<String>, Error> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(out) = state.out.take() else { return Ok(Vec::new()) };
        let ended = out.into_inner().map_err(io::IntoInnerError::into_error);
        let synced = ended.and_then(|file| file.sync_all());
        synced.map_err(|e| {
            let text = format!("cannot write \"{}\": {e}", state.path.display());
            Error::new(27072, "58030", text)
        })?;
        let word = if state.count == 1 { "row is" } else { "rows are" };
        let shown = state.path.display();
        let mut told = vec![format!("{} rejected {word} in {shown}", state.count)];
        told.append(&mut state.reasons);
        Ok(told)
    }
}

fn line<'a>(
    out: &mut impl Write,
    fields: impl Iterator<Item = (&'a [u8], bool)>,
    form: &CsvForm,
) -> io::Result<()> {
    let mut written = Vec::new();
    for (at, (bytes, quoted)) in fields.enumerate() {
        if at > 0 {
            written.push(form.delimiter);
        }
        field(&mut written, bytes, quoted, form);
    }
    written.push(form.terminator.unwrap_or(b'\n'));
    out.write_all(&written)
}
